/* test_cut.c: hold, go, restore; on disk and in memory, with restarts in between. */
#include "embedding/engine.h"
#include "embedding/engine/apply.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/engine/tier.h"
#include "embedding/store/stored.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[LIMIT_PATH];
static struct rig s;
static struct answer {
    uint64_t at_cut, at_end, rows;
} * shared;

static void setup(void)
{
    rig_dir(dir);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

struct gone {
    int calls, status;
    uint64_t rows, bytes;
};

static void on_gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct gone *g = context;
    g->calls++;
    g->status = status;
    g->rows = rows;
    g->bytes = bytes;
}

static void begin(enum durability durability, const char *where)
{
    rig_open(&s, where, durability);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
}

static void make_cut(uint64_t cut)
{
    uint64_t sequence;
    struct gone gone = {0};
    ck_assert_int_eq(engine_hold(s.g, cut, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, cut, on_gone, &gone), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(gone.calls, 1);
    ck_assert_int_eq(gone.status, 0);
    ck_assert_uint_gt(gone.rows, 0);
    ck_assert_uint_gt(gone.bytes, 0);
}

static void restore(uint64_t cut, uint64_t run)
{
    struct err e = {0};
    int rc = engine_restore(s.g, cut, run, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    rig_come_back(&s);
}

static void check_restored(uint64_t run, uint64_t mark)
{
    uint32_t mode, lanes;
    ck_assert_int_eq(engine_run_mode(s.g, run, &mode, &lanes), 0);
    ck_assert_uint_eq(mode, 1);
    ck_assert_uint_eq(lanes, 2);
    ck_assert_uint_eq(engine_mark(s.g, run, 0, 0), mark);
    ck_assert_uint_eq(engine_lane_generation(s.g, run, 0), 0);
    ck_assert(!engine_lane_live(s.g, run, 0));
    ck_assert_int_eq(engine_run_mode(s.g, 1, &mode, &lanes), SHOAL_E_NOT_FOUND);
}

static void cycle(enum durability durability, const char *where, uint64_t batches)
{
    struct push_plan plan;
    static struct rig_push p;
    begin(durability, where);
    rig_train(&s, 1, 1, 0, 0, 2);
    rig_train(&s, 1, 0, 0, 0, batches);
    uint64_t at_cut = rig_digest(&s);
    make_cut(5);
    rig_train(&s, 1, 0, 0, batches, batches + 10);
    uint64_t at_end = rig_digest(&s);
    ck_assert_uint_ne(at_cut, at_end);
    restore(5, 2);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    check_restored(2, batches);
    ck_assert_uint_eq(engine_mark(s.g, 2, 1, 0), 2); /* the last lane's */
    restore(5, 2);                                   /* repeated: no change */
    rig_push_make(&p, 1, 0, 0, 0, batches, batches + 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_OLD_RUN);
    rig_train(&s, 2, 0, 0, batches, batches + 10);
    ck_assert_uint_eq(rig_digest(&s), at_end); /* the same batches lead to the same rows */
    rig_close(&s, false);
}

START_TEST(memory_cut_is_an_instant)
{
    cycle(DURABLE_MEMORY, NULL, 20);
}
END_TEST

START_TEST(memory_with_a_folder_cuts_to_disk)
{
    cycle(DURABLE_MEMORY, dir, 20);
    /* A dead server's successor starts empty and restores the cut. */
    rig_open(&s, dir, DURABLE_MEMORY);
    restore(5, 9);
    check_restored(9, 20);
    uint64_t from_disk = rig_digest(&s);
    rig_close(&s, false);
    begin(DURABLE_MEMORY, NULL);
    rig_train(&s, 1, 1, 0, 0, 2);
    rig_train(&s, 1, 0, 0, 0, 20);
    ck_assert_uint_eq(rig_digest(&s), from_disk);
    rig_close(&s, false);
}
END_TEST

START_TEST(journal_cut_is_an_instant)
{
    cycle(DURABLE_JOURNAL, dir, 20);
}
END_TEST

START_TEST(journal_cut_with_stored_rows_is_an_instant)
{
    cycle(DURABLE_JOURNAL, dir, 1500);
}
END_TEST

START_TEST(pushes_during_the_cut_are_not_in_it)
{
    uint64_t sequence;
    struct gone gone = {0};
    static struct rig_push p;
    struct push_plan plan;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 800);
    uint64_t at_cut = rig_digest(&s);
    ck_assert_int_eq(engine_hold(s.g, 3, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_hold(s.g, 4, engine_newest_run(s.g), &sequence), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_go(s.g, 4, on_gone, &gone), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_go(s.g, 3, on_gone, &gone), 0);
    for (uint64_t batch = 800; batch < 1500; batch++) {
        /* the thread that makes the cut has not begun; other work runs */
        rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
        int rc = rig_push(&s, &p, &plan);
        if (rc == SHOAL_E_BUSY)
            break; /* the cut holds the journal */
        ck_assert_int_eq(rc, 0);
        engine_flush_step(s.g);
        embedding_env_run_newest(&s.env, 1);
    }
    embedding_env_run(&s.env);
    ck_assert_int_eq(gone.calls, 1);
    ck_assert_int_eq(gone.status, 0);
    restore(3, 2);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    check_restored(2, 800);
    rig_close(&s, false);
}
END_TEST

/* The journal fills up; the batch of writes that would free it waits. */
static void fill_beside_a_batch(void)
{
    static struct rig_push p;
    struct push_plan plan;
    int rc = 0;
    for (uint64_t batch = 0; rc == 0; batch++) {
        rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
        rc = rig_push(&s, &p, &plan);
        engine_flush_step(s.g);
    }
    ck_assert_int_eq(rc, SHOAL_E_BUSY);
}

START_TEST(a_cut_waits_for_the_batch_under_way)
{
    begin(DURABLE_JOURNAL, dir);
    fill_beside_a_batch();
    struct engine_stats before, now;
    engine_stats_get(s.g, &before);
    do { /* the first batch is small; the next one has all rows */
        ck_assert(embedding_env_step(&s.env));
        engine_stats_get(s.g, &now);
    } while (now.image_bytes_written == before.image_bytes_written);
    uint64_t at_cut = rig_digest(&s), mark = engine_mark(s.g, 1, 0, 0);
    make_cut(3); /* the batch ends first and must not trim files that the cut has listed */
    restore(3, 2);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    check_restored(2, mark);
    rig_close(&s, false);
}
END_TEST

static void restore_child(void *context)
{
    (void)context;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 300);
    make_cut(5);
    rig_train(&s, 1, 0, 0, 300, 310);
    restore(5, 2);
    shared->at_cut = rig_digest(&s);
    static struct rig_push p;
    for (uint64_t batch = 300; batch < 305; batch++) {
        /* no flush: the restart has to restore by itself */
        struct push_plan plan;
        rig_push_make(&p, 2, 0, 0, 0, batch, batch + 1);
        ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    }
    shared->at_end = rig_digest(&s);
}

START_TEST(restart_repeats_the_restore)
{
    rig_in_child(restore_child, NULL);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_end);
    check_restored(2, 305);
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_end);
    check_restored(2, 305);
    rig_close(&s, false);
}
END_TEST

