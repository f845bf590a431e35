/* test_broken.c: breaks the invariants of tables, tablets and marks on purpose: each breach must be
 * caught by its own assert. What a change of memory cannot break is broken by a function that does
 * too much or too little (-Wl,--wrap, tests/CMakeLists.txt). */
#include "embedding/rows/age.h"
#include "embedding/rows/image.h"
#include "embedding/rows/run.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"
#include "embedding/rows/translate.h"
#include "proto/base/key.h"
#include "tests/lib/broken.h"
#include "tests/lib/embedding_rows.h"

/* ---- functions that can be made to fail their callers ---- */

enum plant { NOTHING, TWICE, NOT_AT_ALL, OTHER_TABLE, LONGER };
static enum plant planted;
static struct table *bystander;
static int calls;

float *__real_tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                            uint64_t key);
float *__wrap_tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                            uint64_t key);
float *__wrap_tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                            uint64_t key)
{
    if (planted == TWICE)
        __real_tablet_insert(t, s, number, key_unmix(key_mix(key) ^ 1));
    if (planted == OTHER_TABLE)
        bystander->rows++;
    return __real_tablet_insert(t, s, number, key);
}

float *__real_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes);
float *__wrap_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes);
float *__wrap_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes)
{
    if (planted == TWICE)
        __real_tablet_insert_noted(t, s, number, key_unmix(key_mix(key) ^ 1), notes);
    return __real_tablet_insert_noted(t, s, number, key, notes);
}

int __real_undo_save(struct undo *u, uint64_t key, const float *weights);
int __wrap_undo_save(struct undo *u, uint64_t key, const float *weights);
int __wrap_undo_save(struct undo *u, uint64_t key, const float *weights)
{
    return planted == NOT_AT_ALL ? 0 : __real_undo_save(u, key, weights);
}

int __real_cold_add(struct cold *c, const struct tablet_shape *s, uint64_t key);
int __wrap_cold_add(struct cold *c, const struct tablet_shape *s, uint64_t key);
int __wrap_cold_add(struct cold *c, const struct tablet_shape *s, uint64_t key)
{
    return planted == NOT_AT_ALL ? 0 : __real_cold_add(c, s, key);
}

/* Called twice for the check of lengths, then once for the places of the parts. */
size_t __real_image_life_bytes(const struct image_header *h);
size_t __wrap_image_life_bytes(const struct image_header *h);
size_t __wrap_image_life_bytes(const struct image_header *h)
{
    bool lies = planted == LONGER && ++calls == 3;
    return __real_image_life_bytes(h) + (lies ? sizeof(uint64_t) : 0);
}

/* ---- tables to break ---- */

#define ROWS 100u

/* Returns one tablet with rows of keys 0 .. ROWS - 1, with undo. */
static struct rows filled(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    for (uint32_t i = 0; i < ROWS; i++)
        rows_push_one(&r, rows_key(i), 1, 1);
    return r;
}

static struct tablet *tablet_of(const struct rows *r)
{
    return &r->table->tablets[0];
}

static int put(void *context, uint64_t key, const void *row, size_t row_bytes, uint32_t clock)
{
    (void)context, (void)key, (void)row, (void)row_bytes, (void)clock;
    return 0;
}

/* Moves ten of its rows to the store. Returns one of their keys. */
static uint64_t some_leave(struct rows *r)
{
    uint32_t chosen, gone;
    uint64_t keys[10];
    ck_assert_int_eq(table_cold_choose(r->table, 0, 10, put, NULL, &chosen), 0);
    ck_assert_int_eq(table_cold_drop(r->table, 0, &gone), 0);
    ck_assert_uint_eq(gone, 10);
    table_cold_keys(r->table, 0, keys);
    return keys[0];
}

/* Reads its image again while `plant` is active. */
static void read_again(struct rows *r, enum plant plant)
{
    size_t bytes = table_image_bytes(r->table, 0);
    void *image = malloc(bytes);
    table_image_write(r->table, 0, image);
    bystander = r->table;
    planted = plant;
    table_image_read(r->table, 0, image, bytes, NULL);
}

/* ---- cold.c ---- */

static void a_key_of_a_row_becomes_cold(void)
{
    struct rows r = filled();
    table_cold_add(r.table, rows_key(3));
}

static void a_key_becomes_cold_twice(void)
{
    struct rows r = filled();
    table_cold_add(r.table, rows_key(ROWS));
    table_cold_add(r.table, rows_key(ROWS));
}

static void a_cold_row_comes_where_one_is(void)
{
    struct rows r = filled();
    char value[64] = {0};
    uint64_t key = some_leave(&r);
    tablet_insert(tablet_of(&r), &r.table->shape, 0, key);
    table_cold_take(r.table, key, value, table_cold_bytes(r.table));
}

