/* test_park.c: requests whose rows are in the store, or for which there is no room, wait in order
 * and delay no other request.
 *
 * The engine's answers are replaced (--wrap): keys in `cold` are not in memory until fetch()
 * removes them from it, and while `room` is 0 a push finds no room. */
#include "tests/server/shard_rig.h"

#define EVAL UINT32_MAX

int __real_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
int __real_engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                             struct err *e);
int __wrap_engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                             struct err *e);

static struct engine_options options_of;
static uint64_t cold[64];
static uint32_t cold_count, asked;
static int room, without = SHOAL_E_BUSY; /* answer to a push without room */
/* tables whose pushes wait for the same room; those that are held to their share (a bit each) */
static uint64_t short_of = UINT64_MAX, held;

int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e)
{
    options_of = *options;
    cold_count = asked = 0;
    room = INT32_MAX;
    without = SHOAL_E_BUSY;
    short_of = UINT64_MAX;
    held = 0;
    return __real_engine_open(options, env, out, e);
}

bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    (void)g;
    (void)table;
    asked++;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < cold_count; k++)
            if (cold[k] == keys[i])
                return false;
    return true;
}

int __wrap_engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                             struct err *e)
{
    if (room == 0 && (short_of >> r->table & 1) != 0)
        return err_set(e, without, "no room");
    room -= room > 0;
    return __real_engine_admit_push(g, r, plan, e);
}

struct table_set __wrap_engine_short_tables(const struct engine *g);
struct table_set __wrap_engine_short_tables(const struct engine *g)
{
    (void)g;
    return set_of(short_of);
}

struct table_set __wrap_engine_held_tables(struct engine *g);
struct table_set __wrap_engine_held_tables(struct engine *g)
{
    (void)g;
    return set_of(held);
}

static void chill(uint64_t key)
{
    cold[cold_count++] = key;
}

/* The row of a key arrives from the store; 0: no row, but waiting requests are tried again. */
static void fetch(struct rig *r, uint64_t key)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < cold_count; i++)
        if (cold[i] != key)
            cold[left++] = cold[i];
    cold_count = left;
    options_of.on_fetched(options_of.context);
    rig_run(r, 5);
}

static uint64_t push(struct rig *r, uint32_t lane, uint64_t to, uint64_t key)
{
    uint64_t id = rig_push(
        r,
        (struct rig_push_args){.lane = lane, .from = to - 1, .to = to, .key = key, .gradient = 1});
    rig_run(r, 5);
    return id;
}

static uint64_t pull(struct rig *r, uint64_t key)
{
    uint64_t id = rig_pull(r, EVAL, 0, 0, key);
    rig_run(r, 5);
    return id;
}

static void finish(struct rig *r)
{
    ck_assert_ptr_null(r->shard->park.pulls.head);
    ck_assert_ptr_null(r->shard->park.pushes.head);
    rig_free(r);
}

START_TEST(pull_of_a_stored_row_waits_for_it_and_others_do_not)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), other = rig_key(3, 1);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    push(&r, 0, 1, key);
    chill(key);
    uint64_t id = pull(&r, key);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    ck_assert(rig_value(&r, pull(&r, other)) == 0);
    fetch(&r, 0);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    fetch(&r, key);
    ck_assert(rig_value(&r, id) == -1);
    ck_assert_uint_eq(r.shard->counts.cold_pulls, 1);
    finish(&r);
}
END_TEST

START_TEST(push_waits_for_its_rows_and_its_lane_waits_behind_it)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), other = rig_key(3, 1);
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    chill(key);
    uint64_t first = push(&r, 0, 1, key), second = push(&r, 0, 2, other),
             third = push(&r, 0, 3, key);
    ck_assert_int_eq(rig_status(&r, push(&r, 1, 1, other)), 0);
    ck_assert_int_eq(rig_status(&r, second), RIG_WAITING);
    fetch(&r, 0);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), 0);
    ck_assert_int_eq(rig_status(&r, third), 0);
    ck_assert(rig_value(&r, pull(&r, key)) == -2);
    ck_assert(rig_value(&r, pull(&r, other)) == -2);
    finish(&r);
}
END_TEST