/* ---- a restore in steps ---- */

#define FEW_ROWS 2000u /* rows in a step; no tablet has more rows and no record more keys */

/* Returns the digest of the cut, which has images, and records above some of them. */
static uint64_t begin_restored(int how)
{
    rig_in_steps = true;
    begin(how == 0 ? DURABLE_MEMORY : DURABLE_JOURNAL, how == 0 ? NULL : dir);
    rig_train(&s, 1, 0, 0, 0, how == 2 ? 800 : 60);
    uint64_t digest = rig_digest(&s);
    make_cut(5);
    rig_train(&s, 1, 0, 0, how == 2 ? 800 : 60, how == 2 ? 810 : 70);
    s.g->reload_rows = FEW_ROWS;
    return digest;
}

/* Between two steps the number of rows changes by no more than a step and a tablet, no row can be
 * touched, and the loop turns. */
START_TEST(a_restore_goes_in_steps)
{
    uint64_t digest = begin_restored(_i), key = key_make(1, 3), sequence;
    bool stored;
    unsigned steps = 0;
    struct err e = {0};
    ck_assert_int_eq(engine_restore(s.g, 5, 2, &e), 0);
    while (!engine_back(s.g)) {
        uint64_t rows = table_rows(engine_table(s.g, 0)), fetched = s.fetched;
        ck_assert(engine_restoring(s.g));
        ck_assert(!engine_warm(s.g, 0, &key, 1));
        ck_assert_ptr_null(engine_row(s.g, 0, key, &stored, &e));
        ck_assert_int_eq(e.code, SHOAL_E_AGAIN);
        ck_assert_int_eq(engine_cut_drop(s.g, 5), SHOAL_E_BUSY);
        engine_flush_step(s.g);
        ck_assert(embedding_env_step(&s.env));
        uint64_t now = table_rows(engine_table(s.g, 0));
        ck_assert_uint_le(now > rows ? now - rows : rows - now, 3 * FEW_ROWS);
        ck_assert(engine_back(s.g) || s.fetched == fetched);
        steps++;
    }
    ck_assert_uint_gt(steps, 15);
    ck_assert_uint_eq(s.recovered, 1);
    ck_assert_uint_gt(s.fetched, 0);
    ck_assert(engine_warm(s.g, 0, &key, 1));
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(2, _i == 2 ? 800 : 60);
    ck_assert_int_eq(engine_hold(s.g, 6, 2, &sequence), 0);
    ck_assert_int_eq(engine_release(s.g, 6), 0);
    rig_close(&s, true);
    if (_i > 0) {
        rig_open(&s, dir, DURABLE_JOURNAL);
        ck_assert_uint_eq(rig_digest(&s), digest);
        check_restored(2, _i == 2 ? 800 : 60);
        rig_close(&s, false);
    }
    rig_in_steps = false;
}
END_TEST

static void restored_child(void *context)
{
    shared->at_cut = begin_restored(2);
    ck_assert_int_eq(engine_restore(s.g, 5, 2, NULL), 0);
    for (int i = 0; i < *(int *)context && !engine_back(s.g); i++)
        ck_assert(embedding_env_step(&s.env));
    shared->rows = engine_back(s.g);
}

#define RESTORE_STEPS 24 /* steps of 16: more than it takes */

/* Killed after one in sixteen of its steps: the next start restores all from the record. */
START_TEST(a_restore_may_be_killed_on_the_way)
{
    int steps = 16 * _i;
    rig_in_child(restored_child, &steps);
    ck_assert(_i > 0 || shared->rows == 0);
    ck_assert(_i < RESTORE_STEPS - 1 || shared->rows == 1);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_cut);
    check_restored(2, 800);
    rig_close(&s, false);
}
END_TEST

/* Closed cleanly in the middle: the half-restored state is not written. */
START_TEST(a_restore_may_be_closed)
{
    uint64_t digest = begin_restored(2);
    ck_assert_int_eq(engine_restore(s.g, 5, 2, NULL), 0);
    for (int i = 0; i < 10 * _i; i++)
        ck_assert(embedding_env_step(&s.env));
    ck_assert(!engine_back(s.g));
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(2, 800);
    rig_close(&s, false);
    rig_in_steps = false;
}
END_TEST

static bool cut_there(uint64_t cut)
{
    char path[LIMIT_PATH + 64];
    snprintf(path, sizeof path, "%s/cuts/%" PRIu64 "/manifest", dir, cut);
    return access(path, F_OK) == 0;
}

/* A cut outlives an update: with other checksums the next release would find every cut damaged. */
START_TEST(a_cuts_sums_are_those_of_every_release)
{
    static const char file[] = "shoal";
    static const char text[] = "shoal cut 2\ncut 9\nsequence 7\nexisting 0000000000000001\n"
                               "count 3 0:3:40\nrun 5 0000000000000001 1 2\nlane 0 6\n"
                               "bytes 0\nend 76b901a60b22936b\n";
    char path[LIMIT_PATH + 64];
    uint64_t bytes, sum;
    struct part part;
    struct err e = {0};
    for (int chained = 0; chained < 2; chained++) {
        snprintf(path, sizeof path, "%s/file", dir);
        FILE *f = fopen(path, "w");
        ck_assert(f != NULL && fputs(file, f) >= 0 && fclose(f) == 0);
        ck_assert_int_eq(part_checksum(path, 5, chained != 0, &bytes, &sum), 0);
        ck_assert_uint_eq(sum, 0xcbbd0e4e10bba146ull);
    }
    snprintf(path, sizeof path, "%s/manifest", dir);
    FILE *f = fopen(path, "w");
    ck_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
    ck_assert_msg(cut_read(dir, CUT_READ, &part, &e) == 0, "%s", e.text);
    ck_assert(part.facts.cut == 9 && part.facts.sequence == 7 && set_is(part.facts.existing, 1));
    ck_assert(part.facts.run == 5 && part.facts.lanes == 1 && part.facts.lowest[0] == 6);
    ck_assert(part.facts.sized && part.facts.table_rows[0] == 3 && part.facts.rows == 3);
    part_free(&part);
}
END_TEST

