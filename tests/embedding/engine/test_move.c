/* test_move.c: a tablet that moves from one engine to another is there what it would be here: rows,
 * marks, rows in the store, after a restart too. */
#include "embedding/engine/engine_state.h"
#include "embedding/follow.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/move_rig.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MOVED 3u

static char dir_a[LIMIT_PATH], dir_b[LIMIT_PATH];
static struct rig a, b, all; /* all: an engine that has every tablet */
static uint16_t owner[MOVE_TABLETS];

static void pair_open_as(enum durability durability, bool folders, enum run_mode mode)
{
    rig_open(&a, folders ? dir_a : NULL, durability);
    rig_open(&b, folders ? dir_b : NULL, durability);
    rig_open(&all, NULL, DURABLE_MEMORY);
    struct rig *each[] = {&a, &b, &all};
    for (int i = 0; i < 3; i++) {
        rig_table(each[i], 0);
        ck_assert_int_eq(engine_run_open(each[i]->g, 1, 2, mode, NULL), 0);
    }
    for (uint32_t k = 0; k < MOVE_TABLETS; k++)
        owner[k] = k >= MOVE_TABLETS / 2;
    move_lead(&a, owner, 0);
    move_lead(&b, owner, 1);
}

static void pair_open(enum durability durability, bool folders)
{
    pair_open_as(durability, folders, RUN_SSP);
}

static void train(uint64_t from, uint64_t to)
{
    for (uint64_t batch = from + 1; batch <= to; batch++)
        for (uint32_t k = 0; k < MOVE_TABLETS; k++) {
            ck_assert_int_eq(move_push(owner[k] == 0 ? &a : &b, 1, 0, 0, batch, k), 0);
            ck_assert_int_eq(move_push(&all, 1, 0, 0, batch, k), 0);
        }
}

/* The map gives the tablet to b. */
static void handed_over(uint32_t tablet)
{
    struct err e = {0};
    owner[tablet] = 1;
    move_lead(&a, owner, 0);
    move_lead(&b, owner, 1);
    ck_assert_msg(engine_tablets_drop(a.g, &tablet, 1, &e) == 0, "%s", e.text);
}

/* Each engine, with whatever tablets it has, has gone as many steps as the one with all. */
static void check_equal(void)
{
    uint64_t steps = engine_steps(all.g, 1, 0);
    ck_assert_uint_eq(engine_steps(a.g, 1, 0), steps);
    ck_assert_uint_eq(engine_steps(b.g, 1, 0), steps);
    for (uint32_t k = 0; k < MOVE_TABLETS; k++) {
        struct rig *s = owner[k] == 0 ? &a : &b, *other = owner[k] == 0 ? &b : &a;
        ck_assert_uint_eq(move_digest(s, 0, k), move_digest(&all, 0, k));
        ck_assert_uint_eq(table_tablet_rows(engine_table(other->g, 0), k), 0);
        ck_assert(!runs_marked(&other->g->runs, 0, k));
        for (uint32_t lane = 0; lane < 2; lane++)
            ck_assert_uint_eq(marks_get(runs_find(&s->g->runs, 1)->marks, lane, 0, k),
                              marks_get(runs_find(&all.g->runs, 1)->marks, lane, 0, k));
    }
}

static void reopen(struct rig *s, const char *dir, uint16_t self, bool flush)
{
    rig_close(s, flush);
    rig_open(s, dir, DURABLE_JOURNAL);
    move_lead(s, owner, self);
}

static int count_pair(void *context, const void *key, size_t key_bytes, const void *value,
                      size_t value_bytes, struct err *e)
{
    (void)key, (void)key_bytes, (void)value, (void)value_bytes, (void)e;
    ++*(uint32_t *)context;
    return 0;
}

/* Rows of the moved tablet in an engine's store, of any epoch. */
static uint32_t pairs(struct rig *s)
{
    struct store_item from, below, ignored;
    uint32_t count = 0;
    stored_row_range(0, MOVED, 0, &from, &ignored);
    stored_row_range(0, MOVED, STORED_EPOCH_MAX, &ignored, &below);
    ck_assert_int_eq(store_range(s->g->store, &from, &below, count_pair, &count, NULL), 0);
    return count;
}

