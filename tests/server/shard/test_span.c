/* test_span.c: where the time of traced pulls and pushes goes in a shard, and the request SPANS. */
#include "tests/server/copies_rig.h"

static uint64_t ask(struct rig *r, uint64_t run, uint32_t lane, uint64_t batch)
{
    struct wire w = rig_wire(r, WIRE_TYPE_SPANS);
    w.u.SPANS = (struct wire_SPANS){run, lane, batch};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* The spans of an answer; *count: how many. */
static const struct wire_span *told(struct rig *r, uint64_t id, uint32_t *count)
{
    *count = rig_reply(r, id)->u.SPANS_reply.count;
    ck_assert_uint_eq(r->answer[id].m->frame[1].bytes, *count * sizeof(struct wire_span));
    return r->answer[id].m->frame[1].data;
}

/* The only span of a request. */
static struct wire_span span_of(struct rig *r, uint64_t request)
{
    struct wire_span found = {0};
    uint32_t count, matches = 0;
    uint64_t id = ask(r, RIG_RUN, 0, 0);
    rig_run(r, 20);
    const struct wire_span *of = told(r, id, &count);
    for (uint32_t i = 0; i < count; i++)
        if (of[i].id == request) {
            found = of[i];
            matches++;
        }
    ck_assert_uint_eq(matches, 1);
    return found;
}

static uint64_t sum_of(const struct wire_span *of)
{
    uint64_t sum = 0;
    for (int k = 0; k < WIRE_SPAN_KINDS; k++)
        sum += of->ns[k];
    return sum;
}

/* Nearly all of the request's time, at least `ms`, was of this kind. */
static void mostly(const struct wire_span *of, enum wire_span_kind kind, uint64_t ms)
{
    ck_assert_uint_ge(of->ns[kind], ms * MS);
    ck_assert_uint_le(sum_of(of) - of->ns[kind], 2 * MS);
}

static uint64_t push_next(struct rig *r, uint32_t lane, uint64_t to)
{
    return rig_push(
        r, (struct rig_push_args){
               .lane = lane, .from = to - 1, .to = to, .key = rig_key(3, 0), .gradient = 1});
}

/* Pushes batches 1 and 2 of a lane to both tables. */
static void push_both(struct rig *r, uint32_t lane)
{
    for (uint64_t to = 1; to < 3; to++)
        for (uint32_t table = 0; table < 2; table++)
            rig_push(
                r, (struct rig_push_args){.lane = lane, .table = table, .from = to - 1, .to = to});
}

START_TEST(a_pull_that_waits_for_a_lane_says_so)
{
    struct rig r = {.traced = true};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    push_both(&r, 0);
    rig_run(&r, 5);
    uint64_t far = rig_pull(&r, 0, 3, 0, rig_key(3, 0));
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, far), RIG_WAITING);
    push_both(&r, 1);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, far), 0);
    struct wire_span of = span_of(&r, far);
    mostly(&of, WIRE_SPAN_CLOCK, 45);
    ck_assert_uint_eq(of.push, 0);
    ck_assert_uint_eq(of.batch, 3);
    ck_assert_uint_eq(of.keys, 1);
    ck_assert_uint_ge(of.ns[WIRE_SPAN_CLOCK] + of.ns[WIRE_SPAN_LOOP],
                      rig_reply(&r, far)->u.PULL_reply.waited_ns);
    rig_free(&r);
}
END_TEST

START_TEST(a_bsp_push_that_waits_for_its_clock_says_so)
{
    struct rig r = {.traced = true};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t first = push_next(&r, 0, 1);
    rig_run(&r, 40);
    uint64_t last = push_next(&r, 1, 1);
    rig_run(&r, 20);
    struct wire_span of = span_of(&r, first);
    mostly(&of, WIRE_SPAN_CLOCK, 35);
    ck_assert_uint_eq(of.push, 1);
    of = span_of(&r, last);
    ck_assert_uint_le(sum_of(&of), 2 * MS);
    rig_free(&r);
}
END_TEST