/* The push's marks are in the cut, but its rows are not yet. */
START_TEST(a_cut_waits_for_pushes_that_are_admitted)
{
    static struct rig_push p;
    struct push_plan plan;
    uint64_t sequence;
    begin(DURABLE_JOURNAL, dir);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, NULL), 0);
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_hold(s.g, 5, 1, &sequence), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    ck_assert_int_eq(engine_hold(s.g, 5, 1, &sequence), 0);
    rig_close(&s, false);
}
END_TEST

/* Killed when the journal no longer had the restore's record, and the cut was not removed yet. */
START_TEST(a_cut_that_was_to_go_goes_at_the_next_start)
{
    uint64_t list[4];
    char file[LIMIT_PATH + 32];
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    make_cut(5);
    make_cut(6);
    rig_close(&s, false);
    snprintf(file, sizeof file, "%s/cuts/5/dropped", dir);
    close(open(file, O_WRONLY | O_CREAT, 0600));
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(engine_cuts(s.g, list, 4), 1);
    ck_assert_uint_eq(list[0], 6);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_cut_is_kept_while_a_restore_needs_it)
{
    rig_in_child(restore_child, NULL);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    ck_assert(cut_there(5));
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL); /* still needed, and still there */
    ck_assert_uint_eq(rig_digest(&s), shared->at_end);
    ck_assert(cut_there(5));
    engine_flush_step(s.g); /* a restore makes writing urgent */
    embedding_env_run(&s.env);
    ck_assert(!cut_there(5));
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_end);
    rig_close(&s, false);
}
END_TEST

/* Two restores need one cut, and the first one drops it: it is removed after the last. */
START_TEST(a_cut_that_two_restores_need_goes_with_the_last)
{
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    make_cut(5);
    file_fault_set(&(struct file_fault){0});
    restore(5, 2);
    ck_assert_uint_eq(file_fault_calls(), 3); /* its record is on disk before any change */
    file_fault_set(NULL);
    restore(5, 3);
    ck_assert_uint_eq(s.g->ref_count, 2);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    ck_assert(cut_there(5));
    cut_refs_trim(s.g, s.g->ref[0].sequence); /* the first one is finished */
    embedding_env_run(&s.env);
    ck_assert_uint_eq(s.g->ref_count, 1);
    ck_assert(cut_there(5));
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(s.g->ref_count, 0);
    ck_assert(!cut_there(5));
    rig_close(&s, false);
}
END_TEST

/* The record of a restore is the last one, and all rows are stored: the record is still in the last
 * segment, and its cut is gone. */
START_TEST(a_restore_that_is_stored_needs_no_cut)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t digest = rig_digest(&s);
    make_cut(5);
    rig_train(&s, 1, 0, 0, 3, 5);
    restore(5, 2);
    uint64_t restored = s.g->sequence;
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    embedding_env_run(&s.env);
    ck_assert(!cut_there(5));
    ck_assert_uint_eq(s.g->sequence, restored);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(2, 3);
    /* a cut with its record, and with rows that belong to it */
    rig_push_make(&p, 2, 0, 0, 0, 3, 4);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    digest = rig_digest(&s);
    make_cut(6);
    rig_push_make(&p, 2, 0, 0, 0, 4, 5);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    restore(6, 3);
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(3, 4);
    rig_close(&s, false);
}
END_TEST

/* Writes the control state as a load does: it does not say which records every tablet has. */
static void forget_floor(void)
{
    struct table *list[LIMIT_TABLES];
    struct store_item item = {0};
    void *control;
    struct err e = {0};
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = s.g->table[i].table;
    ck_assert_int_eq(stored_control_write(list, &s.g->runs,
                                          (struct stored_as_of){s.g->sequence, 0, s.g->terms},
                                          &control, &item.value_bytes),
                     0);
    stored_control_key(&item);
    item.value = control;
    ck_assert_int_eq(store_write(s.g->store, &item, 1, &e), 0);
    ck_assert_int_eq(store_flush(s.g->store, &e), 0);
    free(control);
}

