/* test_cold.c: rows that leave memory and come back: such a table equals one in which all rows
 * stay. */
#include "embedding/rows/table_cold.h"

#include "embedding/rows/table_inner.h"
#include "tests/lib/crafted.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#include <inttypes.h>

#define NOON (FIRST_DAY + DAY / 2)
#define KEYS 4096u

/* The contents of a store: the last pair of each key of rows_key(0..KEYS). */
struct shelf {
    char *value[KEYS]; /* owned */
    uint64_t puts;
    size_t bytes;
    uint32_t refuse; /* put number that fails; 0: none */
};

static uint32_t place_of(uint64_t key)
{
    for (uint32_t i = 0; i < KEYS; i++)
        if (rows_key(i) == key)
            return i;
    ck_abort_msg("key %" PRIx64 " is none of ours", key);
}

static int put(void *context, uint64_t key, const void *row, size_t row_bytes, uint32_t clock)
{
    struct shelf *s = context;
    uint32_t i = place_of(key);
    if (++s->puts == s->refuse)
        return SHOAL_E_IO;
    free(s->value[i]);
    s->value[i] = malloc(row_bytes + sizeof clock);
    s->bytes = row_bytes + sizeof clock;
    memcpy(s->value[i], row, row_bytes);
    memcpy(s->value[i] + row_bytes, &clock, sizeof clock);
    return 0;
}

static void shelf_clear(struct shelf *s)
{
    for (uint32_t i = 0; i < KEYS; i++)
        free(s->value[i]);
    memset(s, 0, sizeof *s);
}

static void fetch(struct rows *r, const struct shelf *s, uint64_t key)
{
    uint64_t cold;
    if (table_cold_among(r->table, &key, 1, &cold) == 0)
        return;
    uint32_t i = place_of(key);
    ck_assert_ptr_nonnull(s->value[i]);
    ck_assert_int_eq(table_cold_take(r->table, key, s->value[i], s->bytes), 0);
    ck_assert(!table_cold_has(r->table, key));
}

static void fetch_all(struct rows *r, const struct shelf *s)
{
    for (uint32_t i = 0; i < KEYS; i++)
        fetch(r, s, rows_key(i));
    ck_assert_uint_eq(table_cold_rows(r->table), 0);
}

static uint32_t leave(struct rows *r, struct shelf *s, uint32_t tablet, uint32_t most)
{
    uint32_t chosen, gone;
    ck_assert_int_eq(table_cold_choose(r->table, tablet, most, put, s, &chosen), 0);
    ck_assert_uint_le(chosen, most);
    ck_assert_int_eq(table_cold_drop(r->table, tablet, &gone), 0);
    ck_assert_uint_eq(gone, chosen);
    return gone;
}

static void fill(struct rows *r, uint32_t from, uint32_t to, uint32_t time)
{
    for (uint32_t i = from; i < to; i++)
        stats_push(r, rows_key(i), 0.25f * (float)(i % 7), 8, 1,
                   (struct stats_batch){.time = time, .batch = 1});
}