static void close_all(void)
{
    rig_close(&a, false);
    rig_close(&b, false);
    rig_close(&all, false);
}

static void setup(void)
{
    rig_dir(dir_a);
    rig_dir(dir_b);
}

static void teardown(void)
{
    rig_remove_dir(dir_a);
    rig_remove_dir(dir_b);
}

static const struct {
    enum durability durability;
    bool folders;
} ways[] = {{DURABLE_MEMORY, false},
            {DURABLE_MEMORY, true},
            {DURABLE_JOURNAL, true},
            {DURABLE_FSYNC, true}};

START_TEST(a_moved_tablet_goes_on)
{
    pair_open(ways[_i].durability, ways[_i].folders);
    train(0, 5);
    move_over(&a, &b, MOVED);
    handed_over(MOVED);
    check_equal();
    train(5, 10);
    check_equal();
    close_all();
}
END_TEST

/* Bit 0: the engines are closed with a flush; bit 1: images were written before the move. */
START_TEST(a_move_outlasts_a_restart)
{
    pair_open(DURABLE_JOURNAL, true);
    train(0, 5);
    if (_i & 2) {
        reopen(&a, dir_a, 0, true);
        reopen(&b, dir_b, 1, true);
    }
    move_over(&a, &b, MOVED);
    handed_over(MOVED);
    train(5, 7);
    for (int times = 0; times < 2; times++) {
        reopen(&a, dir_a, 0, _i & 1);
        reopen(&b, dir_b, 1, _i & 1);
        check_equal();
    }
    train(7, 9);
    check_equal();
    close_all();
}
END_TEST

START_TEST(old_rows_of_the_store_stay_away)
{
    struct err e = {0};
    pair_open(DURABLE_JOURNAL, true);
    train(0, 5);
    move_over(&a, &b, MOVED); /* b has an older image of it, and rows of it in the store */
    cool_table(&b, 0, 12);
    reopen(&b, dir_b, 1, true);
    ck_assert_uint_gt(table_cold_tablet(engine_table(b.g, 0), MOVED), 0);
    ck_assert_uint_gt(pairs(&b), 0);
    train(5, 8);
    cool_table(&a, 0, 8);
    move_over(&a, &b, MOVED);
    ck_assert_uint_eq(table_cold_tablet(engine_table(b.g, 0), MOVED), 0);
    handed_over(MOVED);
    for (int times = 0; times < 2; times++) {
        reopen(&a, dir_a, 0, times > 0);
        reopen(&b, dir_b, 1, times > 0);
        check_equal();
    }
    ck_assert_uint_eq(pairs(&a), 0); /* and leave it */
    ck_assert_uint_eq(pairs(&b), 0);
    cool_table(&b, 0, 8);
    check_equal();
    train(8, 9);
    check_equal();
    ck_assert_uint_eq(engine_strays(a.g, &(uint32_t){0}, 1), 0);
    ck_assert_int_eq(engine_tablets_drop(a.g, &(uint32_t){MOVED}, 1, &e), 0); /* again */
    check_equal();
    close_all();
}
END_TEST

START_TEST(giving_leaves_rows_where_they_are)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 5);
    cool_table(&a, 0, 8);
    const struct table *t = engine_table(a.g, 0);
    uint64_t cold = table_cold_rows(t), sequence = a.g->sequence;
    uint64_t had = table_tablet_rows(t, MOVED);
    ck_assert_uint_gt(table_cold_tablet(t, MOVED), 0);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_msg(image != NULL, "%s", e.text);
    free(image);
    ck_assert_uint_eq(rows, had);
    ck_assert_uint_eq(table_cold_rows(t), cold);
    ck_assert_uint_eq(a.g->sequence, sequence);
    ck_assert_uint_eq(a.g->gives, 0);
    close_all();
}
END_TEST