/* Each restore was stored before the next, so none needs its cut, but all lie in one segment. */
START_TEST(restores_that_are_stored_may_be_many)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    uint64_t run = 1;
    begin(DURABLE_JOURNAL, dir);
    rig_push_make(&p, run, 0, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    make_cut(5);
    uint64_t digest = rig_digest(&s);
    for (; run < ENGINE_CUT_REFS + 3; run++) {
        restore(5, run + 1);
        ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    }
    ck_assert_uint_eq(journal_segment_count(s.g->journal), 1);
    if (_i == 1)
        forget_floor();
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(s.g->ref_count, 0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(run, 1);
    rig_close(&s, false);
}
END_TEST

/* Every table is restored, not only the first. */
START_TEST(a_restore_is_of_all_tables)
{
    static struct rig_push p;
    struct push_plan plan;
    uint64_t digest = 0;
    begin(DURABLE_JOURNAL, dir);
    rig_table(&s, 1);
    for (uint64_t batch = 0; batch < 4; batch++) {
        for (uint32_t table = 0; table < 2; table++) {
            rig_push_make(&p, 1, table, 0, 0, batch, batch + 1);
            ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
        }
        if (batch == 1) {
            digest = rig_digest(&s);
            make_cut(5);
        }
    }
    restore(5, 2);
    for (int turn = 0; turn < 2; turn++) {
        ck_assert_uint_eq(rig_digest(&s), digest);
        ck_assert_uint_eq(engine_mark(s.g, 2, 0, 0), 2);
        ck_assert_uint_eq(engine_mark(s.g, 2, 0, 1), 2);
        rig_close(&s, false);
        if (turn == 0)
            rig_open(&s, dir, DURABLE_JOURNAL);
    }
}
END_TEST

static void run_open_of(uint64_t run, struct table_set tables)
{
    struct err e = {0};
    ck_assert_msg(engine_run_open_tables(s.g, run, 2, 1, tables, &e) == 0, "%s", e.text);
}

static void push_to(uint64_t run, uint32_t table, uint64_t from, uint64_t to)
{
    static struct rig_push p;
    struct push_plan plan;
    for (uint64_t batch = from; batch < to; batch++) {
        rig_push_make(&p, run, table, 0, 0, batch, batch + 1);
        ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    }
}

static uint64_t rows_digest(uint32_t number)
{
    uint64_t sum = 0, digest;
    for (uint32_t i = 0; i < 1u << SHARD_TABLET_BITS; i++) {
        const struct table *t = engine_table(s.g, number);
        ck_assert_int_eq(table_digest(t, i, &digest), 0);
        sum = sum * 31 + digest;
    }
    return sum;
}

static void lead_all(void)
{
    static uint16_t shard_of[LIMIT_TABLES << SHARD_TABLET_BITS];
    ck_assert_int_eq(engine_lead(s.g, shard_of, LIMIT_TABLES << SHARD_TABLET_BITS, 0), 0);
}

/* Run 1 pushes to table 0, run 2 to table 1. Run 1 goes back to its cut as run 3: run 2, its marks
 * and its table stay, and go on, over restarts too: with a record that is applied again (0), with
 * one that is stored (1); in memory (2). The tables may have the last numbers (_i 3 to 5), which
 * have forms of their own in records, columns, the control state and the cut. */
START_TEST(a_restore_leaves_another_run_alone)
{
    enum durability durability = _i % 3 == 2 ? DURABLE_MEMORY : DURABLE_JOURNAL;
    const char *where = _i % 3 == 2 ? NULL : dir;
    const uint32_t one = _i < 3 ? 0 : LIMIT_TABLES - 1, two = _i < 3 ? 1 : 64;
    uint32_t mode, lanes;
    rig_open(&s, where, durability);
    rig_table(&s, one);
    rig_table(&s, two);
    lead_all();
    run_open_of(1, table_set_one(one));
    run_open_of(2, table_set_one(two));
    push_to(1, one, 0, 2);
    push_to(2, two, 0, 2);
    uint64_t of_one = rows_digest(one), sequence;
    struct gone gone = {0};
    ck_assert_int_eq(engine_hold(s.g, 5, 1, &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, 5, on_gone, &gone), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(gone.status, 0);
    push_to(1, one, 2, 4);
    push_to(2, two, 2, 4);
    uint64_t of_two = rows_digest(two);
    ck_assert_uint_ne(rows_digest(one), of_one);

    restore(5, 3);
    for (int turn = 0; turn < (where == NULL ? 1 : 3); turn++) {
        ck_assert_uint_eq(rows_digest(one), of_one);
        ck_assert_uint_eq(rows_digest(two), of_two);
        ck_assert_int_eq(engine_run_mode(s.g, 1, &mode, &lanes), SHOAL_E_NOT_FOUND);
        ck_assert_uint_eq(engine_mark(s.g, 3, 0, one), 2);
        ck_assert_uint_eq(engine_mark(s.g, 2, 0, two), 4 + (uint64_t)turn);
        push_to(2, two, 4 + (uint64_t)turn, 5 + (uint64_t)turn);
        of_two = rows_digest(two);
        if (where == NULL)
            break;
        rig_close(&s, _i % 3 == 1);
        rig_open(&s, where, durability);
        lead_all();
        ck_assert(table_set_equal(engine_run_tables(s.g, 2), table_set_one(two)));
        ck_assert(table_set_equal(engine_run_tables(s.g, 3), table_set_one(one)));
    }
    rig_close(&s, false);
}
END_TEST

/* A journal of release 0.2.0: its record restores every table, and ends every other run. */
START_TEST(a_restore_of_all_tables_ends_all_runs)
{
    struct runs runs = {0};
    struct run *run;
    for (uint64_t id = 1; id <= 3; id++)
        ck_assert_int_eq(runs_add(&runs, id, table_set_word(UINT64_C(1) << id), 1, RUN_SSP, &run),
                         0);
    struct record_restore r = {.cut = 5,
                               .run = 9,
                               .existing = table_set_word(0xf),
                               .tables = table_set_word(2),
                               .lanes = 1};
    r.mode = RUN_SSP;
    ck_assert_int_eq(apply_restored_run(&runs, &r, 7, false, &run), 0);
    ck_assert_uint_eq(runs.count, 1);
    ck_assert_uint_eq(run->id, 9);
    runs_free(&runs);
}
END_TEST

/* The records of a cut must reach its own sequence, unless the stored state does. */
START_TEST(a_cut_without_its_last_record_is_refused)
{
    struct recover r = {.until = 10};
    struct err e = {0};
    ck_assert_int_eq(recover_cut_end(&r, 9, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(recover_cut_end(&r, 0, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(recover_cut_end(&r, 10, &e), 0);
    r.to.control = 9;
    ck_assert_int_eq(recover_cut_end(&r, 9, &e), SHOAL_E_CORRUPT);
    r.to.control = 10;
    ck_assert_int_eq(recover_cut_end(&r, 0, &e), 0);
}
END_TEST

/* Killed when some tablets were stored as of the restore's own record. *context: all others were
 * stored as of a record before it, so that the stored state ends right below it. */
static void half_restored_child(void *context)
{
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    shared->at_cut = rig_digest(&s);
    make_cut(5);
    rig_train(&s, 1, 0, 0, 3, 5);
    if (*(const bool *)context)
        ck_assert_int_eq(flush_all(s.g, &e), 0);
    restore(5, 2);
    s.g->flush.items = s.g->flush.bytes = 0;
    ck_assert(flush_room(s.g, 9, 8u << 20));
    for (uint32_t k = 4; k < 12; k++)
        flush_put_image(s.g, 0, k, s.g->sequence);
    ck_assert_int_eq(flush_put_control(s.g, s.g->sequence), 0);
    ck_assert_int_eq(store_write(s.g->store, s.g->flush.item, s.g->flush.items, &e), 0);
    ck_assert_int_eq(store_flush(s.g->store, &e), 0);
}

START_TEST(a_restore_may_be_half_stored)
{
    bool stored = _i == 1;
    rig_in_child(half_restored_child, &stored);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_cut);
    check_restored(2, 3);
    ck_assert_uint_eq(flush_dirty(s.g), 8);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_cut_right_after_a_restore_stands_alone)
{
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 30);
    make_cut(1);
    rig_train(&s, 1, 0, 0, 30, 40);
    restore(1, 2);
    static struct rig_push p;
    struct push_plan plan;
    rig_push_make(&p, 2, 0, 0, 0, 30, 31);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    uint64_t second = rig_digest(&s);
    make_cut(2);
    ck_assert_int_eq(engine_cut_drop(s.g, 1), 0);
    rig_train(&s, 2, 0, 0, 31, 50);
    embedding_env_run(&s.env);
    ck_assert(!cut_there(1));
    restore(2, 3);
    ck_assert_uint_eq(rig_digest(&s), second);
    check_restored(3, 31);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), second);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_cut_with_an_old_restore_among_its_records_stands_alone)
{
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 30);
    make_cut(1);
    restore(1, 2);
    rig_train(&s, 2, 0, 0, 30,
              /* all rows are written: the cut is free, though its record is still in the journal */
              33);
    ck_assert_int_eq(engine_cut_drop(s.g, 1), 0);
    embedding_env_run(&s.env);
    ck_assert(!cut_there(1));
    rig_train(&s, 2, 0, 0, 33, 40);
    uint64_t at_cut = rig_digest(&s);
    make_cut(2);
    rig_train(&s, 2, 0, 0, 40, 45);
    restore(2, 3);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    check_restored(3, 40);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* ---- a cut that copies ---- */

#define COPY_MEMORY (8ull << 20) /* its batches have 256 KiB */

/* Three times that size in rows: in memory, in a folder without a journal, and after a restore
 * whose record is still needed. */
static void begin_copied(int how)
{
    begin(how < 2 ? DURABLE_MEMORY : DURABLE_JOURNAL, how == 0 ? NULL : dir);
    rig_train(&s, 1, 0, 0, 0, 60);
    if (how == 2) {
        make_cut(1);
        restore(1, 2);
        ck_assert_uint_gt(s.g->ref_count, 0);
    }
    s.g->options.memory = COPY_MEMORY;
    ck_assert_uint_gt(flush_image_bytes(s.g), 3 * flush_batch_bytes(s.g));
}

static void hold_and_go(uint64_t cut, struct gone *gone)
{
    uint64_t sequence;
    *gone = (struct gone){0};
    ck_assert_int_eq(engine_hold(s.g, cut, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, cut, on_gone, gone), 0);
}

/* Between two turns of the loop at most one batch is copied, and at most one is held. A tablet
 * takes about 100 KiB. */
START_TEST(a_copy_goes_batch_by_batch)
{
    struct gone gone;
    begin_copied(_i);
    uint64_t digest = rig_digest(&s), most = 0, all = 0;
    unsigned turns = 0;
    hold_and_go(5, &gone);
    while (gone.calls == 0) {
        most = s.g->flush.bytes > most ? s.g->flush.bytes : most;
        all += s.g->flush.bytes;
        turns++;
        ck_assert(embedding_env_step(&s.env));
    }
    ck_assert_int_eq(gone.status, 0);
    ck_assert_uint_gt(turns, 3);
    ck_assert_uint_gt(most, 0);
    ck_assert_uint_le(most, flush_batch_bytes(s.g));
    ck_assert_uint_ge(all, flush_image_bytes(s.g) / 2);
    embedding_env_run(&s.env);
    uint64_t run = engine_newest_run(s.g);
    rig_train(&s, run, 0, 0, 60, 65);
    restore(5, run + 1);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* A push waits if some of its tablets are not copied yet; other pushes go on. Runs stay open. */
START_TEST(pushes_wait_for_what_is_not_copied)
{
    struct gone gone;
    struct push_plan plan;
    static struct rig_push p, first;
    begin_copied(_i);
    uint64_t digest = rig_digest(&s), run = engine_newest_run(s.g), waited = 0, changed;
    hold_and_go(5, &gone);
    rig_push_make(&p, run, 0, 0, 0, 60, 61);
    first = p;
    first.record.tablet_count = 1;
    first.record.key_count = 0;
    ck_assert_int_eq(rig_push(&s, &first, &plan), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_run_drop(s.g, run, NULL), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, p.keys, 1, &changed, NULL), SHOAL_E_AGAIN);
    while (rig_push(&s, &p, &plan) == SHOAL_E_BUSY) {
        waited++;
        if (waited == 3) /* the first batch of tablets is being copied */
            ck_assert_int_eq(rig_push(&s, &first, &plan), 0);
        /* keys may be in any tablet */
        ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, p.keys, 1, &changed, NULL), SHOAL_E_AGAIN);
        ck_assert(embedding_env_step(&s.env));
    }
    ck_assert_uint_gt(waited, 3);
    ck_assert_int_eq(gone.calls, 0); /* no push waits for the last batch and the rest */
    ck_assert_uint_ne(rig_digest(&s), digest);
    embedding_env_run(&s.env);
    ck_assert_int_eq(gone.status, 0);
    restore(5, run + 1);
    ck_assert_uint_eq(rig_digest(&s), digest);
    check_restored(run + 1, 60);
    rig_close(&s, false);
}
END_TEST