START_TEST(lanes_behind_a_miss_do_not_hold_up_others_when_rows_come)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), late = rig_key(3, 1);
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    chill(key);
    chill(late);
    uint64_t a = push(&r, 0, 1, late), b = push(&r, 0, 2, key), c = push(&r, 1, 1, key);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, c), 0);
    ck_assert_int_eq(rig_status(&r, b), RIG_WAITING);
    fetch(&r, late);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), 0);
    finish(&r);
}
END_TEST

START_TEST(what_is_sent_again_takes_the_place_of_the_older)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t id[2], pulled[2];
    for (int i = 0; i < 2; i++) {
        id[i] = push(&r, 0, 1, key);
        pulled[i] = rig_pull(&r, 0, 1, WIRE_BOUND_ASYNC, key);
        rig_run(&r, 5);
    }
    uint64_t behind = push(&r, 0, 2, key);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), 3);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, id[0]), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, id[1]), 0);
    ck_assert_int_eq(rig_status(&r, behind), 0);
    ck_assert_int_eq(rig_status(&r, pulled[0]), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, pulled[1]), 0);
    finish(&r);
}
END_TEST

START_TEST(walk_ends_after_a_few_that_are_not_there)
{
    enum { WAITING = 40 };
    struct rig r = {0};
    uint64_t id[WAITING];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t i = 0; i < WAITING; i++) {
        chill(rig_key(3, i));
        id[i] = pull(&r, rig_key(3, i));
    }
    asked = 0;
    fetch(&r, 0);
    ck_assert_uint_le(asked, 4);
    for (uint32_t i = 0; i < WAITING; i++) { /* the head is tried each time */
        fetch(&r, rig_key(3, i));
        ck_assert_int_eq(rig_status(&r, id[i]), 0);
    }
    finish(&r);
}
END_TEST

START_TEST(clock_is_released_when_all_its_rows_are_there)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), other = rig_key(3, 1);
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    chill(key);
    chill(other);
    uint64_t a = push(&r, 0, 1, key), b = push(&r, 1, 1, other);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, a), RIG_WAITING);
    ck_assert_uint_eq(engine_mark(r.shard->engine, RIG_RUN, 0, 0), 0);
    fetch(&r, other);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), 0);
    finish(&r);
}
END_TEST

START_TEST(clock_that_finds_no_room_half_way_goes_on_later)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    uint64_t a = push(&r, 0, 1, key), b = push(&r, 1, 1, key);
    room = 1;
    uint64_t c = push(&r, 2, 1, key);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), RIG_WAITING);
    room = INT32_MAX;
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, b), 0);
    ck_assert_int_eq(rig_status(&r, c), 0);
    ck_assert(rig_value(&r, pull(&r, key)) == -3);
    finish(&r);
}
END_TEST

START_TEST(clock_that_the_disk_stops_half_way_is_refused_from_there_on)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    uint64_t a = push(&r, 0, 1, key), b = push(&r, 1, 1, key);
    room = 1;
    without = SHOAL_E_NO_SPACE;
    uint64_t c = push(&r, 2, 1, key);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), SHOAL_E_NO_SPACE);
    ck_assert_int_eq(rig_status(&r, c), SHOAL_E_NO_SPACE);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 0);
    ck_assert_uint_eq(engine_mark(r.shard->engine, RIG_RUN, 1, 0), 0);
    room = INT32_MAX;
    c = push(&r, 2, 1, key);
    ck_assert_int_eq(rig_status(&r, c), RIG_WAITING);
    b = push(&r, 1, 1, key);
    ck_assert_int_eq(rig_status(&r, b), 0);
    ck_assert_int_eq(rig_status(&r, c), 0);
    ck_assert(rig_value(&r, pull(&r, key)) == -3);
    finish(&r);
}
END_TEST

START_TEST(newcomers_wait_behind_who_found_no_room_in_order_of_their_lanes)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), other = rig_key(3, 1);
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    room = 0;
    uint64_t a = push(&r, 0, 1, key), b = push(&r, 0, 2, other), c = push(&r, 1, 1, other);
    chill(key); /* it left memory meanwhile */
    room = INT32_MAX;
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, a), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, b), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, c), 0);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), 0);
    finish(&r);
}
END_TEST

