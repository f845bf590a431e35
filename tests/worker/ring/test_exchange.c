/* test_exchange.c: members pass chunks to each other by hand, in any order and twice: every member
 * gets the sum of all lanes, in the promised order, bit for bit. */
#include "tests/lib/suite.h"
#include "tests/worker/ring/ring_case.h"

#include <math.h>
#include <string.h>

enum { MEMBERS = 64, QUEUE = 4096, CHUNK_MOST = 2048 };

struct sent {
    struct exchange_chunk chunk;
    uint32_t to;
    float values[CHUNK_MOST];
};

static struct exchange *member[MEMBERS];
static struct exchange_part *part[MEMBERS];
static float *floats[MEMBERS];
static struct way_shape shape;
static struct way_cut cut;
static struct sent queue[QUEUE];
static uint32_t queued;
static struct rng rng;
static float *expected;

static void ring_new(uint32_t lanes, uint32_t starts, uint32_t members, uint64_t weighted,
                     uint64_t plain, enum value_kind values)
{
    ck_assert_int_eq(way_shape_even(lanes, starts, members, &shape, NULL), 0);
    case_cut(weighted, plain, starts, &cut);
    ck_assert_uint_le(cut.floats, CHUNK_MOST);
    queued = 0;
    expected = calloc(weighted + plain, sizeof *expected);
    for (uint32_t i = 0; i < members; i++) {
        struct exchange_options o = {.shape = shape, .member = i, .cut = cut, .values = values};
        uint32_t own = shape.first[i + 1] - shape.first[i];
        ck_assert_int_eq(exchange_new(&o, &member[i], NULL), 0);
        floats[i] = calloc(own * (weighted + plain), sizeof(float));
        part[i] = calloc(own, sizeof *part[i]);
    }
}

static void ring_free(void)
{
    for (uint32_t i = 0; i < shape.members; i++) {
        exchange_free(member[i]);
        free(floats[i]);
        free(part[i]);
    }
    free(expected);
}

static void begin(uint32_t i, uint64_t step)
{
    case_parts(shape.first[i], shape.first[i + 1], step, &cut, floats[i], part[i]);
    exchange_begin(member[i], part[i]);
}

/* Puts what a member sends into the queue. */
static void collect(uint32_t i)
{
    struct sent s = {.to = (i + 1) % shape.members};
    while (exchange_next(member[i], &s.chunk)) {
        ck_assert(exchange_wanted(member[i], &s.chunk));
        exchange_values(member[i], &s.chunk, s.values);
        ck_assert_uint_lt(queued, QUEUE);
        queue[queued++] = s;
    }
}

/* Delivers one of the messages under way; most are delivered once, some stay to come again. */
static void deliver(bool twice)
{
    uint32_t at = (uint32_t)rng_below(&rng, queued);
    struct sent s = queue[at];
    struct err e = {0};
    ck_assert_msg(exchange_take(member[s.to], &s.chunk, s.values, &e) == 0, "%s", e.text);
    if (!twice || rng_below(&rng, 3) != 0)
        queue[at] = queue[--queued];
    collect(s.to);
}

static void check_sum(uint64_t step)
{
    uint64_t weight;
    case_sum(shape.lanes, shape.starts, step, &cut, expected);
    for (uint32_t i = 0; i < shape.members; i++) {
        ck_assert(exchange_complete(member[i]));
        ck_assert_uint_eq(exchange_step(member[i]), step);
        const float *sum = exchange_sum(member[i], &weight);
        ck_assert_uint_eq(weight, case_weights(shape.lanes, step));
        if (weight > 0)
            ck_assert_mem_eq(sum, expected, (cut.weighted + cut.plain) * sizeof *sum);
    }
}

static void steps(uint64_t last, bool twice)
{
    for (uint64_t step = 1; step <= last; step++) {
        for (uint32_t i = 0; i < shape.members; i++) {
            begin(i, step);
            collect(i);
        }
        while (queued > 0)
            deliver(twice);
        check_sum(step);
    }
}

static void summed(uint32_t lanes, uint32_t starts, uint32_t members)
{
    rng = rng_of(lanes, starts, members);
    ring_new(lanes, starts, members, 5000, 300, VALUES_FP32);
    steps(4, false);
    ring_free();
}