/* A cut counts like rows, from GO on, and one that does not fit is refused. */
START_TEST(a_cut_in_memory_is_within_the_budget)
{
    struct gone gone;
    struct err e = {0};
    uint64_t sequence;
    begin_copied(0);
    uint64_t images = flush_image_bytes(s.g), used = tier_used(s.g);
    s.g->tier.rows_max = used + images - 1;
    ck_assert_int_eq(engine_hold(s.g, 5, 1, &sequence), SHOAL_E_NO_SPACE);
    ck_assert_int_eq(engine_cut_room(s.g, 5, &e), SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "of memory beside"));
    s.g->tier.rows_max = used + images;
    hold_and_go(5, &gone);
    ck_assert_uint_ge(tier_used(s.g), used + images);
    embedding_env_run(&s.env);
    ck_assert_int_eq(gone.status, 0);
    ck_assert_uint_ge(tier_used(s.g), used + images / 2);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    ck_assert_uint_lt(tier_used(s.g), used + images / 2);
    rig_close(&s, false);
}
END_TEST

static void copied_child(void *context)
{
    struct gone gone;
    begin_copied(2);
    shared->at_cut = rig_digest(&s);
    hold_and_go(5, &gone);
    for (int i = 0; i < *(int *)context && gone.calls == 0; i++)
        ck_assert(embedding_env_step(&s.env));
    shared->rows = (uint64_t)gone.calls;
}

