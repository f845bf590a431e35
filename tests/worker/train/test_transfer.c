/* test_transfer.c: pulls and pushes of one batch against shards that answer as the case says. */
#include "proto/base/key.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_script.h"
#include "worker/train/transfer.h"

#include <check.h>
#include <string.h>

static struct rows *rows;
static struct transfer transfer;
static uint64_t keys[2]; /* one in each shard */
static uint32_t done, poisoned, gaps;
static uint32_t earlier;   /* parts of earlier pushes without acknowledgement, at each gap */
static struct ahead later; /* of a batch that awaits rows from the push */
static uint32_t rows_came, rows_missing, arrived;
static int refused;
static uint64_t gap_order, staleness[STALENESS_CELLS];

static void on_done(struct transfer *t)
{
    (void)t;
    done++;
}

static void on_refused(struct transfer *t, int status, const char *text)
{
    (void)t;
    ck_assert_uint_gt(strlen(text), 0);
    refused = status;
}

static void on_poisoned(struct transfer *t, const struct part *p, const char *text)
{
    (void)t, (void)p, (void)text;
    poisoned++;
}

static uint32_t on_gap(struct transfer *t, const struct part *p, uint64_t order)
{
    (void)t;
    ck_assert_uint_eq(p->tablet_count, 32);
    gaps++;
    gap_order = order;
    return earlier;
}

static void on_echoed(struct transfer *t, const struct part *p, const struct wire_PUSH_reply *reply,
                      const void *came)
{
    (void)t;
    ck_assert_uint_eq(p->key_count, 1);
    ck_assert(came == NULL || reply->key_count == 1);
    rows_came += came != NULL;
    rows_missing += came == NULL;
    ahead_settle(&rows->ahead, 0, p->key_first, &later, came != NULL);
}

static void on_arrived(struct transfer *t)
{
    ck_assert_uint_gt(t->pending, 0);
    arrived++;
}

static void setup(void)
{
    rows_came = rows_missing = arrived = 0;
    done = poisoned = gaps = earlier = 0;
    refused = 0;
    memset(staleness, 0, sizeof staleness);
}

static void teardown(void)
{
    transfer_close(&transfer);
    ahead_close(&later);
    rows_release(rows);
    script_close();
}

static void start(bool push)
{
    const struct transfer_name name = {
        .run = SCRIPT_RUN, .generation = 1, .batch = 1, .lr_scale = 1};
    struct err e = {0};
    ck_assert_msg(transfer_start(&transfer, &name, push, &e) == 0, "%s", e.text);
}

static bool of_shard(uint64_t key, uint32_t shard)
{
    return key_tablet(key_mix(key), script.schema[0].tablet_bits) / 32 == shard;
}

static void open_with(bool (*answer)(const struct wire *in, uint32_t node, uint32_t n,
                                     struct wire *out))
{
    static float floats[64];
    struct err e = {0};
    script_open(answer);
    client_set_resend(script.client, 1000);
    ck_assert_int_eq(rows_new(script.model, NULL, script.schema, 1, 4, 1, &rows, &e), 0);
    for (uint32_t shard = 0; shard < 2; shard++)
        for (keys[shard] = 0; !of_shard(keys[shard], shard);)
            keys[shard]++;
    rows->table[0].keys = rows->table[0].pull_keys = keys;
    rows->table[0].key_count = rows->table[0].pull_count = 2;
    rows->table[0].gradients = rows->table[0].pulled = floats;
    transfer_init(&transfer, script.client, rows);
    transfer.done = on_done;
    transfer.refused = on_refused;
    transfer.poisoned = on_poisoned;
    transfer.gap = on_gap;
    transfer.echoed = on_echoed;
    transfer.arrived = on_arrived;
    transfer.staleness = staleness;
}

/* Returns when the n-th push came to shard 0, in ms after the first. */
static uint64_t push_ms(uint32_t n)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < script.count; i++)
        if (script.seen[i].node == 0) {
            if (first == UINT64_MAX)
                first = script.seen[i].at_ns;
            if (n-- == 0)
                return (script.seen[i].at_ns - first) / SCRIPT_MS;
        }
    return UINT64_MAX;
}