START_TEST(rows_that_left_are_counted_and_come_back_as_they_were)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 2);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    for (uint32_t i = 0; i < 1000; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    uint64_t digest = rows_digest(r.table), left = 0;
    for (uint32_t k = 0; k < 4; k++)
        left += leave(&r, &shelf, k, 200);
    ck_assert_uint_eq(left, 800);
    ck_assert_uint_eq(shelf.puts, 800);
    ck_assert_uint_eq(table_cold_rows(r.table), 800);
    ck_assert_uint_eq(table_rows(r.table), 1000);
    ck_assert(rows_digest(r.table) != digest);
    fetch_all(&r, &shelf);
    ck_assert_uint_eq(table_rows(r.table), 1000);
    ck_assert_uint_eq(rows_digest(r.table), digest);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* The rows that were pushed or pulled last stay longest. */
START_TEST(the_least_used_rows_leave_first)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint32_t chosen;
    float row[4];
    for (uint32_t i = 0; i < 300; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    for (int look = 0; look < 3; look++) /* none may go; all cool down */
        ck_assert_int_eq(table_cold_choose(r.table, 0, 0, put, &shelf, &chosen), 0);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t pulled = rows_key(i);
        table_pull(r.table, &pulled, 1, row);
        rows_push_one(&r, rows_key(100 + i), 1, 0);
    }
    ck_assert_uint_eq(leave(&r, &shelf, 0, 100), 100);
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_int_eq(table_cold_has(r.table, rows_key(i)), i >= 200);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(a_row_that_was_only_read_leaves_without_a_write)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint32_t chosen, gone;
    for (uint32_t i = 0; i < 10; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    ck_assert_uint_eq(leave(&r, &shelf, 0, 10), 10);
    for (uint32_t i = 0; i < 10; i++)
        fetch(&r, &shelf, rows_key(i));
    rows_push_one(&r, rows_key(3), 1, 0);
    uint64_t pulled = rows_key(7);
    float row[4];
    table_pull(r.table, &pulled, 1, row);
    /* Without a write only the nine unchanged rows may go: first the eight that were not pulled,
     * because the pulled one may still get a push. */
    ck_assert_int_eq(table_cold_choose(r.table, 0, 8, NULL, NULL, &chosen), 0);
    ck_assert_uint_eq(chosen, 8);
    ck_assert_int_eq(table_cold_drop(r.table, 0, &gone), 0);
    ck_assert_uint_eq(gone, 8);
    ck_assert(!table_cold_has(r.table, pulled));
    ck_assert_int_eq(table_cold_choose(r.table, 0, 10, NULL, NULL, &chosen), 0);
    ck_assert_uint_eq(chosen, 1);
    ck_assert_int_eq(table_cold_drop(r.table, 0, &gone), 0);
    ck_assert_uint_eq(gone, 1);
    ck_assert(!table_cold_has(r.table, rows_key(3)));
    uint64_t digest = rows_digest(r.table);
    ck_assert_uint_eq(leave(&r, &shelf, 0, 10), 1);
    ck_assert_uint_eq(shelf.puts, 11);
    fetch(&r, &shelf, rows_key(3));
    ck_assert_uint_eq(rows_digest(r.table), digest);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(rows_that_are_used_often_stay_and_not_those_that_were_used_last)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    float row[4];
    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < 20; i++) {
            uint64_t key = rows_key(i);
            table_pull(r.table, &key, 1, row); /* one use, together with its push */
            rows_push_one(&r, key, 1, turn);
        }
    for (uint32_t i = 20; i < 40; i++)
        rows_push_one(&r, rows_key(i), 1, 3);
    ck_assert_uint_eq(leave(&r, &shelf, 0, 20), 20);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_int_eq(table_cold_has(r.table, rows_key(i)), i >= 20);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* Rows that were pulled and wait for their push are not even counted. */
START_TEST(rows_that_await_their_push_are_spared_once)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint32_t chosen;
    float row[4];
    for (uint32_t i = 0; i < 10; i++) {
        uint64_t key = rows_key(i);
        rows_push_one(&r, key, 1, 0);
        if (i < 7)
            table_pull(r.table, &key, 1, row);
    }
    ck_assert_int_eq(table_cold_choose(r.table, 0, 10, put, &shelf, &chosen), 0);
    ck_assert_uint_eq(chosen, 3);
    ck_assert_uint_eq(leave(&r, &shelf, 0, 10), 10); /* the three once more, and the others */
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* While there are enough unused rows, the others keep their counts of use. */
START_TEST(rows_cool_down_when_too_few_are_cold)
{
    for (uint32_t unused = 1; unused <= 3; unused++) {
        struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
        struct rows r = rows_open(&s);
        struct shelf shelf = {0};
        uint32_t chosen;
        for (uint32_t i = 0; i < unused; i++)
            rows_push_one(&r, rows_key(i), 1, 0);
        for (int look = 0; look < 3; look++) /* all earlier rows have cooled down */
            ck_assert_int_eq(table_cold_choose(r.table, 0, 0, put, &shelf, &chosen), 0);
        for (int use = 0; use < 3; use++)
            rows_push_one(&r, rows_key(9), 1, 0);
        ck_assert_int_eq(table_cold_choose(r.table, 0, 2, put, &shelf, &chosen), 0);
        const struct bucket *b = NULL;
        uint32_t place = 0;
        for (uint32_t i = 0; i < r.table->tablets[0].bucket_count; i++)
            for (uint32_t k = 0; k < r.table->tablets[0].buckets[i].count; k++)
                if (r.table->tablets[0].buckets[i].key[k] == rows_key(9)) {
                    b = &r.table->tablets[0].buckets[i];
                    place = k;
                }
        ck_assert_ptr_nonnull(b);
        /* a single unused row leaves, too, and a row that left has no heat */
        uint32_t heat = bucket_notes(b, place) & HEAT_FULL;
        ck_assert_uint_eq(heat, unused == 1 ? 0 : unused == 2 ? 1 : 2);
        shelf_clear(&shelf);
        rows_close(&r);
    }
}
END_TEST

/* The store is known to have pairs from the begin of a write on, even if it failed: a later search
 * must find them. */
START_TEST(a_table_that_rows_have_left_is_known)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 1);
    struct rows r = rows_open(&s);
    ck_assert(!table_cold_was(r.table));
    ck_assert_int_eq(table_cold_leaving(r.table, 1, false), 0);
    ck_assert(!table_cold_was(r.table));
    ck_assert_int_eq(table_cold_leaving(r.table, 1, true), 0);
    ck_assert(table_cold_was(r.table));
    ck_assert_int_eq(table_cold_leaving(r.table, 1, false), 0);
    ck_assert(table_cold_was(r.table));
    table_cold_forget(r.table, 1);
    ck_assert(!table_cold_was(r.table));
    rows_close(&r);
}
END_TEST