#ifdef SHOAL_VERIFY
static void a_cold_key_gets_a_new_row(void)
{
    struct rows r = filled();
    table_insert(r.table, 0, some_leave(&r));
}
#endif

static void the_set_is_miscounted(void)
{
    struct rows r = filled();
    some_leave(&r);
    tablet_of(&r)->cold->count++;
    table_cold_add(r.table, rows_key(ROWS));
}

static void more_is_cold_than_the_table_knows(void)
{
    struct rows r = filled();
    some_leave(&r);
    r.table->cold--;
    table_cold_forget(r.table, 0);
}

/* ---- image.c ---- */

static void an_image_gives_rows_twice(void)
{
    struct rows r = filled();
    read_again(&r, TWICE);
}

static void an_image_gives_no_undo(void)
{
    struct rows r = filled();
    read_again(&r, NOT_AT_ALL);
}

static void an_image_gives_no_cold_keys(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    for (uint32_t i = 0; i < ROWS; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    some_leave(&r);
    read_again(&r, NOT_AT_ALL);
}

static void parts_of_an_image_do_not_end_where_it_does(void)
{
    struct rows r = filled();
    size_t bytes = table_image_bytes(r.table, 0);
    void *image = malloc(bytes);
    table_image_write(r.table, 0, image);
    planted = LONGER;
    calls = 0;
    table_image_read(r.table, 0, image, bytes, NULL);
}

static void reading_an_image_changes_the_table(void)
{
    struct rows r = filled();
    read_again(&r, OTHER_TABLE);
}

static void an_image_lacks_a_row(void)
{
    struct rows r = filled();
    void *image = malloc(table_image_bytes(r.table, 0) + 4096);
    tablet_of(&r)->row_count++;
    table_image_write(r.table, 0, image);
}

/* ---- tables, tablets, the arena ---- */

static void a_row_is_counted_and_not_there(void)
{
    struct rows r = filled();
    r.table->rows++;
    table_free(r.table);
}

static void a_tablet_has_more_rows_than_its_table(void)
{
    struct rows r = filled();
    r.table->rows = 1;
    table_clear(r.table, 0);
}

static void rows_lie_in_no_page(void)
{
    struct rows r = filled();
    struct tablet t;
    tablet_init(&t);
    t.row_count = 1;
    tablet_clear(&t, &r.table->shape);
}

static bool every_second(void *context, uint64_t key, float *row)
{
    (void)context, (void)row;
    return (key & 1) != 0;
}

static void a_tablet_is_rebuilt_with_rows_twice(void)
{
    struct rows r = filled();
    uint64_t gone;
    planted = TWICE;
    table_keep(r.table, 0, every_second, NULL, 0, &gone);
}

static void a_push_covers_tablets_that_are_not_there(void)
{
    struct rows r = filled();
    struct push_args args = {.lr_scale = 1, .tablet_first = 1, .tablet_count = 1};
    table_push(r.table, NULL, NULL, 0, &args);
}

static void a_tablet_moves_to_a_table_of_more(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 1);
    struct rows from = filled(), to = rows_open(&s);
    translate_move(from.table, to.table, 0, 1, 2);
}

static void a_run_of_units_reaches_into_the_next_chunk(void)
{
    struct rows r = filled();
    arena_give(r.arena, ARENA_CHUNK_UNITS - 1, 2);
}

static void a_block_is_given_back_as_another(void)
{
    struct rows r = filled();
    uint32_t unit;
    void *block = arena_block_take(r.arena, ARENA_UNIT_BYTES, &unit);
    arena_block_give(r.arena, block, ARENA_UNIT_BYTES - 1, unit);
}

static void undo_is_of_no_clock(void)
{
    struct undo *u = undo_new(4);
    undo_begin(u, 0, 0);
}

/* ---- waiting and named keys ---- */

static void names_come_in_any_order(void)
{
    struct named n = {0};
    uint64_t changed, keys[2] = {key_unmix(2), key_unmix(1)};
    named_set(&n, keys, 2, NAME_BLOCKED, &changed);
}

static void a_sketch_has_any_size(void)
{
    struct sketch s = {0};
    sketch_take(&s, 100);
}

static void who_waits_is_miscounted(void)
{
    struct waiting w = {0};
    char out[64];
    waiting_add(&w, 100, 1, 1, 0);
    w.young.count++;
    waiting_write(&w.young, out);
}

/* ---- marks and runs ---- */

#define TABLETS 8u

static void marks_of_a_table_change_their_number(void)
{
    struct marks *m = marks_new(2);
    marks_reserve(m, 0, 0, TABLETS);
    marks_reserve(m, 1, 0, 2 * TABLETS);
}

