/* test_move.c: a shard that gives a tablet, and takes it again. The client plays the coordinator
 * and the other shard. */
#include "tests/server/shard_rig.h"

#include <unistd.h>

#define TABLET 9u
#define EVAL UINT32_MAX

static char dir[] = "/tmp/shoal-test-XXXXXX";
static struct rig r;
static char image[1 << 16];
static size_t image_bytes;
static uint32_t reads;     /* requests of the taker */
static bool busy, damaged; /* how the client answers them */
static uint32_t late;      /* the answer to the first comes behind those of so many requests */

static void read_answer(const struct wire *w, peer_t to)
{
    static struct wire out;
    bool refused = busy || w->u.MOVE_READ.tablet != TABLET;
    wire_reply_to(w, refused ? SHOAL_E_BUSY : 0, &out);
    out.u.MOVE_READ_reply.pull_ns = 7000000;
    out.u.MOVE_READ_reply.push_ns = 8000000;
    struct msg *reply = wire_encode(&out);
    if (!refused) {
        char *frame = msg_add(reply, image_bytes);
        memcpy(frame, image, image_bytes);
        frame[image_bytes / 2] ^= (char)damaged;
    }
    ck_assert_int_eq(env_send(sim_node_env(r.client), to, reply), 0);
}

static void client_on_message(void *core, peer_t from, struct msg *m)
{
    static struct wire w, first;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    if (w.type != WIRE_TYPE_MOVE_READ || w.reply) {
        rig_on_message(core, from, m);
        return;
    }
    reads++;
    if (late > 0 && w.u.MOVE_READ.tablet == TABLET)
        first = w;
    else
        read_answer(&w, from);
    if (late > 0 && --late == 0)
        read_answer(&first, from);
    msg_free(m);
}

static const struct env_handler client_handler = {.on_message = client_on_message,
                                                  .on_drained = rig_on_drained};

static uint64_t push(uint64_t to)
{
    return rig_push(&r, (struct rig_push_args){
                            .from = to - 1, .to = to, .key = rig_key(TABLET, 0), .gradient = 2});
}

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    r = (struct rig){.dir = dir, .durability = DURABLE_JOURNAL};
    busy = damaged = false;
    reads = late = 0;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    sim_node_set_handler(r.client, &client_handler, &r);
    push(1);
    rig_run(&r, 5);
}

