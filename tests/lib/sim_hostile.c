/* sim_hostile.c: one function for each message; a random draw chooses the next message. */
#include "tests/lib/sim_hostile.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define FAR (UINT64_C(1) << 40)

/* Numbers that it has learned. */
struct learned {
    uint64_t run, generation, worker, newest_cut, cluster[2], map_epoch;
    uint32_t lane, tablets;
};

static struct learned learn(struct hostile *h)
{
    const struct coord *c = h->c->coord;
    struct learned l = {.run = 1, .worker = 1};
    if (c == NULL)
        return l;
    l.run = c->slot[0].at.run;
    l.lane =
        c->slot[0].tasks->lanes == 0 ? 0 : (uint32_t)rng_below(&h->rng, c->slot[0].tasks->lanes);
    l.generation = c->slot[0].tasks->lanes == 0 ? 0 : c->slot[0].tasks->lane[l.lane].generation;
    l.worker = c->slot[0].workers.count == 0
                   ? 1
                   : c->slot[0].workers.worker[rng_below(&h->rng, c->slot[0].workers.count)].number;
    l.newest_cut = c->fleet.counters.next_cut;
    memcpy(l.cluster, c->fleet.cluster.id, sizeof l.cluster);
    l.map_epoch = c->fleet.cluster.map_epoch;
    l.tablets = c->fleet.cluster.tablets;
    return l;
}

static void tell(struct hostile *h, peer_t to, struct wire *w, const void *frame, size_t bytes)
{
    w->id = w->id == 0 ? ++h->next_id : w->id;
    struct msg *m = wire_encode(w);
    ck_assert_ptr_nonnull(m);
    if (frame != NULL)
        memcpy(msg_add(m, bytes), frame, bytes);
    (void)env_send(h->env, to, m);
    h->sent++;
}

/* ---- to a shard ------------------------------------------------------------------------------ */

static void orders(struct hostile *h, peer_t to)
{
    struct learned l = learn(h);
    struct wire w = {.type = WIRE_TYPE_STOP};
    switch (rng_below(&h->rng, 10)) {
    case 0:
        w.u.STOP.job_only = false;
        break;
    case 1:
        w.type = WIRE_TYPE_RUN_DROP;
        w.u.RUN_DROP.run = l.run;
        break;
    case 2:
        w.type = WIRE_TYPE_FENCE;
        w.u.FENCE = (struct wire_FENCE){.run = l.run,
                                        .lane = l.lane,
                                        .generation = UINT64_MAX,
                                        .live = rng_below(&h->rng, 2) == 0};
        break;
    case 3:
        w.type = WIRE_TYPE_HOLD;
        w.u.HOLD = (struct wire_HOLD){.cut = l.newest_cut + 1, .run = l.run};
        break;
    case 4:
        w.type = WIRE_TYPE_RESTORE;
        w.u.RESTORE =
            (struct wire_RESTORE){l.newest_cut - 1, l.run + 1, rng_below(&h->rng, 2) == 0};
        break;
    case 5:
        w.type = WIRE_TYPE_CUT_DROP;
        w.u.CUT_DROP.cut = l.newest_cut - 1;
        break;
    case 6:
        w.type = WIRE_TYPE_CUT_KEEP;
        w.u.CUT_KEEP = (struct wire_CUT_KEEP){.below = UINT64_MAX, .runs = UINT64_MAX};
        break;
    case 7:
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = l.run, WIRE_TABLES_IS(TABLE_SET_ALL), .what = WIRE_ROWS_LOADED};
        break;
    case 8:
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO = (struct wire_ROWS_GO){.run = l.run + 1, WIRE_TABLES_IS(TABLE_SET_ALL)};
        break;
    default:
        w.type = WIRE_TYPE_RUN_OPEN;
        w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = l.run + 1, .lanes = 2, .mode = WIRE_ASYNC};
    }
    tell(h, to, &w, NULL, 0);
}

/* Sends a map in which shard 0 has all tablets. */
static void map(struct hostile *h, peer_t to)
{
    static const uint16_t nothing[4096];
    struct learned l = learn(h);
    struct wire w = {.type = WIRE_TYPE_MAP_SET};
    if (l.tablets > 4096)
        return;
    w.u.MAP_SET = (struct wire_MAP_SET){l.map_epoch + 1, l.tablets, l.cluster[0], l.cluster[1]};
    tell(h, to, &w, nothing, l.tablets * sizeof nothing[0]);
}

