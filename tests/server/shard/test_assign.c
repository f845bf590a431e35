/* test_assign.c: a worker assigns tablets of the network, and reads them, and another program
 * assigns rows by key: where an assignment waits as a push does, and what is answered. */
#include "tests/lib/embedding_rows.h"
#include "tests/lib/rig_dir.h"
#include "tests/server/copies_rig.h"

#include <math.h>

#define EVAL UINT32_MAX

static uint32_t dense = 1; /* the number of the dense table */
static struct rows net;    /* the network as the worker has it */
static char image[1 << 16];
static size_t image_bytes;

static struct table_schema dense_schema(void)
{
    struct table_schema s;
    memset(&s, 0, sizeof s);
    snprintf(s.name, sizeof s.name, "dense");
    s.table = dense;
    s.dense = 1;
    s.width = 2;
    s.tablet_bits = RIG_BITS;
    s.tablet_first = dense << RIG_BITS;
    s.seed = 1;
    s.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 1, .eps = 1e-8f};
    return s;
}

static void setup(void)
{
    const struct table_schema s = dense_schema();
    net = rows_open(&s);
}

static void teardown(void)
{
    rows_close(&net);
}

static uint64_t dense_table(struct rig *r)
{
    const struct table_schema s = dense_schema();
    struct wire w = rig_wire(r, WIRE_TYPE_TABLE_CREATE);
    wire_schema_to(&s, &w.u.TABLE_CREATE);
    return rig_send(r, &w, 1, NULL, 0, NULL, 0);
}

static int answered(struct rig *r, uint64_t id)
{
    rig_run(r, 20);
    return rig_status(r, id);
}

/* As rig_new, with a sparse table 0 and a dense table 1. */
static void begin(struct rig *r, uint32_t mode)
{
    rig_start(r, 1);
    rig_table(r, 0, OPT_SGD);
    ck_assert_int_eq(answered(r, dense_table(r)), 0);
    rig_map(r, 1, 1000);
    ck_assert_int_eq(answered(r, rig_open(r, RIG_RUN, 2, mode | WIRE_APART)), 0);
    rig_fence(r, 0, 1, true);
    ck_assert_int_eq(answered(r, rig_fence(r, 1, 1, true)), 0);
}

/* The weight of the tablet's row is -v from now on. */
static void learn(uint32_t tablet, float v)
{
    const uint64_t key = rig_key(tablet, 0);
    float now[2];
    table_pull(net.table, &key, 1, now);
    rows_push_one(&net, key, v + now[0], 0);
    image_bytes = table_image_bytes(net.table, tablet);
    ck_assert_uint_le(image_bytes, sizeof image);
    table_image_write(net.table, tablet, image);
}

static uint64_t assign_as(struct rig *r, const struct wire_ASSIGN *a)
{
    struct wire w = rig_wire(r, WIRE_TYPE_ASSIGN);
    w.u.ASSIGN = *a;
    return rig_send(r, &w, 1, image, image_bytes, NULL, 0);
}

/* Assigns the image as batch `to` of lane 0. */
static uint64_t assign(struct rig *r, uint64_t to, uint32_t tablet)
{
    return assign_as(r, &(struct wire_ASSIGN){.run = RIG_RUN,
                                              .table = dense,
                                              .generation = 1,
                                              .to = to,
                                              .tablet = tablet,
                                              .map_epoch = 1});
}