static void teardown(void)
{
    char command[64];
    rig_free(&r);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t move_read(uint64_t epoch, uint32_t tablet)
{
    struct wire w = rig_wire(&r, WIRE_TYPE_MOVE_READ);
    w.u.MOVE_READ = (struct wire_MOVE_READ){epoch, tablet};
    return rig_send(&r, &w, 0, NULL, 0, NULL, 0);
}

/* Asks the shard to take tablets [tablet, tablet + count). */
static uint64_t move_take_some(uint64_t epoch, uint32_t tablet, uint32_t count)
{
    uint32_t list[4];
    struct wire w = rig_wire(&r, WIRE_TYPE_MOVE_TAKE);
    w.u.MOVE_TAKE = (struct wire_MOVE_TAKE){
        .map_epoch = epoch, .endpoint = "sim://client", .tablet_count = count};
    for (uint32_t i = 0; i < count; i++)
        list[i] = tablet + i;
    return rig_send(&r, &w, 1, list, count * sizeof *list, NULL, 0);
}

static uint64_t move_take(uint64_t epoch, uint32_t tablet)
{
    return move_take_some(epoch, tablet, 1);
}

/* Gives tablet TABLET to another shard, or to this one, by a map of this epoch. */
static uint64_t move_map(uint64_t epoch, bool away, uint32_t gone)
{
    uint16_t shard_of[2u << RIG_BITS] = {0};
    const uint32_t tablet = TABLET;
    shard_of[TABLET] = away;
    struct wire w = rig_wire(&r, WIRE_TYPE_MOVE_MAP);
    w.u.MOVE_MAP = (struct wire_MOVE_MAP){.map_epoch = epoch,
                                          .tablet_count = 2u << RIG_BITS,
                                          .cluster_high = RIG_CLUSTER,
                                          .gone_count = gone};
    return rig_send(&r, &w, 2, shard_of, sizeof shard_of, &tablet, gone * sizeof tablet);
}

static int answered(uint64_t id)
{
    rig_run(&r, 20);
    return rig_status(&r, id);
}

/* Reads the tablet for a map of this epoch, which freezes the shard. */
static void read_for(uint64_t epoch)
{
    uint64_t id = move_read(epoch, TABLET);
    ck_assert_msg(answered(id) == 0, "%s", rig_reply(&r, id)->error);
    const struct frame *f = &r.answer[id].m->frame[1];
    ck_assert_uint_eq(rig_reply(&r, id)->u.MOVE_READ_reply.rows, 1);
    ck_assert_uint_le(f->bytes, sizeof image);
    image_bytes = f->bytes;
    memcpy(image, f->data, f->bytes);
}

static uint64_t rows(void)
{
    return table_tablet_rows(engine_table(r.shard->engine, 0), TABLET);
}

START_TEST(a_giver_holds_pushes_until_the_map)
{
    read_for(2);
    uint64_t second = push(2), pull = rig_pull(&r, EVAL, 0, 0, rig_key(TABLET, 0));
    ck_assert_int_eq(answered(second), RIG_WAITING);
    ck_assert(rig_value(&r, pull) == -2); /* reads go on */
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    ck_assert_int_eq(rig_status(&r, second), SHOAL_E_NOT_LEADER);
    ck_assert_uint_eq(rows(), 0);
    uint64_t other = rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .count = 8});
    ck_assert_int_eq(answered(other), 0); /* the other tablets are led as before */
}
END_TEST

static uint64_t block_key(void)
{
    uint64_t key = rig_key(TABLET, 0);
    struct wire w = rig_wire(&r, WIRE_TYPE_KEYS);
    w.u.KEYS = (struct wire_KEYS){.action = WIRE_KEY_BLOCK, .key_count = 1};
    return rig_send(&r, &w, 1, &key, sizeof key, NULL, 0);
}

/* The image that has left has no such name: it would be lost with the move. */
START_TEST(a_giver_changes_no_names_until_the_map)
{
    read_for(2);
    uint64_t during = block_key();
    ck_assert_int_eq(answered(during), SHOAL_E_AGAIN);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    uint64_t after = block_key();
    ck_assert_int_eq(answered(after), 0);
    ck_assert_uint_eq(rig_reply(&r, after)->u.KEYS_reply.changed, 0);
    ck_assert_uint_eq(rig_reply(&r, after)->u.KEYS_reply.skipped, 1);
}
END_TEST

/* The push is for other tablets, so it goes on with the map that takes this one away. */
START_TEST(a_giver_that_holds_a_push_drops_the_tablet_with_the_map)
{
    read_for(2);
    uint64_t other = rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .count = 8});
    ck_assert_int_eq(answered(other), RIG_WAITING);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert_uint_eq(rows(), 0);
}
END_TEST

/* Lane 0 waits for lane 1 when the tablet of its pull moves. */
START_TEST(a_pull_that_waits_is_refused_when_its_tablet_has_moved)
{
    rig_free(&r);
    r = (struct rig){0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    push(1);
    rig_run(&r, 5);
    uint64_t waits = rig_pull(&r, 0, 3, 0, rig_key(TABLET, 0));
    uint64_t other = rig_pull(&r, 0, 3, 0, rig_key(TABLET + 1, 0));
    ck_assert_int_eq(answered(waits), RIG_WAITING);
    read_for(2);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    for (uint32_t lane = 0; lane < 2; lane++)
        rig_push(&r, (struct rig_push_args){.lane = lane, .from = lane == 0, .to = 2, .count = 8});
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t lane = 0; lane < 2; lane++)
            for (uint32_t first = t == 0 ? 8 : 0; first < 16; first++)
                if (t != 0 || first != TABLET)
                    rig_push(&r, (struct rig_push_args){.table = t,
                                                        .lane = lane,
                                                        .from = t == 0 && lane == 0,
                                                        .to = 2,
                                                        .first = first,
                                                        .count = 1});
    ck_assert_int_eq(answered(waits), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&r, other), 0);
}
END_TEST

