/* test_member.c: numbers and leases of shards and workers. */
#include "server/coord/core/worker.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct coord_store *store;
static struct coord_members m;
static struct coord_workers workers;

static void setup(void)
{
    struct err e;
    store = coord_store_memory();
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert_int_eq(coord_member_numbers_put(&m, store, &e), 0);
}

static void teardown(void)
{
    coord_worker_close(&workers);
    coord_member_close(&m);
    coord_store_close(store);
}

static int beat(const char *server, uint32_t index, uint64_t incarnation, bool ready, peer_t peer,
                uint32_t *shard, enum coord_beat *what)
{
    struct wire_SHARD_BEAT b = {.shard_index = index,
                                .shard_count = 2,
                                .incarnation = incarnation,
                                .ready = ready,
                                .rss_peak_bytes = 10};
    struct err e;
    (void)snprintf(b.server, sizeof b.server, "%s", server);
    return coord_member_shard_beat(&m, store, &b, peer, 1, shard, what, &e);
}

/* The shard says that an acknowledged push survives d. */
static void beat_durable(const char *server, enum durability d)
{
    struct wire_SHARD_BEAT b = {.shard_count = 1,
                                .incarnation = 1,
                                .in_memory = d == DURABLE_MEMORY,
                                .durability = (uint32_t)d + 1};
    uint32_t shard;
    enum coord_beat what;
    struct err e;
    (void)snprintf(b.server, sizeof b.server, "%s", server);
    ck_assert_int_eq(coord_member_shard_beat(&m, store, &b, 11, 1, &shard, &what, &e), 0);
}

START_TEST(coord_member_durability_is_the_least_of_all_servers)
{
    beat_durable("a", DURABLE_FSYNC);
    ck_assert_int_eq(coord_member_durability(&m), DURABLE_FSYNC);
    beat_durable("b", DURABLE_MEMORY);
    ck_assert_int_eq(coord_member_durability(&m), DURABLE_MEMORY);
}
END_TEST

START_TEST(coord_member_job_of_another_durability_is_refused)
{
    struct job job = {.durability = DURABLE_FSYNC, .durability_given = true};
    struct err e;
    beat_durable("a", DURABLE_JOURNAL);
    ck_assert_int_eq(coord_member_durability_check(&m, &job, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "the job says fsync, and server a keeps rows by journal"));
    job.durability_given = false; /* the default was not chosen by the user */
    ck_assert_int_eq(coord_member_durability_check(&m, &job, &e), 0);
    job = (struct job){.durability = DURABLE_JOURNAL, .durability_given = true};
    ck_assert_int_eq(coord_member_durability_check(&m, &job, &e), 0);
}
END_TEST

START_TEST(coord_member_memory_of_the_end_is_in_the_peak)
{
    uint32_t shard;
    enum coord_beat what;
    ck_assert_int_eq(beat("a", 0, 1, true, 11, &shard, &what), 0);
    coord_member_note_rss(&m, shard, 25); /* from a digest's reply */
    ck_assert_uint_eq(m.rss_peak_bytes, 25);
    coord_member_note_rss(&m, shard, 0); /* an older release sends none */
    ck_assert_uint_eq(m.rss_peak_bytes, 25);
}
END_TEST

static uint64_t join(peer_t peer, const char *name, uint64_t now_ns)
{
    struct wire_WORKER_JOIN j = {.pid = 1};
    const struct coord_caller caller = {peer, now_ns, 1000 + m.next_worker, "a-key", NULL};
    struct coord_worker *w;
    struct err e;
    (void)snprintf(j.name, sizeof j.name, "%s", name);
    ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e), 0);
    ck_assert_ptr_eq(coord_worker_of_pass(&workers, w->pass, "a-key"), w);
    ck_assert_ptr_null(
        coord_worker_of_pass(&workers, w->pass, "another")); /* nor with another key */
    ck_assert_ptr_null(
        coord_worker_of_pass(&workers, w->number, "a-key")); /* its number is public */
    return w->number;
}