/* ---- pushes ---------------------------------------------------------------------------------- */

static bool three_gaps(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)in;
    out->status = node == 0 && n < 3 ? SHOAL_E_GAP : 0;
    return true;
}

/* The first gap usually comes from a push that was overtaken. */
START_TEST(push_goes_again_at_once_at_the_first_gap_alone)
{
    open_with(three_gaps);
    earlier = 1;
    start(true);
    script_run_ms(1000);
    ck_assert_uint_eq(push_ms(1), 0);
    ck_assert_uint_ge(push_ms(2), 50);
    ck_assert_uint_ge(push_ms(3), 150);
    ck_assert_uint_eq(gaps, 3);
    ck_assert_uint_eq(done, 1);
}
END_TEST

static bool gaps_for_ever(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)in, (void)n;
    out->status = node == 0 ? SHOAL_E_GAP : 0;
    return true;
}

START_TEST(push_is_lost_after_ten_gaps_with_nothing_before_it)
{
    open_with(gaps_for_ever);
    earlier = 1;
    start(true);
    script_run_ms(60000);
    ck_assert_uint_gt(gaps, 20); /* while an earlier push is in flight, any number is allowed */
    ck_assert_int_eq(refused, 0);
    earlier = gaps = 0;
    script_run_ms(60000);
    ck_assert_uint_eq(gaps, 10);
    ck_assert_int_eq(refused, SHOAL_E_GAP);
    ck_assert_uint_eq(transfer.pending, 0);
}
END_TEST

static bool not_leader_once(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    out->status = node == 0 && n == 0 ? SHOAL_E_NOT_LEADER : 0;
    if (in->type == WIRE_TYPE_PULL)
        out->u.PULL_reply =
            (struct wire_PULL_reply){.key_count = 1, .width = script.schema[0].width};
    return true;
}

START_TEST(push_that_is_not_the_shards_asks_for_the_map)
{
    open_with(not_leader_once);
    uint32_t before = script.maps;
    start(_i == 0); /* and a pull */
    script_run_ms(10);
    ck_assert_uint_eq(script.maps, before + 1);
    script_run_ms(1000);
    ck_assert_int_eq(refused, 0);
    ck_assert_uint_eq(done, 1);
}
END_TEST

/* (order of the push at shard 0) + _i - 1 */
START_TEST(push_goes_again_where_it_was_sent_before)
{
    const struct part p = {.tablet_count = 32};
    open_with(gaps_for_ever);
    earlier = 1;
    start(true);
    script_run_ms(0);
    script_run_ms(1); /* the second gap answers the second sending */
    ck_assert_uint_eq(gaps, 2);
    uint32_t before = script_count(WIRE_TYPE_PUSH);
    ck_assert_uint_eq(transfer_resend(&transfer, &p, gap_order + (uint64_t)_i - 1), 1);
    script_run_ms(1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_PUSH) - before, _i == 2);
}
END_TEST

static bool first_lost(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    out->u.PUSH_reply.skipped = node == 0;
    return in->type != WIRE_TYPE_PUSH || node != 0 || n > 0;
}

static bool skipped_at_once(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)in, (void)n;
    out->u.PUSH_reply.skipped = node == 0;
    return true;
}

/* A shard that leads no more may have passed the push on before. */
static bool not_leader_then_skipped(const struct wire *in, uint32_t node, uint32_t n,
                                    struct wire *out)
{
    not_leader_once(in, node, n, out);
    out->u.PUSH_reply.skipped = node == 0 && n > 0;
    return true;
}

/* A second copy may find the effect of the first one, which does not mean that the batch was
 * computed again. */
START_TEST(push_sent_twice_says_of_nothing_that_it_was_computed_again)
{
    static bool (*const answer[])(const struct wire *, uint32_t, uint32_t, struct wire *) = {
        first_lost, skipped_at_once, not_leader_then_skipped};
    open_with(answer[_i]);
    start(true);
    script_run_ms(3000);
    ck_assert_uint_eq(done, 1);
    ck_assert(transfer.skipped);
    ck_assert_int_eq(transfer.recomputed, _i == 1);
}
END_TEST

