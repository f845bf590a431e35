/* test_tablet.c: the arena and the tablet's index. */
#include "embedding/rows/tablet.h"
#include "proto/base/key.h"
#include "tests/lib/crafted.h"
#include "tests/lib/crafted_tablet.h"
#include "tests/lib/embedding_rows.h"

#include <signal.h>

static struct arena *arena;
static uint64_t taken;

static void setup(void)
{
    ck_assert_int_eq(arena_new(&arena), 0);
}

static void teardown(void)
{
    arena_free(arena);
}

START_TEST(arena_runs_do_not_overlap_and_are_taken_again)
{
    enum { RUNS = 400 };
    struct rng r = rng_of(1, 2, 3);
    uint32_t unit[RUNS], units[RUNS];
    for (int i = 0; i < RUNS; i++)
        units[i] = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t i = (uint32_t)rng_below(&r, RUNS);
        if (units[i] != 0) {
            uint32_t *first = arena_address(arena, unit[i]);
            for (uint32_t u = 0; u < units[i]; u++)
                ck_assert_uint_eq(first[u * ARENA_UNIT_BYTES / 4], i * 1000 + u);
            arena_give(arena, unit[i], units[i]);
            units[i] = 0;
        } else {
            units[i] = 1 + (uint32_t)rng_below(&r, rng_below(&r, 50) == 0 ? ARENA_CHUNK_UNITS : 48);
            unit[i] = arena_take(arena, units[i]);
            ck_assert(unit[i] != ARENA_NONE);
            ck_assert_uint_le(unit[i] % ARENA_CHUNK_UNITS + units[i], ARENA_CHUNK_UNITS);
            uint32_t *first = arena_address(arena, unit[i]);
            for (uint32_t u = 0; u < units[i]; u++)
                first[u * ARENA_UNIT_BYTES / 4] = i * 1000 + u;
        }
    }
    /* 200 live runs of about 29 units are 11 chunks; without recycling these rounds would have
     * taken 500. */
    ck_assert_uint_le(arena_bytes(arena), 40 * ARENA_CHUNK_BYTES);
}
END_TEST

START_TEST(arena_chunks_are_aligned_to_huge_pages)
{
    for (int i = 0; i < 40; i++) {
        uint32_t unit = arena_take(arena, ARENA_CHUNK_UNITS);
        ck_assert_uint_eq((uintptr_t)arena_address(arena, unit) % ARENA_CHUNK_BYTES, 0);
    }
    ck_assert_uint_eq(arena_bytes(arena), 40 * ARENA_CHUNK_BYTES);
    uint32_t unit;
    void *large = arena_block_take(arena, 3 * ARENA_CHUNK_BYTES - 5, &unit);
    ck_assert_uint_eq((uintptr_t)large % ARENA_CHUNK_BYTES, 0);
    memset(large, 1, 3 * ARENA_CHUNK_BYTES);
    ck_assert_uint_eq(arena_bytes(arena), 43 * ARENA_CHUNK_BYTES);
    arena_block_give(arena, large, 3 * ARENA_CHUNK_BYTES - 5, unit);
    ck_assert_uint_eq(arena_bytes(arena), 40 * ARENA_CHUNK_BYTES);
}
END_TEST

START_TEST(arena_refuses_a_unit_given_twice)
{
    uint32_t unit = arena_take(arena, 2);
    arena_give(arena, unit, 2);
    arena_give(arena, unit, 2);
}
END_TEST

START_TEST(shape_wastes_little_of_a_page)
{
    for (uint32_t floats = 1; floats <= 3 * LIMIT_WIDTH + 2; floats++) {
        struct tablet_shape s;
        tablet_shape_init(&s, arena, &taken, 4, floats);
        size_t page = s.page_units * ARENA_UNIT_BYTES, used = (size_t)s.page_rows * s.row_bytes;
        ck_assert(used <= page && s.page_rows >= 1 && s.page_rows <= 1u << s.place_bits);
        ck_assert_msg(used >= page * 3 / 4, "%u floats use %zu of %zu", floats, used, page);
    }
}
END_TEST

static void fill(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint64_t from,
                 uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t key = rows_key(i);
        ck_assert_ptr_null(tablet_find(t, s, key));
        float *row = tablet_insert(t, s, number, key);
        ck_assert_ptr_nonnull(row);
        ck_assert_ptr_eq(tablet_find(t, s, key), row);
        for (uint32_t f = 0; f < s->floats; f++)
            row[f] = (float)(i % 1000003) + (float)f * 0.125f;
    }
}

