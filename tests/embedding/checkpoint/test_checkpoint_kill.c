/* test_checkpoint_kill.c: kill -9 before the n-th change of a file, in an export and in a load, for
 * n from the first to the last: no part is half written, no table half filled, and a second try
 * succeeds. SHOAL_KILL_POINTS (24) is the number of tried points for each; 0: all. The process that
 * forks never opens a store, because RocksDB's threads would be missing in its children. */
#include "embedding/checkpoint.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_digest.h"
#include "tests/lib/embedding_fleet.h"
#include "tests/lib/kill_step.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char dir[LIMIT_PATH], save_dir[LIMIT_PATH + 8], load_dir[LIMIT_PATH + 8],
    path[LIMIT_PATH + 8];
static struct fleet f;
static struct shared {
    uint64_t digest[FLEET_TABLES];
    long steps;
    int status; /* the child's last one; 1: not reached */
} * shared;

static void save_child(void *context)
{
    (void)context;
    fleet_open(&f, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&f);
    fleet_run_open(&f, 1, 2, 1);
    fleet_train(&f, 1, 0, 0, 60);
    fleet_train(&f, 1, 1, 0, 7);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        shared->digest[i] = fleet_digest(&f, i);
    fleet_cut(&f, 5);
    fleet_close(&f, false);
}

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    rig_dir(dir);
    snprintf(save_dir, sizeof save_dir, "%s/a", dir);
    snprintf(load_dir, sizeof load_dir, "%s/b", dir);
    snprintf(path, sizeof path, "%s/c", dir);
    ck_assert_int_eq(mkdir(save_dir, 0700), 0);
    rig_in_child(save_child, NULL);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

/* Returns the step between the tried points: every point, or as many as are wanted, evenly
 * spread. */
static long stride(long steps)
{
    return kill_stride(steps, 24);
}

struct point {
    long at;
    int code;
};

static void export_child(void *context)
{
    const struct point *p = context;
    fleet_open(&f, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&f);
    kill_begin(p->at, p->code);
    shared->status = fleet_export(&f, 5, path, NULL);
    shared->steps = kill_end();
    _exit(0);
}

static bool part_there(void)
{
    char part[LIMIT_PATH + 32];
    struct stat st;
    snprintf(part, sizeof part, "%s/part-0000", path);
    return stat(part, &st) == 0;
}

static void part_child(void *context)
{
    struct checkpoint *c;
    struct err e = {0};
    long at = ((struct point *)context)->at;
    ck_assert_msg(checkpoint_open(path, NULL, &c, &e) == 0, "at %ld: %s", at, e.text);
    ck_assert_msg(checkpoint_verify(c, NULL, NULL, &e) == 0, "at %ld: %s", at, e.text);
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        uint64_t tablets[16], rows;
        ck_assert_int_eq(checkpoint_digest(c, i, tablets, &rows, &e), 0);
        ck_assert_uint_eq(hash_bytes(tablets, sizeof tablets, 0), shared->digest[i]);
    }
    checkpoint_close(c);
}

/* Runs an export that is killed or fails at a step; then the same export again, which succeeds. */
static void export_point(struct point p)
{
    shared->status = 1;
    rig_in_child(export_child, &p);
    bool there = part_there();
    if (there)
        rig_in_child(part_child, &p);
    if (p.code != 0) /* reported, or without effect */
        ck_assert(shared->status != 0 || there);
    rig_in_child(export_child, &(struct point){0});
    ck_assert_int_eq(shared->status, 0);
    rig_in_child(part_child, &p);
    rig_remove_dir(path);
}

START_TEST(an_export_is_whole_or_not_there)
{
    rig_in_child(export_child, &(struct point){0});
    ck_assert_int_eq(shared->status, 0);
    long steps = shared->steps, killed = 0;
    ck_assert_int_gt(steps, 20);
    rig_remove_dir(path);
    for (long at = 1; at <= steps; at += stride(steps)) {
        export_point((struct point){at, _i ? ENOSPC : 0});
        killed++;
    }
    ck_assert_int_ge(killed, 5);
}
END_TEST

/* ---- load ---- */

static void load_child(void *context)
{
    const struct point *p = context;
    fleet_open(&f, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&f);
    kill_begin(p->at, 0);
    shared->status = fleet_load(&f, path, 7, NULL, NULL);
    shared->steps = kill_end();
    _exit(0);
}

