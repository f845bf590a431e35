/* test_heat.c: the time of pulls and pushes by tablet, which decays, and the request HEAT. */
#include "server/shard/heat.h"
#include "tests/server/shard_rig.h"

enum { BITS = 4, TABLETS = 1 << BITS, KEYS = 1000 };
static const struct table_schema schema = {.table = 3, .tablet_bits = BITS};

static void heat_make(struct heat *h, uint32_t first, uint32_t span)
{
    *h = (struct heat){0};
    ck_assert_int_eq(heat_range(h, schema.table, first, span), 0);
}

static uint64_t heat_of(const struct heat *h, uint32_t tablet, enum heat_kind kind)
{
    return h->table[schema.table].ns[tablet - h->table[schema.table].first][kind];
}

/* n keys of a tablet, sorted by key_mix */
static uint32_t keys_of(uint64_t *keys, uint32_t tablet, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        keys[i] = key_unmix(((uint64_t)tablet << (64 - BITS)) + i);
    return n;
}

START_TEST(time_goes_to_tablets_by_their_keys)
{
    static const uint32_t of[TABLETS] = {1, 0, 2, 3, 7, 8, 9, 10, 0, 0, 4, 1, 1, 1, 1, 16};
    uint64_t keys[HEAT_KEYS];
    uint32_t n = 0;
    struct heat h;
    heat_make(&h, 0, TABLETS);
    for (uint32_t t = 0; t < TABLETS; t++)
        n += keys_of(keys + n, t, of[t]);
    ck_assert_uint_eq(n, HEAT_KEYS); /* as many as are looked at, one by one */
    heat_add(&h, &schema, HEAT_PUSH, keys, n, 50, 50 + 3 * n);
    for (uint32_t t = 0; t < TABLETS; t++) {
        ck_assert_uint_eq(heat_of(&h, t, HEAT_PUSH), 3 * of[t]);
        ck_assert_uint_eq(heat_of(&h, t, HEAT_PULL), 0);
    }
    heat_close(&h);
}
END_TEST

/* Some keys stand for all: over many requests each tablet has its share, also one with one key. */
START_TEST(many_keys_share_the_time_in_the_long_run)
{
    static const uint32_t of[TABLETS] = {1, 0, 2, 3, 7, 8, 9, 100, 0, 0, 31, 32, 33, 1, 1, 500};
    uint64_t keys[KEYS];
    uint32_t n = 0, requests = 10000;
    struct heat h;
    heat_make(&h, 0, TABLETS);
    for (uint32_t t = 0; t < TABLETS; t++)
        n += keys_of(keys + n, t, of[t]);
    for (uint32_t i = 0; i < requests; i++)
        heat_add(&h, &schema, HEAT_PULL, keys, n, 0, 7 * n);
    for (uint32_t t = 0; t < TABLETS; t++) {
        double share = 7.0 * of[t] * requests, is = (double)heat_of(&h, t, HEAT_PULL);
        ck_assert_msg(is >= 0.98 * share && is <= 1.02 * share, "tablet %u: %f of %f", t, is,
                      share);
    }
    heat_close(&h);
}
END_TEST

START_TEST(a_key_counts_one_nanosecond_where_the_clock_stands_still)
{
    uint64_t keys[KEYS];
    struct heat h;
    heat_make(&h, 0, TABLETS);
    heat_add(&h, &schema, HEAT_PULL, keys, keys_of(keys, 5, 20), 7, 7);
    heat_add(&h, &schema, HEAT_PULL, keys, 0, 7, 900); /* a tick has no keys */
    ck_assert_uint_eq(heat_of(&h, 5, HEAT_PULL), 20);
    heat_close(&h);
}
END_TEST

START_TEST(sums_halve_in_five_minutes)
{
    uint64_t key = key_unmix(0);
    struct heat h;
    heat_make(&h, 0, TABLETS);
    heat_add(&h, &schema, HEAT_PULL, &key, 1, 0, 1000000);
    heat_shrink(&h, HEAT_HALF_NS - 1);
    ck_assert_uint_gt(heat_of(&h, 0, HEAT_PULL), 530000);
    heat_shrink(&h, HEAT_HALF_NS);
    ck_assert_uint_ge(heat_of(&h, 0, HEAT_PULL), 499000);
    ck_assert_uint_le(heat_of(&h, 0, HEAT_PULL), 501000);
    /* a request shrinks them, too */
    heat_add(&h, &schema, HEAT_PULL, &key, 1, 2 * HEAT_HALF_NS, 2 * HEAT_HALF_NS);
    ck_assert_uint_le(heat_of(&h, 0, HEAT_PULL), 251000);
    heat_shrink(&h, 1000 * HEAT_HALF_NS);
    ck_assert_uint_eq(heat_of(&h, 0, HEAT_PULL), 0);
    heat_close(&h);
}
END_TEST