static void verify(const struct tablet *t, const struct tablet_shape *s, uint64_t to)
{
    ck_assert_uint_eq(t->row_count, to);
    for (uint64_t i = 0; i < to; i++) {
        const float *row = tablet_find(t, s, rows_key(i));
        ck_assert_ptr_nonnull(row);
        for (uint32_t f = 0; f < s->floats; f++)
            ck_assert(row[f] == (float)(i % 1000003) + (float)f * 0.125f);
    }
    for (uint64_t i = to; i < to + 1000; i++)
        ck_assert_ptr_null(tablet_find(t, s, rows_key(i)));
}

START_TEST(tablet_grow_keeps_rows)
{
    static const uint32_t floats[] = {1, 2, 20, 32, 51, 5000};
    static const uint64_t steps[] = {1, 13, 14, 100, 1000, 3000, 20000};
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, floats[_i]);
    tablet_init(&t);
    uint64_t rows = 0;
    verify(&t, &s, 0);
    for (int k = 0; k < 7; k++) {
        uint64_t to = floats[_i] == 5000 ? steps[k] / 10 : steps[k];
        fill(&t, &s, 3, rows, to < rows ? rows : to);
        rows = to < rows ? rows : to;
        verify(&t, &s, rows);
    }
    tablet_clear(&t, &s);
    verify(&t, &s, 0);
}
END_TEST

/* Beyond 2 MiB the index moves from units to chunks of its own. */
START_TEST(tablet_grow_keeps_rows_when_its_index_is_large)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    fill(&t, &s, 0, 0, 600000);
    ck_assert_uint_gt(t.bucket_count * sizeof(struct bucket), ARENA_CHUNK_BYTES);
    verify(&t, &s, 600000);
    tablet_clear(&t, &s);
}
END_TEST

START_TEST(tablet_grow_never_moves_a_row)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 8);
    tablet_init(&t);
    const float *row[50];
    fill(&t, &s, 9, 0, 50);
    for (uint64_t i = 0; i < 50; i++)
        row[i] = tablet_find(&t, &s, rows_key(i));
    fill(&t, &s, 9, 50, 50000);
    for (uint64_t i = 0; i < 50; i++)
        ck_assert_ptr_eq(row[i], tablet_find(&t, &s, rows_key(i)));
    tablet_clear(&t, &s);
}
END_TEST

/* All keys want the last bucket: the search has to wrap around the end and find them at the
 * beginning. */
START_TEST(tablet_full_buckets_run_over_the_end)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t key = key_unmix(UINT64_MAX - i);
        ck_assert_ptr_null(tablet_find(&t, &s, key));
        *tablet_insert(&t, &s, 0, key) = (float)i;
    }
    for (uint64_t i = 0; i < 300; i++)
        ck_assert(*tablet_find(&t, &s, key_unmix(UINT64_MAX - i)) == (float)i);
    ck_assert_ptr_null(tablet_find(&t, &s, key_unmix(UINT64_MAX - 300)));
    tablet_clear(&t, &s);
}
END_TEST

START_TEST(tablet_finds_key_zero_only_when_it_is_there)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    fill(&t, &s, 0, 0, 5);
    ck_assert_ptr_null(tablet_find(&t, &s, 0));
    *tablet_insert(&t, &s, 0, 0) = 5;
    ck_assert(*tablet_find(&t, &s, 0) == 5);
    tablet_clear(&t, &s);
}
END_TEST

START_TEST(tablets_grow_at_loads_of_their_own)
{
    struct tablet_shape s;
    uint32_t low = UINT32_MAX, high = 0;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    for (uint32_t number = 0; number < 64; number++) {
        struct tablet t;
        tablet_init(&t);
        ck_assert_int_eq(tablet_reserve(&t, &s, number, 1), 0);
        ck_assert_uint_eq(t.bucket_count, 4);
        low = t.grow_at < low ? t.grow_at : low;
        high = t.grow_at > high ? t.grow_at : high;
        tablet_clear(&t, &s);
    }
    ck_assert_uint_eq(low, 13);
    ck_assert_uint_ge(high, 16);
    ck_assert_uint_lt(high, 20);
}
END_TEST

/* Also in a tablet with other keys, and with an index that is read from its beginning to its
 * end. */