static uint64_t image_read(struct rig *r, uint32_t table, uint32_t tablet)
{
    struct wire w = rig_wire(r, WIRE_TYPE_IMAGE);
    w.u.IMAGE = (struct wire_IMAGE){.run = RIG_RUN, .table = table, .tablet = tablet};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Reads a tablet, and returns the weight of its row. */
static float weight(struct rig *r, uint32_t tablet, uint64_t mark)
{
    const struct table_schema s = dense_schema();
    const uint64_t id = image_read(r, dense, tablet), key = rig_key(tablet, 0);
    struct err e = {0};
    float out[2];
    ck_assert_int_eq(answered(r, id), 0);
    const struct wire_IMAGE_reply *reply = &rig_reply(r, id)->u.IMAGE_reply;
    const struct frame *f = &r->answer[id].m->frame[1];
    ck_assert_uint_eq(reply->mark, mark);
    struct rows back = rows_open(&s);
    ck_assert_msg(table_image_read(back.table, tablet, f->data, f->bytes, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(reply->rows, table_rows(back.table));
    table_pull(back.table, &key, 1, out);
    rows_close(&back);
    return out[0];
}

START_TEST(an_assigned_tablet_is_read_back)
{
    struct rig r = {0};
    begin(&r, WIRE_SSP);
    ck_assert(weight(&r, 3, 0) == 0);
    learn(3, 5);
    uint64_t id = assign(&r, 7, 3);
    ck_assert_msg(answered(&r, id) == 0, "%s", rig_reply(&r, id)->error);
    ck_assert(rig_reply(&r, id)->u.ASSIGN_reply.applied);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ASSIGN_reply.mark, 7);
    ck_assert(weight(&r, 3, 7) == -5);
    learn(3, 9);
    id = assign(&r, 7, 3); /* again, and not the same: the first one stays */
    ck_assert_int_eq(answered(&r, id), 0);
    ck_assert(!rig_reply(&r, id)->u.ASSIGN_reply.applied);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ASSIGN_reply.mark, 7);
    ck_assert(weight(&r, 3, 7) == -5);
    ck_assert_uint_eq(r.shard->counts.assigned, 1);
    ck_assert_uint_eq(r.shard->counts.skipped, 1);
    ck_assert_uint_eq(r.shard->counts.bytes_pushed, image_bytes); /* both have one row */
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == 0); /* of the sparse table */
    rig_free(&r);
}
END_TEST

START_TEST(an_assignment_is_refused_as_a_push_is)
{
    struct rig r = {0};
    begin(&r, WIRE_SSP);
    learn(3, 5);
    const struct wire_ASSIGN good = {
        .run = RIG_RUN, .table = dense, .generation = 1, .from = 2, .to = 7, .tablet = 3};
    struct wire_ASSIGN a = good;
    uint64_t id = assign_as(&r, &a);
    ck_assert_int_eq(answered(&r, id), SHOAL_E_GAP);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ASSIGN_reply.mark, 0);
    a.from = 0;
    a.run = 99;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_OLD_RUN);
    a.run = RIG_RUN;
    a.generation = 0;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_FENCED);
    a.generation = 1;
    a.from = 7;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_MALFORMED);
    a.from = 0;
    a.table = 0;
    id = assign_as(&r, &a);
    ck_assert_int_eq(answered(&r, id), SHOAL_E_MALFORMED);
    ck_assert_ptr_nonnull(strstr(rig_reply(&r, id)->error, "t0 is sparse"));
    a.table = 9;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_NO_TABLE);
    a.table = dense;
    a.tablet = 4;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_MALFORMED);
    a.tablet = 1u << RIG_BITS;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_NOT_LEADER);
    a.tablet = 3;
    const size_t whole = image_bytes;
    image_bytes = 0;
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_MALFORMED);
    image_bytes = whole;
    rig_map(&r, 2, dense << RIG_BITS); /* the dense tablets go to another shard */
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(answered(&r, image_read(&r, dense, 3)), SHOAL_E_NOT_LEADER);
    rig_map(&r, 3, 1000);
    ck_assert_int_eq(answered(&r, assign_as(&r, &a)), 0);
    ck_assert_int_eq(answered(&r, image_read(&r, 0, 3)), SHOAL_E_MALFORMED);
    ck_assert_int_eq(answered(&r, image_read(&r, 9, 3)), SHOAL_E_NO_TABLE);
    ck_assert_uint_eq(r.shard->counts.assigned, 1);
    rig_free(&r);
}
END_TEST

