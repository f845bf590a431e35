/* test_broken.c: breaks the invariants of pushes in progress on purpose: each breach must be caught
 * by its own assert. */
#include "server/shard/push.h"
#include "server/shard/push_group.h"
#include "tests/lib/broken.h"
#include "tests/server/shard_rig.h"

static struct rig rig;
static struct request one, two; /* pushes without a sender */

static struct shard *shard_make(uint32_t mode)
{
    rig_new(&rig, mode, 2, OPT_SGD);
    one.type = two.type = WIRE_TYPE_PUSH;
    return rig.shard;
}

/* Puts a push into the group, with its answer known already: its rows are not read. */
static void join(struct shard *s, struct request *q, uint64_t sequence, uint64_t wait)
{
    q->push.status = SHOAL_E_GAP;
    q->push.plan.sequence = sequence;
    q->push.wait_sequence = wait;
    request_append(&s->group, q);
}

/* ---- push_group.c ---- */

static void an_answer_goes_out_before_its_record_is_kept(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    one.push.plan.sequence = 1000;
    request_append(&s->unsynced, &one);
    push_group_synced(s);
}

static void the_later_push_is_applied_first(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    join(s, &one, 2, 2);
    join(s, &two, 1, 2);
    push_group_settle(s);
}

static void a_gap_waits_for_an_older_push_than_those_before_it(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    one.push.wait_sequence = 1000;
    request_append(&s->unsynced, &one);
    join(s, &two, 0, 999);
    push_group_settle(s);
}

static void a_push_has_no_message_when_it_is_applied(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    one.push.plan = (struct push_plan){.applied = 1, .sequence = 1};
    request_append(&s->group, &one);
    push_group_settle(s);
}

/* ---- cut.c ---- */

static void a_push_is_admitted_while_a_cut_is_held(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    s->hold.cut = 9;
    push_group_admit(s, &one);
}

static void a_push_is_admitted_while_a_tablet_is_given(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    s->moves.give.epoch = 9;
    push_group_admit(s, &one);
}

/* ---- bsp.c ---- */

static struct rig_push_args half(uint32_t first)
{
    return (struct rig_push_args){
        .to = 1, .first = first, .count = 8, .key = rig_key(first, 0), .gradient = 1};
}

static void a_lane_holds_parts_of_two_batches(void)
{
    struct shard *s = shard_make(WIRE_BSP);
    rig_push(&rig, half(0));
    rig_run(&rig, 5);
    s->bsp.hold->lane[0].to = 2;
    rig_push(&rig, half(8));
    rig_run(&rig, 5);
}

/* ---- place.c ---- */

static void a_map_is_led_that_is_not_kept(void)
{
    struct shard *s = shard_make(WIRE_ASYNC);
    s->lead.epoch = 9;
    rig_map(&rig, 10, 1000);
    rig_run(&rig, 5);
}

static const struct broken list[] = {
    {"server/shard/push_group.c", 1, an_answer_goes_out_before_its_record_is_kept,
     "plan->sequence <= engine_acknowledged"},
    {"server/shard/push_group.c", 2, the_later_push_is_applied_first,
     "sequence == 0 || sequence > "},
    {"server/shard/push_group.c", 3, a_gap_waits_for_an_older_push_than_those_before_it,
     "before == "},
    {"server/shard/push_group.c", 4, a_push_has_no_message_when_it_is_applied, "q->bytes > 0"},
    {"server/shard/push_group.c", 1, a_push_is_admitted_while_a_cut_is_held, "!shard_holds"},
    {"server/shard/push_group.c", 1, a_push_is_admitted_while_a_tablet_is_given, "!shard_holds"},
    {"server/shard/place.c", 1, a_map_is_led_that_is_not_kept,
     "s->beat.coordinator == 0 || s->lead.epoch"},
    {"server/shard/bsp.c", 3, a_lane_holds_parts_of_two_batches, "lane->part == "},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {each_broken_invariant_ends_the_process_by_its_own_assert};
    return rig_main("broken", tests, sizeof tests / sizeof tests[0]);
}