static void far_pulls(struct hostile *h, peer_t to)
{
    struct learned l = learn(h);
    uint64_t key = key_of_value(0, "1", 1);
    for (uint32_t i = 0; i < 200; i++) {
        struct wire w = {.type = WIRE_TYPE_PULL};
        w.u.PULL = (struct wire_PULL){
            .run = l.run, .lane = l.lane, .batch = FAR + i, .bound = i % 3, .key_count = 1};
        tell(h, to, &w, &key, sizeof key);
    }
}

/* Sends a push with another run, a missing lane, or a generation that was not given. */
static void foreign_push(struct hostile *h, peer_t to)
{
    struct learned l = learn(h);
    uint64_t key = key_of_value(0, "1", 1), what = rng_below(&h->rng, 5);
    float gradient = -1000;
    struct wire w = {.type = WIRE_TYPE_PUSH};
    w.u.PUSH = (struct wire_PUSH){.run = what == 0 ? l.run + 1 : l.run,
                                  .lane = what == 1 ? 1000000 : l.lane,
                                  .generation = what == 2   ? UINT64_MAX
                                                : what == 3 ? l.generation + 1
                                                            : l.generation - 1,
                                  .to = what == 4 ? UINT64_MAX : 1 + rng_below(&h->rng, 40),
                                  .tablet_count = 64,
                                  .lr_scale = 1,
                                  .key_count = 1,
                                  .clock = rng_next(&h->rng),
                                  .echo = (uint32_t)rng_below(&h->rng, 3)};
    uint8_t bits = (uint8_t)rng_below(&h->rng, 4);
    struct msg *m;
    w.id = ++h->next_id;
    w.u.PUSH.from = w.u.PUSH.to - 1;
    m = wire_encode(&w);
    memcpy(msg_add(m, sizeof key), &key, sizeof key);
    memcpy(msg_add(m, sizeof gradient), &gradient, sizeof gradient);
    size_t bitmap = w.u.PUSH.echo != 0; /* a byte, or none */
    memcpy(msg_add(m, bitmap), &bits, bitmap);
    (void)env_send(h->env, to, m);
    h->sent++;
}

/* ---- to any node ----------------------------------------------------------------------------- */

static void noise(struct hostile *h, peer_t to)
{
    struct msg *m = msg_new();
    for (uint64_t frames = 1 + rng_below(&h->rng, LIMIT_FRAMES); frames > 0; frames--) {
        size_t bytes = rng_below(&h->rng, 200);
        uint8_t *data = msg_add(m, bytes);
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)rng_next(&h->rng);
    }
    (void)env_send(h->env, to, m);
    h->sent++;
}

/* Sends successful replies to requests that it never got. */
static void answers(struct hostile *h, peer_t to)
{
    static const enum wire_type types[] = {WIRE_TYPE_FENCE,   WIRE_TYPE_HOLD,     WIRE_TYPE_GO,
                                           WIRE_TYPE_RESTORE, WIRE_TYPE_RUN_OPEN, WIRE_TYPE_MAP_SET,
                                           WIRE_TYPE_PUSH};
    struct wire w = {.type = types[rng_below(&h->rng, sizeof types / sizeof types[0])],
                     .reply = true,
                     .id = 1 + rng_below(&h->rng, 400)};
    if (w.type == WIRE_TYPE_FENCE)
        w.u.FENCE_reply.mark = FAR;
    tell(h, to, &w, NULL, 0);
}

/* ---- to the coordinator ---------------------------------------------------------------------- */

/* True when every shard has its number in its folder: before that the first peer under a server's
 * name is believed. */
static bool all_placed(const struct coord *c)
{
    bool placed = c != NULL && coord_cluster_known(&c->fleet.cluster);
    for (uint32_t i = 0; placed && i < c->fleet.members.shards; i++)
        placed = c->fleet.members.shard[i].placed;
    return placed;
}

/* Sends a beat with a server's name from another place. It does not know the numbers in the
 * server's folder. */
static void beat(struct hostile *h)
{
    if (!all_placed(h->c->coord))
        return;
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT};
    struct wire_SHARD_BEAT *b = &w.u.SHARD_BEAT;
    snprintf(b->server, sizeof b->server, "server-%u",
             (uint32_t)rng_below(&h->rng, h->c->options.servers + 1));
    snprintf(b->endpoint, sizeof b->endpoint, "sim://hostile");
    b->shard_count = h->c->options.shards;
    b->shard_index = (uint32_t)rng_below(&h->rng, b->shard_count);
    b->incarnation = rng_next(&h->rng);
    b->ready = true;
    b->number = WIRE_NO_SHARD;
    if (rng_below(&h->rng, 2) == 0) { /* the numbers of another cluster */
        b->cluster_high = b->cluster_low = 7;
        b->number = 0;
        b->shards = h->c->options.shards * h->c->options.servers;
    }
    tell(h, h->coordinator, &w, NULL, 0);
}