static uint64_t cut_ask(struct rig *r, enum wire_type type, uint64_t cut)
{
    struct wire w = rig_wire(r, type);
    if (type == WIRE_TYPE_HOLD)
        w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = RIG_RUN};
    else
        w.u.GO.cut = cut;
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

START_TEST(an_assignment_waits_while_a_cut_is_held)
{
    struct rig r = {0};
    begin(&r, _i == 0 ? WIRE_ASYNC : WIRE_BSP);
    learn(3, 5);
    ck_assert_int_eq(answered(&r, assign(&r, 1, 3)), 0);
    ck_assert_int_eq(answered(&r, cut_ask(&r, WIRE_TYPE_HOLD, 4)), 0);
    learn(3, 6);
    uint64_t id = assign(&r, 2, 3);
    ck_assert_int_eq(answered(&r, id), RIG_WAITING);
    ck_assert(weight(&r, 3, 1) == -5);
    uint64_t go = cut_ask(&r, WIRE_TYPE_GO, 4);
    ck_assert_int_eq(answered(&r, id), 0);
    ck_assert_int_eq(answered(&r, go), 0);
    ck_assert(weight(&r, 3, 2) == -6);
    struct wire w = rig_wire(&r, WIRE_TYPE_RESTORE);
    w.u.RESTORE = (struct wire_RESTORE){.cut = 4, .run = RIG_RUN + 1};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 0, NULL, 0, NULL, 0)), 0);
    ck_assert(weight(&r, 3, 0) == -5); /* the mark is that of the new run */
    ck_assert_uint_eq(engine_mark_range(r.shard->engine, RIG_RUN + 1, 0, dense, 3, 1), 1);
    rig_free(&r);
}
END_TEST

/* A tablet of table 0 is given away: no push and no assignment is admitted until the map. */
START_TEST(an_assignment_waits_while_a_tablet_is_given)
{
    struct rig r = {0};
    begin(&r, WIRE_ASYNC);
    struct wire w = rig_wire(&r, WIRE_TYPE_MOVE_READ);
    w.u.MOVE_READ = (struct wire_MOVE_READ){2, 9};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 0, NULL, 0, NULL, 0)), 0);
    learn(3, 5);
    uint64_t id = assign(&r, 1, 3);
    ck_assert_int_eq(answered(&r, id), RIG_WAITING);
    rig_map(&r, 2, 1000);
    ck_assert_int_eq(answered(&r, id), 0);
    ck_assert(weight(&r, 3, 1) == -5);
    rig_free(&r);
}
END_TEST

/* Lane 1 has pushed nothing, and no lane but 0 ever assigns: neither waits for the other. */
START_TEST(an_assignment_is_of_no_clock)
{
    struct rig r = {0};
    begin(&r, WIRE_BSP);
    learn(3, 5);
    ck_assert_int_eq(answered(&r, assign(&r, 1, 3)), 0);
    uint64_t push[2];
    for (uint32_t lane = 0; lane < 2; lane++)
        push[lane] = rig_push(
            &r, (struct rig_push_args){
                    .lane = lane, .from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 1});
    ck_assert_int_eq(answered(&r, push[0]), 0);
    ck_assert_int_eq(answered(&r, push[1]), 0);
    uint64_t pull = rig_pull(&r, 0, 2, 0, rig_key(3, 0));
    rig_run(&r, 20);
    ck_assert(rig_value(&r, pull) == -2);
    for (uint64_t to = 2; to < 9; to++)
        ck_assert_int_eq(answered(&r, assign(&r, to, 3)), 0);
    uint64_t fence = rig_fence(&r, 1, 2, true);
    ck_assert_int_eq(answered(&r, fence), 0);
    ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.mark, 1);
    ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.high, 1); /* not the tablet's 8 */
    ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.low, 1);
    rig_free(&r);
}
END_TEST