static uint64_t puts_of_all(struct rows *r, struct shelf *shelf)
{
    uint64_t before = shelf->puts;
    uint32_t chosen;
    for (int look = 0; look < 4; look++) /* all have cooled down by then */
        ck_assert_int_eq(table_cold_choose(r->table, 0, KEYS, put, shelf, &chosen), 0);
    return shelf->puts - before;
}

/* A row whose pair in the store is no longer valid is written once more. An empty tablet writes
 * none. */
START_TEST(a_tablet_that_is_forgotten_puts_all_its_rows)
{
    enum { MANY = 200 };
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    for (uint32_t i = 0; i < MANY; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    ck_assert_uint_eq(leave(&r, &shelf, 0, MANY), MANY);
    fetch_all(&r, &shelf);
    ck_assert_uint_gt(r.table->tablets[0].bucket_count, 2);
    ck_assert_uint_eq(puts_of_all(&r, &shelf), 0);
    table_cold_forget(r.table, 0);
    ck_assert_uint_eq(puts_of_all(&r, &shelf), MANY);
    ck_assert_uint_eq(leave(&r, &shelf, 0, MANY), MANY);
    ck_assert_uint_eq(table_rows(r.table), MANY);
    table_cold_forget(r.table, 0);
    ck_assert_uint_eq(table_rows(r.table), 0);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* Key 0, which no slot can hold. */
START_TEST(a_tablet_that_is_forgotten_forgets_key_zero)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    ck_assert_int_eq(table_cold_add(r.table, 0), 0);
    table_cold_forget(r.table, 0);
    ck_assert_int_eq(table_cold_add(r.table, 5), 0);
    ck_assert(!table_cold_has(r.table, 0) && table_cold_has(r.table, 5));
    table_cold_forget(r.table, 0);
    rows_close(&r);
}
END_TEST

static bool not_the_first(void *context, uint64_t key, float *row)
{
    (void)context, (void)row;
    return key != rows_key(0);
}

/* When other rows are erased, a row keeps its state: its pair is the one in the store. */
START_TEST(rows_that_stay_keep_their_pairs)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint64_t gone = 0;
    for (uint32_t i = 0; i < 20; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    ck_assert_uint_eq(leave(&r, &shelf, 0, 20), 20);
    fetch_all(&r, &shelf);
    rows_push_one(&r, rows_key(5), 1, 0);
    ck_assert_int_eq(table_keep(r.table, 0, not_the_first, NULL, 0, &gone), 0);
    ck_assert_uint_eq(gone, 1);
    ck_assert_uint_eq(puts_of_all(&r, &shelf), 1); /* the row that was pushed to */
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* A tablet's image contains the epoch of its pairs. */
START_TEST(an_epoch_is_in_the_image)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    rows_push_one(&r, rows_key(0), 1, 0);
    ck_assert_int_eq(table_cold_begin(r.table, 0, 5), 0);
    ck_assert(table_cold_stale(r.table, 0));
    table_cold_fresh(r.table, 0);
    struct rows again = stats_through_images(&r);
    ck_assert_uint_eq(table_cold_epoch(again.table, 0), 5);
    ck_assert(table_cold_stale(again.table, 0)); /* it is unknown if the older pairs were deleted */
    rows_close(&again);
    rows_close(&r);
}
END_TEST

START_TEST(a_row_that_is_touched_after_it_was_chosen_stays)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint32_t chosen, gone;
    float row[4];
    for (uint32_t i = 0; i < 10; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    ck_assert_int_eq(table_cold_choose(r.table, 0, 10, put, &shelf, &chosen), 0);
    ck_assert_uint_eq(chosen, 10);
    rows_push_one(&r, rows_key(4), 1, 0);
    uint64_t pulled = rows_key(5);
    table_pull(r.table, &pulled, 1, row);
    uint64_t digest = rows_digest(r.table);
    ck_assert_int_eq(table_cold_drop(r.table, 0, &gone), 0);
    ck_assert_uint_eq(gone, 8);
    ck_assert(!table_cold_has(r.table, rows_key(4)) && !table_cold_has(r.table, pulled));
    fetch_all(&r, &shelf);
    ck_assert_uint_eq(rows_digest(r.table), digest);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(a_put_that_fails_ends_the_choice)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {.refuse = 3};
    uint32_t chosen;
    for (uint32_t i = 0; i < 10; i++)
        rows_push_one(&r, rows_key(i), 1, 0);
    ck_assert_int_eq(table_cold_choose(r.table, 0, 10, put, &shelf, &chosen), SHOAL_E_IO);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(a_pair_of_another_length_is_refused)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    rows_push_one(&r, rows_key(0), 1, 0);
    leave(&r, &shelf, 0, 1);
    ck_assert_int_eq(table_cold_take(r.table, rows_key(0), shelf.value[0], shelf.bytes - 4),
                     SHOAL_E_CORRUPT);
    ck_assert(table_cold_has(r.table, rows_key(0)));
    /* not cold: no effect */
    ck_assert_int_eq(table_cold_take(r.table, rows_key(1), shelf.value[0], shelf.bytes), 0);
    ck_assert_uint_eq(table_rows(r.table), 1);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(rows_of_dense_tables_and_of_tables_with_a_capacity_stay)
{
    struct table_schema dense = rows_schema(OPT_ADAGRAD, 4, 0),
                        full = stats_schema(OPT_ADAGRAD, 4, 0);
    struct shelf shelf = {0};
    dense.dense = 1;
    full.rules.age_capacity = 100;
    full.rules.age_by = EVICT_LRU;
    const struct table_schema *both[2] = {&dense, &full};
    for (int i = 0; i < 2; i++) {
        struct rows r = rows_open(both[i]);
        uint32_t chosen;
        fill(&r, 0, 20, NOON);
        ck_assert_int_eq(table_cold_choose(r.table, 0, 20, put, &shelf, &chosen), 0);
        ck_assert_uint_eq(chosen, 0);
        rows_close(&r);
    }
}
END_TEST

/* Two tables get the same pushes; one has little memory. Every row that a push touches is fetched
 * first. Days pass, rows decay, fall below the score and expire, in memory and outside. */
static void live_beside(const struct table_schema *s, uint32_t first_time, uint32_t steps,
                        uint32_t step_seconds)
{
    struct rows all = rows_open(s), some = rows_open(s);
    struct shelf shelf = {0};
    struct rng rng = rng_of(5, s->tablet_bits, steps);
    uint32_t tablets = 1u << s->tablet_bits;
    uint64_t left = 0, coldest = 0;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t time = first_time == 0 && step < 20 ? 0 : NOON + step * step_seconds;
        for (int i = 0; i < 40; i++) {
            uint32_t span = 64 + (uint32_t)(rng_next(&rng) % (KEYS - 64));
            uint64_t key = rows_key(rng_next(&rng) % span);
            float show = (float)(1 + rng_next(&rng) % 4),
                  click = rng_next(&rng) % 8 == 0 ? 1.0f : 0.0f;
            struct stats_batch b = {.time = time, .batch = step};
            fetch(&some, &shelf, key);
            stats_push(&all, key, 0.1f * (float)i, show, click, b);
            stats_push(&some, key, 0.1f * (float)i, show, click, b);
        }
        left += leave(&some, &shelf, (uint32_t)(rng_next(&rng) % tablets), 30);
        if (step % 16 == 7) { /* rows in memory and the set of cold keys go through images */
            struct rows again = stats_through_images(&some);
            ck_assert_uint_eq(table_cold_rows(again.table), table_cold_rows(some.table));
            rows_close(&some);
            some = again;
        }
        coldest = table_cold_rows(some.table) > coldest ? table_cold_rows(some.table) : coldest;
    }
    ck_assert_uint_gt(left, 500);
    ck_assert_uint_gt(coldest, 200);
    fetch_all(&some, &shelf);
    ck_assert_uint_gt(table_rows(all.table), 100);
    ck_assert_uint_eq(table_rows(some.table), table_rows(all.table));
    ck_assert_uint_eq(rows_digest(some.table), rows_digest(all.table));
    shelf_clear(&shelf);
    rows_close(&all);
    rows_close(&some);
}

START_TEST(late_ageing_is_as_ageing_in_time)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    s.rules.age_every = DAY / 4;
    s.rules.age_decay = 0.9f;
    s.rules.age_score = 0.15f;
    live_beside(&s, NOON, 300, 3600);
    s.rules.age_ttl = 3 * DAY;
    live_beside(&s, NOON, 300, 7200);
    live_beside(&s, 0, 300, 7200); /* the first 20 batches have no time */
}
END_TEST