START_TEST(coord_member_server_keeps_its_numbers_over_a_restart)
{
    uint32_t shard;
    enum coord_beat what;
    struct err e;
    ck_assert_int_eq(beat("a", 0, 1, true, 11, &shard, &what), 0);
    ck_assert_uint_eq(shard, 0);
    ck_assert_int_eq(beat("b", 1, 1, true, 12, &shard, &what), 0);
    ck_assert_uint_eq(shard, 1);
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert_int_eq(beat("b", 1, 2, true, 13, &shard, &what), 0);
    ck_assert_uint_eq(shard, 1);
    ck_assert_int_eq(what, COORD_BEAT_RESTARTED); /* it died while no coordinator ran */
    ck_assert_int_eq(beat("a", 0, 1, true, 11, &shard, &what), 0);
    ck_assert_int_eq(what, COORD_BEAT_NEW);
    ck_assert(!coord_member_shards_ready(&m));
}
END_TEST

START_TEST(coord_member_tells_restart_from_recovery)
{
    uint32_t shard;
    enum coord_beat what;
    (void)beat("a", 0, 1, false, 11, &shard, &what);
    ck_assert_int_eq(what, COORD_BEAT_NEW);
    (void)beat("a", 0, 1, true, 11, &shard, &what);
    ck_assert_int_eq(what, COORD_BEAT_READY);
    (void)beat("a", 0, 1, true, 11, &shard, &what);
    ck_assert_int_eq(what, COORD_BEAT_SAME);
    (void)beat("a", 0, 9, true, 14, &shard, &what);
    ck_assert_int_eq(what, COORD_BEAT_RESTARTED);
    ck_assert_uint_eq(coord_member_shard_of(&m, 14), 0);
    ck_assert_uint_eq(coord_member_shard_of(&m, 11), COORD_NOBODY);
}
END_TEST

static int beat_as(struct wire_SHARD_BEAT b, uint64_t now_ns, uint32_t *shard)
{
    enum coord_beat what;
    struct err e;
    b.shard_count = 1;
    b.ready = true;
    return coord_member_shard_beat(&m, store, &b, 9, now_ns, shard, &what, &e);
}

/* A new process was sent nothing yet. The time without room on disk counts from its begin. */
START_TEST(coord_member_knows_of_a_process_what_it_knows)
{
    uint32_t s;
    struct wire_SHARD_BEAT b = {.server = "a", .incarnation = 4};
    ck_assert_int_eq(beat_as(b, 10, &s), 0);
    m.shard[s].map_told = 3;
    b.disk_short = true;
    ck_assert_int_eq(beat_as(b, 20, &s), 0);
    ck_assert_int_eq(beat_as(b, 30, &s), 0);
    ck_assert_uint_eq(m.shard[s].map_told, 3);
    ck_assert_uint_eq(m.shard[s].short_ns, 20);
    b.disk_short = false;
    ck_assert_int_eq(beat_as(b, 40, &s), 0);
    ck_assert_uint_eq(m.shard[s].short_ns, 0);
    b.incarnation = 5;
    ck_assert_int_eq(beat_as(b, 50, &s), 0);
    ck_assert_uint_eq(m.shard[s].map_told, 0);
    ck_assert(coord_shard_there(&m.shard[s], true, 50 + 100, 100));
    ck_assert(!coord_shard_there(&m.shard[s], true, 50 + 101, 100));
}
END_TEST

/* When two processes of one folder follow each other, the former one is known by its number, if its
 * beats were heard here, and so is a restart of the machine in between. */
START_TEST(coord_member_knows_the_process_before)
{
    uint32_t s;
    struct err e;
    struct wire_SHARD_BEAT b = {.server = "a", .incarnation = 4, .boot = 1};
    ck_assert_int_eq(beat_as(b, 1, &s), 0);
    ck_assert_uint_eq(m.shard[s].former, 0);
    ck_assert(!m.shard[s].rebooted);
    b.incarnation = 5;
    ck_assert_int_eq(beat_as(b, 2, &s), 0);
    ck_assert_uint_eq(m.shard[s].former, 4);
    ck_assert(!m.shard[s].rebooted);
    b.incarnation = 6;
    b.boot = 2;
    ck_assert_int_eq(beat_as(b, 3, &s), 0);
    ck_assert_uint_eq(m.shard[s].former, 5);
    ck_assert(m.shard[s].rebooted);
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert_uint_eq(m.shard[s].incarnation, 6); /* the last process, not the first */
    b.incarnation = 7;
    b.boot = 3;
    ck_assert_int_eq(beat_as(b, 4, &s), 0);
    ck_assert_uint_eq(m.shard[s].former, 0);
    ck_assert(!m.shard[s].rebooted);
}
END_TEST

/* The sequence that is on a shard's disk never falls, and is stored once a second. That its folder
 * has a place is stored as soon as the shard says so. */