/* A shard that leads only the dense one of the run's tables knows no mark of its lanes. */
START_TEST(a_shard_of_the_network_alone_knows_no_mark)
{
    uint16_t shard_of[2u << RIG_BITS] = {0};
    struct rig r = {0};
    rig_start(&r, 1);
    rig_table(&r, 0, OPT_SGD);
    ck_assert_int_eq(answered(&r, dense_table(&r)), 0);
    for (uint32_t i = 0; i < 1u << RIG_BITS; i++)
        shard_of[i] = 1;
    struct wire w = rig_wire(&r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = 1, .tablet_count = 2u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 1, shard_of, sizeof shard_of, NULL, 0)), 0);
    ck_assert_int_eq(answered(&r, rig_open(&r, RIG_RUN, 2, WIRE_BSP | WIRE_APART)), 0);
    rig_fence(&r, 0, 1, true);
    learn(3, 5);
    rig_run(&r, 5);
    ck_assert_int_eq(answered(&r, assign(&r, 8, 3)), 0);
    uint64_t fence = rig_fence(&r, 0, 2, true);
    ck_assert_int_eq(answered(&r, fence), 0);
    ck_assert(rig_reply(&r, fence)->u.FENCE_reply.mark == UINT64_MAX);
    ck_assert(rig_reply(&r, fence)->u.FENCE_reply.high == 0);
    ck_assert(rig_reply(&r, fence)->u.FENCE_reply.low == 0);
    rig_free(&r);
}
END_TEST