#define COPY_STEPS 24 /* more than it takes */

/* Killed after any of its steps: the cut is complete or missing, and the rows are those of that
 * moment. */
START_TEST(a_copy_may_be_killed_at_each_step)
{
    rig_in_child(copied_child, &_i);
    ck_assert(_i > 0 || shared->rows == 0);
    ck_assert(_i < COPY_STEPS - 1 || shared->rows == 1);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), shared->at_cut);
    if (shared->rows == 0)
        ck_assert_int_eq(engine_restore(s.g, 5, 9, NULL), SHOAL_E_NOT_FOUND);
    else
        restore(5, 9);
    ck_assert_uint_eq(rig_digest(&s), shared->at_cut);
    rig_close(&s, false);
}
END_TEST

/* Closed in the middle: as if the copy had never begun. */
START_TEST(a_copy_may_be_closed)
{
    struct gone gone;
    begin_copied(2);
    uint64_t digest = rig_digest(&s);
    hold_and_go(5, &gone);
    ck_assert(embedding_env_step(&s.env));
    rig_close(&s, true);
    ck_assert_int_eq(gone.calls, 0);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_int_eq(engine_restore(s.g, 5, 9, NULL), SHOAL_E_NOT_FOUND);
    rig_close(&s, false);
}
END_TEST

