/* sim_rogue.c: the messages that the rogue has seen, and those that it makes of them. */
#include "tests/lib/sim_rogue.h"
#include "proto/base/container_of.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define FRAME_MAX (1u << 20) /* longest message that it keeps */

/* X(TYPE, true when a bystander sends it): messages from a worker to a coordinator. */
#define ROGUE_MAP(X)                                                                               \
    X(HELLO, true)                                                                                 \
    X(WORKER_JOIN, true)                                                                           \
    X(WORKER_BEAT, true)                                                                           \
    X(WORKER_LEAVE, false)                                                                         \
    X(INDEX_DONE, false)                                                                           \
    X(WINDOWS, false)                                                                              \
    X(OBJECTS, false)                                                                              \
    X(OBJECT_DONE, false)                                                                          \
    X(LEGEND, false)                                                                               \
    X(JOB_TEXT, true)                                                                              \
    X(TABLE_DECLARE, false)                                                                        \
    X(TABLE_GET, true)                                                                             \
    X(MAP_GET, true)                                                                               \
    X(LANE_NEXT, true)                                                                             \
    X(TASK_DONE, true)                                                                             \
    X(EVAL_DONE, false)                                                                            \
    X(STATUS, true)

static const struct {
    enum wire_type type;
    bool harmless;
} types[] = {
#define X(name, harmless) {WIRE_TYPE_##name, harmless},
    ROGUE_MAP(X)
#undef X
};
#define TYPES (sizeof types / sizeof types[0])