START_TEST(an_image_waits_for_the_sync)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_FSYNC, .work_ns = 300 * MS};
    begin(&r, WIRE_ASYNC);
    rig_run(&r, 2000);
    learn(3, 5);
    uint64_t id = assign(&r, 1, 3), again = assign(&r, 1, 3), other = image_read(&r, dense, 4),
             read = image_read(&r, dense, 3);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, again), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert_int_eq(rig_status(&r, read), SHOAL_E_AGAIN);
    rig_run(&r, 1000);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert(!rig_reply(&r, again)->u.ASSIGN_reply.applied);
    ck_assert(weight(&r, 3, 1) == -5);
    rig_restart(&r, false);
    ck_assert(weight(&r, 3, 1) == -5);
    ck_assert_int_eq(answered(&r, assign(&r, 1, 3)), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* Under `journal` a push is answered before the sync, an assignment is not: no mark of a lane would
 * tell that power has taken it. */
START_TEST(an_assignment_is_on_disk_when_it_is_answered)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 300 * MS};
    begin(&r, WIRE_ASYNC);
    rig_run(&r, 2000);
    learn(3, 5);
    uint64_t id = assign(&r, 1, 3),
             push = rig_push(&r, (struct rig_push_args){
                                     .from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    rig_run(&r, 1000);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_ge(engine_synced(r.shard->engine), engine_sequence(r.shard->engine));
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* After a start nothing is assigned before the fences have been told again. */
START_TEST(an_assignment_waits_for_the_fences_of_a_start)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    begin(&r, WIRE_ASYNC);
    learn(3, 5);
    ck_assert_int_eq(answered(&r, assign(&r, 1, 3)), 0);
    sim_kill(r.shard_node);
    shard_close(r.shard, false);
    rig_shard(&r);
    rig_map(&r, 1, 1000);
    learn(3, 6);
    ck_assert_int_eq(answered(&r, assign(&r, 2, 3)), SHOAL_E_AGAIN);
    const struct wire_lane_fence fence = {.lane = 0, .generation = 2, .live = 1};
    ck_assert_int_eq(answered(&r, rig_fences(&r, RIG_RUN, &fence, 1)), 0);
    ck_assert_int_eq(answered(&r, assign(&r, 2, 3)), SHOAL_E_FENCED);
    ck_assert(weight(&r, 3, 1) == -5);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* As many images as a drain may bring are settled in between (GROUP_KEYS). */
START_TEST(many_assignments_of_a_drain_are_all_taken)
{
    struct rig r = {0};
    uint64_t id[16];
    begin(&r, WIRE_ASYNC);
    for (uint32_t k = 0; k < 16; k++) {
        for (uint32_t n = 1; n < 300; n++)
            rows_push_one(&net, rig_key(k, n), 1, 0);
        learn(k, (float)k + 1);
        id[k] = assign(&r, 3, k);
    }
    rig_run(&r, 50);
    for (uint32_t k = 0; k < 16; k++) {
        ck_assert_int_eq(rig_status(&r, id[k]), 0);
        ck_assert(weight(&r, k, 3) == -(float)k - 1);
    }
    rig_free(&r);
}
END_TEST

/* ---- rows by key ---- */

/* Assigns rows (width 2) of `count` keys of a tablet of table 0; every weight is v. */
static uint64_t rows_assign(struct rig *r, uint32_t tablet, uint32_t count, float v, uint32_t parts)
{
    static struct {
        uint64_t keys[64];
        float rows[128];
    } m;
    struct wire w = rig_wire(r, WIRE_TYPE_ASSIGN);
    for (uint32_t i = 0; i < count; i++)
        m.keys[i] = rig_key(tablet, i);
    float *rows = (float *)(void *)(m.keys + count);
    for (uint32_t i = 0; i < 2 * count; i++)
        rows[i] = v;
    w.u.ASSIGN = (struct wire_ASSIGN){
        .table = 0, .tablet = tablet, .tablet_count = 1, .key_count = count, .parts = parts};
    return rig_send(r, &w, 1, &m, count * 16, NULL, 0);
}

static void begin_tables(struct rig *r)
{
    rig_start(r, 1);
    rig_table(r, 0, OPT_SGD);
    ck_assert_int_eq(answered(r, dense_table(r)), 0);
    rig_map(r, 1, 1000);
    rig_run(r, 20);
}

static float row_of(struct rig *r, uint32_t tablet, uint32_t n)
{
    uint64_t id = rig_pull(r, EVAL, 0, 0, rig_key(tablet, n));
    rig_run(r, 20);
    return rig_value(r, id);
}

START_TEST(rows_are_assigned_and_counted)
{
    struct rig r = {0};
    begin_tables(&r);
    uint64_t id = rows_assign(&r, 3, 5, 7, 0);
    ck_assert_msg(answered(&r, id) == 0, "%s", rig_reply(&r, id)->error);
    const struct wire_ASSIGN_reply *a = &rig_reply(&r, id)->u.ASSIGN_reply;
    ck_assert(a->applied && a->made == 5 && a->replaced == 0 && a->kept == 0 && a->blocked == 0);
    ck_assert(row_of(&r, 3, 4) == 7);
    id = rows_assign(&r, 3, 6, 8, WIRE_ASSIGN_KEEP);
    ck_assert_int_eq(answered(&r, id), 0);
    a = &rig_reply(&r, id)->u.ASSIGN_reply;
    ck_assert(a->made == 1 && a->kept == 5 && a->replaced == 0);
    ck_assert(row_of(&r, 3, 4) == 7 && row_of(&r, 3, 5) == 8);
    id = rows_assign(&r, 3, 6, 9, 0);
    ck_assert_int_eq(answered(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ASSIGN_reply.replaced, 6);
    ck_assert(row_of(&r, 3, 0) == 9);
    ck_assert_uint_eq(r.shard->counts.bytes_pushed, (5 + 6 + 6) * 8);
    rig_free(&r);
}
END_TEST

/* Pulls a key's row with these parts, by no lane or by one. */
static uint64_t state_pull(struct rig *r, uint32_t table, uint32_t lane, uint32_t parts,
                           uint64_t key)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){
        .run = RIG_RUN, .table = table, .lane = lane, .key_count = 1, .parts = parts};
    return rig_send(r, &w, 1, &key, sizeof key, NULL, 0);
}

/* Adagrad keeps a sum for each of the two weights. */
START_TEST(rows_are_read_with_their_state)
{
    struct rig r = {0};
    const struct {
        uint64_t key;
        float row[4];
    } m = {rig_key(3, 0), {1, 2, 30, 40}};
    rig_start(&r, 1);
    rig_table(&r, 0, OPT_ADAGRAD);
    rig_map(&r, 1, 1000);
    rig_run(&r, 20);
    struct wire w = rig_wire(&r, WIRE_TYPE_ASSIGN);
    w.u.ASSIGN = (struct wire_ASSIGN){
        .tablet = 3, .tablet_count = 1, .key_count = 1, .parts = WIRE_ASSIGN_STATE};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 1, &m, 24, NULL, 0)), 0);

    uint64_t id = state_pull(&r, 0, EVAL, WIRE_ASSIGN_STATE, m.key);
    ck_assert_int_eq(answered(&r, id), 0);
    const struct wire_PULL_reply *reply = &rig_reply(&r, id)->u.PULL_reply;
    ck_assert(reply->width == 4 && reply->key_count == 1 && reply->values == VALUES_FP32);
    ck_assert_mem_eq(r.answer[id].m->frame[1].data, m.row, sizeof m.row);
    id = state_pull(&r, 0, EVAL, WIRE_ASSIGN_STATE, rig_key(3, 1));
    ck_assert_int_eq(answered(&r, id), 0);
    const float *absent = r.answer[id].m->frame[1].data;
    for (uint32_t i = 0; i < 4; i++)
        ck_assert(absent[i] == 0 && signbit(absent[i]));
    ck_assert_int_eq(answered(&r, state_pull(&r, 0, EVAL, WIRE_ASSIGN_STATS, m.key)),
                     SHOAL_E_VERSION);
    ck_assert_int_eq(answered(&r, state_pull(&r, 0, 0, WIRE_ASSIGN_STATE, m.key)),
                     SHOAL_E_MALFORMED);
    rig_free(&r);
}
END_TEST