START_TEST(no_push_moves_while_a_cut_is_held)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t id = push(&r, 0, 1, key), pulled = pull(&r, key);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 9, .run = RIG_RUN};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    uint64_t queued = push(&r, 0, 2, key);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    ck_assert(rig_value(&r, pulled) == 0);
    w = rig_wire(&r, WIRE_TYPE_GO);
    w.u.GO.cut = 9;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 10);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_int_eq(rig_status(&r, queued), 0);
    finish(&r);
}
END_TEST

/* A map came during the hold of a cut. Waiting pushes to tablets that another shard leads now are
 * refused like new ones. */
static void map_within_a_hold(uint32_t mode)
{
    struct rig r = {0};
    rig_new(&r, mode, 2, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 9, .run = RIG_RUN};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    struct rig_push_args low = {.to = 1, .count = 8, .key = rig_key(3, 0), .gradient = 1},
                         high = {.lane = 1, .to = 1, .first = 8, .count = 8};
    uint64_t mine = rig_push(&r, low), other = rig_push(&r, high);
    rig_map(&r, 2, 8);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, other), RIG_WAITING);
    w = rig_wire(&r, WIRE_TYPE_GO);
    w.u.GO.cut = 9;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 10);
    uint64_t fresh = rig_push(&r, high);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, mine), mode == WIRE_BSP ? RIG_WAITING : 0);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_NOT_LEADER);
    ck_assert_str_eq(rig_reply(&r, other)->error, rig_reply(&r, fresh)->error);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), mode == WIRE_BSP);
    rig_free(&r);
}

START_TEST(push_queued_in_a_hold_is_checked_against_the_map_that_came)
{
    map_within_a_hold(WIRE_ASYNC);
    map_within_a_hold(WIRE_BSP);
}
END_TEST

START_TEST(who_waits_is_refused_when_its_run_is_dropped)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t id = push(&r, 0, 1, key), of_run = rig_pull(&r, 0, 1, WIRE_BOUND_ASYNC, key),
             of_none = pull(&r, key);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = RIG_RUN;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, of_run), SHOAL_E_OLD_RUN);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, of_none), 0);
    finish(&r);
}
END_TEST

START_TEST(pulls_of_a_peer_that_left_go_and_its_pushes_stay)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t id = push(&r, 0, 1, key);
    pull(&r, key);
    shard_handler.on_peer_gone(r.shard, r.shard->park.pulls.head->peer);
    ck_assert_ptr_null(r.shard->park.pulls.head);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), 1);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, id), 0);
    finish(&r);
}
END_TEST

/* The parts of a batch differ only in their tablets, or their table. */
START_TEST(other_parts_of_a_batch_take_nobodys_place)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0), other = rig_key(11, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    struct rig_push_args low = {.to = 1, .count = 8, .key = key, .gradient = 1},
                         high = {.to = 1, .first = 8, .count = 8, .key = other, .gradient = 1},
                         next = {.table = 1, .to = 1, .count = 8, .key = key, .gradient = 1};
    uint64_t a = rig_push(&r, low), b = rig_push(&r, high), c = rig_push(&r, next);
    rig_run(&r, 5);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), 3);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), 0);
    ck_assert_int_eq(rig_status(&r, c), 0);
    finish(&r);
}
END_TEST

/* A lane's push to another table does not wait for the rows of this table. */
START_TEST(tables_of_a_lane_hold_up_nobody_else)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t first = push(&r, 0, 1, key),
             second = rig_push(&r, (struct rig_push_args){.table = 1, .to = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, second), 0);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, first), 0);
    finish(&r);
}
END_TEST

/* A space that waits for room of its own holds up no other. */
START_TEST(room_of_one_space_is_waited_for_by_that_alone)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    short_of = 1; /* table 0 */
    room = 0;
    uint64_t first = push(&r, 0, 1, rig_key(3, 0)), behind = push(&r, 1, 1, rig_key(3, 1)),
             other = rig_push(&r, (struct rig_push_args){.table = 1, .to = 1});
    rig_run(&r, 2);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, behind), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert_uint_eq(r.shard->park.short_of_room.word[0], 1);
    room = INT32_MAX;
    rig_run(&r, 10);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, behind), 0);
    ck_assert_uint_eq(r.shard->park.short_of_room.word[0], 0);
    finish(&r);
}
END_TEST

static uint64_t pull_beside(struct rig *r, uint64_t key)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){
        .run = RIG_RUN, .table = 1, .lane = EVAL, .key_count = 1, .map_epoch = 1};
    return rig_send(r, &w, 1, &key, sizeof key, NULL, 0);
}

