/* test_space.c: the disk space of an engine stays within its bound; beyond it pushes are refused,
 * nothing is lost, and the engine continues. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/space.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK (24ull << 20)
#define JOURNAL (2ull << 20)
#define LOGS (64ull << 10) /* growth of RocksDB's logs after a look */

static struct rig s;
static struct rig_push p;

static void on_recovered(void *context)
{
    (void)context;
}

static void open_bounded(const char *dir, uint64_t disk)
{
    struct err e = {0};
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.dir = dir,
                                        .durability = DURABLE_JOURNAL,
                                        .journal_max = JOURNAL,
                                        .segment_bytes = 256u << 10,
                                        .disk_watermark = 1,
                                        .disk = disk,
                                        .on_recovered = on_recovered};
    ck_assert_msg(engine_open(&s.options, &s.env.env, &s.g, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    rig_lead(&s);
}

static void begin(void)
{
    struct err e = {0};
    uint64_t mark;
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1 /* ssp */, &e), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, &e), 0);
}

static uint64_t du(const char *dir)
{
    char *folder[1] = {(char *)(uintptr_t)dir};
    return space_walk(folder, 1);
}

static int push_one(uint64_t batch, struct err *e)
{
    struct push_plan plan;
    rig_push_make(&p, 1, 0, 0, 1, batch - 1, batch);
    int rc = SHOAL_E_BUSY;
    for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
        rc = engine_admit_push(s.g, &p.record, &plan, e);
        if (rc == SHOAL_E_BUSY)
            embedding_env_run(&s.env);
    }
    if (rc == 0) {
        ck_assert_int_eq(engine_commit(s.g), 0);
        ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
        engine_flush_step(s.g);
    }
    embedding_env_run(&s.env);
    return rc;
}

static void made_cb(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows;
    (void)bytes;
    *(int *)context = status;
}

static int make_cut(uint64_t cut)
{
    uint64_t sequence;
    int outcome = -1, rc = engine_hold(s.g, cut, engine_newest_run(s.g), &sequence);
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_go(s.g, cut, made_cb, &outcome), 0);
    embedding_env_run(&s.env);
    return outcome;
}

/* in a row, with time for looks in between, so that all reclaimable space was reclaimed */
#define REFUSALS 5
/* when no cut fits any more, each rewriting makes room for a few pushes, without end: then a file
 * of this size takes the room */
#define REFUSALS_ALL 20
#define BALLAST (1536u << 10) /* and ends that */

static void ballast_put(const char *dir)
{
    static const char zeros[4096];
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s/ballast", dir);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 0; i < BALLAST / sizeof zeros; i++)
        ck_assert_uint_eq(fwrite(zeros, 1, sizeof zeros, f), sizeof zeros);
    ck_assert_int_eq(fclose(f), 0);
    space_look(s.g); /* a look is needed to see files of others */
    embedding_env_run(&s.env);
}

/* Trains batches from `from` + 1 on, with a cut after every 40, which keeps older files; until
 * pushes are refused for good, at most `most` batches. Returns the last accepted batch. */
static uint64_t train_with_cuts(const char *dir, uint64_t from, uint64_t most, bool *refused)
{
    struct err e = {0};
    uint32_t all = 0;
    for (uint64_t batch = from + 1; batch <= most; batch++) {
        int rc = push_one(batch, &e), tries = 1;
        for (; rc == SHOAL_E_NO_SPACE && tries < REFUSALS; tries++) {
            if (++all == REFUSALS_ALL)
                ballast_put(dir);
            usleep(120000);
            rc = push_one(batch, &e);
        }
        ck_assert_msg(rc == 0 || rc == SHOAL_E_NO_SPACE, "%s", e.text);
        *refused = rc == SHOAL_E_NO_SPACE;
        ck_assert_uint_le(du(dir), DISK);
        if (*refused)
            return batch - 1;
        if (batch % 40 == 0 && make_cut(batch) != 0)
            ck_assert_int_eq(make_cut(batch), SHOAL_E_NO_SPACE);
    }
    return most;
}

/* Drops the cuts, and removes the ballast if there is any. */
static void drop_cuts(const char *dir)
{
    char path[LIMIT_PATH + 16];
    uint64_t cut[64];
    snprintf(path, sizeof path, "%s/ballast", dir);
    (void)unlink(path);
    uint32_t count = engine_cuts(s.g, cut, 64);
    ck_assert_uint_gt(count, 1);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(engine_cut_drop(s.g, cut[i]), 0);
}