START_TEST(rows_are_refused_in_words)
{
    struct rig r = {0};
    begin_tables(&r);
    struct wire w = rig_wire(&r, WIRE_TYPE_ASSIGN);
    w.u.ASSIGN = (struct wire_ASSIGN){.table = 7, .tablet_count = 1, .key_count = 1};
    const char zeros[16] = {0};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 1, zeros, 16, NULL, 0)), SHOAL_E_NO_TABLE);
    rig_map(&r, 2, 3); /* tablet 3 goes to another shard */
    ck_assert_int_eq(answered(&r, rows_assign(&r, 3, 1, 1, 0)), SHOAL_E_NOT_LEADER);
    rig_map(&r, 3, 1000);
    uint64_t id = rows_assign(&r, 3, 1, NAN, 0);
    ck_assert_int_eq(answered(&r, id), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(answered(&r, rig_open(&r, RIG_RUN, 1, WIRE_ASYNC)), 0);
    id = rows_assign(&r, 3, 1, 1, 0);
    ck_assert_int_eq(answered(&r, id), SHOAL_E_OLD_RUN);
    ck_assert_ptr_nonnull(strstr(rig_reply(&r, id)->error, "trains in table t0"));
    w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = RIG_RUN;
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 0, NULL, 0, NULL, 0)), 0);
    ck_assert_int_eq(answered(&r, rows_assign(&r, 3, 1, 1, 0)), 0);
    ck_assert(row_of(&r, 3, 0) == 1);
    rig_free(&r);
}
END_TEST