static bool one_in(struct rogue *r, uint64_t n)
{
    return rng_below(&r->rng, n) == 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Draws a number that the coordinator has given or counts with. */
static uint64_t learnt(struct rogue *r)
{
    const struct coord *c = r->c->coord;
    if (c == NULL)
        return 1;
    const struct coord_job *j = &c->slot[0];
    const struct coord_tasks *t = j->tasks;
    uint32_t lane = t->lanes == 0 ? 0 : (uint32_t)rng_below(&r->rng, t->lanes);
    uint32_t split = (uint32_t)rng_below(&r->rng, JOB_SPLITS);
    switch (rng_below(&r->rng, 18)) {
    case 0:
        return j->at.run;
    case 1:
        return j->at.number;
    case 2:
        return lane;
    case 3:
        return t->lanes;
    case 4:
        return t->lanes == 0 ? 0 : t->lane[lane].generation;
    case 5:
        return t->lanes == 0 ? 0 : t->lane[lane].next_batch;
    case 6:
        return (uint64_t)t->epoch << 32 | rng_below(&r->rng, t->tasks + 1ull);
    case 7:
        return j->eval->number << 32 | rng_below(&r->rng, j->eval->tasks + 1ull);
    case 8:
        return c->fleet.members.next_worker;
    case 9:
        return j->objects[split].count;
    case 10:
        return rng_below(&r->rng, j->objects[split].count + 1ull);
    case 11:
        return j->at.split[split].rows;
    case 12:
        return j->at.split[split].digest;
    case 13:
        return c->fleet.cluster.map_epoch;
    case 14:
        return j->objects[split].item.given_ns;
    case 15:
        return j->at.epoch;
    case 16:
        return r->pass[rng_below(&r->rng, ROGUE_PASSES)];
    default:
        return r->given.task;
    }
}

static uint64_t number(struct rogue *r)
{
    static const uint64_t bounds[] = {0,
                                      1,
                                      INT32_MAX,
                                      UINT32_MAX - 1,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      (UINT64_C(1) << 44) - 1,
                                      UINT64_C(1) << 44,
                                      INT64_MAX,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};
    switch (rng_below(&r->rng, 6)) {
    case 0:
        return bounds[rng_below(&r->rng, sizeof bounds / sizeof bounds[0])];
    case 1:
        return rng_below(&r->rng, 8);
    case 2:
        return rng_below(&r->rng, 2000);
    case 3:
        return learnt(r) + rng_below(&r->rng, 3) - 1;
    default:
        return learnt(r);
    }
}

static double fraction(struct rogue *r)
{
    static const double of[] = {0, -0.0, 1, -1, 0.5, 1e300, -1e300, 1e-310, 1e18, NAN, INFINITY};
    return of[rng_below(&r->rng, sizeof of / sizeof of[0])];
}

static void words(struct rogue *r, char *to, size_t capacity)
{
    static const char *const of[] = {"",   "worker-0", "worker-1", "rogue", "part-0.csv", "a\tb",
                                     "%s", "../../x",  "emb",      "dense", "\xff\xfe",   "label"};
    memset(to, 0, capacity);
    if (one_in(r, 6))
        memset(to, 'x', capacity - 1);
    else
        (void)snprintf(to, capacity, "%s", of[rng_below(&r->rng, sizeof of / sizeof of[0])]);
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Draws field number `left` of a message anew; if it has fewer fields, none. */
struct change {
    struct rogue *r;
    uint32_t left;
};
#define CHANGE(field, value)                                                                       \
    if (change->left-- == 0)                                                                       \
        q->field = value;
#define CHANGE_U32(field) CHANGE(field, (uint32_t)number(change->r))
#define CHANGE_U64(field) CHANGE(field, number(change->r))
#define CHANGE_I32(field)                                                                          \
    CHANGE(field, one_in(change->r, 2) ? (int32_t)number(change->r)                                \
                                       : -(int32_t)rng_below(&change->r->rng, 40))
#define CHANGE_F32(field) CHANGE(field, (float)fraction(change->r))
#define CHANGE_F64(field) CHANGE(field, fraction(change->r))
#define CHANGE_B(field) CHANGE(field, !q->field)
#define CHANGE_STR(field, capacity)                                                                \
    if (change->left-- == 0)                                                                       \
        words(change->r, q->field, capacity);
#define COUNT(field) +1u
#define COUNT_STR(field, capacity) +1u

#define X(name, harmless)                                                                          \
    enum { FIELDS_##name = 0u WIRE_##name(COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT_STR) };  \
    static void change_##name(struct change *change, struct wire_##name *q)                        \
    {                                                                                              \
        WIRE_##name(CHANGE_U32, CHANGE_U64, CHANGE_I32, CHANGE_F32, CHANGE_F64, CHANGE_B,          \
                    CHANGE_STR)                                                                    \
    }
ROGUE_MAP(X)
#undef X

static void field_change(struct rogue *r, struct wire *w)
{
    struct change change = {.r = r};
    switch (w->type) {
#define X(name, harmless)                                                                          \
    case WIRE_TYPE_##name:                                                                         \
        change.left = (uint32_t)rng_below(&r->rng, FIELDS_##name);                                 \
        change_##name(&change, &w->u.name);                                                        \
        break;
        ROGUE_MAP(X)
#undef X
    default:
        break;
    }
}

static uint64_t *pass_of(struct wire *w)
{
    switch (w->type) {
#define PASS(name)                                                                                 \
    case WIRE_TYPE_##name:                                                                         \
        return &w->u.name.pass;
        PASS(WORKER_BEAT)
        PASS(WORKER_LEAVE)
        PASS(INDEX_DONE)
        PASS(WINDOWS)
        PASS(OBJECTS)
        PASS(OBJECT_DONE)
        PASS(LEGEND)
        PASS(LANE_NEXT)
        PASS(TASK_DONE)
        PASS(EVAL_DONE)
#undef PASS
    default:
        return NULL;
    }
}

/* ---- what was seen --------------------------------------------------------------------------- */

static void seen_free(struct rogue_seen *s)
{
    for (uint32_t i = 0; i < s->frames; i++)
        free(s->frame[i]);
    *s = (struct rogue_seen){.frames = 0};
}

static void seen_keep(struct rogue *r, const struct sim_node *from, const struct wire *w,
                      const struct msg *m)
{
    struct rogue_seen *s = &r->seen[w->type][r->turns[w->type]++ % ROGUE_KEPT];
    seen_free(s);
    s->w = *w;
    /* another worker's pass: its line is private, so the rogue cannot read it */
    uint64_t *pass = pass_of(&s->w);
    if (pass != NULL && from != r->node)
        *pass = 0;
    for (s->frames = 0; s->frames + 1 < m->frame_count; s->frames++) {
        const struct frame *f = &m->frame[s->frames + 1];
        s->bytes[s->frames] = f->bytes;
        s->frame[s->frames] = malloc(f->bytes + 1);
        ck_assert_ptr_nonnull(s->frame[s->frames]);
        if (f->bytes > 0)
            memcpy(s->frame[s->frames], f->data, f->bytes);
    }
}

static bool of_workers(enum wire_type type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].type == type)
            return true;
    return false;
}

/* Sees every message of the cluster when it is sent, and keeps some, the rogue's own among them. */
static void watch(void *context, const struct sim_node *from, uint64_t line, bool up,
                  const struct msg *m)
{
    struct rogue *r = context;
    struct wire w;
    struct err e;
    (void)line;
    if (!up || m->frame_count > 3 || msg_bytes(m) > FRAME_MAX ||
        (from == r->node && !one_in(r, 16)) || wire_decode((struct msg *)m, &w, &e) != 0)
        return;
    if (!w.reply && of_workers(w.type))
        seen_keep(r, from, &w, m);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Changes a frame's length; the new bytes are drawn from numbers. */
static void frame_fit(struct rogue *r, struct rogue_seen *s, uint32_t i, uint64_t bytes)
{
    if (i >= s->frames || bytes == s->bytes[i] || bytes > FRAME_MAX)
        return;
    char *frame = calloc(bytes + 8, 1);
    ck_assert_ptr_nonnull(frame);
    memcpy(frame, s->frame[i], s->bytes[i] < bytes ? s->bytes[i] : bytes);
    for (uint64_t at = (s->bytes[i] + 7) / 8 * 8; at < bytes; at += 8) {
        uint64_t value = number(r);
        memcpy(frame + at, &value, sizeof value);
    }
    free(s->frame[i]);
    s->frame[i] = frame;
    s->bytes[i] = bytes;
}

/* Gives frames the lengths that the header counts; otherwise the decoder would refuse the message
 * before any handler. */
static void frames_fit(struct rogue *r, struct rogue_seen *s)
{
    const struct wire *w = &s->w;
    if (w->type == WIRE_TYPE_WINDOWS)
        frame_fit(r, s, 0, w->u.WINDOWS.windows * sizeof(struct wire_window));
    else if (w->type == WIRE_TYPE_OBJECT_DONE)
        frame_fit(r, s, 0, w->u.OBJECT_DONE.windows * sizeof(struct wire_window));
    else if (w->type == WIRE_TYPE_TABLE_DECLARE)
        frame_fit(r, s, 0, w->u.TABLE_DECLARE.field_rule_count * sizeof(struct field_rule));
    else if (w->type == WIRE_TYPE_EVAL_DONE) {
        const struct wire_EVAL_DONE *q = &w->u.EVAL_DONE;
        frame_fit(r, s, 0, 8ull * q->examples * q->tasks);
        frame_fit(r, s, 1, 8ull * q->examples * ((q->grouped ? 1 : 0) + q->by_count));
    }
}

/* Changes a word or a byte of a frame, or adds a line. */
static void frame_change(struct rogue *r, struct rogue_seen *s)
{
    uint32_t i = (uint32_t)rng_below(&r->rng, 2);
    if (i >= s->frames)
        return;
    if (s->w.type == WIRE_TYPE_OBJECTS && i == 0 && one_in(r, 2)) {
        static const char *const lines[] = {"zz\n", "zz\t5\n", "part-9.csv\t0\t1\n", "\n", "z"};
        const char *line = lines[rng_below(&r->rng, sizeof lines / sizeof lines[0])];
        size_t was = s->bytes[0];
        frame_fit(r, s, 0, was + strlen(line));
        memcpy((char *)s->frame[0] + was, line, strlen(line));
        s->w.u.OBJECTS.count++;
        return;
    }
    if (s->bytes[i] < 8)
        return;
    uint64_t value = number(r);
    char *at = (char *)s->frame[i] + rng_below(&r->rng, s->bytes[i] / 8) * 8;
    if (one_in(r, 2))
        memcpy(at, &value, sizeof value);
    else
        at[rng_below(&r->rng, 8)] = (char)value;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void tell(struct rogue *r, struct rogue_seen *s)
{
    if (s->w.id == 0 || !one_in(r, 20))
        s->w.id = ++r->next_id;
    struct msg *m = wire_encode(&s->w);
    ck_assert_ptr_nonnull(m);
    for (uint32_t i = 0; i < s->frames; i++) {
        void *at = msg_add(m, s->bytes[i]);
        if (s->bytes[i] > 0)
            memcpy(at, s->frame[i], s->bytes[i]);
    }
    (void)env_send(r->env, r->coordinator, m);
    r->sent++;
}

/* Copies a message that was seen, or makes an empty one. */
static void copy_of(struct rogue *r, enum wire_type type, bool as_seen, struct rogue_seen *out)
{
    uint32_t kept = r->turns[type] < ROGUE_KEPT ? r->turns[type] : ROGUE_KEPT;
    static const uint32_t frames[ROGUE_TYPES] = {
        [WIRE_TYPE_TASK_DONE] = 2,    [WIRE_TYPE_EVAL_DONE] = 2, [WIRE_TYPE_OBJECTS] = 2,
        [WIRE_TYPE_OBJECT_DONE] = 1,  [WIRE_TYPE_WINDOWS] = 1,   [WIRE_TYPE_LEGEND] = 1,
        [WIRE_TYPE_TABLE_DECLARE] = 1};
    *out = (struct rogue_seen){.frames = 0};
    if (kept > 0 && (as_seen || !one_in(r, 8))) {
        const struct rogue_seen *was = &r->seen[type][rng_below(&r->rng, kept)];
        *out = *was;
        for (uint32_t i = 0; i < was->frames; i++) {
            out->frame[i] = malloc(was->bytes[i] + 8);
            ck_assert_ptr_nonnull(out->frame[i]);
            memcpy(out->frame[i], was->frame[i], was->bytes[i]);
        }
        return;
    }
    out->w.type = type;
    out->frames = frames[type];
    for (uint32_t i = 0; i < out->frames; i++) {
        out->frame[i] = calloc(1, 8);
        ck_assert_ptr_nonnull(out->frame[i]);
    }
    if (type == WIRE_TYPE_TASK_DONE)
        frame_fit(r, out, 0, 512);
    for (uint32_t i = 0; i < 12; i++)
        field_change(r, &out->w);
}

/* Puts the numbers of the rogue's given work into a message about work. */
static void given_put(const struct rogue *r, struct wire *w)
{
    const struct wire_LANE_NEXT_reply *g = &r->given;
    if (w->type == WIRE_TYPE_LANE_NEXT && w->u.LANE_NEXT.lane != UINT32_MAX) {
        w->u.LANE_NEXT.lane = g->lane;
        w->u.LANE_NEXT.generation = g->generation;
        w->u.LANE_NEXT.batch = g->first_batch + g->batch_count - 1;
    } else if (w->type == WIRE_TYPE_TASK_DONE) {
        w->u.TASK_DONE.lane = g->lane;
        w->u.TASK_DONE.generation = g->generation;
        w->u.TASK_DONE.task = g->task;
    } else if (w->type == WIRE_TYPE_EVAL_DONE) {
        w->u.EVAL_DONE.task = g->task;
    } else if (w->type == WIRE_TYPE_INDEX_DONE) {
        w->u.INDEX_DONE.split = g->split;
    } else if (w->type == WIRE_TYPE_OBJECT_DONE && g->object > 0) {
        w->u.OBJECT_DONE.object = g->object - 1;
    }
}

static bool asks_for_work(const struct wire *w)
{
    return w->type == WIRE_TYPE_LANE_NEXT && w->u.LANE_NEXT.lane == UINT32_MAX;
}

/* True for messages about the tables and the input, or about a failure: one of them can end a
 * job. */
static bool decides(enum wire_type type)
{
    return type == WIRE_TYPE_TABLE_DECLARE || type == WIRE_TYPE_EVAL_DONE ||
           type == WIRE_TYPE_INDEX_DONE || type == WIRE_TYPE_WINDOWS || type == WIRE_TYPE_LEGEND ||
           type == WIRE_TYPE_OBJECT_DONE;
}

static void fails_not(struct wire *w)
{
    if (w->type == WIRE_TYPE_WORKER_LEAVE)
        w->u.WORKER_LEAVE.fatal = false;
    else if (w->type == WIRE_TYPE_INDEX_DONE)
        w->u.INDEX_DONE.fail_status = 0;
    else if (w->type == WIRE_TYPE_OBJECT_DONE)
        w->u.OBJECT_DONE.fail_status = 0;
}

/* True when the job's kernels are known. Under bsp the first worker that joins a job names them,
 * and later ones cannot. */
static bool kernels_said(const struct rogue *r)
{
    const struct coord *c = r->c->coord;
    return c != NULL && coord_phase_running(&c->slot[0]) && c->slot[0].kernel[0] != 0;
}

static void speak(struct rogue *r)
{
    size_t i = rng_below(&r->rng, TYPES);
    struct rogue_seen s;
    bool as_seen = r->mild && decides(types[i].type) && !one_in(r, 10);
    if (r->bystander && types[i].type == WIRE_TYPE_WORKER_JOIN && !kernels_said(r))
        as_seen = true;
    if ((r->bystander && !types[i].harmless) || (as_seen && r->turns[types[i].type] == 0))
        return;
    copy_of(r, types[i].type, as_seen, &s);
    if (r->given.kind != 0 && !one_in(r, 3))
        given_put(r, &s.w);
    for (uint64_t n = rng_below(&r->rng, 4); n > 0 && !as_seen; n--)
        field_change(r, &s.w);
    if (one_in(r, 4) && !as_seen)
        frame_change(r, &s);
    frames_fit(r, &s);
    uint64_t *pass = pass_of(&s.w);
    if (pass != NULL && !one_in(r, 30))
        *pass = r->pass[rng_below(&r->rng, ROGUE_PASSES)];
    if (s.w.type == WIRE_TYPE_LANE_NEXT && !r->bystander && one_in(r, 3))
        s.w.u.LANE_NEXT.lane = UINT32_MAX;
    if (r->mild)
        fails_not(&s.w);
    if (!r->bystander || !asks_for_work(&s.w))
        tell(r, &s);
    seen_free(&s);
}

/* Sends successful replies to requests that it never got. */
static void answers(struct rogue *r)
{
    static const enum wire_type of[] = {
        WIRE_TYPE_FENCE,    WIRE_TYPE_HOLD,        WIRE_TYPE_GO,         WIRE_TYPE_RESTORE,
        WIRE_TYPE_RUN_OPEN, WIRE_TYPE_MAP_SET,     WIRE_TYPE_CUT_EXPORT, WIRE_TYPE_LOAD,
        WIRE_TYPE_FENCES,   WIRE_TYPE_TABLE_CREATE};
    struct rogue_seen s = {.w = {.type = of[rng_below(&r->rng, sizeof of / sizeof of[0])],
                                 .reply = true,
                                 .id = 1 + rng_below(&r->rng, 400)}};
    if (s.w.type == WIRE_TYPE_FENCE)
        s.w.u.FENCE_reply.mark = number(r);
    tell(r, &s);
}

static void join(struct rogue *r)
{
    struct rogue_seen s;
    copy_of(r, WIRE_TYPE_WORKER_JOIN, true, &s);
    if (r->turns[WIRE_TYPE_WORKER_JOIN] == 0)
        s.w.u.WORKER_JOIN = (struct wire_WORKER_JOIN){.lanes_max = 1, .kernel = "k"};
    (void)snprintf(s.w.u.WORKER_JOIN.name, LIMIT_NAME, "rogue-%u", r->joined % 3);
    s.w.u.WORKER_JOIN.pid = 7000 + r->joined % 3;
    tell(r, &s);
    seen_free(&s);
}

static void beat(struct rogue *r)
{
    struct rogue_seen s = {.w = {.type = WIRE_TYPE_WORKER_BEAT}};
    s.w.u.WORKER_BEAT.pass = r->pass[rng_below(&r->rng, ROGUE_PASSES)];
    tell(r, &s);
}

static void on_timer(struct env_timer *t)
{
    struct rogue *r = container_of(t, struct rogue, timer);
    if (env_now_ns(r->env) >= r->until_ns)
        return;
    uint64_t what = rng_below(&r->rng, 20);
    if (r->bystander && r->turns[WIRE_TYPE_WORKER_JOIN] == 0)
        what = 3; /* the first worker to join names bsp's kernels */
    if (what == 0 || (r->joined == 0 && what != 3))
        join(r);
    else if (what < 3)
        beat(r);
    else if (what == 3)
        answers(r);
    else
        speak(r);
    env_timer_start(r->env, t, (1 + rng_below(&r->rng, 24)) * MS / 2);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct rogue *r = core;
    struct wire w;
    struct err e;
    (void)from;
    if (wire_decode(m, &w, &e) == 0 && w.reply) {
        r->answered++;
        r->refused += w.status != 0;
        if (w.type == WIRE_TYPE_WORKER_JOIN && w.status == 0)
            r->pass[r->joined++ % ROGUE_PASSES] = w.u.WORKER_JOIN_reply.pass;
        if (w.type == WIRE_TYPE_LANE_NEXT && w.status == 0 && w.u.LANE_NEXT_reply.kind != 0)
            r->given = w.u.LANE_NEXT_reply;
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static const struct env_handler handler = {on_message, on_drained, NULL};

void rogue_start(struct rogue *r, struct cluster *c, uint64_t seed, bool bystander,
                 uint64_t until_ns)
{
    memset(r, 0, sizeof *r);
    r->c = c;
    r->rng = rng_of(seed, 77, 7);
    r->bystander = bystander;
    r->mild = !one_in(r, 4);
    r->until_ns = until_ns;
    r->node = sim_node_new(c->sim, "rogue", &handler, r);
    r->env = sim_node_env(r->node);
    ck_assert_int_eq(env_connect(r->env, "sim://coordinator", ENV_COORDINATOR, &r->coordinator), 0);
    sim_watch(c->sim, watch, r);
    r->timer.fire = on_timer;
    env_timer_start(r->env, &r->timer, MS);
}

void rogue_free(struct rogue *r)
{
    for (uint32_t t = 0; t < ROGUE_TYPES; t++)
        for (uint32_t k = 0; k < ROGUE_KEPT; k++)
            seen_free(&r->seen[t][k]);
}