START_TEST(plain_rows_come_and_go)
{
    struct table_schema s = rows_schema(OPT_ADAM, 3, 2);
    live_beside(&s, NOON, 200, 60);
    s = rows_schema(OPT_ADAGRAD, 16, 0);
    live_beside(&s, NOON, 200, 60);
}
END_TEST

/* Two tables share an arena: each counts what it has of it, wherever its rows are. */
START_TEST(what_a_table_has_of_the_arena_is_known)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 2);
    struct rows a = rows_open(&s), b = {.arena = a.arena};
    struct shelf shelf = {0};
    struct err e = {0};
    ck_assert_int_eq(table_new(&s, b.arena, &b.table, &e), 0);
    for (uint32_t i = 0; i < 40; i++) {
        struct rows *r = i % 3 == 0 ? &b : &a;
        for (uint32_t k = 0; k < 100; k++)
            rows_push_one(r, rows_key((i * 100 + k) % KEYS), 1, 0);
        if (i % 4 == 3)
            (void)leave(&a, &shelf, i % 4, 90);
        if (i % 8 == 7)
            fetch(&a, &shelf, rows_key(i * 100));
        if (i == 20)
            table_clear(b.table, 1);
        ck_assert_uint_eq(table_taken(a.table) + table_taken(b.table), arena_used(a.arena));
    }
    ck_assert_uint_gt(table_taken(a.table), table_taken(b.table));
    size_t bytes = table_image_bytes(b.table, 2);
    void *image = malloc(bytes);
    table_image_write(b.table, 2, image);
    ck_assert_int_eq(table_image_read(b.table, 2, image, bytes, &e), 0);
    ck_assert_uint_eq(table_taken(a.table) + table_taken(b.table), arena_used(a.arena));
    free(image);
    table_free(b.table);
    ck_assert_uint_eq(table_taken(a.table), arena_used(a.arena));
    shelf_clear(&shelf);
    rows_close(&a);
}
END_TEST

