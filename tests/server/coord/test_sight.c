/* test_sight.c: the list of problems: each fault is in it within seconds, though the lease is
 * longer, and has a series of its own. */
#include "proto/base/json.h"
#include "server/coord/coord.h"
#include "server/coord/gauges.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { ROWS = 60000, WORKERS = 4, LEASE_S = 10 };

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[2];
    struct fake_worker worker[WORKERS];
    struct fake_client client;
    struct meter_sheet sheet;
} r;

static char yaml[] =
    "job: t\ndata: {format: libsvm, train: [a], max_bad: 0.01}"
    "\ntables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
    "train: {batch: 10, task_batches: 4, epochs: 2, lanes: 4, consistency: async}\n";

/* coord_options.problems: sentences without a subject, which have the same labels. */
static void of_the_daemon(void *context, struct json *list)
{
    (void)context;
    json_append_string(list, "one key is refused");
    json_append_string(list, "another key is refused");
}

static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    const struct coord_options o = {
        .shards = 2, .lease_ms = LEASE_S * 1000, .resend_ms = 200, .problems = of_the_daemon};
    struct err e = {0};
    memset(&r, 0, sizeof r);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
    for (uint32_t s = 0; s < 2; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
    }
}

static void teardown(void)
{
    meter_free(&r.sheet);
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t s = 0; s < 2; s++) {
        free(r.shard[s]->shard_of);
        free(r.shard[s]);
    }
}

static void pass(uint64_t ns)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ns, NULL, NULL);
}

static bool trains(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.coord->slot[0].tasks->pushed > 2;
}

static void worker_start(uint32_t i, const char *name)
{
    struct fake_worker *w = &r.worker[i];
    w->rows[0] = ROWS;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = SECOND / 10;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    w->pid = 100 + i;
    fake_worker_start(w, r.sim, name, r.shard, 2);
}

static void workers_start(uint32_t workers)
{
    for (uint32_t i = 0; i < workers; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "worker-%u", i);
        worker_start(i, name);
    }
}

static void job_start(uint32_t workers)
{
    workers_start(workers);
    if (workers > 0)
        pass(SECOND); /* they wait for a job */
    fake_client_start(&r.client, r.sim, yaml, 1);
    if (workers == 0)
        return;
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, trains, NULL));
    ck_assert_int_eq(r.client.submit_status, 0);
}

/* The same, with this digit as the job's lanes. */
static void job_start_with(char lanes, uint32_t workers)
{
    strstr(yaml, "lanes: ")[strlen("lanes: ")] = lanes;
    job_start(workers);
}

/* True when the list has such a problem, with the text in its sentence, and its series is told. */
static bool told(const char *problem, const char *of, const char *text)
{
    struct json *found = coord_sight_found(&r.coord->slot[0]);
    bool is = false, series = false;
    for (size_t i = 0; i < json_count(found); i++) {
        const struct json *p = json_array_at(found, i);
        is = is || (strcmp(json_as_string(json_get(p, "problem"), ""), problem) == 0 &&
                    strcmp(json_as_string(json_get(p, "of"), ""), of) == 0 &&
                    strstr(json_as_string(json_get(p, "text"), ""), text) != NULL);
    }
    json_free(found);
    meter_clear(&r.sheet);
    coord_gauges_put(r.coord, &r.sheet);
    for (uint32_t i = 0; i < r.sheet.samples; i++) {
        const struct meter_sample *s = &r.sheet.sample[i];
        const char *label = r.sheet.text + s->text;
        if (s->id != METER_ID_PROBLEM || strcmp(label, problem) != 0 ||
            strcmp(label + strlen(label) + 1, of) != 0)
            continue;
        ck_assert(!series); /* twice would be no valid text for Prometheus */
        series = true;
    }
    ck_assert(series || !is);
    return is;
}