START_TEST(coord_member_notes_what_a_folder_had)
{
    const uint64_t second = UINT64_C(1000000000);
    static const uint64_t at[] = {1, 2, 10, 11, 20}, noted[] = {5, 5, 5, 8, 8};
    uint32_t s;
    struct err e;
    struct wire_SHARD_BEAT b = {.server = "a", .incarnation = 4, .synced = 4};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        b.synced++;
        ck_assert_int_eq(beat_as(b, at[i] * second / 10, &s), 0);
        ck_assert_int_eq(coord_member_note_synced(&m, s, store, at[i] * second / 10, &e), 0);
        ck_assert_uint_eq(m.shard[s].noted, noted[i]);
    }
    b.synced = 3;
    b.cluster_low = 1;
    ck_assert_int_eq(beat_as(b, 3 * second, &s), 0);
    ck_assert_uint_eq(m.shard[s].synced, 9);
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert(m.shard[s].placed);
    ck_assert_uint_eq(m.shard[s].synced, 8);
}
END_TEST

/* Rows in memory belong to the process that made them, even if it was not heard yet. */
START_TEST(coord_member_notes_which_process_has_the_rows)
{
    uint32_t s;
    struct err e;
    struct wire_SHARD_BEAT b = {.server = "a", .incarnation = 4, .in_memory = true};
    for (; b.incarnation < 6; b.incarnation++) {
        ck_assert_int_eq(beat_as(b, 1, &s), 0);
        ck_assert(coord_shard_in_memory(&m.shard[s])); /* the beat decides, whatever was stored */
        ck_assert_int_eq(coord_member_note_made(&m, s, store, &e), 0);
        ck_assert_uint_eq(m.shard[s].made, b.incarnation);
    }
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert_uint_eq(m.shard[s].made, 5);
    ck_assert(coord_shard_in_memory(&m.shard[s]));
    ck_assert(!coord_shard_in_memory(&m.shard[s + 1]));
}
END_TEST

/* A server that once had its rows in memory comes with a disk: they are lost until that is marked.
 * From then on it loses none while it is silent, even if this coordinator has not heard it yet. */
START_TEST(coord_member_forgets_rows_in_memory_that_are_on_disk_now)
{
    uint32_t s;
    struct err e;
    struct wire_SHARD_BEAT b = {.server = "a", .incarnation = 4, .in_memory = true};
    ck_assert_int_eq(beat_as(b, 1, &s), 0);
    ck_assert_int_eq(coord_member_note_made(&m, s, store, &e), 0);
    b.incarnation = 5;
    b.in_memory = false;
    ck_assert_int_eq(beat_as(b, 2, &s), 0);
    ck_assert(coord_shard_lost(&m.shard[s]));
    ck_assert_int_eq(coord_member_note_made(&m, s, store, &e), 0);
    ck_assert(!coord_shard_lost(&m.shard[s]));
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert(!coord_shard_in_memory(&m.shard[s]));
}
END_TEST

/* A shard that reads its rows back, or has no map yet, does not count as present. */
START_TEST(coord_member_shard_is_there_when_it_is_ready_and_set_up)
{
    uint32_t shard;
    enum coord_beat what;
    for (uint32_t i = 0; i < 3; i++)
        (void)beat("a", i, 1, i < 2, 11 + i, &shard, &what);
    ck_assert(!coord_member_shards_ready(&m));
    (void)beat("a", 2, 1, true, 13, &shard, &what);
    ck_assert(coord_member_shards_ready(&m));
    ck_assert(!coord_shard_there(&m.shard[0], false, 1, 100));
    ck_assert(coord_shard_there(&m.shard[0], true, 1, 100));
}
END_TEST

START_TEST(coord_member_takes_so_many_workers)
{
    struct wire_WORKER_JOIN j = {.pid = 1, .name = "w"};
    struct coord_worker *w;
    struct err e;
    for (uint32_t i = 0; i <= LIMIT_WORKERS; i++) {
        const struct coord_caller caller = {1 + i, 0, 1000 + i, i % 2 == 0 ? "a-key" : "b-key",
                                            NULL};
        ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e),
                         i < LIMIT_WORKERS ? 0 : SHOAL_E_BUSY);
    }
    ck_assert_uint_eq(workers.count, LIMIT_WORKERS);
}
END_TEST