/* The control case: ageing by the row's own time alone would give another result. */
START_TEST(a_row_that_comes_back_without_its_clock_differs)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    s.rules.age_every = DAY;
    s.rules.age_decay = 0.5f;
    struct rows all = rows_open(&s), some = rows_open(&s);
    struct shelf shelf = {0};
    fill(&all, 0, 1, NOON);
    fill(&some, 0, 1, NOON);
    leave(&some, &shelf, 0, 1);
    stats_tick(&all, NOON + DAY);
    stats_tick(&some, NOON + DAY);
    uint32_t late = NOON + DAY;
    memcpy(shelf.value[0] + shelf.bytes - sizeof late, &late, sizeof late);
    fetch_all(&some, &shelf);
    ck_assert(rows_digest(some.table) != rows_digest(all.table));
    shelf_clear(&shelf);
    rows_close(&all);
    rows_close(&some);
}
END_TEST

/* A field is dropped from memory and from the store, with its pairs. */
START_TEST(dropped_field_is_not_cold_any_more)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint64_t fields[LIMIT_FIELDS / 64], keys[LIMIT_FIELDS], rows;
    const uint64_t *gone;
    uint32_t count;
    memset(fields, 0xff, sizeof fields);
    for (uint32_t i = 0; i < KEYS; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    leave(&r, &shelf, 0, KEYS / 2);
    uint64_t of_fields = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        of_fields += table_fields_have(fields, rows_key(i));
    ck_assert_int_eq(table_keys_of(r.table, 0, fields, keys, &count), 0);
    ck_assert_int_eq(table_keys(r.table, KEY_DROP, keys, count, NULL, &rows), 0);
    ck_assert_uint_gt(rows, 10);
    ck_assert_uint_eq(rows, of_fields);
    ck_assert_uint_eq(table_rows(r.table), KEYS - rows);
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), rows);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* Rows are evicted from memory and from the store alike. */
START_TEST(evicted_rows_are_not_cold_any_more)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint64_t keys[KEYS / 2], rows;
    const uint64_t *gone;
    for (uint32_t i = 0; i < KEYS; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    leave(&r, &shelf, 0, KEYS / 2);
    const uint32_t cold = table_cold_tablet(r.table, 0);
    uint32_t evicted = 0;
    for (uint32_t i = 0; i < KEYS / 2; i++) {
        keys[i] = rows_key(2 * i);
        evicted += table_cold_has(r.table, keys[i]);
    }
    ck_assert_uint_gt(evicted, 0);
    ck_assert_uint_lt(evicted, KEYS / 2);
    ck_assert_int_eq(table_keys(r.table, KEY_EVICT, keys, KEYS / 2, NULL, &rows), 0);
    ck_assert_uint_eq(rows, KEYS / 2);
    ck_assert_uint_eq(table_rows(r.table), KEYS - KEYS / 2);
    ck_assert_uint_eq(table_cold_tablet(r.table, 0), cold - evicted);
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), KEYS / 2);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