/* Pushes and pulls of a space that is held to its share come first in their lists, and no rows come
 * for them: those of another space are tried all the same. */
START_TEST(misses_of_a_space_that_is_held_are_counted_apart)
{
    enum { WAITING = 10 };
    struct rig r = {0};
    uint64_t pulled[WAITING], key = rig_key(5, 0);
    rig_new(&r, WIRE_ASYNC, WAITING, OPT_SGD);
    for (uint32_t i = 0; i < WAITING; i++) {
        chill(rig_key(3, i));
        pulled[i] = pull(&r, rig_key(3, i));
        (void)push(&r, i, 1, rig_key(3, i));
    }
    chill(key);
    uint64_t pushed = rig_push(
                 &r, (struct rig_push_args){.table = 1, .to = 1, .key = key, .gradient = 1}),
             beside = pull_beside(&r, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pushed), RIG_WAITING);
    held = 1; /* table 0 */
    asked = 0;
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, pushed), 0);
    ck_assert_int_eq(rig_status(&r, beside), 0);
    ck_assert_uint_le(asked, 2 * (4 + 1));
    ck_assert_int_eq(rig_status(&r, pulled[0]), RIG_WAITING);
    held = 0;
    for (uint32_t i = 0; i < WAITING; i++)
        fetch(&r, rig_key(3, i));
    for (uint32_t i = 0; i < WAITING; i++)
        ck_assert_int_eq(rig_status(&r, pulled[i]), 0);
    finish(&r);
}
END_TEST

/* A parked pull is dropped three minutes after its request, not before, however long the shard
 * runs. */
START_TEST(parked_pull_of_nobody_is_let_go)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 200000);
    chill(key);
    uint64_t id = pull(&r, key);
    rig_run(&r, 175000);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    rig_run(&r, 10000);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_TIMEOUT);
    finish(&r);
}
END_TEST

/* The lane's next holder sends the same batch: that is another push. The former holder's push is
 * refused as fenced. */
START_TEST(a_push_of_another_generation_takes_nobodys_place)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    struct rig_push_args p = {.to = 1, .key = key, .gradient = 1};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    uint64_t former = rig_push(&r, p);
    rig_fence(&r, 0, 2, true);
    p.generation = 2;
    uint64_t push = rig_push(&r, p);
    rig_run(&r, 5);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, former), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, push), 0);
    finish(&r);
}
END_TEST

/* The same applies to another run, whose lanes and batches have the same numbers. */
START_TEST(a_push_of_another_run_takes_nobodys_place)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_open(&r, RIG_RUN + 1, 1, WIRE_ASYNC);
    rig_run(&r, 5);
    chill(key);
    uint64_t former = push(&r, 0, 1, key), later = former;
    const struct request *q = r.shard->park.pushes.head;
    ck_assert(q != NULL && q->push.r.run == RIG_RUN);
    struct wire w = rig_wire(&r, WIRE_TYPE_FENCE);
    w.u.FENCE = (struct wire_FENCE){.run = RIG_RUN + 1, .generation = 1, .live = true};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    w = rig_wire(&r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN + 1,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = 1,
                                  .map_epoch = 1};
    float gradient[2] = {1, 1};
    later = rig_send(&r, &w, 2, &key, sizeof key, gradient, sizeof gradient);
    rig_run(&r, 5);
    ck_assert_uint_eq(park_count(r.shard), 2);
    fetch(&r, key);
    ck_assert_int_eq(rig_status(&r, former), 0);
    ck_assert_int_eq(rig_status(&r, later), 0);
    finish(&r);
}
END_TEST

/* Readers ask for the same rows at once, and each is answered; so are a lane's equal pulls over two
 * connections. */
START_TEST(pulls_of_others_take_nobodys_place)
{
    struct rig r = {.alone = true};
    uint64_t key = rig_key(3, 0), id[4];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(key);
    id[0] = rig_pull(&r, EVAL, 0, 0, key);
    id[1] = rig_pull(&r, EVAL, 0, 0, key);
    id[2] = rig_pull(&r, 0, 1, WIRE_BOUND_ASYNC, key);
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &r.to), 0);
    id[3] = rig_pull(&r, 0, 1, WIRE_BOUND_ASYNC, key);
    rig_run(&r, 5);
    fetch(&r, key);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(rig_status(&r, id[i]), 0);
    finish(&r);
}
END_TEST