START_TEST(sight_a_silent_server_is_told_before_the_lease)
{
    job_start(2);
    sim_pause(r.shard[1]->node, sim_now_ns(r.sim) + 100 * SECOND);
    pass(2 * SECOND);
    ck_assert(!told("server_silent", "server-1", ""));
    pass(3 * SECOND);
    ck_assert(told("server_silent", "server-1", "is not heard for"));
    ck_assert(!told("server_silent", "server-1", "shoal replace")); /* it may come back */
    ck_assert(!told("server_silent", "server-0", ""));
    pass(LEASE_S * SECOND);
    ck_assert(told("server_silent", "server-1", "shoal replace server-1 --from CHECKPOINT"));
}
END_TEST

START_TEST(sight_a_silent_worker_is_told_and_then_that_it_is_lost)
{
    job_start(2);
    sim_pause(r.worker[1].node, sim_now_ns(r.sim) + 200 * SECOND);
    pass(5 * SECOND);
    ck_assert(told("worker_silent", "worker-1", "after 10 s its lanes go to others"));
    ck_assert(!told("worker_lost", "worker-1", ""));
    pass(LEASE_S * SECOND);
    ck_assert(!told("worker_silent", "worker-1", ""));
    ck_assert(told("worker_lost", "worker-1", "counts as dead for"));
    ck_assert(!told("no_workers", "t", ""));
    pass(60 * SECOND);
    ck_assert(!told("worker_lost", "worker-1", ""));
}
END_TEST

START_TEST(sight_a_job_without_workers_is_told_from_its_submission_on)
{
    pass(60 * SECOND);
    job_start(0);
    pass(2 * SECOND);
    ck_assert(!told("no_workers", "t", ""));
    pass(3 * SECOND);
    ck_assert(told("no_workers", "t", "job t has no worker for"));
}
END_TEST

/* The main thread tells of a loop; its beats go on or not. */
START_TEST(sight_a_loop_that_stands_is_told_as_that)
{
    pass(SECOND);
    struct coord_shard *s = &r.coord->fleet.members.shard[0];
    s->hang_ns = sim_now_ns(r.sim);
    s->loop_s = 2;
    ck_assert(told("loop_hangs", s->server, "its loop has made no progress for 2 s"));
    s->hang_s = 2; /* its disk explains it */
    ck_assert(told("disk_hangs", s->server, "its disk has not answered for 2 s"));
    ck_assert(!told("loop_hangs", s->server, ""));
    pass(6 * SECOND); /* it says no more of it */
    ck_assert(!told("disk_hangs", s->server, ""));
}
END_TEST

START_TEST(sight_a_sync_that_does_not_end_is_a_disk_that_hangs)
{
    pass(SECOND);
    struct coord_shard *s = &r.coord->fleet.members.shard[0];
    s->figures.sync_ms = 1900; /* of a slow disk */
    ck_assert(!told("disk_hangs", s->server, ""));
    s->figures.sync_ms = 2600;
    ck_assert(told("disk_hangs", s->server, "its disk has not answered for 2 s"));
}
END_TEST

/* ---- servers of many shards ------------------------------------------------------------------ */

enum { MANY = 30 };
static struct fake_shard *many[2][MANY];

static void many_setup(void)
{
    memset(&r, 0, sizeof r);
    memset(many, 0, sizeof many);
}

/* `servers` servers, "big-0" and so on, of MANY shards each; all are copies of MANY shards. */
static void many_start(uint32_t servers)
{
    const struct sim_options calm = {.seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    const struct coord_options o = {
        .shards = MANY, .replicas = servers, .lease_ms = LEASE_S * 1000, .resend_ms = 200};
    struct err e = {0};
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
    for (uint32_t i = 0; i < servers * MANY; i++) {
        struct fake_shard *s = many[i / MANY][i % MANY] = calloc(1, sizeof *s);
        char name[24];
        (void)snprintf(name, sizeof name, "big-%u", i / MANY);
        fake_shard_start(s, r.sim, name, i % MANY, 1);
    }
    pass(2 * SECOND);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
}

static void many_end(void)
{
    meter_free(&r.sheet);
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        if (many[i / MANY][i % MANY] != NULL)
            free(many[i / MANY][i % MANY]->shard_of);
        free(many[i / MANY][i % MANY]);
    }
}

static void many_pause(uint32_t server, uint32_t shards)
{
    for (uint32_t i = 0; i < shards; i++)
        sim_pause(many[server][i]->node, sim_now_ns(r.sim) + 1000 * SECOND);
}