START_TEST(tablets_that_stay_keep_their_sums)
{
    uint64_t keys[HEAT_KEYS];
    uint32_t n = 0;
    struct heat h;
    heat_make(&h, 4, 4);
    for (uint32_t t = 0; t < TABLETS; t++)
        n += keys_of(keys + n, t, 4);
    heat_add(&h, &schema, HEAT_PUSH, keys, n, 0, n); /* of 4 to 7, the others are not led */
    ck_assert_int_eq(heat_range(&h, schema.table, 6, 6), 0);
    ck_assert_uint_eq(heat_of(&h, 6, HEAT_PUSH), 4);
    ck_assert_uint_eq(heat_of(&h, 7, HEAT_PUSH), 4);
    ck_assert_uint_eq(heat_of(&h, 8, HEAT_PUSH), 0);
    ck_assert_uint_eq(heat_of(&h, 11, HEAT_PUSH), 0);
    ck_assert_int_eq(heat_range(&h, schema.table, 0, 0), 0);
    ck_assert_ptr_null(h.table[schema.table].ns);
    heat_add(&h, &schema, HEAT_PUSH, keys, n, 0, n);
    heat_close(&h);
}
END_TEST

/* A peer that breaks the order gets other shares, and nothing else happens. */
START_TEST(unsorted_keys_do_no_harm)
{
    uint64_t keys[HEAT_KEYS], sum = 0;
    struct heat h;
    heat_make(&h, 0, TABLETS);
    for (uint32_t i = 0; i < HEAT_KEYS; i++)
        keys[i] = key_unmix((uint64_t)(i * 7 % TABLETS) << (64 - BITS));
    heat_add(&h, &schema, HEAT_PUSH, keys, HEAT_KEYS, 0, HEAT_KEYS);
    for (uint32_t t = 0; t < TABLETS; t++)
        sum += heat_of(&h, t, HEAT_PUSH);
    ck_assert_uint_eq(sum, HEAT_KEYS);
    heat_close(&h);
}
END_TEST

static uint64_t ask(struct rig *r, uint32_t table)
{
    struct wire w = rig_wire(r, WIRE_TYPE_HEAT);
    w.u.HEAT.table = table;
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

START_TEST(a_shard_tells_rows_bytes_and_time_of_its_tablets)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.to = 1, .key = rig_key(2, 0), .gradient = 1});
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(2, 1), .gradient = 1});
    rig_push(&r, (struct rig_push_args){.from = 2, .to = 3, .key = rig_key(9, 0), .gradient = 1});
    rig_run(&r, 20);
    rig_pull(&r, UINT32_MAX, 0, 0, rig_key(9, 0));
    rig_pull(&r, 0, 4, WIRE_BOUND_ASYNC, rig_key(9, 0));
    rig_run(&r, 20);
    uint64_t id = ask(&r, 0);
    rig_run(&r, 20);
    const struct wire_HEAT_reply *reply = &rig_reply(&r, id)->u.HEAT_reply;
    ck_assert_uint_eq(reply->tablet_first, 0);
    ck_assert_uint_eq(reply->tablet_count, 1u << RIG_BITS);
    const struct wire_heat *of = r.answer[id].m->frame[1].data;
    uint64_t row = 8 + 2 * sizeof(float); /* SGD has no state */
    ck_assert(memcmp(&of[2], &(struct wire_heat){2, 2 * row, 0, 2}, sizeof *of) == 0);
    ck_assert(memcmp(&of[9], &(struct wire_heat){1, row, 2, 1}, sizeof *of) == 0);
    ck_assert(memcmp(&of[3], &(struct wire_heat){0}, sizeof *of) == 0);
    rig_free(&r);
}
END_TEST

/* A push that is sent again is skipped, and costs no walk. */
START_TEST(a_skipped_push_adds_nothing)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (int i = 0; i < 2; i++)
        rig_push(&r, (struct rig_push_args){.to = 1, .key = rig_key(2, 0), .gradient = 1});
    rig_run(&r, 20);
    ck_assert_uint_eq(r.shard->counts.skipped, 1);
    ck_assert_uint_eq(r.shard->heat.table[0].ns[2][HEAT_PUSH], 1);
    rig_free(&r);
}
END_TEST

START_TEST(a_table_that_is_not_here_has_no_tablets_here)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t none = ask(&r, 9), far = ask(&r, UINT32_MAX);
    rig_run(&r, 20);
    ck_assert_uint_eq(rig_reply(&r, none)->u.HEAT_reply.tablet_count, 0);
    ck_assert_uint_eq(rig_reply(&r, far)->u.HEAT_reply.tablet_count, 0);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        time_goes_to_tablets_by_their_keys,
        many_keys_share_the_time_in_the_long_run,
        a_key_counts_one_nanosecond_where_the_clock_stands_still,
        sums_halve_in_five_minutes,
        tablets_that_stay_keep_their_sums,
        unsorted_keys_do_no_harm,
        a_shard_tells_rows_bytes_and_time_of_its_tablets,
        a_skipped_push_adds_nothing,
        a_table_that_is_not_here_has_no_tablets_here,
    };
    return rig_main("heat", tests, sizeof tests / sizeof tests[0]);
}