/* A clean stop leaves an empty journal, whatever the state of the cut. */
static void close_beside(bool go)
{
    uint64_t sequence, digest;
    struct gone gone = {0};
    struct engine_stats now;
    begin(DURABLE_JOURNAL, dir);
    fill_beside_a_batch();
    digest = rig_digest(&s);
    ck_assert_int_eq(engine_hold(s.g, 3, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(go ? engine_go(s.g, 3, on_gone, &gone) : 0, 0);
    rig_close(&s, true);
    ck_assert_int_eq(gone.calls, 0);
    rig_open(&s, dir, DURABLE_JOURNAL);
    engine_stats_get(s.g, &now);
    ck_assert_uint_lt(now.journal_bytes, 2u << 20); /* the segment with the last records */
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}

START_TEST(a_cut_that_never_began_keeps_no_journal)
{
    close_beside(true);
}
END_TEST

START_TEST(a_hold_ends_with_the_process)
{
    close_beside(false);
}
END_TEST

START_TEST(release_lets_the_shard_go_on)
{
    uint64_t sequence;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 5);
    ck_assert_int_eq(engine_hold(s.g, 3, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_release(s.g, 4), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_release(s.g, 3), 0);
    rig_train(&s, 1, 0, 0, 5, 10);
    make_cut(4);
    make_cut(4); /* repeated: answered again */
    rig_close(&s, false);
}
END_TEST

START_TEST(a_number_used_again_names_the_new_cut)
{
    for (int memory = 0; memory < 2; memory++) {
        begin(memory ? DURABLE_MEMORY : DURABLE_JOURNAL, memory ? NULL : dir);
        rig_train(&s, 1, 0, 0, 0, 5);
        make_cut(4);
        rig_train(&s, 1, 0, 0, 5, 10);
        uint64_t digest = rig_digest(&s);
        make_cut(4);
        rig_train(&s, 1, 0, 0, 10, 15);
        restore(4, 2);
        ck_assert_uint_eq(rig_digest(&s), digest);
        rig_close(&s, false);
    }
}
END_TEST

START_TEST(a_damaged_cut_is_refused_and_nothing_is_changed)
{
    char command[LIMIT_PATH + 128];
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 20);
    make_cut(1);
    make_cut(2);
    make_cut(3);
    make_cut(4);
    uint64_t digest = rig_digest(&s);
    /* under another cut's number; with a file that grew */
    snprintf(command, sizeof command,
             "cd '%s/cuts' && cp -r 4 5 && cp -r 4 6 && printf X >>$(ls 6/rows/* | head -1)", dir);
    ck_assert_int_eq(system(command), 0);
    snprintf(command, sizeof command,
             "cd '%s/cuts' && f=$(ls 1/journal/* | head -1) && printf X | dd of=$f bs=1 seek=900 "
             "conv=notrunc 2>/dev/null",
             dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(engine_restore(s.g, 1, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "cuts/1/journal/seg-"));
    snprintf(
        command, sizeof command,
        "cd '%s/cuts' && sed -i 's/sequence/sequenCe/' 2/manifest && rm $(ls 3/rows/* | head -1)",
        dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(engine_restore(s.g, 2, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(engine_restore(s.g, 3, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(engine_restore(s.g, 77, 2, &e), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_restore(s.g, 5, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_msg(strstr(e.text, "holds cut 4") != NULL, "%s", e.text);
    ck_assert_int_eq(engine_restore(s.g, 6, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_msg(strstr(e.text, "cuts/6/rows/") != NULL, "%s", e.text);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_eq(s.fatal, 0);
    rig_train(&s, 1, 0, 0, 20, 21);
    rig_close(&s, false);
}
END_TEST

struct checked {
    int calls, status;
    char text[512];
};

static void on_checked(void *context, int status, const char *text)
{
    struct checked *c = context;
    c->calls++;
    c->status = status;
    snprintf(c->text, sizeof c->text, "%s", text);
}

static void check(uint64_t cut, uint64_t run, struct checked *c)
{
    struct err e = {0};
    *c = (struct checked){0};
    c->status = engine_restore_check(s.g, cut, run, on_checked, c, &e);
    embedding_env_run(&s.env);
}

/* Flips a byte in every file with rows of the cut, so that sizes stay. */
static void rot(uint64_t cut)
{
    char command[LIMIT_PATH + 256];
    snprintf(command, sizeof command,
             "cd '%s/cuts/%u/rows' && for f in $(ls *.sst *.blob); do printf XX | dd of=$f bs=1 "
             "seek=100 conv=notrunc 2>/dev/null; done",
             dir, (unsigned)cut);
    ck_assert_int_eq(system(command), 0);
}

/* Damages the rows of the cut only: the store has other files by then. */
static void rotten_cut(void)
{
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 20);
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL);
    make_cut(5);
    char command[LIMIT_PATH * 2 + 128];
    snprintf(command, sizeof command,
             "cd '%s' && cp -r cuts/5/rows copy && rm -r cuts/5/rows && mv copy cuts/5/rows", dir);
    ck_assert_int_eq(system(command), 0);
    rig_train(&s, 1, 0, 0, 20, 30);
}

START_TEST(a_rotten_cut_is_refused_before_its_record)
{
    struct checked c;
    struct err e = {0};
    rotten_cut();
    uint64_t digest = rig_digest(&s);
    check(5, 2, &c); /* undamaged */
    ck_assert_int_eq(c.calls, 1);
    ck_assert_msg(c.status == 0, "%s", c.text);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
    rot(5);
    rig_open(&s, dir, DURABLE_JOURNAL);
    if (_i == 0) {
        check(5, 2, &c);
        ck_assert_int_eq(c.calls, 1);
        ck_assert_msg(c.status == SHOAL_E_CORRUPT && strstr(c.text, "cut 5") != NULL, "%d: %s",
                      c.status, c.text);
    }
    uint64_t sequence = engine_acknowledged(s.g);
    ck_assert_int_eq(engine_restore(s.g, 5, 2, &e), SHOAL_E_CORRUPT);
    ck_assert_uint_eq(engine_acknowledged(s.g), sequence);
    ck_assert_uint_eq(s.fatal, 0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL); /* it starts */
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_train(&s, 1, 0, 0, 30, 31);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_check_changes_nothing_and_knows_what_it_read)
{
    struct checked c;
    struct err e = {0};
    uint32_t mode, lanes;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 20);
    make_cut(5);
    check(6, 2, &c);
    ck_assert_int_eq(c.status, SHOAL_E_NOT_FOUND);
    c = (struct checked){0};
    ck_assert_int_eq(engine_restore_check(s.g, 5, 2, on_checked, &c, &e), 0);
    ck_assert_int_eq(engine_restore_check(s.g, 5, 2, on_checked, &c, &e), SHOAL_E_BUSY);
    rig_train(&s, 1, 0, 0, 20, 25); /* pushes go on */
    ck_assert_int_eq(c.calls, 1);
    ck_assert_msg(c.status == 0, "%s", c.text);
    ck_assert_int_eq(engine_run_mode(s.g, 2, &mode, &lanes), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    embedding_env_run(&s.env);
    check(5, 2, &c);
    ck_assert_int_eq(c.status, SHOAL_E_NOT_FOUND);
    /* the same number, another instant */
    make_cut(5);
    check(5, 2, &c);
    ck_assert_int_eq(c.status, 0);
    /* dropped while it is read */
    make_cut(7);
    ck_assert_int_eq(engine_restore_check(s.g, 7, 2, on_checked, &c, &e), 0);
    ck_assert_int_eq(engine_cut_drop(s.g, 7), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(c.status, SHOAL_E_NOT_FOUND);
    restore(5, 2);
    check(5, 2, &c); /* its files are still open */
    ck_assert_int_eq(c.status, 0);
    check_restored(2, 25);
    rig_close(&s, false);
}
END_TEST

/* Returns the bytes that this process has read from files so far. */
static uint64_t bytes_read(void)
{
    uint64_t bytes = 0;
    FILE *f = fopen("/proc/self/io", "re");
    ck_assert(f != NULL && fscanf(f, "rchar: %" SCNu64, &bytes) == 1);
    fclose(f);
    return bytes;
}

/* Both the I/O thread that checks the cut and the shard's thread that applies its records would
 * read the whole journal: a long one would keep the shard's thread from all other work, without
 * progress being reported. */
START_TEST(a_journal_that_was_checked_is_not_read_whole_again)
{
    struct checked c = {0};
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 2000);
    make_cut(5);
    uint64_t journal = journal_bytes(s.g->journal);
    ck_assert_uint_gt(journal, 1u << 20);
    ck_assert_int_eq(engine_restore_check(s.g, 5, 2, on_checked, &c, &e), 0);
    ck_assert_int_eq(s.env.count, 1);
    struct env_work *reads = s.env.work[--s.env.count];
    reads->run(reads);
    uint64_t before = bytes_read();
    reads->done(reads);
    ck_assert_msg(c.calls == 1 && c.status == 0, "%s", c.text);
    ck_assert_uint_lt(bytes_read() - before, journal / 2);
    before = bytes_read();
    check(5, 2, &c);
    ck_assert_uint_lt(bytes_read() - before, journal / 2);
    before = bytes_read();
    restore(5, 2);
    ck_assert_uint_lt(bytes_read() - before, journal + journal / 2);
    rig_close(&s, false);
}
END_TEST

static void unfinished_child(void *context)
{
    uint64_t sequence;
    struct gone gone = {0};
    (void)context;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 20);
    ck_assert_int_eq(engine_hold(s.g, 1, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, 1, on_gone, &gone), 0);
    char command[LIMIT_PATH + 64];
    snprintf(command, sizeof command, "mkdir -p '%s/cuts/1.tmp/journal'", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(an_unfinished_cut_does_not_exist)
{
    char path[LIMIT_PATH + 64];
    rig_in_child(unfinished_child, NULL);
    rig_open(&s, dir, DURABLE_JOURNAL);
    snprintf(path, sizeof path, "%s/cuts/1.tmp", dir);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(engine_restore(s.g, 1, 2, NULL), SHOAL_E_NOT_FOUND);
    rig_close(&s, false);
}
END_TEST

static void on_written(void *context)
{
    ++*(int *)context;
}

/* Pushes go on while rows are written, and the cut has the records of only those pushes. */
START_TEST(a_cut_after_a_writing_has_few_records)
{
    uint64_t batch = 150;
    int written = 0;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, batch);
    uint64_t records = journal_bytes(s.g->journal), last = s.g->committed;
    ck_assert_uint_gt(records, flush_image_bytes(s.g) / 4 + s.g->segment_bytes);
    engine_cut_ahead(s.g, on_written, &written);
    ck_assert_int_eq(written, 0);
    for (; written == 0 && batch < 250; batch++)
        rig_train(&s, 1, 0, 0, batch, batch + 1);
    ck_assert_int_eq(written, 1);
    ck_assert_uint_gt(journal_first(s.g->journal), last);
    ck_assert_uint_lt(journal_bytes(s.g->journal), records / 2);
    engine_cut_ahead(s.g, on_written, &written); /* it is short now */
    ck_assert_int_eq(written, 2);
    ck_assert_ptr_null(s.g->job[JOB_AHEAD]);
    uint64_t at_cut = rig_digest(&s);
    make_cut(5);
    rig_train(&s, 1, 0, 0, batch, batch + 10);
    restore(5, 2);
    ck_assert_uint_eq(rig_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

static uint64_t blob_bytes(const char *folder)
{
    uint64_t bytes = 0;
    struct file_walk walk;
    const char *name;
    ck_assert(file_walk_open(&walk, folder));
    while ((name = file_walk_next(&walk)) != NULL) {
        char path[2 * LIMIT_PATH];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (strstr(name, ".blob") != NULL && stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    file_walk_close(&walk);
    return bytes;
}

/* The store has an image as often as it was written, until it merges its files. */
START_TEST(a_cut_has_few_dead_images)
{
    char path[LIMIT_PATH + 64];
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    for (uint64_t batch = 60; batch <= 62; batch++) {
        rig_train(&s, 1, 0, 0, batch == 60 ? 0 : batch - 1, batch);
        ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    }
    uint64_t images = flush_image_bytes(s.g);
    snprintf(path, sizeof path, "%s/rows", dir);
    ck_assert_msg(2 * blob_bytes(path) > 5 * images, "%" PRIu64 " of %" PRIu64, blob_bytes(path),
                  images);
    uint64_t digest = rig_digest(&s);
    make_cut(5);
    snprintf(path, sizeof path, "%s/cuts/5/rows", dir);
    ck_assert_uint_gt(blob_bytes(path), 0);
    ck_assert_msg(2 * blob_bytes(path) < 3 * images, "%" PRIu64 " of %" PRIu64, blob_bytes(path),
                  images);
    rig_train(&s, 1, 0, 0, 62, 80);
    restore(5, 2);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_full_disk_writes_nothing_ahead)
{
    int written = 0;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 150);
    engine_cut_ahead(s.g, on_written, &written);
    ck_assert_int_eq(written, 0);
    s.g->space.stopped = true; /* while it is in progress */
    engine_flush_step(s.g);
    ck_assert_int_eq(written, 1);
    s.g->space.stopped = true;
    engine_cut_ahead(s.g, on_written, &written); /* from the beginning */
    ck_assert_int_eq(written, 2);
    s.g->space.stopped = false;
    embedding_env_run(&s.env);
    make_cut(5);
    rig_close(&s, false);
}
END_TEST

/* The coordinator has stopped waiting, or has died: the next HOLD ends the writing. */
START_TEST(a_writing_that_is_given_up_ends_with_the_next_cut)
{
    int written = 0;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 150);
    engine_cut_ahead(s.g, on_written, &written);
    ck_assert_int_eq(written, 0);
    make_cut(5);
    ck_assert_int_eq(written, 1);
    ck_assert_ptr_null(s.g->job[JOB_AHEAD]);
    rig_train(&s, 1, 0, 0, 150, 300);
    engine_cut_ahead(s.g, on_written, &written);
    rig_close(&s, false); /* with one in progress */
    ck_assert_int_eq(written, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cut");
    TCase *t = tcase_create("cut");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, memory_cut_is_an_instant);
    tcase_add_test(t, a_cut_after_a_writing_has_few_records);
    tcase_add_test(t, a_cut_has_few_dead_images);
    tcase_add_test(t, a_full_disk_writes_nothing_ahead);
    tcase_add_test(t, a_writing_that_is_given_up_ends_with_the_next_cut);
    tcase_add_test(t, memory_with_a_folder_cuts_to_disk);
    tcase_add_test(t, journal_cut_is_an_instant);
    tcase_add_test(t, journal_cut_with_stored_rows_is_an_instant);
    tcase_add_test(t, pushes_during_the_cut_are_not_in_it);
    tcase_add_test(t, a_cut_waits_for_the_batch_under_way);
    tcase_add_test(t, restart_repeats_the_restore);
    tcase_add_loop_test(t, a_restore_goes_in_steps, 0, 3);
    tcase_add_loop_test(t, a_restore_may_be_killed_on_the_way, 0, RESTORE_STEPS);
    tcase_add_loop_test(t, a_restore_may_be_closed, 0, 3);
    tcase_add_test(t, a_cuts_sums_are_those_of_every_release);
    tcase_add_test(t, a_cut_waits_for_pushes_that_are_admitted);
    tcase_add_test(t, a_cut_that_was_to_go_goes_at_the_next_start);
    tcase_add_test(t, a_cut_is_kept_while_a_restore_needs_it);
    tcase_add_test(t, a_cut_that_two_restores_need_goes_with_the_last);
    tcase_add_test(t, a_restore_that_is_stored_needs_no_cut);
    tcase_add_loop_test(t, restores_that_are_stored_may_be_many, 0, 2);
    tcase_add_test(t, a_restore_is_of_all_tables);
    tcase_add_loop_test(t, a_restore_leaves_another_run_alone, 0, 6);
    tcase_add_test(t, a_restore_of_all_tables_ends_all_runs);
    tcase_add_test(t, a_cut_without_its_last_record_is_refused);
    tcase_add_loop_test(t, a_restore_may_be_half_stored, 0, 2);
    tcase_add_test(t, a_cut_right_after_a_restore_stands_alone);
    tcase_add_test(t, a_cut_with_an_old_restore_among_its_records_stands_alone);
    tcase_add_loop_test(t, a_copy_goes_batch_by_batch, 0, 3);
    tcase_add_loop_test(t, pushes_wait_for_what_is_not_copied, 0, 3);
    tcase_add_test(t, a_cut_in_memory_is_within_the_budget);
    tcase_add_loop_test(t, a_copy_may_be_killed_at_each_step, 0, COPY_STEPS);
    tcase_add_test(t, a_copy_may_be_closed);
    tcase_add_test(t, a_cut_that_never_began_keeps_no_journal);
    tcase_add_test(t, a_hold_ends_with_the_process);
    tcase_add_test(t, release_lets_the_shard_go_on);
    tcase_add_test(t, a_number_used_again_names_the_new_cut);
    tcase_add_test(t, a_damaged_cut_is_refused_and_nothing_is_changed);
    tcase_add_loop_test(t, a_rotten_cut_is_refused_before_its_record, 0, 2);
    tcase_add_test(t, a_journal_that_was_checked_is_not_read_whole_again);
    tcase_add_test(t, a_check_changes_nothing_and_knows_what_it_read);
    tcase_add_test(t, an_unfinished_cut_does_not_exist);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