START_TEST(a_damaged_image_is_refused)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 2);
    char *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_msg(image != NULL, "%s", e.text);
    uint64_t before = b.g->sequence, digest = rig_digest(&b);
    for (size_t i = 0; i < bytes; i++) {
        image[i] ^= (char)(1 << i % 8);
        ck_assert_int_ne(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
        image[i] ^= (char)(1 << i % 8);
    }
    for (size_t less = 0; less < bytes; less += 1 + less / 4)
        ck_assert_int_ne(engine_take(b.g, MOVED, image, less, &sequence, &e), 0);
    ck_assert_int_eq(engine_take(b.g, MOVED + 1, image, bytes, &sequence, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(engine_take(b.g, 500, image, bytes, &sequence, &e), SHOAL_E_NO_TABLE);
    ck_assert_uint_eq(b.g->sequence, before);
    ck_assert_uint_eq(rig_digest(&b), digest);
    ck_assert_uint_eq(b.fatal, 0);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_uint_eq(sequence, before + 1);
    free(image);
    close_all();
}
END_TEST

START_TEST(a_table_of_another_schema_is_refused)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_MEMORY, false);
    train(0, 1);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    struct table_schema s = rig_schema(0);
    s.seed++;
    rig_close(&b, false);
    rig_open(&b, NULL, DURABLE_MEMORY);
    ck_assert_int_eq(engine_table_create(b.g, &s, &e), 0);
    ck_assert_int_eq(engine_run_open(b.g, 1, 2, RUN_SSP, &e), 0);
    move_lead(&b, owner, 1);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), SHOAL_E_SCHEMA);
    free(image);
    close_all();
}
END_TEST

START_TEST(a_led_tablet_is_not_taken)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_MEMORY, false);
    train(0, 2);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    handed_over(MOVED);
    train(2, 3);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), SHOAL_E_EXISTS);
    check_equal();
    free(image);
    close_all();
}
END_TEST

START_TEST(marks_count_once_a_tablet_is_led)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_MEMORY, false);
    train(0, 2);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    train(2, 4); /* the image has older marks than a tablet of b */
    ck_assert_uint_eq(engine_mark(b.g, 1, 0, 0), 4);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_uint_eq(engine_mark(b.g, 1, 0, 0), 4);
    owner[MOVED] = 1;
    move_lead(&b, owner, 1);
    ck_assert_uint_eq(engine_mark(b.g, 1, 0, 0), 2);
    ck_assert_uint_eq(engine_mark_range(b.g, 1, 0, 0, MOVED, 1), 2);
    free(image);
    close_all();
}
END_TEST

START_TEST(marks_of_a_run_that_is_not_open_wait)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 2);
    ck_assert_int_eq(engine_run_open(a.g, 2, 1, RUN_SSP, &e), 0);
    ck_assert_int_eq(move_push(&a, 2, 0, 0, 1, MOVED), 0);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_run_open(b.g, 2, 1, RUN_SSP, &e), 0);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_uint_eq(marks_get(runs_find(&b.g->runs, 2)->marks, 0, 0, MOVED), 1);
    ck_assert_int_eq(engine_run_drop(b.g, 2, &e), 0);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_ptr_null(runs_find(&b.g->runs, 2));
    ck_assert_uint_eq(marks_get(runs_find(&b.g->runs, 1)->marks, 0, 0, MOVED), 2);
    for (int times = 0; times < 2; times++) {
        reopen(&b, dir_b, 1, times > 0);
        ck_assert_ptr_null(runs_find(&b.g->runs, 2));
        ck_assert_uint_eq(marks_get(runs_find(&b.g->runs, 1)->marks, 0, 0, MOVED), 2);
        ck_assert_uint_eq(move_digest(&b, 0, MOVED), move_digest(&a, 0, MOVED));
    }
    free(image);
    close_all();
}
END_TEST