START_TEST(rows_that_go_for_good_are_told)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    s.rules.age_every = DAY;
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    const uint64_t *gone;
    fill(&r, 0, 20, NOON);
    leave(&r, &shelf, 0, 10);
    for (uint32_t day = 1; day <= 4; day++)
        stats_tick(&r, NOON + day * DAY);
    /* from memory; they may have had pairs */
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), 10);
    table_cold_gone_clear(r.table, 0);
    ck_assert_uint_eq(table_rows(r.table), 10);
    fetch_all(&r, &shelf);
    ck_assert_uint_eq(table_rows(r.table), 0);
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), 10);
    struct table_counts c;
    table_counts_get(r.table, &c);
    ck_assert_uint_eq(c.expired, 20);
    shelf_clear(&shelf);
    rows_close(&r);
}
END_TEST

/* An image that is written while rows leave: these are among its cold keys, and not among its
 * rows. */
START_TEST(an_image_lists_what_leaves_with_it)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&s);
    struct shelf shelf = {0};
    uint32_t chosen;
    for (uint32_t i = 0; i < 500; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    uint64_t digest = rows_digest(r.table);
    leave(&r, &shelf, 0, 100);
    ck_assert_int_eq(table_cold_choose(r.table, 0, 150, put, &shelf, &chosen), 0);
    ck_assert_uint_eq(chosen, 150);
    struct rows plain = stats_through_images(&r);
    ck_assert_uint_eq(table_cold_rows(plain.table), 100);
    ck_assert_int_eq(table_cold_leaving(r.table, 0, true), 0);
    size_t bytes = table_image_bytes(r.table, 0);
    void *image = malloc(bytes);
    table_image_write(r.table, 0, image);
    ck_assert_int_eq(table_cold_leaving(r.table, 0, false), 0);
    struct rows to = rows_open(&s);
    ck_assert_int_eq(table_image_read(to.table, 0, image, bytes, NULL), 0);
    ck_assert_uint_eq(table_cold_rows(to.table), 250);
    ck_assert_uint_eq(table_rows(to.table), 500);
    fetch_all(&to, &shelf);
    fetch_all(&plain, &shelf);
    ck_assert_uint_eq(rows_digest(to.table), digest);
    ck_assert_uint_eq(rows_digest(plain.table), digest);
    free(image);
    shelf_clear(&shelf);
    rows_close(&to);
    rows_close(&plain);
    rows_close(&r);
}
END_TEST