/* The sentences of a kind. */
static size_t sentences(const char *problem)
{
    struct json *found = coord_sight_found(&r.coord->slot[0]);
    size_t count = 0;
    for (size_t i = 0; i < json_count(found); i++)
        count +=
            strcmp(json_as_string(json_get(json_array_at(found, i), "problem"), ""), problem) == 0;
    ck_assert_uint_eq(count, json_count(found)); /* and none of another kind */
    json_free(found);
    return count;
}

START_TEST(sight_a_server_of_many_shards_has_one_sentence)
{
    many_start(1);
    ck_assert_uint_eq(sentences("server_silent"), 0);
    many_pause(0, 12);
    pass(5 * SECOND);
    ck_assert_uint_eq(sentences("server_silent"), 1);
    ck_assert(told("server_silent", "big-0", "server big-0 (12 of its 30 shards, the first at "));
    many_pause(0, MANY);
    pass(5 * SECOND);
    ck_assert_uint_eq(sentences("server_silent"), 1);
    ck_assert(told("server_silent", "big-0", "server big-0 (30 shards, the first at "));

    struct coord_shard *s = &r.coord->fleet.members.shard[7];
    s->hang_ns = sim_now_ns(r.sim); /* the main thread speaks for one loop, which explains all */
    s->loop_s = 6;
    ck_assert_uint_eq(sentences("loop_hangs"), 1);
    ck_assert(told("loop_hangs", "big-0", "(30 shards): its loop has made no progress for 6 s"));
    for (uint32_t i = 0; i < MANY; i++) {
        r.coord->fleet.members.shard[i].hang_ns = sim_now_ns(r.sim);
        r.coord->fleet.members.shard[i].hang_s = 6;
    }
    ck_assert_uint_eq(sentences("disk_hangs"), 1);
    ck_assert(told("disk_hangs", "big-0", "(30 shards): its disk has not answered for 6 s"));
}
END_TEST

START_TEST(sight_a_full_disk_and_a_silence_are_two_sentences)
{
    many_start(1);
    many_pause(0, 3);
    pass(5 * SECOND);
    for (uint32_t i = 0; i < MANY; i++)
        if (r.coord->fleet.members.shard[i].index >= 20)
            r.coord->fleet.members.shard[i].short_ns = sim_now_ns(r.sim) - 5 * SECOND;
    ck_assert(told("server_silent", "big-0", "(3 of its 30 shards"));
    ck_assert(told("disk_short", "big-0", "(10 of its 30 shards) takes no pushes for 5 s"));
}
END_TEST

/* Each of the two servers leads a half, and lacks the other one's copies. */
START_TEST(sight_copies_that_lack_the_same_have_one_sentence)
{
    many_start(2);
    ck_assert_uint_eq(sentences("copies"), 2);
    ck_assert(told("copies", "0", "shard 0: 1 of its 2 copies are in sync; server big-"));
    ck_assert(told("copies", "0", "; the same holds for 14 other shards"));
}
END_TEST

START_TEST(sight_a_server_that_is_not_taken_has_one_sentence)
{
    many_start(1);
    for (uint32_t i = 0; i < MANY; i++) {
        many[1][i] = calloc(1, sizeof *many[1][i]);
        fake_shard_start(many[1][i], r.sim, "late", i, 2);
    }
    pass(2 * SECOND);
    ck_assert_uint_eq(sentences("server_refused"), 1);
    ck_assert(told("server_refused", "late", "server late (30 shards of it) is there and is not "));
}
END_TEST

START_TEST(sight_a_trace_is_noted)
{
    many_start(1);
    struct json *notes = coord_sight_notes(&r.coord->slot[0]);
    ck_assert_uint_eq(json_count(notes), 0);
    json_free(notes);
    r.coord->fleet.traces.every = 100;
    notes = coord_sight_notes(&r.coord->slot[0]);
    ck_assert_str_eq(json_as_string(json_array_at(notes, 0), ""),
                     "one batch in 100 of each lane is traced: `shoal trace` lists them, `shoal "
                     "trace --every 0` ends it");
    json_free(notes);
}
END_TEST