/* A refused push is repeated until it is accepted. */
static void push_until_taken(uint64_t batch)
{
    struct err e = {0};
    int rc = push_one(batch, &e);
    for (int tries = 0; rc == SHOAL_E_NO_SPACE && tries < 500; tries++) {
        usleep(10000);
        rc = push_one(batch, &e);
    }
    ck_assert_msg(rc == 0, "%s", e.text);
}

static uint64_t undisturbed(uint64_t batches)
{
    char dir[LIMIT_PATH];
    struct err e = {0};
    open_bounded(rig_dir(dir), 0);
    begin();
    for (uint64_t batch = 1; batch <= batches; batch++)
        ck_assert_int_eq(push_one(batch, &e), 0);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    rig_remove_dir(dir);
    return digest;
}

START_TEST(past_the_bound_pushes_are_refused_and_go_on_once_cuts_are_dropped)
{
    char dir[LIMIT_PATH];
    bool refused = false;
    struct engine_stats stats;
    struct err e = {0};
    open_bounded(rig_dir(dir), DISK);
    begin();
    uint64_t last = train_with_cuts(dir, 0, 20000, &refused), taken = du(dir);
    ck_assert(refused);
    ck_assert_int_eq(push_one(last + 1, &e), SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "`disk`"));
    ck_assert_ptr_nonnull(strstr(e.text, dir));
    engine_stats_get(s.g, &stats);
    ck_assert(stats.disk_short);
    ck_assert_uint_ge(stats.disk_bytes + LOGS, taken);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), last);
    drop_cuts(dir);
    push_until_taken(last + 1);
    engine_stats_get(s.g, &stats);
    ck_assert(!stats.disk_short);
    last = train_with_cuts(dir, last + 1, last + 40, &refused);
    ck_assert(!refused);
    uint64_t digest = rig_digest(&s);
    ck_assert_uint_eq(s.fatal, 0);
    rig_close(&s, true);
    rig_remove_dir(dir);
    ck_assert_uint_eq(digest, undisturbed(last));
}
END_TEST

START_TEST(without_cuts_rewriting_keeps_within_the_bound)
{
    char dir[LIMIT_PATH];
    struct err e = {0};
    uint64_t written = 0;
    open_bounded(rig_dir(dir), DISK);
    begin();
    for (uint64_t batch = 1; batch <= 3000; batch++) {
        push_until_taken(batch);
        if (batch % 16 == 0)
            ck_assert_uint_le(du(dir), DISK);
    }
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    written = stats.journal_written + stats.image_bytes_written;
    ck_assert_uint_gt(written, 2 * DISK); /* else the test shows nothing */
    ck_assert_int_eq(push_one(3001, &e), 0);
    rig_close(&s, true);
    rig_remove_dir(dir);
}
END_TEST

struct killed {
    const char *dir;
    int out;
};

static void until_refused(void *context)
{
    struct killed *k = context;
    uint64_t facts[2];
    bool refused = false;
    open_bounded(k->dir, DISK);
    begin();
    facts[0] = train_with_cuts(k->dir, 0, 20000, &refused);
    facts[1] = rig_digest(&s);
    ck_assert(refused);
    ck_assert_int_eq(write(k->out, facts, sizeof facts), sizeof facts);
}

START_TEST(killed_while_refused_it_recovers_all)
{
    char dir[LIMIT_PATH];
    int ends[2];
    uint64_t facts[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct killed k = {.dir = rig_dir(dir), .out = ends[1]};
    rig_in_child(until_refused, &k);
    ck_assert_int_eq(read(ends[0], facts, sizeof facts), sizeof facts);
    open_bounded(dir, DISK);
    ck_assert_uint_eq(rig_digest(&s), facts[1]);
    /* the store removed some files when it was opened, so a few pushes may be accepted */
    bool refused = false;
    uint64_t last = train_with_cuts(dir, facts[0], facts[0] + 2000, &refused);
    ck_assert(refused);
    drop_cuts(dir);
    push_until_taken(last + 1);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    rig_remove_dir(dir);
    ck_assert_uint_eq(digest, undisturbed(last + 1));
}
END_TEST

START_TEST(a_full_file_system_refuses_pushes_and_stops_writing)
{
    char dir[LIMIT_PATH];
    struct err e = {0};
    struct engine_stats before, after;
    open_bounded(rig_dir(dir), 0);
    begin();
    for (uint64_t batch = 1; batch <= 100; batch++)
        ck_assert_int_eq(push_one(batch, &e), 0);
    s.g->options.disk_watermark = UINT64_MAX; /* other data has filled the disk */
    s.g->space.journal_next = 0;
    ck_assert_int_eq(push_one(101, &e), SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "watermark"));
    engine_stats_get(s.g, &before);
    ck_assert_uint_gt(before.tablets_dirty, 0);
    ck_assert_int_ne(engine_hold(s.g, 1, engine_newest_run(s.g), &(uint64_t){0}), 0);
    for (int i = 0; i < 20; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    ck_assert(!space_batch(s.g, 1));
    engine_stats_get(s.g, &after);
    ck_assert_uint_eq(after.image_bytes_written, before.image_bytes_written);
    ck_assert_int_eq(engine_close(s.g, true), SHOAL_E_NO_SPACE); /* the journal has all of it */
    embedding_env_run(&s.env);
    open_bounded(dir, 0);
    ck_assert_int_eq(push_one(101, &e), 0);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, true);
    rig_remove_dir(dir);
    ck_assert_uint_eq(digest, undisturbed(101));
}
END_TEST

