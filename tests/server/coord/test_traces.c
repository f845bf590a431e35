/* test_traces.c: the coordinator keeps the newest traces of workers, and tells them. */
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/traces.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord_fleet f;
static struct wire_trace answer[WIRE_TRACES_MAX];
static struct wire_TRACE_reply told;

/* The answer to TRACE. */
void __wrap_coord_send(struct coord_fleet *of, peer_t to, struct msg *m);
void __wrap_coord_send(struct coord_fleet *of, peer_t to, struct msg *m)
{
    struct err e;
    struct wire w;
    ck_assert_ptr_eq(of, &f);
    ck_assert_uint_eq(to, 3);
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    told = w.u.TRACE_reply;
    memcpy(answer, m->frame[1].data, m->frame[1].bytes);
    msg_free(m);
}

static int taken(const struct wire_trace *trace, uint32_t count)
{
    struct wire w = {.type = WIRE_TYPE_TRACES, .u.TRACES.count = count};
    /* at an odd address, as a frame may be */
    char *frame = malloc(count * sizeof *trace + 1);
    struct msg m = {.frame_count = 2};
    struct coord_ask a = {.from = 3, .request = &w, .m = &m};
    memcpy(frame + 1, trace, count * sizeof *trace);
    m.frame[1].data = frame + 1;
    m.frame[1].bytes = count * sizeof *trace;
    int rc = coord_traces_take(&f, &a);
    free(frame);
    return rc;
}

static void take(const struct wire_trace *trace, uint32_t count)
{
    ck_assert_int_eq(taken(trace, count), 0);
}

static void take_one(uint64_t run, uint32_t lane, uint64_t batch, uint64_t generation)
{
    const struct wire_trace one = {.run = run,
                                   .lane = lane,
                                   .batch = batch,
                                   .generation = generation,
                                   .wall_ns = batch,
                                   .stage_ns = {batch - 1, 0, 0, 0, 0, 0, 0, 1},
                                   .parts = {3, UINT32_MAX}};
    take(&one, 1);
}

static uint32_t ask(uint64_t run, uint32_t lane, uint64_t batch)
{
    struct wire w = {.type = WIRE_TYPE_TRACE, .u.TRACE = {run, lane, batch}};
    struct coord_ask a = {.from = 3, .request = &w};
    wire_reply_to(&w, 0, &a.reply);
    ck_assert_int_eq(coord_traces_ask(&f, &a), 0);
    ck_assert(a.silent);
    return told.count;
}

static void setup(void)
{
    memset(&f, 0, sizeof f);
}

static void teardown(void)
{
    coord_traces_close(&f.traces);
}

START_TEST(traces_none_before_an_order)
{
    struct wire w = {.type = WIRE_TYPE_TRACE_EVERY, .u.TRACE_EVERY.every = 50};
    struct coord_ask a = {.from = 3, .request = &w};
    ck_assert_uint_eq(ask(0, 0, 0), 0);
    ck_assert_uint_eq(told.every, 0);
    ck_assert_int_eq(coord_traces_order(&f, &a), 0);
    ck_assert_uint_eq(ask(0, 0, 0), 0);
    ck_assert_uint_eq(told.every, 50);
    w.u.TRACE_EVERY.every = 0;
    ck_assert_int_eq(coord_traces_order(&f, &a), 0);
    ck_assert_uint_eq(ask(0, 0, 0), 0);
    ck_assert_uint_eq(told.every, 0);
}
END_TEST

START_TEST(traces_are_told_by_run_and_batch)
{
    take_one(7, 0, 10, 1);
    take_one(7, 1, 10, 1);
    take_one(8, 0, 10, 1);
    take_one(7, 0, 20, 1);
    ck_assert_uint_eq(ask(0, 0, 0), 3); /* of run 7, whose trace came last */
    ck_assert_uint_eq(told.run, 7);
    ck_assert_uint_eq(answer[2].batch, 20);
    ck_assert_uint_eq(ask(8, 0, 0), 1);
    ck_assert_uint_eq(ask(7, 1, 10), 1);
    ck_assert_uint_eq(answer[0].lane, 1);
    ck_assert_uint_eq(answer[0].parts[0], 3);
    ck_assert_uint_lt(answer[0].parts[1], UINT32_MAX); /* no worker names more requests than fit */
    ck_assert_uint_eq(ask(7, 2, 10), 0);
    ck_assert_uint_eq(ask(9, 0, 0), 0);
}
END_TEST

START_TEST(traces_that_come_again_are_one)
{
    take_one(7, 0, 10, 1);
    take_one(7, 0, 10, 1);
    ck_assert_uint_eq(ask(7, 0, 10), 1);
    take_one(7, 0, 10, 2); /* the lane's next owner */
    ck_assert_uint_eq(ask(7, 0, 10), 2);
}
END_TEST

START_TEST(traces_that_cannot_be_are_refused)
{
    const struct wire_trace good = {
        .run = 7, .lane = 1, .batch = 10, .wall_ns = 5, .stage_ns = {2, 0, 3}};
    struct wire_trace bad[6] = {good, good, good, good, good, good};
    bad[0].run = 0;
    bad[1].batch = 0;
    bad[2].lane = LIMIT_LANES;
    bad[3].wall_ns = 6;
    bad[4].stage_ns[0] = UINT64_MAX; /* they add up to 5 past the end */
    bad[4].stage_ns[2] = 6;
    bad[5].wall_ns = 0;
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(taken(&bad[i], 1), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(ask(0, 0, 0), 0);
    take(&good, 1);
    ck_assert_uint_eq(ask(0, 0, 0), 1);
}
END_TEST

START_TEST(traces_newest_are_kept)
{
    static struct wire_trace many[100];
    uint64_t batch = 0;
    for (int m = 0; m < 7; m++) {
        for (int i = 0; i < 100; i++)
            many[i] = (struct wire_trace){.run = 7, .batch = ++batch};
        take(many, 100);
    }
    ck_assert_uint_eq(ask(7, 0, 0), WIRE_TRACES_MAX);
    ck_assert_uint_eq(answer[0].batch, 700 - WIRE_TRACES_MAX + 1);
    ck_assert_uint_eq(answer[WIRE_TRACES_MAX - 1].batch, 700);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_traces");
    TCase *c = suite_case(s, "traces", 60, setup, teardown);
    tcase_add_test(c, traces_none_before_an_order);
    tcase_add_test(c, traces_are_told_by_run_and_batch);
    tcase_add_test(c, traces_that_come_again_are_one);
    tcase_add_test(c, traces_that_cannot_be_are_refused);
    tcase_add_test(c, traces_newest_are_kept);
    return suite_main(s);
}
