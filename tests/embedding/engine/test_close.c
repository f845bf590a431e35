/* test_close.c: the files that a clean stop leaves on disk. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/space.h"
#include "proto/base/file.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/kill_step.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { BATCHES = 40, CLOSE_STEPS = 20 /* more steps than it takes */ };

static char dir[LIMIT_PATH];
static struct rig s;
static struct answer { /* the child's results, for the parent to compare */
    uint64_t digest, sequence, rows;
    long steps;
} * shared;

static void setup(void)
{
    rig_dir(dir);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

static void note(void)
{
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    *shared =
        (struct answer){rig_digest(&s), stats.sequence, flush_image_bytes(s.g), shared->steps};
}

static void check_same(void)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->digest);
    ck_assert_uint_eq(s.g->sequence, shared->sequence);
}

/* Checks that the journal has no segment (1 MiB each here), and the store few overwritten
 * images. */
static void check_disk(int at)
{
    char path[LIMIT_PATH];
    char *const folder[] = {path};
    snprintf(path, sizeof path, "%s", dir);
    uint64_t bytes = space_walk(folder, 1), most = 2 * shared->rows + (256u << 10);
    ck_assert_msg(bytes <= most, "killed at %d: %" PRIu64 " bytes of %" PRIu64, at, bytes, most);
}

/* Closes the engine, and is killed at the given step (0: not killed). */
static void closed_child(void *context)
{
    const int *at = context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, BATCHES);
    note();
    kill_begin(*at, 0);
    rig_close(&s, true);
    shared->steps = kill_end();
}

/* All rows are there, the next stop leaves as little, and so does a stop without a new record. */
static void check_life(int at)
{
    check_same();
    ck_assert(at > 0 || s.g->replayed == 0);
    rig_train(&s, 1, 0, 0, BATCHES, BATCHES + 1);
    note();
    rig_close(&s, true);
    for (int turn = 0; turn < 2; turn++) {
        check_disk(at);
        check_same();
        rig_close(&s, true);
    }
    check_disk(at);
}

/* Killed before step _i of the close; 0, and any step after the last: not killed. */
START_TEST(a_closed_shard_keeps_what_its_rows_take)
{
    rig_in_child(closed_child, &_i);
    ck_assert(_i < CLOSE_STEPS - 1 || shared->steps > 0);
    if (_i == 0)
        check_disk(_i);
    check_life(_i);
}
END_TEST

static void cut_gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)context, (void)rows, (void)bytes;
    ck_assert_int_eq(status, 0);
}

/* The stop comes before the thread that deletes the cut's files has begun. */
START_TEST(a_cut_that_is_being_dropped_goes_with_the_stop)
{
    char path[LIMIT_PATH + 8];
    struct file_walk walk;
    uint64_t sequence;
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, BATCHES);
    ck_assert_int_eq(engine_hold(s.g, 7, 1, &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, 7, cut_gone, NULL), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(engine_cut_drop(s.g, 7), 0);
    rig_close(&s, true);
    snprintf(path, sizeof path, "%s/cuts", dir);
    ck_assert(file_walk_open(&walk, path));
    ck_assert_ptr_null(file_walk_next(&walk));
    file_walk_close(&walk);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("close");
    TCase *t = tcase_create("close");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_closed_shard_keeps_what_its_rows_take, 0, CLOSE_STEPS);
    tcase_add_test(t, a_cut_that_is_being_dropped_goes_with_the_stop);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