static bool not_finite_twice(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)in;
    out->status = node == 0 && n < 2 ? SHOAL_E_NOT_FINITE : 0;
    return true;
}

/* A late copy of the refusal: it cannot be about the tick. */
START_TEST(push_is_refused_for_its_values_once)
{
    open_with(not_finite_twice);
    start(true);
    script_run_ms(1000);
    ck_assert_uint_eq(poisoned, 1);
    ck_assert_uint_eq(done, 1);
    ck_assert_uint_eq(push_ms(1), 0); /* the tick, at once */
    ck_assert_uint_ge(push_ms(2), 50);
    ck_assert_uint_eq(transfer.keys, 1);
}
END_TEST

START_TEST(push_names_the_map_that_it_goes_by)
{
    open_with(skipped_at_once);
    start(true);
    script_run_ms(10);
    ck_assert_uint_eq(script_seen(WIRE_TYPE_PUSH, 0)->w.u.PUSH.map_epoch, 3);
}
END_TEST

/* ---- rows that come with a push -------------------------------------------------------------- */

static struct wire_PUSH_reply echoed;

static bool echoed_so(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)n;
    if (in->type == WIRE_TYPE_PUSH && node == 0)
        out->u.PUSH_reply = echoed;
    return true;
}

/* A later batch awaits the rows of all keys. */
static void await(void)
{
    const uint32_t count = 2;
    const struct ahead_keys all = {keys, 2};
    ck_assert_int_eq(ahead_begin(&rows->ahead, &count, 1, false), 0);
    ck_assert_int_eq(ahead_begin(&later, &count, 1, true), 0);
    ahead_divide(&later, 0, all, &rows->ahead, all, 1);
    ck_assert_uint_eq(later.waits, 2);
}

/* An answer has all the rows that were asked for, or none; others are refused. */
START_TEST(push_brings_all_rows_or_none)
{
    static const struct {
        uint32_t rows, wider;
        bool taken;
    } cases[] = {{1, 0, true}, {0, 0, true}, {0, 3, true}, {2, 0, false}, {1, 1, false}};
    open_with(echoed_so);
    echoed = (struct wire_PUSH_reply){.key_count = cases[_i].rows,
                                      .width = script.schema[0].width + cases[_i].wider};
    await();
    start(true);
    script_run_ms(10);
    ck_assert_uint_eq(script_seen(WIRE_TYPE_PUSH, 0)->w.u.PUSH.echo, 1);
    ck_assert_uint_eq(script_seen(WIRE_TYPE_PUSH, 1)->w.u.PUSH.echo, 1);
    ck_assert_int_eq(refused, cases[_i].taken ? 0 : SHOAL_E_SCHEMA);
    ck_assert_uint_eq(done, cases[_i].taken);
    if (!cases[_i].taken)
        return;
    ck_assert_uint_eq(rows_came, cases[_i].rows);
    ck_assert_uint_eq(rows_missing, 2 - cases[_i].rows);
    ck_assert_uint_eq(later.missed, rows_missing);
    ck_assert_uint_eq(later.waits, 0);
    ck_assert_uint_eq(arrived, 1); /* the first of two parts; the last one is `done` */
}
END_TEST

/* A part that goes out as a tick asks for no rows, and its owner learns that none come. */
START_TEST(push_that_becomes_a_tick_brings_no_rows)
{
    open_with(not_finite_twice);
    await();
    start(true);
    script_run_ms(1000);
    ck_assert_uint_eq(done, 1);
    ck_assert_uint_eq(rows_missing, 2);
    for (uint32_t i = 0, pushes = script_count(WIRE_TYPE_PUSH); i < pushes; i++) {
        const struct wire_PUSH *p = &script_seen(WIRE_TYPE_PUSH, i)->w.u.PUSH;
        ck_assert_uint_eq(p->echo, p->key_count);
    }
}
END_TEST

/* ---- pulls ----------------------------------------------------------------------------------- */

static struct wire_PULL_reply pulled[2];

static bool pulled_so(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    (void)n;
    if (in->type == WIRE_TYPE_PULL)
        out->u.PULL_reply = pulled[node];
    return true;
}

