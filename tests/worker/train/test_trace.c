/* test_trace.c: stages of a traced batch, its slowest parts, and traces that wait to be sent. */
#include "tests/lib/suite.h"
#include "worker/train/trace.h"

#include <check.h>
#include <string.h>

#define PASS 77

static struct traces all;

static struct trace *begin(uint64_t batch, uint64_t now_ns)
{
    struct trace *t = trace_begin(&all, now_ns, 0);
    if (t != NULL)
        t->w.batch = batch;
    return t;
}

static void setup(void)
{
    traces_set(&all, 10);
    ck_assert_uint_eq(all.every, 10);
}

static void teardown(void)
{
    traces_close(&all);
}

/* Sends what waits; returns the numbers of the batches in `batch` and how many they are. */
static uint32_t built(uint64_t batch[TRACE_PLACES])
{
    struct err e;
    struct wire w;
    struct msg *m = traces_build(&all, 5, PASS);
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    ck_assert_uint_eq(w.id, 5);
    ck_assert_uint_eq(w.u.TRACES.pass, PASS);
    const struct wire_trace *of = m->frame[1].data;
    for (uint32_t i = 0; i < w.u.TRACES.count; i++)
        batch[i] = of[i].batch;
    msg_free(m);
    return w.u.TRACES.count;
}

START_TEST(stages_add_up)
{
    struct trace *t = begin(10, 1000);
    uint64_t sum = 0;
    trace_turn(t, WIRE_STAGE_PLACE, 1500, 300);
    trace_turn(t, WIRE_STAGE_PULL, 1600, 400);
    trace_turn(t, WIRE_STAGE_PULL, 1650, 450); /* the same stage goes on */
    trace_turn(t, WIRE_STAGE_TURN, 1900, 500);
    trace_turn(t, WIRE_STAGE_COMPUTE, 2000, 600);
    trace_turn(t, WIRE_STAGE_ORDER, 3000, 1600); /* its own computing */
    trace_turn(t, WIRE_STAGE_PUSH, 3001, 1600);
    trace_end(t, 3500, 1850);
    static const uint64_t ns[] = {500, 100, 0, 300, 100, 1000, 1, 499},
                          beside[] = {300, 100, 0, 100, 100, 0, 0, 250};
    for (int s = 0; s < WIRE_STAGES; s++) {
        ck_assert_uint_eq(t->w.stage_ns[s], ns[s]);
        ck_assert_uint_eq(t->w.beside_ns[s], beside[s]);
        sum += ns[s];
    }
    ck_assert_uint_eq(t->w.wall_ns, sum);
    ck_assert_uint_eq(t->w.begun_ns, 1000);
}
END_TEST

START_TEST(the_slowest_parts_are_told)
{
    struct trace *t = begin(10, 0);
    trace_turn(t, WIRE_STAGE_PULL, 1000, 0);
    for (uint32_t i = 0; i < 40; i++)
        trace_part(t, false, &(struct wire_trace_part){.id = i, .shard = i}, 1000 + 10 * i);
    ck_assert_uint_eq(t->w.parts[0], 40);
    ck_assert_uint_eq(t->w.parts[1], 0);
    uint32_t found = 0;
    for (uint32_t i = 0; i < WIRE_TRACE_PARTS; i++) {
        const struct wire_trace_part *p = &t->w.part[0][i];
        ck_assert_uint_ge(p->shard, 40 - WIRE_TRACE_PARTS);
        ck_assert_uint_eq(p->took_ns, 10 * p->shard);
        found |= 1u << (p->shard - (40 - WIRE_TRACE_PARTS));
    }
    ck_assert_uint_eq(found, (1u << WIRE_TRACE_PARTS) - 1);
    trace_asked(t, false); /* another map: all is asked again */
    ck_assert_uint_eq(t->w.parts[0], 0);
    trace_part(t, false, &(struct wire_trace_part){.shard = 3}, 5000);
    ck_assert_uint_eq(t->w.parts[0], 1);
    ck_assert_uint_eq(t->w.part[0][0].took_ns, 4000);
}
END_TEST

START_TEST(traces_are_sent_until_they_are_answered)
{
    uint64_t batch[TRACE_PLACES];
    struct trace *first = begin(10, 0), *second = begin(20, 1), *dropped = begin(30, 2);
    ck_assert(!traces_wait(&all));
    trace_end(second, 5, 0);
    trace_drop(dropped);
    ck_assert(traces_wait(&all));
    ck_assert_uint_eq(built(batch), 1);
    ck_assert_uint_eq(batch[0], 20);
    trace_end(first, 6, 0);
    ck_assert_uint_eq(built(batch), 2); /* sent again, with what came meanwhile */
    ck_assert_uint_eq(batch[0], 10);
    ck_assert_uint_eq(batch[1], 20);
    trace_end(begin(40, 7), 8, 0); /* not in the message that is answered */
    traces_sent(&all);
    ck_assert_uint_eq(built(batch), 1);
    ck_assert_uint_eq(batch[0], 40);
    traces_sent(&all);
    ck_assert(!traces_wait(&all));
}
END_TEST

START_TEST(a_batch_without_a_place_is_not_traced)
{
    uint64_t batch[TRACE_PLACES];
    for (uint64_t i = 0; i < TRACE_PLACES; i++) {
        struct trace *t = begin(i + 1, i);
        ck_assert_ptr_nonnull(t);
        trace_end(t, i, 0);
    }
    ck_assert_ptr_null(begin(1000, 0));
    ck_assert_uint_eq(built(batch), TRACE_PLACES);
    for (uint64_t i = 0; i < TRACE_PLACES; i++)
        ck_assert_uint_eq(batch[i], i + 1);
    traces_sent(&all);
    struct trace *t = begin(1000, 0);
    ck_assert_ptr_nonnull(t);
    trace_drop(t);
}
END_TEST

START_TEST(batches_are_chosen_by_number)
{
    ck_assert(traces_want(&all, 10));
    ck_assert(!traces_want(&all, 11));
    ck_assert(!traces_want(NULL, 10));
    traces_set(&all, 0);
    ck_assert(!traces_want(&all, 10));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *c = suite_case(s, "trace", 60, setup, teardown);
    tcase_add_test(c, stages_add_up);
    tcase_add_test(c, the_slowest_parts_are_told);
    tcase_add_test(c, traces_are_sent_until_they_are_answered);
    tcase_add_test(c, a_batch_without_a_place_is_not_traced);
    tcase_add_test(c, batches_are_chosen_by_number);
    return suite_main(s);
}