START_TEST(sight_a_slow_store_is_told)
{
    pass(SECOND);
    ck_assert(!told("store_slow", "", ""));
    r.coord->fleet.writes.slow_ns = 7 * SECOND;
    r.coord->fleet.writes.slow_end_ns = sim_now_ns(r.sim);
    ck_assert(told("store_slow", "", "the coordinator's store, memory, took 7 s for a write"));
}
END_TEST

START_TEST(sight_problems_with_the_same_labels_are_one_series)
{
    pass(SECOND);
    ck_assert(told("keys", "", "another key is refused"));
    ck_assert(told("keys", "", "one key is refused"));
}
END_TEST

/* The seconds for which the problem has been found. */
static double found_for(const char *problem)
{
    struct json *found = coord_sight_found(&r.coord->slot[0]);
    double seconds = -1;
    for (size_t i = 0; i < json_count(found); i++) {
        const struct json *p = json_array_at(found, i);
        if (strcmp(json_as_string(json_get(p, "problem"), ""), problem) == 0)
            seconds = coord_sight_seconds(&r.coord->fleet, p);
    }
    json_free(found);
    return seconds;
}

/* It counted anew when the sentence got an advice, after the lease. */
START_TEST(sight_a_problem_goes_on_when_its_sentence_changes)
{
    job_start(2);
    sim_pause(r.shard[1]->node, sim_now_ns(r.sim) + 100 * SECOND);
    pass(5 * SECOND);
    double before = found_for("server_silent");
    ck_assert_double_ge(before, 1);
    pass(LEASE_S * SECOND);
    ck_assert(told("server_silent", "server-1", "shoal replace server-1 --from CHECKPOINT"));
    ck_assert_double_ge(found_for("server_silent"), before + LEASE_S - 1);
}
END_TEST

/* It counted anew with each worker that came and failed. */
START_TEST(sight_a_job_without_workers_goes_on_when_one_fails)
{
    job_start(0);
    pass(5 * SECOND);
    double before = found_for("no_workers");
    ck_assert_double_ge(before, 1);
    (void)snprintf(r.coord->slot[0].watch.failed, 64, "w-17: no such file");
    ck_assert(told("no_workers", "t", "the last one left, w-17"));
    ck_assert_double_ge(found_for("no_workers"), before);
}
END_TEST

static bool noted(const char *text)
{
    struct json *notes = coord_sight_notes(&r.coord->slot[0]);
    bool is =
        json_count(notes) == 1 && strcmp(json_as_string(json_array_at(notes, 0), ""), text) == 0;
    is = is || (text[0] == '\0' && json_count(notes) == 0);
    json_free(notes);
    return is;
}

/* The operator may want it so: no problem, and so no alert. */
START_TEST(sight_workers_beyond_the_lanes_are_noted)
{
    job_start_with('1', 2);
    ck_assert(noted("job t has lanes for 1 of its 2 workers, and the others train nothing: submit "
                    "it with train.lanes: 2 or more, or 0 for as many as the workers have places "
                    "for"));
    struct json *found = coord_sight_found(&r.coord->slot[0]);
    for (size_t i = 0; i < json_count(found); i++)
        ck_assert_str_eq(json_as_string(json_get(json_array_at(found, i), "problem"), ""), "keys");
    json_free(found);
}
END_TEST

/* Two places for each of two workers. */
START_TEST(sight_lanes_fit_the_workers_that_wait)
{
    job_start_with('0', 2);
    ck_assert_uint_eq(r.coord->slot[0].tasks->lanes, 2 * 2);
    ck_assert_uint_eq(r.coord->slot[0].spec.train.lanes_there, 2 * 2);
    ck_assert(noted(""));
}
END_TEST

/* One has started again, under its name or another one; or its machine is gone, and no connection
 * has closed. Two places each. */