START_TEST(exchange_sums_in_the_promised_order)
{
    summed(1, 1, 1);
    summed(5, 3, 1); /* one member adds all, from the start of each chunk */
    summed(2, 2, 2);
    summed(3, 3, 3);
    summed(8, 8, 3);
    summed(8, 3, 8);
    summed(7, 4, 5);
    summed(64, 64, 64);
    summed(130, 64, 64);
}
END_TEST

/* The bits depend on lanes and starts, not on how many members hold the lanes: the expected sum of
 * `summed` knows no members. Another number of starts gives other bits. */
START_TEST(exchange_starts_decide_the_bits)
{
    struct way_cut c;
    float one[64], other[64];
    case_cut(64, 0, 1, &c);
    case_sum(6, 1, 1, &c, one);
    case_cut(64, 0, 3, &c);
    case_sum(6, 3, 1, &c, other);
    ck_assert(memcmp(one, other, sizeof one) != 0);
    for (uint32_t members = 1; members <= 6; members++)
        summed(6, 4, members);
}
END_TEST

START_TEST(exchange_a_doubled_chunk_changes_nothing)
{
    rng = rng_of(1, 2, 3);
    ring_new(8, 4, 3, 9000, 100, VALUES_FP32);
    steps(6, true);
    ring_free();
}
END_TEST

/* Member 0 ends step 1 and begins step 2 while member 1 lacks a chunk of step 1. */
START_TEST(exchange_takes_one_step_ahead)
{
    rng = rng_of(4, 5, 6);
    ring_new(2, 2, 2, 4000, 0, VALUES_FP32);
    begin(0, 1);
    begin(1, 1);
    collect(0);
    collect(1);
    struct sent late = {.to = 2};
    while (queued > 0) {
        struct way w;
        struct sent s = queue[0];
        memmove(queue, queue + 1, --queued * sizeof *queue);
        way_of(&shape, s.to, s.chunk.chunk, &w);
        if (s.to == 1 && s.chunk.hop == w.sum_hop && late.to == 2) {
            late = s;
            continue;
        }
        ck_assert_int_eq(exchange_take(member[s.to], &s.chunk, s.values, NULL), 0);
        collect(s.to);
    }
    ck_assert(exchange_complete(member[0]) && !exchange_complete(member[1]));
    begin(0, 2);
    collect(0);
    while (queued > 0)
        deliver(false);
    ck_assert_int_eq(exchange_take(member[1], &late.chunk, late.values, NULL), 0);
    ck_assert_uint_eq(exchange_step(member[1]), 1);

    begin(1, 2);
    collect(1);
    while (queued > 0)
        deliver(false);
    check_sum(2);
    ring_free();
}
END_TEST

static void refused(struct exchange_chunk c, const char *why)
{
    static const float nothing[CHUNK_MOST];
    struct err e = {0};
    ck_assert_int_eq(exchange_take(member[1], &c, nothing, &e), SHOAL_E_MALFORMED);
    ck_assert_msg(strstr(e.text, why) != NULL, "%s", e.text);
}

START_TEST(exchange_refuses_what_no_member_sends)
{
    ring_new(3, 3, 3, 5000, 0, VALUES_FP32);
    uint32_t whole = way_place(&cut, 0).floats, other = way_place(&cut, 1).floats;
    begin(1, 1);
    refused((struct exchange_chunk){3, 1, 0, 0, whole, VALUES_FP32, false}, "step 3");
    refused((struct exchange_chunk){1, 1, cut.chunks, 0, whole, VALUES_FP32, false},
            "other chunks");
    refused((struct exchange_chunk){1, 1, 0, 0, whole - 1, VALUES_FP32, false}, "other chunks");
    refused((struct exchange_chunk){1, 0, 0, 0, whole, VALUES_FP32, false}, "other chunks");
    refused((struct exchange_chunk){1, 1, 0, 1, whole, VALUES_FP32, false}, "does not come by");
    refused((struct exchange_chunk){1, 1, 1, UINT32_MAX, other, VALUES_FP32, false},
            "does not come by");
    /* the sum of a chunk to which this member has not added */
    refused((struct exchange_chunk){1, 1, 0, 3, whole, VALUES_FP32, false},
            "before this member's lanes");
    ring_free();
}
END_TEST