static void again_child(void *context)
{
    uint32_t mode, lanes;
    uint64_t low, high;
    char text[4096];
    bool acknowledged = *(int *)context == 0;
    f.tables = 0; /* they come from the folder */
    fleet_open(&f, 1, load_dir, DURABLE_JOURNAL);
    bool opened = engine_run_mode(f.s[0].g, 7, &mode, &lanes) == 0;
    fleet_tables(&f);
    ck_assert(opened || !acknowledged);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        if (opened)
            ck_assert_uint_eq(fleet_digest(&f, i), shared->digest[i]);
        else
            ck_assert_uint_eq(fleet_rows(&f, i), 0);
    int rc = fleet_load(&f, path, 7, text, NULL);
    ck_assert_msg(rc == 0, "%s", text);
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < FLEET_TABLES; i++)
            ck_assert_uint_eq(fleet_digest(&f, i), shared->digest[i]);
        fleet_marks(&f, 7, 0, 0, &low, &high);
        ck_assert_uint_eq(low, 60);
        ck_assert_uint_eq(high, 60);
        fleet_marks(&f, 7, 1, 1, &low, &high);
        ck_assert_uint_eq(low, 7);
        if (again == 0) {
            fleet_close(&f, false);
            fleet_reopen(&f);
        }
    }
    fleet_train(&f, 7, 0, 60, 62);
    fleet_close(&f, true);
    fleet_reopen(&f);
    fleet_marks(&f, 7, 0, 0, &low, &high);
    ck_assert_uint_eq(low, 62);
    _exit(0);
}

START_TEST(a_load_has_happened_or_has_not)
{
    rig_in_child(export_child, &(struct point){0});
    ck_assert_int_eq(shared->status, 0);
    long steps = 0, before = 0, after = 0;
    for (long at = 0; at <= steps; at += at == 0 ? 1 : stride(steps)) {
        ck_assert_int_eq(mkdir(load_dir, 0700), 0);
        shared->status = 1;
        rig_in_child(load_child, &(struct point){.at = at});
        int rc = shared->status;
        if (at == 0) {
            ck_assert_int_eq(rc, 0);
            steps = shared->steps;
            ck_assert_int_gt(steps, 30);
        }
        before += rc == 1;
        after += rc == 0;
        rig_in_child(again_child, &rc);
        rig_remove_dir(load_dir);
    }
    ck_assert_int_ge(before, 5);
    ck_assert_int_ge(after, 1);
}
END_TEST

/* ---- a load taken back ---- */

static void dropped(void *context, int status, const char *text)
{
    (void)text;
    *(int *)context = status;
}

static int drop_load(void)
{
    int rc = 1;
    ck_assert_int_eq(engine_load_drop(f.s[0].g, 7, TABLE_SET_ALL, dropped, &rc, NULL), 0);
    fleet_run(&f);
    return rc;
}

static void drop_child(void *context)
{
    const struct point *p = context;
    fleet_open(&f, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&f);
    ck_assert_int_eq(fleet_load(&f, path, 7, NULL, NULL), 0);
    kill_begin(p->at, 0);
    shared->status = drop_load();
    shared->steps = kill_end();
    _exit(0);
}

/* All rows or none; the same drop ends it, and the same load succeeds. */
static void dropped_child(void *context)
{
    bool acknowledged = *(int *)context == 0;
    f.tables = 0;
    fleet_open(&f, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&f);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert(fleet_rows(&f, i) == 0 ||
                  (!acknowledged && fleet_digest(&f, i) == shared->digest[i]));
    ck_assert_int_eq(drop_load(), 0);
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < FLEET_TABLES; i++)
            ck_assert_uint_eq(fleet_rows(&f, i), 0);
        if (again == 0) {
            fleet_close(&f, false);
            fleet_reopen(&f);
        }
    }
    ck_assert_int_eq(fleet_load(&f, path, 8, NULL, NULL), 0);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&f, i), shared->digest[i]);
    _exit(0);
}

START_TEST(a_load_is_taken_back_as_a_whole)
{
    rig_in_child(export_child, &(struct point){0});
    ck_assert_int_eq(shared->status, 0);
    long steps = 0, before = 0;
    for (long at = 0; at <= steps; at += at == 0 ? 1 : stride(steps)) {
        ck_assert_int_eq(mkdir(load_dir, 0700), 0);
        shared->status = 1;
        rig_in_child(drop_child, &(struct point){.at = at});
        int status = shared->status;
        if (at == 0) {
            ck_assert_int_eq(status, 0);
            steps = shared->steps;
            ck_assert_int_gt(steps, 10);
        }
        before += status == 1;
        rig_in_child(dropped_child, &status);
        rig_remove_dir(load_dir);
    }
    ck_assert_int_ge(before, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_kill");
    TCase *t = tcase_create("kill");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 3600);
    tcase_add_loop_test(t, an_export_is_whole_or_not_there, 0, 2);
    tcase_add_test(t, a_load_has_happened_or_has_not);
    tcase_add_test(t, a_load_is_taken_back_as_a_whole);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