/* Dropped runs take their own requests out of the queue, not rows that are of no run. */
START_TEST(rows_wait_while_a_cut_is_held)
{
    struct rig r = {0};
    begin_tables(&r);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 4};
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 0, NULL, 0, NULL, 0)), 0);
    uint64_t id = rows_assign(&r, 3, 2, 5, 0), other = rows_assign(&r, 3, 4, 6, 0);
    ck_assert_int_eq(answered(&r, id), RIG_WAITING);
    ck_assert_int_eq(answered(&r, rig_open(&r, RIG_RUN + 1, 1, WIRE_ASYNC)), 0);
    w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = RIG_RUN + 1;
    ck_assert_int_eq(answered(&r, rig_send(&r, &w, 0, NULL, 0, NULL, 0)), 0);
    ck_assert_int_eq(answered(&r, id), RIG_WAITING);
    w = rig_wire(&r, WIRE_TYPE_GO);
    w.u.GO.cut = 4;
    (void)rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    ck_assert_int_eq(answered(&r, id), 0);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert(row_of(&r, 3, 1) == 6);
    rig_free(&r);
}
END_TEST

/* ---- copies ---- */

static uint64_t copies_assign(struct fleet *f, uint32_t i, uint64_t to)
{
    struct rig *w = fleet_worker(f, i);
    return assign_as(w, &(struct wire_ASSIGN){.run = RIG_RUN + 1,
                                              .table = dense,
                                              .generation = 1,
                                              .to = to,
                                              .tablet = 3,
                                              .map_epoch = 2});
}