/* A key can take half of the places, whatever its number of connections; other keys find theirs. */
START_TEST(coord_member_a_key_leaves_places)
{
    struct wire_WORKER_JOIN j = {.pid = 1, .name = "w"};
    struct coord_worker *w;
    struct err e;
    for (int kind = 0; kind < 2; kind++) { /* keys; without keys, users */
        for (uint32_t i = 0; i <= LIMIT_WORKERS_HOLDER; i++) {
            const struct coord_caller caller = {1 + i, 0, 1000 + i, kind == 0 ? "a-key" : "",
                                                "uid:7"};
            ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e),
                             i < LIMIT_WORKERS_HOLDER ? 0 : SHOAL_E_BUSY);
        }
        ck_assert_ptr_nonnull(strstr(e.text, kind == 0 ? "a-key" : "uid:7"));
        const struct coord_caller other = {9999, 0, 77, kind == 0 ? "b-key" : "", "uid:8"};
        ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &other, &w, &e), 0);
        coord_worker_remove_all(&workers);
    }
}
END_TEST

/* A process joins over one connection under name after name. */
START_TEST(coord_member_a_connection_leaves_places)
{
    struct wire_WORKER_JOIN j = {.name = "w"};
    struct coord_worker *w;
    struct err e;
    const struct coord_caller caller = {1, 0, 77, "a-key", NULL}, other = {2, 0, 78, "a-key", NULL};
    for (j.pid = 1; j.pid <= LIMIT_WORKERS_PEER; j.pid++)
        ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e), 0);
    ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &other, &w, &e), 0);
    j.pid = 1; /* a present one may ask again */
    ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e), 0);
}
END_TEST

/* Its return is reported once. */
START_TEST(coord_roll_knows_who_was_broken)
{
    struct coord_roll r = {0};
    const struct coord_compute by = {.backend = "cuda"}, other = {.backend = "cpu"};
    ck_assert(!coord_roll_note(&r, "w", &by));
    ck_assert(coord_roll_broken(&r, "w"));
    ck_assert(!coord_roll_broken(&r, "w"));
    ck_assert(coord_roll_note(&r, "w", &other));
    ck_assert(!coord_roll_note(&r, "w", &by));
    ck_assert(coord_roll_broken(&r, "w"));
    ck_assert_uint_eq(r.count, 2);
    coord_roll_close(&r);
}
END_TEST

/* The store was lost: a folder keeps its number, and never takes the number of another folder. */
START_TEST(coord_member_takes_numbers_from_folders)
{
    uint32_t s;
    struct wire_SHARD_BEAT b = {.incarnation = 4, .cluster_low = 1, .number = 2};
    strcpy(b.server, "c");
    ck_assert_int_eq(beat_as(b, 1, &s), 0);
    ck_assert_uint_eq(s, 2);
    strcpy(b.server, "other");
    ck_assert_int_eq(beat_as(b, 1, &s), SHOAL_E_BUSY);
    b.number = 0;
    strcpy(b.server, "a");
    ck_assert_int_eq(beat_as(b, 1, &s), 0);
    ck_assert_uint_eq(s, 0);
}
END_TEST