/* The engine still reads the tablet for a move that has ended: its image lacks later pushes. */
START_TEST(a_reading_of_a_former_move_answers_no_later_one)
{
    r.shard->moves.give.reading = true;
    ck_assert_int_eq(answered(move_read(2, TABLET)), SHOAL_E_BUSY);
    ck_assert_int_eq(answered(push(2)), 0); /* nothing is frozen */
    r.shard->moves.give.reading = false;
    read_for(2);
}
END_TEST

START_TEST(a_giver_goes_on_with_a_map_that_moves_nothing)
{
    read_for(2);
    uint64_t second = push(2);
    ck_assert_int_eq(answered(second), RIG_WAITING);
    ck_assert_int_eq(answered(move_map(2, false, 0)), 0);
    ck_assert_int_eq(rig_status(&r, second), 0);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(TABLET, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -4);
}
END_TEST

/* The map may take away only tablets that it lists. */
START_TEST(a_tablet_leaves_only_where_the_map_says_that_it_may)
{
    read_for(2);
    ck_assert_int_eq(answered(move_map(2, true, 0)), SHOAL_E_CONFIG);
    ck_assert_uint_eq(rows(), 1);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    ck_assert_uint_eq(rows(), 0);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0); /* a late copy */
}
END_TEST

START_TEST(a_read_for_an_old_epoch_or_of_a_foreign_tablet_freezes_nothing)
{
    ck_assert_int_eq(answered(move_read(1, TABLET)), SHOAL_E_CONFIG);
    ck_assert_int_eq(answered(move_read(2, 1000)), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(answered(push(2)), 0);
}
END_TEST

/* Gives the tablet away. */
static void give(void)
{
    read_for(2);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    ck_assert_uint_eq(rows(), 0);
}

START_TEST(a_taker_answers_when_the_tablets_are_on_disk)
{
    give();
    busy = true;
    uint64_t take = move_take(3, TABLET);
    ck_assert_int_eq(answered(take), RIG_WAITING);
    ck_assert_uint_gt(reads, 1); /* it asks again */
    busy = false;
    while (rig_status(&r, take) == RIG_WAITING)
        rig_run(&r, 1);
    ck_assert_int_eq(rig_status(&r, take), 0);
    struct engine_stats stats;
    engine_stats_get(r.shard->engine, &stats);
    ck_assert_uint_eq(engine_synced(r.shard->engine), stats.sequence);
    ck_assert_int_eq(answered(push(2)), SHOAL_E_NOT_LEADER); /* not led yet */
    ck_assert_int_eq(answered(move_map(3, false, 0)), 0);
    ck_assert_int_eq(answered(push(2)), 0);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(TABLET, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -4);
}
END_TEST

/* Several tablets are asked for at a time. A giver that has to read the first one from its store
 * refuses the others meanwhile; then it is asked for one at a time. */
START_TEST(a_taker_asks_ahead_until_the_giver_is_busy)
{
    give();
    late = 4;
    uint64_t take = move_take_some(3, TABLET, 4);
    rig_run(&r, 3);
    ck_assert_uint_eq(reads, 4 + 1);
    ck_assert_uint_eq(rows(), 1);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, take), RIG_WAITING);
    ck_assert_uint_ge(reads, 4 + 8);
    ck_assert_uint_le(reads, 4 + 12);
}
END_TEST