/* New room goes to a waiting push, not to one that arrives at that moment. */
START_TEST(who_found_no_room_goes_first)
{
    struct rig r = {0};
    uint64_t key = rig_key(3, 0);
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    room = 0;
    struct rig_push_args p = {.to = 1, .key = key, .gradient = 1};
    uint64_t first = rig_push(&r, p);
    rig_run(&r, 1);
    room = 1;
    p.lane = 1;
    uint64_t second = rig_push(&r, p);
    rig_run(&r, 10);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), RIG_WAITING);
    room = INT32_MAX;
    rig_run(&r, 10);
    ck_assert_int_eq(rig_status(&r, second), 0);
    finish(&r);
}
END_TEST

/* At once, not only when the cut releases it. */
START_TEST(who_waits_for_a_cut_is_refused_when_its_run_is_dropped)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 9, .run = RIG_RUN};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    uint64_t id = push(&r, 0, 1, rig_key(3, 0));
    w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = RIG_RUN;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_OLD_RUN);
    rig_run(&r, 11000); /* the cut is given up */
    finish(&r);
}
END_TEST

/* ---- the pool ---- */

static struct request *take_now(struct request_pool *p, uint64_t holder, size_t bytes, bool at_once)
{
    static const struct wire w = {.type = WIRE_TYPE_PUSH};
    struct msg *m = msg_new();
    ck_assert(msg_add(m, 0) != NULL && msg_add(m, 0) != NULL && msg_add(m, bytes) != NULL &&
              msg_add(m, 0) != NULL);
    struct request *q = request_take(p, &(struct request_from){1, holder}, &w, m, at_once, 0);
    if (q == NULL)
        msg_free(m);
    return q;
}

static struct request *take(struct request_pool *p, uint64_t holder, size_t bytes)
{
    return take_now(p, holder, bytes, false);
}

/* A few large requests are limited like many small ones: to half of the bytes, once three quarters
 * are taken. */
START_TEST(a_holder_of_half_the_bytes_leaves_the_rest_to_others)
{
    enum { MIB = 1 << 20 };
    struct request_pool p;
    struct request *q[8];
    uint32_t n = 0;
    ck_assert_int_eq(request_pool_init(&p, 16 * MIB), 0); /* 12 of them for pushes */
    for (; n < 4; n++)
        ck_assert_ptr_nonnull(q[n] = take(&p, _i ? 1 : n + 1, 9 * MIB / 4));
    struct request *more = take(&p, 1, MIB), *other = take(&p, 7, MIB);
    ck_assert((more == NULL) == (_i != 0));
    ck_assert_ptr_nonnull(other);
    ck_assert(request_pool_pressed(&p));
    if (more != NULL)
        request_give(&p, more);
    request_give(&p, other);
    while (n > 0)
        request_give(&p, q[--n]);
    /* the peer's share is empty */
    ck_assert(!request_pool_pressed(&p));
    for (uint32_t i = 0; i < REQUEST_PLACES; i++)
        ck_assert(p.share[REQUEST_PUSH].of[i].used == 0 && p.share[REQUEST_PUSH].of[i].bytes == 0);
    ck_assert_ptr_nonnull(other = take(&p, 1, MIB));
    request_give(&p, other);
    request_pool_close(&p);
}
END_TEST

/* A push that lets others go on finds room when others do not, up to as much again. */
START_TEST(what_goes_on_at_once_has_a_bound_too)
{
    enum { MIB = 1 << 20 };
    struct request_pool p;
    struct request *q[24];
    uint32_t n = 0;
    ck_assert_int_eq(request_pool_init(&p, 16 * MIB), 0); /* 12 of them for pushes */
    for (; n < 12; n++)
        ck_assert_ptr_nonnull(q[n] = take(&p, n + 1, MIB));
    ck_assert_ptr_null(take(&p, 30, 1));
    for (; n < 24; n++)
        ck_assert_ptr_nonnull(q[n] = take_now(&p, 30, MIB, true));
    ck_assert_ptr_null(take_now(&p, 31, 1, true));
    while (n > 0)
        request_give(&p, q[--n]);
    request_pool_close(&p);
}
END_TEST