static void even(uint32_t members)
{
    ring_new(members, members, members, (uint64_t)members * 4 * WAY_CHUNK_LEAST, 0, VALUES_FP32);
    ck_assert_uint_eq(cut.chunks, members * 4);
    uint64_t sent[MEMBERS] = {0};
    case_all_weigh = true;
    for (uint32_t i = 0; i < members; i++)
        begin(i, 1);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < members; i++) {
            struct sent s = {.to = (i + 1) % members};
            while (exchange_next(member[i], &s.chunk)) {
                more = true;
                ck_assert_uint_eq(s.chunk.floats, cut.floats);
                sent[i] += s.chunk.floats;
                exchange_values(member[i], &s.chunk, s.values);
                ck_assert_int_eq(exchange_take(member[s.to], &s.chunk, s.values, NULL), 0);
            }
        }
    }
    for (uint32_t i = 0; i < members; i++)
        ck_assert_uint_eq(sent[i] * members, 2 * (members - 1) * cut.weighted);
    check_sum(1);
    case_all_weigh = false;
    ring_free();
}

START_TEST(exchange_sends_the_least)
{
    even(2);
    even(3);
    even(8);
    even(64);
}
END_TEST

/* Contributions whose units of 16 floats lie in another order than the array's: each float is added
 * up as in that order. */
START_TEST(exchange_takes_contributions_in_another_order)
{
    enum { UNITS = 96, FLOATS = UNITS * 16 };
    static float x[FLOATS], must[FLOATS];
    static uint32_t order[UNITS];
    uint64_t weight;
    for (uint32_t i = 0; i < UNITS; i++)
        order[i] = i * 7 % UNITS;
    ring_new(1, 1, 1, FLOATS, 0, VALUES_FP32);
    struct exchange_options o = {.shape = shape, .cut = cut, .order = {order}};
    exchange_free(member[0]);
    ck_assert_int_eq(exchange_new(&o, &member[0], NULL), 0);
    for (uint32_t i = 0; i < FLOATS; i++)
        x[i] = case_value(0, 1, i);
    for (uint32_t i = 0; i < FLOATS; i++)
        must[i] = 3.0f * x[order[i / 16] * 16 + i % 16];
    const struct exchange_part one = {x, NULL, 3};
    exchange_begin(member[0], &one);
    ck_assert_mem_eq(exchange_sum(member[0], &weight), must, sizeof must);
    ring_free();
}
END_TEST

/* ---- shards ---------------------------------------------------------------------------------- */

static uint32_t bad_chunk; /* its sum is refused */

/* Parameters of the test: a function of the sum and its weight. */
static bool halves(void *owner, const struct way_place *p, const float *sum, uint64_t weight,
                   float *out)
{
    (void)owner;
    for (uint32_t i = 0; i < p->floats; i++)
        out[i] = sum[i] / (float)weight;
    return bad_chunk == UINT32_MAX || p->at != way_place(&cut, bad_chunk).at;
}

static void shards_new(uint32_t lanes, uint32_t starts, uint32_t members, enum value_kind values)
{
    ring_new(lanes, starts, members, 5008, 304, values);
    bad_chunk = cut.chunks - 1;
    for (uint32_t i = 0; i < members; i++) {
        struct exchange_options o = {
            .shape = shape, .member = i, .cut = cut, .values = values, .shards = {halves, NULL}};
        exchange_free(member[i]);
        ck_assert_int_eq(exchange_new(&o, &member[i], NULL), 0);
    }
}

/* Every message is acknowledged as it is delivered. */
static void deliver_acknowledged(uint32_t from)
{
    struct sent s = queue[from];
    struct err e = {0};
    uint32_t by = (s.to + shape.members - 1) % shape.members;
    ck_assert_msg(exchange_take(member[s.to], &s.chunk, s.values, &e) == 0, "%s", e.text);
    queue[from] = queue[--queued];
    exchange_arrived(member[by], &s.chunk);
    collect(s.to);
}