START_TEST(no_tablet_moves_beside_a_cut_or_a_push)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 1);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_int_eq(engine_hold(a.g, 7, 1, &sequence), 0);
    ck_assert_int_eq(engine_hold(b.g, 7, 1, &sequence), 0);
    ck_assert_ptr_null(move_give(&a, MOVED, &bytes, &rows, &e));
    ck_assert_int_eq(e.code, SHOAL_E_BUSY);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_tablets_drop(b.g, &(uint32_t){MOVED}, 1, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_release(a.g, 7), 0);
    ck_assert_int_eq(engine_release(b.g, 7), 0);

    rig_push_make(&p, 1, 0, 1, 0, 0, 1);
    p.record.tablet_count = MOVE_TABLETS / 2;
    p.record.key_count = 0;
    ck_assert_int_eq(engine_admit_push(a.g, &p.record, &plan, &e), 0);
    ck_assert_ptr_null(move_give(&a, MOVED, &bytes, &rows, &e));
    ck_assert_int_eq(e.code, SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_commit(a.g), 0);
    ck_assert_int_eq(engine_apply_push(a.g, &p.record, &plan), 0);
    free(image);
    image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_ptr_nonnull(image);
    free(image);
    close_all();
}
END_TEST

/* A worker that computes a batch again sees the rows before it, wherever their tablet is. */
START_TEST(undo_moves_with_its_tablet)
{
    static struct rig_push p;
    static float there[SHARD_KEYS * SHARD_WIDTH], here[SHARD_KEYS * SHARD_WIDTH];
    uint32_t count = 0;
    pair_open_as(DURABLE_JOURNAL, true, RUN_BSP);
    train(0, 3);
    cool_table(&a, 0, 8);
    move_over(&a, &b, MOVED);
    rig_push_make(&p, 1, 0, 0, 0, 2, 3);
    for (uint32_t i = 0; i < SHARD_KEYS; i++)
        if (key_tablet(key_mix(p.keys[i]), SHARD_TABLET_BITS) == MOVED)
            p.keys[count++] = p.keys[i];
    uint64_t clock = table_undo_clock(1, 3);
    pull_before(engine_table(b.g, 0), p.keys, count, clock, there);
    pull_before(engine_table(all.g, 0), p.keys, count, clock, here);
    ck_assert_mem_eq(there, here, count * SHARD_WIDTH * sizeof(float));
    table_pull(engine_table(b.g, 0), p.keys, count, there);
    ck_assert_mem_ne(there, here, count * SHARD_WIDTH * sizeof(float));
    close_all();
}
END_TEST

START_TEST(an_empty_tablet_needs_no_record)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_JOURNAL, true);
    uint64_t before = b.g->sequence;
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_int_eq(engine_tablets_drop(b.g, &(uint32_t){MOVED}, 1, &e), 0);
    ck_assert_uint_eq(b.g->sequence, before);
    ck_assert_uint_eq(sequence, before);
    ck_assert_uint_eq(b.g->table[0].changed[MOVED], 0);
    train(0, 1);
    move_over(&a, &b, MOVED); /* one with marks and rows does */
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_uint_eq(table_tablet_rows(engine_table(b.g, 0), MOVED), 0);
    ck_assert(!runs_marked(&b.g->runs, 0, MOVED));
    ck_assert_uint_gt(b.g->table[0].changed[MOVED], 0);
    free(image);
    close_all();
}
END_TEST

/* Each move begins another epoch of the tablet (cold.h), which is no content. */
START_TEST(an_empty_tablet_that_has_moved_before_needs_no_record)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 1);
    move_over(&a, &b, MOVED);
    handed_over(MOVED);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    owner[MOVED] = 0;
    move_lead(&a, owner, 0);
    move_lead(&b, owner, 1);
    ck_assert_int_eq(engine_tablets_drop(b.g, &(uint32_t){MOVED}, 1, &e), 0);
    ck_assert_uint_ne(table_cold_epoch(engine_table(a.g, 0), MOVED),
                      table_cold_epoch(engine_table(b.g, 0), MOVED));
    uint64_t before = b.g->sequence;
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), 0);
    ck_assert_uint_eq(b.g->sequence, before);
    free(image);
    close_all();
}
END_TEST