/* The set beside a plain array of flags, with key 0. */
START_TEST(the_set_holds_what_was_put_in)
{
    enum { SPAN = 3000 };
    static bool in[SPAN];
    struct table_schema s = rows_schema(OPT_SGD, 1, 1);
    struct rows r = rows_open(&s);
    struct rng rng = rng_of(3, 1, 4);
    char value[8 + 4] = {0};
    uint64_t count = 0, keys[SPAN], cold[SPAN];
    memset(in, 0, sizeof in);
    size_t bytes = table_cold_bytes(r.table);
    ck_assert_uint_le(bytes, sizeof value);
    for (uint32_t i = 0; i < SPAN; i++)
        keys[i] = i == 0 ? 0 : rows_key(i);
    for (uint32_t step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)(rng_next(&rng) % SPAN);
        bool fill_up = step / 10000 % 2 == 0;
        if (!in[i] && (fill_up || step % 3 == 0) && table_row(r.table, keys[i]) == NULL) {
            ck_assert_int_eq(table_cold_add(r.table, keys[i]), 0);
            in[i] = true;
            count++;
        } else if (in[i] && (!fill_up || step % 3 == 0)) {
            ck_assert_int_eq(table_cold_take(r.table, keys[i], value, bytes), 0);
            in[i] = false;
            count--;
        }
        if (step % 500 == 0) {
            ck_assert_uint_eq(table_cold_rows(r.table), count);
            size_t n = table_cold_among(r.table, keys, SPAN, cold);
            ck_assert_uint_eq(n, count);
            for (uint32_t k = 0, at = 0; k < SPAN; k++) {
                ck_assert_int_eq(table_cold_has(r.table, keys[k]), in[k]);
                if (in[k])
                    ck_assert_uint_eq(cold[at++], keys[k]);
            }
        }
    }
    rows_close(&r);
}
END_TEST

/* Also if the keys come in the order of another set, as from its image. */
START_TEST(crafted_keys_in_the_set_are_found_soon)
{
    enum { SET = 6000 };
    struct table_schema s = rows_schema(OPT_SGD, 1, 0);
    struct rows r = rows_open(&s), again = rows_open(&s);
    struct rows *both[2] = {&r, &again};
    static uint64_t keys[SET], listed[SET];
    char value[4 + 4] = {0};
    for (uint64_t i = 0; i < SET; i++)
        keys[i] = crafted_key(i);
    memcpy(listed, keys, sizeof listed);
    for (int k = 0; k < 2; k++) {
        struct crafted_run run = {0};
        for (uint32_t i = 0; i < SET; i++)
            ck_assert_int_eq(table_cold_add(both[k]->table, listed[i]), 0);
        const struct cold *c = both[k]->table->tablets[0].cold;
        for (uint32_t i = 0; i < c->slots; i++)
            crafted_place(&run, c->slot[i] != 0);
        ck_assert_uint_lt(run.most, 2000);
        ck_assert_uint_eq(table_cold_among(both[k]->table, keys, SET, listed), SET);
        ck_assert_mem_eq(listed, keys, sizeof keys);
        table_cold_keys(both[k]->table, 0, listed);
    }
    for (uint32_t i = 0; i < SET; i++)
        ck_assert_int_eq(table_cold_take(r.table, keys[i], value, table_cold_bytes(r.table)), 0);
    ck_assert_uint_eq(table_cold_rows(r.table), 0);
    rows_close(&r);
    rows_close(&again);
}
END_TEST

/* Under bsp a batch of the last clock may be computed again from the rows before it, even from a
 * row that expired during that clock while it was in the store, which is noticed only now. */