/* The keepers have the sum, and all others its parameters. */
static void check_shards(uint64_t step, bool refused_one)
{
    uint64_t weight;
    case_sum(shape.lanes, shape.starts, step, &cut, expected);
    for (uint32_t i = 0; i < shape.members; i++) {
        ck_assert_uint_eq(exchange_step(member[i]), step);
        struct way w; /* the owner of the chunk sees the sum itself */
        way_of(&shape, i, cut.chunks - 1, &w);
        ck_assert(exchange_refused(member[i]) == (refused_one && w.sum_hop != WAY_NO_HOP));
        const float *got = exchange_sum(member[i], &weight);
        for (uint32_t c = 0; c < cut.chunks && weight > 0; c++) {
            struct way_place p = way_place(&cut, c);
            bool kept = way_kept(&shape, i) >> c % cut.starts & 1;
            for (uint64_t f = p.at; f < p.at + p.floats; f++)
                if (kept)
                    ck_assert(got[f] == expected[f]);
                else if (c != bad_chunk || !refused_one)
                    ck_assert(got[f] == expected[f] / (float)weight);
        }
    }
}

static void shards_summed(uint32_t lanes, uint32_t starts, uint32_t members, bool refused_one)
{
    rng = rng_of(lanes, starts, members);
    shards_new(lanes, starts, members, VALUES_FP32);
    if (!refused_one)
        bad_chunk = UINT32_MAX;
    for (uint64_t step = 1; step <= 4; step++) {
        for (uint32_t i = 0; i < members; i++) {
            begin(i, step);
            collect(i);
        }
        while (queued > 0)
            deliver_acknowledged((uint32_t)rng_below(&rng, queued));
        check_shards(step, refused_one);
    }
    ring_free();
}

START_TEST(exchange_of_shards_gives_sums_to_keepers_and_parameters_to_others)
{
    shards_summed(1, 1, 1, false);
    shards_summed(4, 2, 2, false);
    shards_summed(3, 3, 3, false);
    shards_summed(8, 5, 4, false);
    shards_summed(5, 2, 5, false);
}
END_TEST

/* One chunk's sum is refused: every member learns of it. */
START_TEST(exchange_of_shards_refuses_a_step_everywhere)
{
    case_all_weigh = true;
    shards_summed(4, 4, 4, true);
    shards_summed(3, 3, 2, true);
    case_all_weigh = false;
}
END_TEST

/* Acknowledgements of sums are held back: no member completes the step whose second may lack one,
 * and when a member has completed it, every keeper has what it takes to make it. */
START_TEST(exchange_completes_a_sharded_step_at_its_keepers_first)
{
    enum { TRIALS = 60 };
    rng = rng_of(3, 1, 4);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        shards_new(6, 4, 3 + trial % 3, VALUES_FP32);
        bad_chunk = UINT32_MAX;
        case_all_weigh = true;
        for (uint32_t i = 0; i < shape.members; i++) {
            begin(i, 1);
            collect(i);
        }
        bool first = false;
        while (queued > 0 && !first) {
            deliver_acknowledged((uint32_t)rng_below(&rng, queued));
            for (uint32_t i = 0; i < shape.members; i++)
                first = first || exchange_step(member[i]) == 1;
        }
        ck_assert(first);
        uint64_t whole = 0;
        for (uint32_t i = 0; i < shape.members; i++)
            if (exchange_step(member[i]) == 1)
                (void)exchange_sum(member[i], &whole);
        for (uint32_t i = 0; i < shape.members; i++) {
            uint64_t weight = whole; /* of all lanes, whatever chunks others keep have by now */
            ck_assert(exchange_step(member[i]) == 1 || exchange_begun(member[i], &weight) != NULL);
            ck_assert_uint_eq(weight, whole);
        }
        case_all_weigh = false;
        ring_free();
    }

    shards_new(2, 2, 2, VALUES_FP32);
    bad_chunk = UINT32_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        begin(i, 1);
        collect(i);
    }
    while (queued > 0)
        deliver(false); /* and nothing is acknowledged */
    ck_assert(exchange_step(member[0]) == 0 && exchange_step(member[1]) == 0);
    ring_free();
}
END_TEST