START_TEST(a_load_that_may_be_taken_back_stays)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence, ignored;
    pair_open(DURABLE_JOURNAL, true);
    train(0, 1);
    void *image = move_give(&a, MOVED, &bytes, &rows, &e);
    a.g->loaded[a.g->loads++] = (struct engine_loaded){.run = 1, .tables = table_set_word(1)};
    b.g->loaded[b.g->loads++] = (struct engine_loaded){.run = 1, .tables = table_set_word(1)};
    ck_assert_ptr_null(move_give(&a, MOVED, &bytes, &rows, &e));
    ck_assert_int_eq(e.code, SHOAL_E_BUSY);
    ck_assert_int_eq(engine_take(b.g, MOVED, image, bytes, &sequence, &e), SHOAL_E_BUSY);
    free(image);
    ck_assert_int_eq(engine_fence(a.g, 1, 0, 1, true, &(int64_t){0}, &ignored, &e), 0);
    ck_assert_int_eq(engine_fence(b.g, 1, 0, 1, true, &(int64_t){0}, &ignored, &e), 0);
    move_over(&a, &b, MOVED); /* it trains */
    close_all();
}
END_TEST

START_TEST(strays_are_found)
{
    struct err e = {0};
    uint32_t found[4];
    pair_open(DURABLE_JOURNAL, true);
    train(0, 3);
    ck_assert_uint_eq(engine_strays(b.g, found, 4), 0); /* without a map */
    struct engine_place p = {.cluster = {1, 1},
                             .number = 1,
                             .shards = 2,
                             .map_epoch = 1,
                             .tablets = MOVE_TABLETS,
                             .shard_of = owner};
    ck_assert_int_eq(engine_place_set(b.g, &p, &e), 0);
    ck_assert_uint_eq(engine_strays(b.g, found, 4), 0);
    move_over(&a, &b, MOVED);
    reopen(&b, dir_b, 1, false);
    ck_assert_uint_eq(engine_strays(b.g, found, 4), 1);
    ck_assert_uint_eq(found[0], MOVED);
    ck_assert_int_eq(engine_place_leaves(b.g, &p, NULL, 0, &e), 0); /* it is no loss */
    ck_assert_int_eq(engine_tablets_drop(b.g, found, 1, &e), 0);
    for (int times = 0; times < 3; times++) {
        ck_assert_uint_eq(engine_strays(b.g, found, 4), 0);
        ck_assert_int_eq(engine_place_leaves(b.g, &p, NULL, 0, &e), 0);
        check_equal();
        reopen(&b, dir_b, 1, times > 0);
    }
    close_all();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine move");
    TCase *t = suite_case(s, "move", 60, setup, teardown);
    tcase_add_loop_test(t, a_moved_tablet_goes_on, 0, sizeof ways / sizeof ways[0]);
    tcase_add_loop_test(t, a_move_outlasts_a_restart, 0, 4);
    tcase_add_test(t, old_rows_of_the_store_stay_away);
    tcase_add_test(t, giving_leaves_rows_where_they_are);
    tcase_add_test(t, a_damaged_image_is_refused);
    tcase_add_test(t, a_table_of_another_schema_is_refused);
    tcase_add_test(t, a_led_tablet_is_not_taken);
    tcase_add_test(t, marks_count_once_a_tablet_is_led);
    tcase_add_test(t, marks_of_a_run_that_is_not_open_wait);
    tcase_add_test(t, no_tablet_moves_beside_a_cut_or_a_push);
    tcase_add_test(t, undo_moves_with_its_tablet);
    tcase_add_test(t, an_empty_tablet_needs_no_record);
    tcase_add_test(t, an_empty_tablet_that_has_moved_before_needs_no_record);
    tcase_add_test(t, a_load_that_may_be_taken_back_stays);
    tcase_add_test(t, strays_are_found);
    return suite_main(s);
}