START_TEST(tablet_crafted_keys_are_found_as_fast_as_others)
{
    enum { KEYS = 30000, FAR = 192 };
    static const uint64_t others[] = {0, 100000};
    struct tablet_shape s;
    struct tablet t;
    uint64_t all = 0, salts = 0, growths = 0;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    fill(&t, &s, 0, 0, others[_i]);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct tablet before = t;
        *tablet_insert(&t, &s, 0, crafted_key(i)) = (float)i;
        ck_assert_uint_le(crafted_looked(&t, 0, crafted_key(i)), FAR);
        salts += t.salt != before.salt;
        growths += t.bucket_count != before.bucket_count;
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        ck_assert(*tablet_find(&t, &s, crafted_key(i)) == (float)i);
        all += crafted_looked(&t, 0, crafted_key(i));
    }
    ck_assert_uint_lt(all, 3 * KEYS);
    ck_assert(t.salt != 0 && salts <= growths + 1);
    for (uint64_t i = 0; i < others[_i]; i++)
        ck_assert_ptr_nonnull(tablet_find(&t, &s, rows_key(i)));
    tablet_clear(&t, &s);
    ck_assert_uint_eq(t.salt, 0);
}
END_TEST

/* Filled several times to the highest load that tablets reach: tablet number 28,657 grows at
 * 0.859. */
START_TEST(tablet_random_keys_never_lose_their_order)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    fill(&t, &s, 28657, 0, 300000);
    ck_assert_uint_eq(t.salt, 0);
    tablet_clear(&t, &s);
}
END_TEST

/* Whole vectors are loaded from buckets, the shared empty one included: clang once placed that at
 * an address that faulted. */
START_TEST(tablet_buckets_lie_on_cache_lines_at_every_size)
{
    struct tablet_shape s;
    struct tablet t;
    tablet_shape_init(&s, arena, &taken, 0, 1);
    tablet_init(&t);
    ck_assert_uint_eq(_Alignof(struct bucket), 64);
    ck_assert_uint_eq((uintptr_t)t.buckets % 64, 0);
    for (uint32_t rows = 1; rows < 1000000; rows *= 2) {
        ck_assert_int_eq(tablet_reserve(&t, &s, 0, rows), 0);
        ck_assert_uint_eq((uintptr_t)t.buckets % 64, 0);
    }
    tablet_clear(&t, &s);
}
END_TEST

START_TEST(tablet_gives_back_what_it_took)
{
    struct tablet_shape s;
    tablet_shape_init(&s, arena, &taken, 0, 32);
    uint64_t most = 0;
    for (int round = 0; round < 5; round++) {
        struct tablet t;
        tablet_init(&t);
        fill(&t, &s, 1, 0, 30000);
        tablet_clear(&t, &s);
        if (round == 0)
            most = arena_bytes(arena);
        ck_assert_uint_eq(arena_bytes(arena), most);
        ck_assert_uint_eq(taken, 0);
    }
    for (uint32_t c = 0; c < arena->chunk_count; c++)
        ck_assert_uint_eq(arena->free_units[c], ARENA_CHUNK_UNITS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tablet");
    TCase *c = tcase_create("tablet");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 240); /* for page faults of a slow machine */
    tcase_add_test(c, arena_runs_do_not_overlap_and_are_taken_again);
    tcase_add_test(c, arena_chunks_are_aligned_to_huge_pages);
    tcase_add_test_raise_signal(c, arena_refuses_a_unit_given_twice, SIGABRT);
    tcase_add_test(c, shape_wastes_little_of_a_page);
    tcase_add_loop_test(c, tablet_grow_keeps_rows, 0, 6);
    tcase_add_test(c, tablet_grow_keeps_rows_when_its_index_is_large);
    tcase_add_test(c, tablet_grow_never_moves_a_row);
    tcase_add_test(c, tablet_full_buckets_run_over_the_end);
    tcase_add_test(c, tablet_finds_key_zero_only_when_it_is_there);
    tcase_add_test(c, tablets_grow_at_loads_of_their_own);
    tcase_add_loop_test(c, tablet_crafted_keys_are_found_as_fast_as_others, 0, 2);
    tcase_add_test(c, tablet_random_keys_never_lose_their_order);
    tcase_add_test(c, tablet_buckets_lie_on_cache_lines_at_every_size);
    tcase_add_test(c, tablet_gives_back_what_it_took);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