/* A plan of moves counts the load of a tablet that has just come. */
START_TEST(a_tablets_heat_goes_with_it)
{
    uint64_t ns[HEAT_KINDS];
    read_for(2);
    heat_tablet(r.shard, TABLET, ns);
    uint64_t id = move_read(2, TABLET);
    ck_assert_int_eq(answered(id), 0);
    ck_assert_uint_gt(ns[HEAT_PUSH], 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.MOVE_READ_reply.push_ns, ns[HEAT_PUSH]);
    ck_assert_uint_eq(rig_reply(&r, id)->u.MOVE_READ_reply.pull_ns, ns[HEAT_PULL]);
    ck_assert_int_eq(answered(move_map(2, true, 1)), 0);
    uint64_t take = move_take(3, TABLET);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, take), 0);
    ck_assert_int_eq(answered(move_map(3, false, 0)), 0);
    heat_tablet(r.shard, TABLET, ns);
    ck_assert_uint_eq(ns[HEAT_PULL], 7000000);
    ck_assert_uint_eq(ns[HEAT_PUSH], 8000000);
}
END_TEST

START_TEST(a_damaged_tablet_is_not_taken)
{
    give();
    damaged = true;
    uint64_t take = move_take(3, TABLET);
    ck_assert_int_ne(answered(take), 0);
    ck_assert_int_ne(rig_status(&r, take), RIG_WAITING);
    ck_assert_uint_eq(rows(), 0);
    damaged = false;
    take = move_take(3, TABLET);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, take), 0);
}
END_TEST

/* A taker whose move was given up, and a taker that started again. */
START_TEST(strays_are_dropped)
{
    give();
    uint64_t take = move_take(3, TABLET);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, take), 0);
    ck_assert_uint_eq(rows(), 1);
    if (_i == 0) {
        ck_assert_int_eq(answered(move_map(3, true, 0)), 0);
    } else {
        sim_kill(r.shard_node);
        shard_close(r.shard, false);
        rig_shard(&r);
        sim_node_set_handler(r.client, &client_handler, &r);
        ck_assert_int_eq(answered(move_map(3, true, 0)), 0);
    }
    ck_assert_uint_eq(rows(), 0);
}
END_TEST

/* The coordinator has stored the map that gives the tablet to this shard, but has not told it yet
 * when the shard starts again and hears the former map once more. */
START_TEST(a_taker_that_starts_again_keeps_what_the_map_may_give_it)
{
    give();
    uint64_t take = move_take(3, TABLET);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, take), 0);
    sim_kill(r.shard_node);
    shard_close(r.shard, false);
    rig_shard(&r);
    sim_node_set_handler(r.client, &client_handler, &r);
    rig_run(&r, 100);
    uint16_t shard_of[2u << RIG_BITS] = {0};
    shard_of[TABLET] = 1;
    struct wire w = rig_wire(&r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = 2, .tablet_count = 2u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    ck_assert_int_eq(answered(rig_send(&r, &w, 1, shard_of, sizeof shard_of, NULL, 0)), 0);
    ck_assert_uint_eq(rows(), 1);
    ck_assert_int_eq(answered(move_map(3, false, 0)), 0);
    ck_assert_uint_eq(rows(), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("move");
    TCase *t = tcase_create("move");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_giver_holds_pushes_until_the_map);
    tcase_add_test(t, a_giver_changes_no_names_until_the_map);
    tcase_add_test(t, a_giver_that_holds_a_push_drops_the_tablet_with_the_map);
    tcase_add_test(t, a_pull_that_waits_is_refused_when_its_tablet_has_moved);
    tcase_add_test(t, a_reading_of_a_former_move_answers_no_later_one);
    tcase_add_test(t, a_giver_goes_on_with_a_map_that_moves_nothing);
    tcase_add_test(t, a_tablet_leaves_only_where_the_map_says_that_it_may);
    tcase_add_test(t, a_read_for_an_old_epoch_or_of_a_foreign_tablet_freezes_nothing);
    tcase_add_test(t, a_taker_answers_when_the_tablets_are_on_disk);
    tcase_add_test(t, a_taker_asks_ahead_until_the_giver_is_busy);
    tcase_add_test(t, a_tablets_heat_goes_with_it);
    tcase_add_test(t, a_damaged_tablet_is_not_taken);
    tcase_add_loop_test(t, strays_are_dropped, 0, 2);
    tcase_add_test(t, a_taker_that_starts_again_keeps_what_the_map_may_give_it);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