static void pull_so(uint32_t key_count, uint32_t width)
{
    for (uint32_t i = 0; i < 2; i++)
        pulled[i] = (struct wire_PULL_reply){.key_count = 1, .width = script.schema[0].width};
    pulled[0].key_count = key_count;
    pulled[0].width = width;
}

/* Rows of other keys, or of another table, are refused. */
START_TEST(pull_answered_by_another_number_of_rows_is_refused)
{
    open_with(pulled_so);
    uint32_t width = script.schema[0].width;
    pull_so(_i == 0 ? 2 : 1, _i == 1 ? width + 1 : width);
    start(false);
    script_run_ms(10);
    ck_assert_int_eq(refused, _i < 2 ? SHOAL_E_SCHEMA : 0);
    ck_assert_uint_eq(done, _i == 2);
    ck_assert_uint_eq(transfer.pending, 0);
}
END_TEST

/* A shard tells of which values its rows are: of the table's, of those asked for, or fp32. */
START_TEST(pull_takes_rows_of_any_values)
{
    open_with(pulled_so);
    pull_so(1, script.schema[0].width);
    pulled[0].values = (uint32_t)_i;
    start(false);
    script_run_ms(10);
    ck_assert_int_eq(refused, 0);
    ck_assert_uint_eq(done, 1);
}
END_TEST

/* Only the transfer's own parts count, not those of the transfer before. */
START_TEST(pull_was_held_as_long_as_its_slowest_part)
{
    open_with(pulled_so);
    for (uint32_t again = 0; again < 2; again++) {
        pull_so(1, script.schema[0].width);
        pulled[_i].waited_ns = again == 0 ? 50 : 7;
        pulled[1 - _i].waited_ns = again == 0 ? 20 : 0;
        start(false);
        script_run_ms(10);
        ck_assert_uint_eq(done, again + 1);
        ck_assert_uint_eq(transfer.held_ns, again == 0 ? 50 : 7);
        ck_assert_uint_eq(transfer.keys, 2);
    }
}
END_TEST

/* clock - 1 - low; unknown without a live lane, or while the lane is not ahead. */
START_TEST(pull_counts_how_stale_its_rows_are)
{
    static const struct {
        uint64_t clock, low;
        uint32_t cell;
    } cases[] = {{5, 2, 2}, {3, 2, 0}, {2, 2, 0}, {5, UINT64_MAX, 0}, {64, 0, 63}, {900, 0, 63}};
    open_with(pulled_so);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pull_so(1, script.schema[0].width);
        pulled[0].clock = pulled[1].clock = cases[i].clock;
        pulled[0].low = pulled[1].low = cases[i].low;
        uint64_t before = staleness[cases[i].cell];
        start(false);
        script_run_ms(10);
        ck_assert_uint_eq(staleness[cases[i].cell] - before, 2);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("transfer");
    TCase *c = suite_case(s, "transfer", 60, setup, teardown);
    tcase_add_test(c, push_goes_again_at_once_at_the_first_gap_alone);
    tcase_add_test(c, push_is_lost_after_ten_gaps_with_nothing_before_it);
    tcase_add_loop_test(c, push_that_is_not_the_shards_asks_for_the_map, 0, 2);
    tcase_add_loop_test(c, push_goes_again_where_it_was_sent_before, 0, 3);
    tcase_add_loop_test(c, push_sent_twice_says_of_nothing_that_it_was_computed_again, 0, 3);
    tcase_add_test(c, push_is_refused_for_its_values_once);
    tcase_add_test(c, push_names_the_map_that_it_goes_by);
    tcase_add_loop_test(c, push_brings_all_rows_or_none, 0, 5);
    tcase_add_test(c, push_that_becomes_a_tick_brings_no_rows);
    tcase_add_loop_test(c, pull_answered_by_another_number_of_rows_is_refused, 0, 3);
    tcase_add_loop_test(c, pull_takes_rows_of_any_values, 0, 3);
    tcase_add_loop_test(c, pull_was_held_as_long_as_its_slowest_part, 0, 2);
    tcase_add_test(c, pull_counts_how_stale_its_rows_are);
    return suite_main(s);
}