/* bf16 is for sums: parameters travel whole, and a chunk of the other kind is refused. */
START_TEST(exchange_never_rounds_parameters)
{
    struct way w;
    uint32_t rounded = 0, whole = 0;
    rng = rng_of(2, 7, 1);
    shards_new(4, 4, 4, VALUES_BF16);
    bad_chunk = UINT32_MAX;
    case_all_weigh = true;
    for (uint32_t i = 0; i < 4; i++) {
        begin(i, 1);
        collect(i);
    }
    while (queued > 0) {
        struct sent s = queue[queued - 1];
        way_of(&shape, s.to, s.chunk.chunk, &w);
        bool parameters = s.chunk.hop > w.last;
        ck_assert_int_eq(s.chunk.values, parameters ? VALUES_FP32 : VALUES_BF16);
        struct exchange_chunk other = s.chunk;
        other.values = parameters ? VALUES_BF16 : VALUES_FP32;
        ck_assert_int_eq(exchange_take(member[s.to], &other, s.values, NULL), SHOAL_E_MALFORMED);
        whole += parameters;
        rounded += !parameters;
        deliver_acknowledged(queued - 1);
    }
    ck_assert(whole > 0 && rounded > whole);
    case_all_weigh = false;
    ring_free();
}
END_TEST

/* No lane has an example: the step is complete and has no sum. */
START_TEST(exchange_of_nothing_has_no_weight)
{
    uint64_t weight;
    ring_new(4, 2, 2, 3000, 20, VALUES_FP32);
    for (uint32_t i = 0; i < 2; i++) {
        case_parts(shape.first[i], shape.first[i + 1], 1, &cut, floats[i], part[i]);
        for (uint32_t l = 0; l < 2; l++)
            part[i][l].weight = 0;
        exchange_begin(member[i], part[i]);
        collect(i);
    }
    while (queued > 0) {
        ck_assert_uint_eq(queue[0].chunk.floats, 0);
        deliver(false);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(exchange_step(member[i]), 1);
        (void)exchange_sum(member[i], &weight);
        ck_assert_uint_eq(weight, 0);
    }
    ring_free();
}
END_TEST

/* bf16: all members have the same bits, and what rounding takes from one step comes with later
 * ones: over 200 steps of one contribution the mean is right to far less than a step of bf16. */
START_TEST(exchange_of_bf16_loses_nothing_for_long)
{
    enum { STEPS = 200, FLOATS = 96 };
    static float x[FLOATS];
    static double sums[FLOATS];
    uint64_t weight;
    rng = rng_of(7, 8, 9);
    ring_new(3, 3, 3, FLOATS, 0, VALUES_BF16);
    memset(sums, 0, sizeof sums);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < FLOATS; i++)
            x[i] = case_value(0, 1, i);
        for (uint32_t i = 0; i < 3; i++) {
            part[i][0] = (struct exchange_part){x, NULL, 1 + i};
            exchange_begin(member[i], part[i]);
            collect(i);
        }
        while (queued > 0)
            deliver(false);
        const float *first = exchange_sum(member[0], &weight);
        ck_assert_uint_eq(weight, 6);
        for (uint32_t i = 1; i < 3; i++)
            ck_assert_mem_eq(exchange_sum(member[i], &weight), first, sizeof x);
        for (uint32_t i = 0; i < FLOATS; i++)
            sums[i] += (double)first[i];
    }
    for (uint32_t i = 0; i < FLOATS; i++) {
        double mean = sums[i] / STEPS, right = 6.0 * (double)x[i];
        ck_assert_msg(fabs(mean - right) <= 1e-4 * fabs(right), "%.9g, expected %.9g", mean, right);
    }
    ring_free();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("exchange");
    TCase *t = suite_case(s, "exchange", 60, NULL, NULL);
    tcase_add_test(t, exchange_sums_in_the_promised_order);
    tcase_add_test(t, exchange_starts_decide_the_bits);
    tcase_add_test(t, exchange_a_doubled_chunk_changes_nothing);
    tcase_add_test(t, exchange_takes_one_step_ahead);
    tcase_add_test(t, exchange_refuses_what_no_member_sends);
    tcase_add_test(t, exchange_sends_the_least);
    tcase_add_test(t, exchange_takes_contributions_in_another_order);
    tcase_add_test(t, exchange_of_shards_gives_sums_to_keepers_and_parameters_to_others);
    tcase_add_test(t, exchange_of_shards_refuses_a_step_everywhere);
    tcase_add_test(t, exchange_completes_a_sharded_step_at_its_keepers_first);
    tcase_add_test(t, exchange_never_rounds_parameters);
    tcase_add_test(t, exchange_of_nothing_has_no_weight);
    tcase_add_test(t, exchange_of_bf16_loses_nothing_for_long);
    return suite_main(s);
}