static void exported_cb(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)rows;
    (void)bytes;
    ck_assert_msg(status == 0, "%s", text);
    *(int *)context = status;
}

START_TEST(a_checkpoints_part_counts_while_it_is_there)
{
    char dir[LIMIT_PATH], target[LIMIT_PATH];
    struct err e = {0};
    struct engine_stats with, without;
    int status = -1;
    open_bounded(rig_dir(dir), DISK);
    rig_dir(target);
    begin();
    for (uint64_t batch = 1; batch <= 200; batch++)
        ck_assert_int_eq(push_one(batch, &e), 0);
    ck_assert_int_eq(make_cut(1), 0);
    ck_assert_msg(engine_cut_export(s.g, 1, target, 0, 1, exported_cb, &status, &e) == 0, "%s",
                  e.text);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(engine_cut_drop(s.g, 1), 0);
    /* the store removes the files that it shared with the part */
    for (uint64_t batch = 201; batch <= 800; batch++)
        ck_assert_int_eq(push_one(batch, &e), 0);
    engine_stats_get(s.g, &with);
    char *both[2] = {dir, target};
    ck_assert_uint_ge(with.disk_bytes + LOGS, space_walk(both, 2));
    rig_close(&s, false);
    open_bounded(dir, DISK); /* it is remembered */
    engine_stats_get(s.g, &with);
    ck_assert_uint_ge(with.disk_bytes + LOGS, space_walk(both, 2));
    rig_remove_dir(target);
    space_look(s.g);
    embedding_env_run(&s.env);
    engine_stats_get(s.g, &without);
    ck_assert_uint_lt(without.disk_bytes + 4 * LOGS, with.disk_bytes);
    ck_assert_uint_eq(s.g->space.parts, 0);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_file_of_two_names_counts_once)
{
    char dir[LIMIT_PATH], one[LIMIT_PATH + 8], two[LIMIT_PATH + 8], other[LIMIT_PATH + 8];
    rig_dir(dir);
    snprintf(one, sizeof one, "%s/one", dir);
    snprintf(two, sizeof two, "%s/in", dir);
    ck_assert_int_eq(mkdir(two, 0700), 0);
    snprintf(two, sizeof two, "%s/in/two", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    uint64_t empty = du(dir);
    FILE *f = fopen(one, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 1 << 20; i++)
        putc('x', f);
    fclose(f);
    uint64_t with = du(dir);
    ck_assert_uint_ge(with, empty + (1 << 20));
    ck_assert_int_eq(link(one, two), 0);
    ck_assert_uint_eq(du(dir), with);
    f = fopen(other, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 1 << 20; i++)
        putc('y', f);
    fclose(f);
    ck_assert_uint_ge(du(dir), with + (1 << 20));
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_laptop_with_13_gb_free_is_not_full)
{
    ck_assert_uint_lt(space_free_least(UINT64_C(252) << 30), UINT64_C(13) << 30);
    ck_assert_uint_lt(space_free_least(UINT64_C(2) << 40), UINT64_C(13) << 30);
    ck_assert_uint_eq(space_free_least(UINT64_C(40) << 30), UINT64_C(2) << 30);
    ck_assert_uint_lt(space_free_least(UINT64_C(1) << 30), UINT64_C(64) << 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("space");
    TCase *c = tcase_create("space");
    tcase_set_timeout(c, 60); /* they wait for looks at the disk, which take real time */
    tcase_add_test(c, a_laptop_with_13_gb_free_is_not_full);
    tcase_add_test(c, past_the_bound_pushes_are_refused_and_go_on_once_cuts_are_dropped);
    tcase_add_test(c, without_cuts_rewriting_keeps_within_the_bound);
    tcase_add_test(c, killed_while_refused_it_recovers_all);
    tcase_add_test(c, a_full_file_system_refuses_pushes_and_stops_writing);
    tcase_add_test(c, a_checkpoints_part_counts_while_it_is_there);
    tcase_add_test(c, a_file_of_two_names_counts_once);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