START_TEST(sight_a_worker_that_starts_again_counts_once)
{
    uint32_t workers;
    workers_start(2);
    pass(SECOND);
    ck_assert_uint_eq(coord_sight_places(&r.coord->fleet, false, 0, &workers), 2 * 2);
    if (_i == 2)
        sim_pause(r.worker[1].node, sim_now_ns(r.sim) + 1000 * SECOND);
    else
        sim_kill(r.worker[1].node);
    worker_start(2, _i == 0 ? "worker-1" : "worker-2");
    pass(_i == 2 ? 4 * SECOND : SECOND);
    ck_assert_uint_eq(coord_sight_places(&r.coord->fleet, false, 0, &workers), 2 * 2);
    ck_assert_uint_eq(workers, 2);
    ck_assert_uint_eq(coord_sight_places(&r.coord->fleet, false, 1, &workers), 2);
    ck_assert_uint_eq(workers, 2);
}
END_TEST

/* Its process has ended, and another one has come for it before its lease is over. */
START_TEST(sight_a_worker_that_is_replaced_is_not_beyond_the_lanes)
{
    job_start_with('2', 2);
    sim_kill(r.worker[1].node);
    worker_start(2, "worker-2");
    for (uint32_t i = 0; i < 2 * LEASE_S; i++) {
        pass(SECOND);
        ck_assert(i > LEASE_S / 2 || r.coord->slot[0].workers.count == 3);
        ck_assert(noted(""));
    }
    ck_assert_uint_eq(r.coord->slot[0].workers.count, 2);
    ck_assert_uint_eq(r.coord->slot[0].tally.workers_most, 2);
    worker_start(3, "worker-3"); /* and now one comes beside them */
    pass(2 * SECOND);
    ck_assert_uint_eq(r.coord->slot[0].tally.workers_most, 3);
    ck_assert(!noted(""));
}
END_TEST

/* Their machine stood still with the coordinator's; a job was submitted meanwhile. */
START_TEST(sight_workers_wait_for_a_coordinator_that_stood_still)
{
    strstr(yaml, "lanes: ")[strlen("lanes: ")] = '0';
    workers_start(2);
    pass(SECOND);
    struct sim_node *still[] = {r.node, r.worker[0].node, r.worker[1].node};
    for (uint32_t i = 0; i < 3; i++)
        sim_pause(still[i], sim_now_ns(r.sim) + 5 * SECOND);
    fake_client_start(&r.client, r.sim, yaml, 1);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, trains, NULL));
    ck_assert_int_eq(r.client.submit_status, 0);
    ck_assert_uint_eq(r.coord->slot[0].tasks->lanes, 2 * 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_sight");
    TCase *c = suite_case(s, "sight", 60, setup, teardown);
    tcase_add_test(c, sight_a_silent_server_is_told_before_the_lease);
    tcase_add_test(c, sight_a_silent_worker_is_told_and_then_that_it_is_lost);
    tcase_add_test(c, sight_a_job_without_workers_is_told_from_its_submission_on);
    tcase_add_test(c, sight_a_loop_that_stands_is_told_as_that);
    tcase_add_test(c, sight_a_sync_that_does_not_end_is_a_disk_that_hangs);
    tcase_add_test(c, sight_a_slow_store_is_told);
    tcase_add_test(c, sight_problems_with_the_same_labels_are_one_series);
    tcase_add_test(c, sight_workers_beyond_the_lanes_are_noted);
    tcase_add_test(c, sight_lanes_fit_the_workers_that_wait);
    tcase_add_loop_test(c, sight_a_worker_that_starts_again_counts_once, 0, 3);
    tcase_add_test(c, sight_a_worker_that_is_replaced_is_not_beyond_the_lanes);
    tcase_add_test(c, sight_workers_wait_for_a_coordinator_that_stood_still);
    tcase_add_test(c, sight_a_problem_goes_on_when_its_sentence_changes);
    tcase_add_test(c, sight_a_job_without_workers_goes_on_when_one_fails);
    c = suite_case(s, "many", 60, many_setup, many_end);
    tcase_add_test(c, sight_a_server_of_many_shards_has_one_sentence);
    tcase_add_test(c, sight_a_full_disk_and_a_silence_are_two_sentences);
    tcase_add_test(c, sight_copies_that_lack_the_same_have_one_sentence);
    tcase_add_test(c, sight_a_server_that_is_not_taken_has_one_sentence);
    tcase_add_test(c, sight_a_trace_is_noted);
    return suite_main(s);
}