START_TEST(a_row_that_ended_unnoticed_in_this_clock_has_its_undo)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 4, 0);
    s.rules.age_every = DAY;
    s.rules.age_ttl = 2 * DAY;
    struct rows hot = rows_open(&s), cold = rows_open(&s), again = rows_open(&s);
    struct rows *both[2] = {&hot, &cold};
    struct shelf shelf = {0};
    uint64_t ends = rows_key(1), stays = rows_key(2);
    float before[4], out[4];
    struct err e;
    for (int i = 0; i < 2; i++) {
        stats_push(both[i], ends, 1, 8, 1,
                   (struct stats_batch){.time = NOON, .batch = 1, .undo_clock = 1});
        stats_push(both[i], stays, 1, 8, 1,
                   (struct stats_batch){.time = NOON, .batch = 1, .undo_clock = 1});
    }
    table_pull(hot.table, &ends, 1, before);
    ck_assert_uint_eq(leave(&cold, &shelf, 0, 10), 2);
    fetch(&cold, &shelf, stays);
    for (uint32_t day = 1; day <= 3; day++) /* it expires in the last of these clocks */
        for (int i = 0; i < 2; i++)
            stats_push(both[i], stays, 1, 8, 1,
                       (struct stats_batch){
                           .time = NOON + day * DAY, .batch = 1 + day, .undo_clock = 1 + day});
    ck_assert(!stats_has(&hot, ends));
    table_pull(hot.table, &ends, 1, out);
    ck_assert_mem_ne(out, before, sizeof out);
    pull_before(hot.table, &ends, 1, 4, out);
    ck_assert_mem_eq(out, before, sizeof out);
    size_t bytes = table_image_bytes(cold.table, 0); /* the same after a restart */
    void *image = malloc(bytes);
    table_image_write(cold.table, 0, image);
    ck_assert_int_eq(table_image_read(again.table, 0, image, bytes, &e), 0);
    free(image);
    both[0] = &again;
    for (int i = 0; i < 2; i++) {
        ck_assert(table_cold_has(both[i]->table, ends));
        fetch(both[i], &shelf, ends);
        ck_assert(!stats_has(both[i], ends));
        pull_before(both[i]->table, &ends, 1, 4, out);
        ck_assert_mem_eq(out, before, sizeof out);
        pull_before(both[i]->table, &ends, 1, 3, out); /* undo of another clock is not kept */
        ck_assert_mem_ne(out, before, sizeof out);
    }
    shelf_clear(&shelf);
    rows_close(&hot);
    rows_close(&cold);
    rows_close(&again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cold");
    TCase *c = tcase_create("cold");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, crafted_keys_in_the_set_are_found_soon);
    tcase_add_test(c, rows_that_left_are_counted_and_come_back_as_they_were);
    tcase_add_test(c, the_least_used_rows_leave_first);
    tcase_add_test(c, a_row_that_was_only_read_leaves_without_a_write);
    tcase_add_test(c, rows_that_are_used_often_stay_and_not_those_that_were_used_last);
    tcase_add_test(c, rows_that_await_their_push_are_spared_once);
    tcase_add_test(c, rows_cool_down_when_too_few_are_cold);
    tcase_add_test(c, a_table_that_rows_have_left_is_known);
    tcase_add_test(c, a_tablet_that_is_forgotten_puts_all_its_rows);
    tcase_add_test(c, a_tablet_that_is_forgotten_forgets_key_zero);
    tcase_add_test(c, rows_that_stay_keep_their_pairs);
    tcase_add_test(c, an_epoch_is_in_the_image);
    tcase_add_test(c, a_row_that_is_touched_after_it_was_chosen_stays);
    tcase_add_test(c, a_put_that_fails_ends_the_choice);
    tcase_add_test(c, a_pair_of_another_length_is_refused);
    tcase_add_test(c, rows_of_dense_tables_and_of_tables_with_a_capacity_stay);
    tcase_add_test(c, late_ageing_is_as_ageing_in_time);
    tcase_add_test(c, plain_rows_come_and_go);
    tcase_add_test(c, what_a_table_has_of_the_arena_is_known);
    tcase_add_test(c, a_row_that_comes_back_without_its_clock_differs);
    tcase_add_test(c, dropped_field_is_not_cold_any_more);
    tcase_add_test(c, evicted_rows_are_not_cold_any_more);
    tcase_add_test(c, rows_that_go_for_good_are_told);
    tcase_add_test(c, an_image_lists_what_leaves_with_it);
    tcase_add_test(c, the_set_holds_what_was_put_in);
    tcase_add_test(c, a_row_that_ended_unnoticed_in_this_clock_has_its_undo);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