/* Sends a request in a worker's name, with its number but without its pass. */
static void lane_next(struct hostile *h)
{
    struct learned l = learn(h);
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT};
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){l.worker, l.lane, l.generation, FAR};
    if (rng_below(&h->rng, 2) == 0)
        w.u.LANE_NEXT.lane = 1000000;
    tell(h, h->coordinator, &w, NULL, 0);
}

static void worker_leave(struct hostile *h)
{
    struct learned l = learn(h);
    struct wire w = {.type = WIRE_TYPE_WORKER_LEAVE};
    w.u.WORKER_LEAVE = (struct wire_WORKER_LEAVE){
        .pass = l.worker, .fatal = rng_below(&h->rng, 2), .fail_status = SHOAL_E_DATA};
    tell(h, h->coordinator, &w, NULL, 0);
}

static void task_done(struct hostile *h)
{
    struct learned l = learn(h);
    struct wire w = {.type = WIRE_TYPE_EVAL_DONE};
    w.u.EVAL_DONE = (struct wire_EVAL_DONE){.pass = l.worker, .task = FAR, .tasks = 1};
    struct msg *m;
    w.id = ++h->next_id;
    if (rng_below(&h->rng, 2) == 0) {
        w.type = WIRE_TYPE_TASK_DONE;
        w.u.TASK_DONE = (struct wire_TASK_DONE){
            .pass = l.worker, .lane = l.lane, .generation = l.generation, .examples = FAR};
    }
    m = wire_encode(&w);
    memset(msg_add(m, w.type == WIRE_TYPE_TASK_DONE ? 512 : 8), 0,
           w.type == WIRE_TYPE_TASK_DONE ? 512 : 8);
    (void)msg_add(m, 0);
    (void)env_send(h->env, h->coordinator, m);
    h->sent++;
}

/* ---- the node -------------------------------------------------------------------------------- */

static void on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    (void)from;
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static const struct env_handler handler = {on_message, on_drained, NULL};

static void on_timer(struct env_timer *t)
{
    struct hostile *h = container_of(t, struct hostile, timer);
    uint32_t shards = h->c->options.servers * h->c->options.shards;
    peer_t shard = h->shard[rng_below(&h->rng, shards)];
    switch (rng_below(&h->rng, 13)) {
    case 0:
    case 1:
    case 2:
        orders(h, shard);
        break;
    case 3:
        map(h, shard);
        break;
    case 4:
        far_pulls(h, shard);
        break;
    case 5:
    case 6:
        foreign_push(h, shard);
        break;
    case 7:
        noise(h, rng_below(&h->rng, 2) == 0 ? h->coordinator : shard);
        break;
    case 8:
        answers(h, rng_below(&h->rng, 2) == 0 ? h->coordinator : shard);
        break;
    case 9:
        beat(h);
        break;
    case 10:
        lane_next(h);
        break;
    case 11:
        worker_leave(h);
        break;
    default:
        task_done(h);
    }
    /* slower and slower, because a run may last for hours */
    env_timer_start(h->env, t, (1 + rng_below(&h->rng, 60)) * MS * (1 + h->turns++ / 20));
}

void hostile_start(struct hostile *h, struct cluster *c, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->c = c;
    h->rng = rng_of(seed, 66, 6);
    h->node = sim_node_new(c->sim, "hostile", &handler, h);
    h->env = sim_node_env(h->node);
    ck_assert_int_eq(env_connect(h->env, "sim://coordinator", ENV_COORDINATOR, &h->coordinator), 0);
    for (uint32_t i = 0; i < c->options.servers * c->options.shards; i++) {
        char endpoint[64];
        snprintf(endpoint, sizeof endpoint, "sim://server-%u-%u", i / c->options.shards,
                 i % c->options.shards);
        ck_assert_int_eq(env_connect(h->env, endpoint, ENV_COORDINATOR, &h->shard[i]), 0);
    }
    sim_listen(h->node, "sim://hostile");
    h->timer.fire = on_timer;
    env_timer_start(h->env, &h->timer, MS);
}