static int own_main(const TTest *const *tests, size_t count)
{
    Suite *s = suite_create("request");
    TCase *c = tcase_create("request");
    for (size_t i = 0; i < count; i++)
        tcase_add_loop_test(c, tests[i], 0, 2);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed;
}

/* Rows by key are of no run and lane: only the same request takes the place of an older one. */
START_TEST(rows_by_key_take_no_place_of_other_rows)
{
    struct rig r = {0};
    struct {
        uint64_t key;
        float row[2];
    } m = {rig_key(3, 0), {5, 5}};
    rig_start(&r, 1);
    rig_table(&r, 0, OPT_SGD);
    rig_map(&r, 1, 1000);
    rig_run(&r, 20);
    chill(m.key);
    uint64_t id[2];
    for (int i = 0; i < 2; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_ASSIGN);
        w.u.ASSIGN = (struct wire_ASSIGN){.tablet = 3, .tablet_count = 1, .key_count = 1};
        m.row[0] = (float)i + 5;
        id[i] = rig_send(&r, &w, 1, &m, sizeof m, NULL, 0);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, id[i]), RIG_WAITING);
    }
    fetch(&r, m.key);
    ck_assert_int_eq(rig_status(&r, id[0]), 0);
    ck_assert_int_eq(rig_status(&r, id[1]), 0);
    ck_assert(rig_value(&r, pull(&r, m.key)) == 6);
    finish(&r);
}
END_TEST

/* Rows of no run wait for their rows in the store when the table goes. */
START_TEST(rows_by_key_that_wait_are_refused_when_the_table_goes)
{
    struct rig r = {0};
    struct {
        uint64_t key;
        float row[2];
    } m = {rig_key(3, 0), {5, 5}};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    chill(m.key);
    struct wire w = rig_wire(&r, WIRE_TYPE_ASSIGN);
    w.u.ASSIGN = (struct wire_ASSIGN){.tablet = 3, .tablet_count = 1, .key_count = 1};
    uint64_t id = rig_send(&r, &w, 1, &m, sizeof m, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO = (struct wire_ROWS_GO){.run = RIG_RUN + 1, .what = WIRE_ROWS_ALL};
    uint64_t go = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, go), 0);
    ck_assert_msg(rig_status(&r, id) == SHOAL_E_NO_TABLE, "%s", rig_reply(&r, id)->error);
    finish(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        rows_by_key_take_no_place_of_other_rows,
        rows_by_key_that_wait_are_refused_when_the_table_goes,
        pull_of_a_stored_row_waits_for_it_and_others_do_not,
        push_waits_for_its_rows_and_its_lane_waits_behind_it,
        lanes_behind_a_miss_do_not_hold_up_others_when_rows_come,
        what_is_sent_again_takes_the_place_of_the_older,
        walk_ends_after_a_few_that_are_not_there,
        clock_is_released_when_all_its_rows_are_there,
        clock_that_finds_no_room_half_way_goes_on_later,
        clock_that_the_disk_stops_half_way_is_refused_from_there_on,
        newcomers_wait_behind_who_found_no_room_in_order_of_their_lanes,
        no_push_moves_while_a_cut_is_held,
        push_queued_in_a_hold_is_checked_against_the_map_that_came,
        who_waits_is_refused_when_its_run_is_dropped,
        pulls_of_a_peer_that_left_go_and_its_pushes_stay,
        other_parts_of_a_batch_take_nobodys_place,
        tables_of_a_lane_hold_up_nobody_else,
        room_of_one_space_is_waited_for_by_that_alone,
        misses_of_a_space_that_is_held_are_counted_apart,
        parked_pull_of_nobody_is_let_go,
        a_push_of_another_generation_takes_nobodys_place,
        a_push_of_another_run_takes_nobodys_place,
        pulls_of_others_take_nobodys_place,
        who_found_no_room_goes_first,
        who_waits_for_a_cut_is_refused_when_its_run_is_dropped,
    };
    const TTest *const own[] = {a_holder_of_half_the_bytes_leaves_the_rest_to_others,
                                what_goes_on_at_once_has_a_bound_too};
    int failed = own_main(own, sizeof own / sizeof own[0]);
    return rig_main("park", tests, sizeof tests / sizeof tests[0]) != 0 || failed != 0 ? 1 : 0;
}