static void marks_are_moved_behind_the_last(void)
{
    static uint8_t led[TABLETS];
    static uint32_t before[TABLETS + 1];
    const struct mark_scope scope = {TABLETS, 0, led, before};
    struct marks *m = marks_new(1);
    marks_reserve(m, 0, 0, TABLETS);
    marks_move(m, 0, 0, TABLETS - 1, 2, 1, NULL, &scope);
}

static void a_push_of_no_batch_is_planned(void)
{
    struct marks *m = marks_new(1);
    struct mark_plan plan;
    marks_plan(m, 0, 0, 0, TABLETS, 5, 5, &plan);
}

static void a_run_is_open_twice(void)
{
    struct runs r = {0};
    struct run *run;
    runs_add(&r, 7, table_set_word(1), 2, RUN_SSP, &run);
    runs_add(&r, 7, table_set_word(1), 2, RUN_SSP, &run);
}

static void a_lane_is_fenced_that_the_run_has_not(void)
{
    struct runs r = {0};
    struct run *run;
    runs_add(&r, 7, table_set_word(1), 2, RUN_SSP, &run);
    run_fence(run, 2, 1, true, 0);
}

static const struct broken list[] = {
    {"embedding/rows/cold.c", 1, a_key_of_a_row_becomes_cold,
     "table_cold_may(t) && tablet_find(own,"},
    {"embedding/rows/cold.c", 1, a_key_becomes_cold_twice, "!set_has(c, s->tablet_bits, mixed)"},
    {"embedding/rows/cold.c", 1, a_cold_row_comes_where_one_is, "tablet_find(&t->tablets[tablet],"},
#ifdef SHOAL_VERIFY
    {"embedding/rows/table.c", 0, a_cold_key_gets_a_new_row, "!table_cold_has(t, key)"},
#endif
    {"embedding/rows/cold.c", 0, the_set_is_miscounted, "c->count == c->used"},
    {"embedding/rows/cold.c", 0, more_is_cold_than_the_table_knows, "t->cold >= c->count"},
    {"embedding/rows/image.c", 2, parts_of_an_image_do_not_end_where_it_does, "cold + "},
    {"embedding/rows/image.c", 3, an_image_gives_rows_twice, "into->row_count == h->row_count"},
    {"embedding/rows/image.c", 3, an_image_gives_no_undo, "into->undo->count == h->undo_count"},
    {"embedding/rows/image.c", 3, an_image_gives_no_cold_keys,
     "into->cold->count == h->cold_count"},
    {"embedding/rows/image.c", 4, reading_an_image_changes_the_table, "t->rows == rows_before"},
    {"embedding/rows/image.c", 0, an_image_lacks_a_row, "key == out + count"},
    {"embedding/rows/table.c", 0, a_row_is_counted_and_not_there, "t->rows == 0"},
    {"embedding/rows/table.c", 0, a_tablet_has_more_rows_than_its_table, "t->rows >= "},
    {"embedding/rows/tablet.c", 0, rows_lie_in_no_page, "t->row_count <= "},
    {"embedding/rows/keep.c", 0, a_tablet_is_rebuilt_with_rows_twice, "rc != 0 || fresh.row_count"},
    {"embedding/rows/push.c", 0, a_push_covers_tablets_that_are_not_there,
     "(uint64_t)args->tablet_first + "},
    {"embedding/rows/translate.c", 0, a_tablet_moves_to_a_table_of_more, "tablet < from->"},
    {"embedding/rows/arena.c", 0, a_run_of_units_reaches_into_the_next_chunk,
     "c < a->chunk_count && "},
    {"embedding/rows/arena.c", 0, a_block_is_given_back_as_another, "in_units == "},
    {"embedding/rows/undo.c", 0, undo_is_of_no_clock, "clock != 0"},
    {"embedding/rows/rules/named.c", 0, names_come_in_any_order, "i == 0 || key_mix(keys[i - 1])"},
    {"embedding/rows/rules/sketch.c", 0, a_sketch_has_any_size, "cells >= SKETCH_ROWS"},
    {"embedding/rows/rules/waiting.c", 0, who_waits_is_miscounted, "(size_t)(at - (char *)out)"},
    {"embedding/rows/mark.c", 0, marks_of_a_table_change_their_number,
     "tablets > 0 && (m->tablets[table] == 0"},
    {"embedding/rows/mark.c", 0, marks_are_moved_behind_the_last,
     "(uint64_t)first + count <= scope->tablets"},
    {"embedding/rows/mark.c", 0, a_push_of_no_batch_is_planned, "count > 0 && from < to"},
    {"embedding/rows/run.c", 0, a_run_is_open_twice, "lanes > 0 && "},
    {"embedding/rows/run.c", 0, a_lane_is_fenced_that_the_run_has_not, "lane < run->lanes"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return rows_main(suite);
}