START_TEST(a_push_that_a_cut_holds_says_so)
{
    struct rig r = {.traced = true};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 1, .run = RIG_RUN};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    uint64_t push = push_next(&r, 0, 1);
    rig_run(&r, 11000); /* the hold ends by itself */
    ck_assert_int_eq(rig_status(&r, push), 0);
    struct wire_span of = span_of(&r, push);
    mostly(&of, WIRE_SPAN_HELD, 9000);
    rig_free(&r);
}
END_TEST

START_TEST(a_push_that_waits_for_the_disk_says_so)
{
    char dir[] = "/tmp/shoal-test-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct rig r = {.dir = dir, .durability = DURABLE_FSYNC, .work_ns = 300 * MS, .traced = true};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 2000);
    uint64_t push = push_next(&r, 0, 1);
    rig_run(&r, 1000);
    ck_assert_int_eq(rig_status(&r, push), 0);
    struct wire_span of = span_of(&r, push);
    mostly(&of, WIRE_SPAN_SYNC, 250);
    ck_assert_uint_eq(r.shard->spans.waiting, 0);
    rig_free(&r);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_push_that_waits_for_a_copy_says_so)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 3);
    f.worker.traced = true;
    sim_pause(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    uint64_t push = fleet_push(&f, 0, 4);
    fleet_run(&f, 400);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    struct wire_span of = span_of(fleet_worker(&f, 0), push);
    mostly(&of, WIRE_SPAN_COPIES, 90);
    ck_assert_uint_eq(f.copy[0].shard->spans.waiting, 0);
    fleet_free(&f);
}
END_TEST

START_TEST(what_is_not_traced_leaves_nothing)
{
    struct rig r = {0};
    uint32_t count;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    push_next(&r, 0, 1);
    rig_pull(&r, 0, 2, WIRE_BOUND_ASYNC, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_ptr_null(r.shard->spans.ring);
    r.traced = true;
    uint64_t gap = push_next(&r, 0, 5);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, gap), SHOAL_E_GAP); /* nor does what is refused */
    uint64_t id = ask(&r, RIG_RUN, 0, 0);
    rig_run(&r, 5);
    told(&r, id, &count);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(r.shard->spans.waiting, 0);
    rig_free(&r);
}
END_TEST

START_TEST(the_newest_are_kept_and_asked_for_by_batch)
{
    struct rig r = {.traced = true};
    uint32_t count;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint64_t i = 1; i <= WIRE_SPANS_MAX + 100; i++) {
        r.next_id = 1 + i % 1000; /* the rig has a place for each id */
        rig_pull(&r, 0, i, WIRE_BOUND_ASYNC, rig_key(3, 0));
        rig_run(&r, 3);
    }
    r.next_id = 2000;
    uint64_t all = ask(&r, RIG_RUN, 0, 0), one = ask(&r, RIG_RUN, 0, 700),
             gone = ask(&r, RIG_RUN, 0, 100), lane = ask(&r, RIG_RUN, 1, 700),
             run = ask(&r, RIG_RUN + 1, 0, 0);
    rig_run(&r, 20);
    const struct wire_span *of = told(&r, all, &count);
    ck_assert_uint_eq(count, WIRE_SPANS_MAX);
    ck_assert_uint_eq(of[0].batch, 101);
    ck_assert_uint_eq(of[count - 1].batch, WIRE_SPANS_MAX + 100);
    of = told(&r, one, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(of->batch, 700);
    told(&r, gone, &count);
    ck_assert_uint_eq(count, 0);
    told(&r, lane, &count);
    ck_assert_uint_eq(count, 0);
    told(&r, run, &count);
    ck_assert_uint_eq(count, 0);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_pull_that_waits_for_a_lane_says_so,
        a_bsp_push_that_waits_for_its_clock_says_so,
        a_push_that_a_cut_holds_says_so,
        a_push_that_waits_for_the_disk_says_so,
        a_push_that_waits_for_a_copy_says_so,
        what_is_not_traced_leaves_nothing,
        the_newest_are_kept_and_asked_for_by_batch,
    };
    return rig_main("span", tests, sizeof tests / sizeof tests[0]);
}