START_TEST(coord_member_server_too_many_is_refused)
{
    uint32_t shard;
    enum coord_beat what;
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(beat("a", i, 1, true, 11 + i, &shard, &what), 0);
    ck_assert(coord_member_shards_ready(&m));
    ck_assert_int_eq(beat("z", 0, 1, true, 20, &shard, &what), SHOAL_E_BUSY);
    ck_assert_int_eq(beat("", 0, 1, true, 20, &shard, &what), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(m.rss_peak_bytes, 10); /* three shards in one process */
}
END_TEST

START_TEST(coord_member_worker_number_is_never_used_again)
{
    struct err e;
    uint64_t first = join(1, "w", 0);
    ck_assert_uint_eq(join(1, "w", 0), first); /* its answer was lost: it asked again */
    coord_worker_remove(&workers, first);
    ck_assert_ptr_null(coord_worker_find(&workers, first));
    uint64_t second = join(1, "w", 0);
    ck_assert_uint_gt(second, first);
    coord_worker_close(&workers);
    coord_member_close(&m);
    ck_assert_int_eq(coord_member_open(&m, 3, store, &e), 0);
    ck_assert_uint_gt(join(1, "w", 0), second);
}
END_TEST

/* Two workers have one name and process number, on two machines, or one after the other on one. */
START_TEST(coord_member_workers_that_look_alike_are_two)
{
    struct wire_WORKER_JOIN j = {.pid = 2, .name = "w"};
    const struct coord_caller caller = {1, 0, 77, "a-key", NULL};
    struct coord_worker *w;
    struct err e;
    uint64_t first = join(1, "w", 0), second = join(2, "w", 0);
    ck_assert_uint_ne(first, second);
    ck_assert_int_eq(coord_worker_join(&workers, &m, store, &j, &caller, &w, &e), 0);
    ck_assert_uint_gt(w->number, second);
    ck_assert_uint_eq(workers.count, 3);
    ck_assert_uint_gt(join(1, "another", 0), w->number);
    ck_assert_uint_eq(workers.count, 4);
}
END_TEST

START_TEST(coord_member_lease_runs_out)
{
    uint64_t a = join(1, "a", 0), b = join(2, "b", 0);
    coord_worker_find(&workers, b)->beat_ns = 900;
    ck_assert_uint_eq(coord_worker_expired(&workers, 1000, 1000), 0);
    ck_assert_uint_eq(coord_worker_expired(&workers, 1001, 1000), a);
    coord_worker_remove(&workers, a);
    ck_assert_uint_eq(coord_worker_expired(&workers, 1001, 1000), 0);
}
END_TEST

/* The forgiven time must not move the last beat of a worker into the future: that ended the
 * coordinator. */
START_TEST(coord_member_forgives_up_to_now)
{
    uint32_t shard;
    enum coord_beat what;
    uint64_t old = join(1, "old", 100), fresh = join(2, "fresh", 1000);
    (void)beat("a", 0, 1, true, 11, &shard, &what); /* at 1 */
    coord_member_forgive(&m, 800, 1000);
    coord_worker_forgive(&workers, 800, 1000);
    ck_assert_uint_eq(coord_worker_find(&workers, old)->beat_ns, 900);
    ck_assert_uint_eq(coord_worker_find(&workers, fresh)->beat_ns, 1000);
    ck_assert_uint_eq(m.shard[0].beat_ns, 801);
    ck_assert_uint_eq(m.shard[1].beat_ns, 0); /* never heard */
    ck_assert_uint_eq(coord_worker_expired(&workers, 1000, 100), 0);
}
END_TEST

START_TEST(coord_member_figures_of_the_dead_still_count)
{
    struct wire_WORKER_BEAT sum;
    uint64_t a = join(1, "a", 0), b = join(2, "b", 0);
    coord_worker_find(&workers, a)->figures.keys_pulled = 5;
    coord_worker_find(&workers, b)->figures.keys_pulled = 7;
    coord_worker_remove(&workers, a);
    coord_worker_sums(&workers, &sum);
    ck_assert_uint_eq(sum.keys_pulled, 12);
    coord_worker_forget_figures(&workers);
    coord_worker_sums(&workers, &sum);
    ck_assert_uint_eq(sum.keys_pulled, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_member");
    TCase *c = tcase_create("members");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, coord_member_durability_is_the_least_of_all_servers);
    tcase_add_test(c, coord_member_job_of_another_durability_is_refused);
    tcase_add_test(c, coord_member_memory_of_the_end_is_in_the_peak);
    tcase_add_test(c, coord_member_server_keeps_its_numbers_over_a_restart);
    tcase_add_test(c, coord_member_tells_restart_from_recovery);
    tcase_add_test(c, coord_member_knows_of_a_process_what_it_knows);
    tcase_add_test(c, coord_member_takes_numbers_from_folders);
    tcase_add_test(c, coord_member_knows_the_process_before);
    tcase_add_test(c, coord_member_notes_what_a_folder_had);
    tcase_add_test(c, coord_member_notes_which_process_has_the_rows);
    tcase_add_test(c, coord_member_forgets_rows_in_memory_that_are_on_disk_now);
    tcase_add_test(c, coord_member_shard_is_there_when_it_is_ready_and_set_up);
    tcase_add_test(c, coord_member_takes_so_many_workers);
    tcase_add_test(c, coord_member_a_key_leaves_places);
    tcase_add_test(c, coord_member_a_connection_leaves_places);
    tcase_add_test(c, coord_roll_knows_who_was_broken);
    tcase_add_test(c, coord_member_server_too_many_is_refused);
    tcase_add_test(c, coord_member_worker_number_is_never_used_again);
    tcase_add_test(c, coord_member_workers_that_look_alike_are_two);
    tcase_add_test(c, coord_member_lease_runs_out);
    tcase_add_test(c, coord_member_forgives_up_to_now);
    tcase_add_test(c, coord_member_figures_of_the_dead_still_count);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