/* The map has the tablets of three tables, all of which the shard leads. */
static void copies_map(struct fleet *f, uint32_t i)
{
    const uint16_t shard_of[3u << RIG_BITS] = {0};
    struct rig *b = fleet_boss(f, i);
    struct wire w = rig_wire(b, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = 2, .tablet_count = 3u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    uint64_t id = rig_send(b, &w, 1, shard_of, sizeof shard_of, NULL, 0);
    fleet_run(f, 50);
    ck_assert_msg(rig_status(b, id) == 0, "%s", b->answer[id].w.error);
}

/* Two copies of a shard, with a dense table 2 and a run of it beside the rig's. */
static void copies_begin(struct fleet *f)
{
    fleet_new(f, 2, 2);
    copies_map(f, 0);
    copies_map(f, 1);
    struct rig *b = fleet_boss(f, 0);
    uint64_t id = dense_table(b);
    fleet_run(f, 50);
    ck_assert_msg(rig_status(b, id) == 0, "%s", b->answer[id].w.error);
    struct wire w = rig_wire(b, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = RIG_RUN + 1,
                                          .lanes = 1,
                                          .mode = WIRE_SSP | WIRE_APART,
                                          WIRE_TABLES_IS(table_set_word(4))};
    id = rig_send(fleet_boss(f, 0), &w, 0, NULL, 0, NULL, 0);
    fleet_run(f, 50);
    ck_assert_msg(rig_status(b, id) == 0, "%s", b->answer[id].w.error);
    w = rig_wire(b, WIRE_TYPE_FENCE);
    w.u.FENCE = (struct wire_FENCE){.run = RIG_RUN + 1, .generation = 1, .live = true};
    id = rig_send(fleet_boss(f, 0), &w, 0, NULL, 0, NULL, 0);
    fleet_run(f, 50);
    ck_assert_int_eq(rig_status(b, id), 0);
    ck_assert_uint_eq(f->in_sync, 3);
}

static uint64_t copies_digest(struct fleet *f, uint32_t i)
{
    uint64_t one;
    ck_assert_int_eq(table_digest(engine_table(f->copy[i].shard->engine, dense), 3, &one), 0);
    return one + engine_mark_range(f->copy[i].shard->engine, RIG_RUN + 1, 0, dense, 3, 1);
}

START_TEST(an_image_waits_for_the_copies)
{
    char dir[LIMIT_PATH];
    struct fleet f = {.dir = rig_dir(dir),
                      .durability = _i == 0 ? DURABLE_JOURNAL : DURABLE_MEMORY};
    uint64_t net_digest;
    teardown();
    dense = 2;
    setup();
    copies_begin(&f);
    learn(3, 5);
    uint64_t id = copies_assign(&f, 0, 1);
    fleet_run(&f, 50);
    ck_assert_msg(rig_status(&f.worker, id) == 0, "%s", f.worker.answer[id].w.error);
    ck_assert_int_eq(table_digest(net.table, 3, &net_digest), 0);
    ck_assert_uint_eq(copies_digest(&f, 0), net_digest + 1);
    ck_assert_uint_eq(copies_digest(&f, 1), net_digest + 1);
    sim_pause(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    learn(3, 6);
    id = copies_assign(&f, 0, 2);
    uint64_t read = image_read(fleet_worker(&f, 0), dense, 3);
    fleet_run(&f, 90);
    ck_assert_int_eq(rig_status(&f.worker, id), RIG_WAITING);
    ck_assert_int_eq(rig_status(&f.worker, read), SHOAL_E_AGAIN);
    fleet_run(&f, 300);
    ck_assert_int_eq(rig_status(&f.worker, id), 0);
    read = image_read(fleet_worker(&f, 0), dense, 3);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.worker, read), 0);
    ck_assert_uint_eq(copies_digest(&f, 1), copies_digest(&f, 0));
    uint64_t follower = image_read(fleet_worker(&f, 1), dense, 3), to_it = copies_assign(&f, 1, 3);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.worker, follower), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.worker, to_it), SHOAL_E_NOT_LEADER);
    fleet_kill(&f, 0); /* the follower leads with what it has */
    fleet_lead(&f, 1);
    copies_map(&f, 1);
    struct wire w = rig_wire(&f.boss, WIRE_TYPE_FENCES);
    w.u.FENCES = (struct wire_FENCES){.run = RIG_RUN + 1};
    rig_send(fleet_boss(&f, 1), &w, 1, NULL, 0, NULL, 0);
    fleet_run(&f, 100);
    learn(3, 7);
    id = copies_assign(&f, 1, 3);
    read = image_read(fleet_worker(&f, 1), dense, 3);
    fleet_run(&f, 100);
    ck_assert_msg(rig_status(&f.worker, id) == 0, "%s", f.worker.answer[id].w.error);
    ck_assert_int_eq(rig_status(&f.worker, read), 0);
    /* without a lease it tells nothing */
    fleet_cut(&f, f.coordinator, f.copy[1].node, 5000);
    fleet_run(&f, 2 * FLEET_LEASE_MS);
    read = image_read(fleet_worker(&f, 1), dense, 3);
    id = copies_assign(&f, 1, 4);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.worker, read), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.worker, id), SHOAL_E_NOT_LEADER);
    fleet_free(&f);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("assign");
    TCase *c = suite_case(s, "assign", 60, setup, teardown);
    tcase_add_test(c, an_assigned_tablet_is_read_back);
    tcase_add_test(c, an_assignment_is_refused_as_a_push_is);
    tcase_add_loop_test(c, an_assignment_waits_while_a_cut_is_held, 0, 2);
    tcase_add_test(c, an_assignment_waits_while_a_tablet_is_given);
    tcase_add_test(c, an_assignment_is_of_no_clock);
    tcase_add_test(c, a_shard_of_the_network_alone_knows_no_mark);
    tcase_add_test(c, an_image_waits_for_the_sync);
    tcase_add_test(c, an_assignment_is_on_disk_when_it_is_answered);
    tcase_add_test(c, an_assignment_waits_for_the_fences_of_a_start);
    tcase_add_test(c, many_assignments_of_a_drain_are_all_taken);
    tcase_add_test(c, rows_are_assigned_and_counted);
    tcase_add_test(c, rows_are_read_with_their_state);
    tcase_add_test(c, rows_are_refused_in_words);
    tcase_add_test(c, rows_wait_while_a_cut_is_held);
    tcase_add_loop_test(c, an_image_waits_for_the_copies, 0, 2);
    return suite_main(s);
}
