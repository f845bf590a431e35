/* worker_fake.c: a minimal coordinator and shards for a worker. */
#include "tests/lib/worker_fake.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1 << 13 };

static struct wire in, out; /* large: not on the stack */

/* A reply that is sent later. */
struct fake_late {
    struct env_timer timer;
    struct fake_node *node;
    struct fake_late *next;
    peer_t to;
    struct msg *m; /* owned */
};

static void late_fire(struct env_timer *t)
{
    struct fake_late *late = container_of(t, struct fake_late, timer);
    struct fake_late **at = &late->node->fake->late;
    while (*at != late)
        at = &(*at)->next;
    *at = late->next;
    env_send(sim_node_env(late->node->node), late->to, late->m);
    free(late);
}

static void send_late(struct fake_node *n, peer_t to, struct msg *m, uint64_t after_ns)
{
    if (after_ns == 0) {
        env_send(sim_node_env(n->node), to, m);
        return;
    }
    struct fake_late *late = calloc(1, sizeof *late);
    *late = (struct fake_late){
        .timer.fire = late_fire, .node = n, .next = n->fake->late, .to = to, .m = m};
    n->fake->late = late;
    env_timer_start(sim_node_env(n->node), &late->timer, after_ns);
}

/* ---- rows and marks -------------------------------------------------------------------------- */

static struct fake_row *row_find(const struct fake *f, uint32_t table, uint64_t key)
{
    uint32_t at = (uint32_t)key_mix(key) % ROWS;
    while (f->row[table][at].used && f->row[table][at].key != key)
        at = (at + 1) % ROWS;
    return &f->row[table][at];
}

const struct fake_row *fake_row(const struct fake *f, uint32_t table, uint64_t key)
{
    const struct fake_row *row = row_find(f, table, key);
    return row->used ? row : NULL;
}

uint32_t fake_row_count(const struct fake *f, uint32_t table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        count += f->row[table][i].used;
    return count;
}

static uint32_t tablets(const struct fake *f)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < f->tables; t++)
        count += 1u << f->schema[t].tablet_bits;
    return count;
}

static uint32_t shard_of(const struct fake *f, uint32_t table, uint32_t tablet)
{
    uint32_t count = 1u << f->schema[table].tablet_bits;
    uint32_t stretch = f->scattered ? tablet / 2 : tablet * f->shards / count;
    return (stretch + f->map_turn) % f->shards;
}

static bool all_declared(const struct fake *f)
{
    for (uint32_t t = 0; t < f->tables; t++)
        if (!f->declared[t])
            return false;
    return f->tables > 0;
}

uint64_t fake_mark(const struct fake *f, uint32_t lane)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t t = 0; t < tablets(f); t++)
        if (f->mark[t][lane] < lowest)
            lowest = f->mark[t][lane];
    return lowest;
}

void fake_turn_map(struct fake *f)
{
    f->map_turn++;
    f->map_epoch++;
}

void fake_expire(struct fake *f, uint32_t lane)
{
    f->lane[lane].generation++;
    f->lane[lane].holder = 0;
    for (uint32_t s = 0; s < f->shards; s++)
        f->fence[s][lane] = f->lane[lane].generation;
    f->lane[lane].mark = fake_mark(f, lane);
}

/* ---- shard ----------------------------------------------------------------------------------- */

/* True when the request is to be refused or lost. */
static bool refused(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    f->seen[in.type]++;
    if (f->lose_count[in.type] > 0) {
        f->lose_count[in.type]--;
        return true;
    }
    if (f->refuse_count[in.type] == 0)
        return false;
    f->refuse_count[in.type]--;
    env_send(sim_node_env(n->node), from,
             wire_refusal(&in, f->refuse_status[in.type], "told to refuse"));
    return true;
}

/* Writes the rows as they are now. */
static void rows_write(const struct fake *f, uint32_t table, const uint64_t *keys, uint32_t count,
                       float *rows)
{
    uint32_t width = f->schema[table].width;
    for (uint32_t i = 0; i < count; i++) {
        const struct fake_row *row = row_find(f, table, keys[i]);
        for (uint32_t j = 0; j < width; j++)
            rows[i * width + j] = row->used ? row->value[j] : 0.0f;
    }
}

/* The lowest number of batches, over all lanes, that the shard's tablets of the table have. */
static uint64_t steps_of(const struct fake_node *n, uint32_t table)
{
    const struct fake *f = n->fake;
    const struct table_schema *schema = &f->schema[table];
    uint64_t lowest = UINT64_MAX;
    for (uint32_t t = 0; t < 1u << schema->tablet_bits; t++) {
        uint64_t steps = 0;
        for (uint32_t lane = 0; lane < FAKE_LANES; lane++)
            steps += f->mark[schema->tablet_first + t][lane];
        if (shard_of(f, table, t) == n->shard && steps < lowest)
            lowest = steps;
    }
    return lowest;
}

static void shard_pull(struct fake_node *n, peer_t from, const struct msg *m)
{
    struct fake *f = n->fake;
    const struct table_schema *schema = &f->schema[in.u.PULL.table];
    const uint64_t *keys = m->frame[1].data;
    uint32_t count = in.u.PULL.key_count;
    f->pull = in.u.PULL;
    ck_assert_uint_lt(in.u.PULL.table, f->tables);
    ck_assert_uint_gt(count, 0);
    for (uint32_t i = 0; i < count; i++)
        if (shard_of(f, in.u.PULL.table, key_tablet(key_mix(keys[i]), schema->tablet_bits)) !=
            n->shard) {
            env_send(sim_node_env(n->node), from,
                     wire_refusal(&in, SHOAL_E_NOT_LEADER, "not here"));
            return;
        }
    wire_reply_to(&in, 0, &out);
    out.u.PULL_reply = (struct wire_PULL_reply){
        .key_count = count, .width = schema->width, .clock = in.u.PULL.batch, .low = 0};
    out.u.PULL_reply.waited_ns = f->hold_ns;
    out.u.PULL_reply.steps = steps_of(n, in.u.PULL.table);
    if (in.u.PULL.batch > 0)
        out.u.PULL_reply.low = in.u.PULL.batch - 1;
    struct msg *reply = wire_encode(&out);
    float *rows = msg_add(reply, (size_t)count * schema->width * sizeof(float));
    rows_write(f, in.u.PULL.table, keys, count, rows);
    f->pulls++;
    send_late(n, from, reply, f->hold_ns);
}

static int push_check(struct fake_node *n, uint64_t *lowest)
{
    struct fake *f = n->fake;
    const struct wire_PUSH *p = &in.u.PUSH;
    const struct table_schema *schema = &f->schema[p->table];
    ck_assert_uint_lt(p->table, f->tables);
    ck_assert_uint_lt(p->lane, FAKE_LANES);
    ck_assert_uint_le(p->tablet_first + p->tablet_count, 1u << schema->tablet_bits);
    ck_assert_uint_gt(p->tablet_count, 0);
    if (p->run != FAKE_RUN)
        return SHOAL_E_OLD_RUN;
    if (p->generation != f->fence[n->shard][p->lane])
        return SHOAL_E_FENCED;
    *lowest = UINT64_MAX;
    for (uint32_t t = p->tablet_first; t < p->tablet_first + p->tablet_count; t++) {
        if (shard_of(f, p->table, t) != n->shard)
            return SHOAL_E_NOT_LEADER;
        uint64_t mark = f->mark[schema->tablet_first + t][p->lane];
        if (mark < *lowest)
            *lowest = mark;
    }
    return *lowest < p->from ? SHOAL_E_GAP : 0;
}

static void push_apply(struct fake *f, const struct msg *m, uint32_t *applied, uint32_t *skipped)
{
    const struct wire_PUSH *p = &in.u.PUSH;
    const struct table_schema *schema = &f->schema[p->table];
    const uint64_t *keys = m->frame[1].data;
    const float *gradients = m->frame[2].data;
    size_t floats = schema_push_floats(schema);
    ck_assert_uint_eq(m->frame[2].bytes, p->key_count * floats * sizeof(float));

    for (uint32_t i = 0; i < p->key_count; i++) {
        uint32_t tablet = key_tablet(key_mix(keys[i]), schema->tablet_bits);
        ck_assert_uint_ge(tablet, p->tablet_first);
        ck_assert_uint_lt(tablet, p->tablet_first + p->tablet_count);
        ck_assert(i == 0 || key_mix(keys[i - 1]) < key_mix(keys[i]));
        if (f->mark[schema->tablet_first + tablet][p->lane] >= p->to)
            continue;
        struct fake_row *row = row_find(f, p->table, keys[i]);
        row->used = true;
        row->key = keys[i];
        for (uint32_t j = 0; j < schema->width; j++)
            row->value[j] -= p->lr_scale * gradients[i * floats + j];
        if (floats > schema->width) {
            f->shows += (double)gradients[i * floats + schema->width];
            f->clicks += (double)gradients[i * floats + schema->width + 1];
        }
    }
    for (uint32_t t = p->tablet_first; t < p->tablet_first + p->tablet_count; t++) {
        uint64_t *mark = &f->mark[schema->tablet_first + t][p->lane];
        *applied += *mark < p->to;
        *skipped += *mark >= p->to;
        if (*mark < p->to)
            *mark = p->to;
    }
}

/* The rows that a push asked for, in a reply that has its fields. */
static void echo_add(struct fake_node *n, const struct msg *m, struct msg *reply)
{
    struct fake *f = n->fake;
    const struct wire_PUSH *p = &in.u.PUSH;
    const uint64_t *keys = m->frame[1].data;
    const uint8_t *bits = m->frame[3].data;
    uint32_t width = out.u.PUSH_reply.width;
    float *row = msg_add(reply, (size_t)out.u.PUSH_reply.key_count * width * sizeof *row);
    for (uint32_t i = 0; i < p->key_count && out.u.PUSH_reply.key_count > 0; i++) {
        if ((bits[i / 8] >> i % 8 & 1) == 0)
            continue;
        rows_write(f, p->table, &keys[i], 1, row);
        row += width;
    }
}

static void shard_push(struct fake_node *n, peer_t from, const struct msg *m)
{
    struct fake *f = n->fake;
    uint32_t applied = 0, skipped = 0;
    uint64_t lowest = 0;
    f->push = in.u.PUSH;
    int rc = push_check(n, &lowest);
    if (rc == 0 && in.u.PUSH.to >= f->poison_from && in.u.PUSH.to < f->poison_to) {
        f->poisoned += in.u.PUSH.key_count > 0;
        f->ticks += in.u.PUSH.key_count == 0;
        rc = in.u.PUSH.key_count > 0 && lowest < in.u.PUSH.to ? SHOAL_E_NOT_FINITE : 0;
    }
    if (rc == 0)
        push_apply(f, m, &applied, &skipped);
    f->applied += applied;
    f->skipped += skipped;
    f->gaps += rc == SHOAL_E_GAP;
    wire_reply_to(&in, rc, &out);
    out.u.PUSH_reply =
        (struct wire_PUSH_reply){.applied = applied, .skipped = skipped, .mark = lowest};
    f->echoes_asked += in.u.PUSH.echo;
    if (rc == 0 && skipped == 0 && in.u.PUSH.echo > 0 &&
        (f->echo_every == 0 || f->echoes_asked % f->echo_every != 0)) {
        out.u.PUSH_reply.key_count = in.u.PUSH.echo;
        out.u.PUSH_reply.width = f->schema[in.u.PUSH.table].width;
        out.u.PUSH_reply.clock = in.u.PUSH.to;
        out.u.PUSH_reply.low = UINT64_MAX;
        if (f->echo_lag > 0)
            out.u.PUSH_reply.low = in.u.PUSH.to - MIN(in.u.PUSH.to, f->echo_lag);
        out.u.PUSH_reply.steps = steps_of(n, in.u.PUSH.table);
        f->echoes += in.u.PUSH.echo;
        f->echo_answers++;
    }
    struct msg *reply = wire_encode(&out);
    if (rc == 0)
        echo_add(n, m, reply);
    send_late(n, from, reply, f->push_late_ns);
}

/* ---- coordinator ----------------------------------------------------------------------------- */

static void coordinator_join(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    if (f->no_job) {
        env_send(sim_node_env(n->node), from, wire_refusal(&in, SHOAL_E_AGAIN, "no job"));
        return;
    }
    (void)snprintf(f->endpoint, sizeof f->endpoint, "%s", in.u.WORKER_JOIN.endpoint);
    wire_reply_to(&in, 0, &out);
    f->workers++;
    out.u.WORKER_JOIN_reply = (struct wire_WORKER_JOIN_reply){.worker = f->workers,
                                                              .run = FAKE_RUN,
                                                              .lanes = f->lanes,
                                                              .lease_ms = f->lease_ms,
                                                              .tables = f->tables,
                                                              .shards = f->shards,
                                                              .pass = FAKE_PASS + f->workers,
                                                              .job = f->job,
                                                              .trace_every = f->trace_join};
    if (f->forgets)
        f->known = f->workers;
    f->forgets = false;
    struct msg *m = wire_encode(&out);
    memcpy(msg_add(m, strlen(f->job_text)), f->job_text, strlen(f->job_text));
    env_send(sim_node_env(n->node), from, m);
}

static void coordinator_declare(struct fake_node *n, peer_t from, const struct msg *m)
{
    struct fake *f = n->fake;
    struct wire_TABLE_CREATE create;
    static struct table_schema schema;
    struct err e = {0};
    memcpy(&create, &in.u.TABLE_DECLARE, sizeof create);
    int rc = wire_schema_from(&create, &m->frame[1], &schema, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_lt(schema.table, FAKE_TABLES);
    if (f->declared[schema.table] && !schema_equal(&schema, &f->schema[schema.table])) {
        env_send(sim_node_env(n->node), from, wire_refusal(&in, SHOAL_E_SCHEMA, "another schema"));
        return;
    }
    f->schema[schema.table] = schema;
    f->declared[schema.table] = true;
    f->tables = in.u.TABLE_DECLARE.declared_total;
    wire_reply_to(&in, 0, &out);
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

static void coordinator_map(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    char lines[256] = "";
    if (!all_declared(f)) {
        env_send(sim_node_env(n->node), from, wire_refusal(&in, SHOAL_E_AGAIN, "no map yet"));
        return;
    }
    wire_reply_to(&in, 0, &out);
    out.u.MAP_GET_reply = (struct wire_MAP_GET_reply){.map_epoch = f->map_epoch,
                                                      .tablet_count = tablets(f),
                                                      .shards = f->shards,
                                                      WIRE_TABLES_IS(TABLE_SET_ALL)};
    struct msg *m = wire_encode(&out);
    uint16_t *shard = msg_add(m, tablets(f) * sizeof *shard);
    for (uint32_t t = 0; t < f->tables; t++)
        for (uint32_t i = 0; i < 1u << f->schema[t].tablet_bits; i++)
            shard[f->schema[t].tablet_first + i] = (uint16_t)shard_of(f, t, i);
    for (uint32_t s = 0; s < f->shards; s++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "sim://shard-%u\n", s);
    memcpy(msg_add(m, strlen(lines)), lines, strlen(lines));
    env_send(sim_node_env(n->node), from, m);
}

static void coordinator_text(struct fake_node *n, peer_t from)
{
    const char *text = n->fake->job_text;
    wire_reply_to(&in, 0, &out);
    struct msg *m = wire_encode(&out);
    memcpy(msg_add(m, strlen(text)), text, strlen(text));
    env_send(sim_node_env(n->node), from, m);
}

/* Gives a lane its next task; false when the epoch has none left. */
static bool lane_deal(struct fake *f, uint32_t number)
{
    struct fake_lane *l = &f->lane[number];
    uint64_t left = f->rows[WIRE_TRAIN] - f->next_row, want = (uint64_t)f->task_batches * f->batch;
    if (l->has_task)
        return true;
    if (left == 0)
        return false;
    uint64_t rows = left < want ? left : want;
    l->task =
        (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_TASK,
                                      .lane = number,
                                      .task = f->tasks_open++,
                                      .epoch = 1,
                                      .split = WIRE_TRAIN,
                                      .position = f->next_row,
                                      .rows = rows,
                                      .first_batch = l->next_batch + 1,
                                      .batch_count = (uint32_t)((rows + f->batch - 1) / f->batch),
                                      .lr_scale = 1.0f,
                                      .run = FAKE_RUN};
    l->next_batch += l->task.batch_count;
    f->next_row += rows;
    return l->has_task = true;
}

static void next_eval(struct fake *f, struct wire_LANE_NEXT_reply *reply)
{
    bool open = false;
    for (uint64_t i = 0; i * 64 < f->rows[WIRE_VALID]; i++) {
        open = open || !f->eval_done[i];
        if (f->eval_given[i])
            continue;
        f->eval_given[i] = true;
        *reply = (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_EVAL,
                                               .task = i,
                                               .split = WIRE_VALID,
                                               .position = i * 64,
                                               .run = FAKE_RUN};
        reply->rows = f->rows[WIRE_VALID] - i * 64 < 64 ? f->rows[WIRE_VALID] - i * 64 : 64;
        return;
    }
    if (!open) {
        reply->kind = WIRE_NEXT_END;
        f->ended = true;
    }
}

static bool training(const struct fake *f)
{
    bool open = f->next_row < f->rows[WIRE_TRAIN];
    for (uint32_t l = 0; l < f->lanes; l++)
        open = open || f->lane[l].has_task;
    return open;
}

static void next_without_lane(struct fake *f, struct wire_LANE_NEXT_reply *reply)
{
    for (uint32_t s = 0; s < (f->valid_rows_wanted ? 2u : 1u); s++)
        if (!f->indexed[s]) {
            reply->kind = WIRE_NEXT_INDEX;
            reply->split = s;
            return;
        }
    if (!all_declared(f))
        return;
    if (!training(f)) {
        next_eval(f, reply);
        return;
    }
    for (uint32_t l = 0; l < f->lanes; l++)
        if (f->lane[l].holder == 0 && lane_deal(f, l)) {
            f->lane[l].holder = in.u.LANE_NEXT.pass;
            *reply = f->lane[l].task;
            reply->generation = f->lane[l].generation;
            reply->mark = f->lane[l].mark;
            return;
        }
}

static void coordinator_next(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    const struct wire_LANE_NEXT *q = &in.u.LANE_NEXT;
    struct fake_lane *l = q->lane < f->lanes ? &f->lane[q->lane] : NULL;
    wire_reply_to(&in, 0, &out);
    struct wire_LANE_NEXT_reply *reply = &out.u.LANE_NEXT_reply;
    *reply = (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_WAIT, .retry_ms = 50, .run = FAKE_RUN};
    if (q->pass < FAKE_PASS + f->known) {
        env_send(sim_node_env(n->node), from,
                 wire_refusal(&in, SHOAL_E_UNAVAILABLE, "who is this?"));
        return;
    }
    for (uint32_t i = 0; i < f->lanes && l == NULL; i++) /* a grant whose reply was lost */
        if (f->lane[i].holder == q->pass && q->lane == UINT32_MAX && q->batch == 0) {
            *reply = f->lane[i].task;
            reply->generation = f->lane[i].generation;
            reply->mark = f->lane[i].mark;
            env_send(sim_node_env(n->node), from, wire_encode(&out));
            return;
        }
    if (l == NULL) {
        next_without_lane(f, reply);
    } else if (l->holder != q->pass || l->generation != q->generation) {
        reply->kind = WIRE_NEXT_LEAVE;
    } else {
        l->mark = q->batch;
        if (l->has_task && q->batch + 1 == l->task.first_batch + l->task.batch_count)
            l->has_task = false;
        if (lane_deal(f, q->lane)) {
            *reply = l->task;
            reply->generation = l->generation;
            reply->mark = l->mark;
        } else {
            l->holder = 0;
            l->generation++;
            for (uint32_t s = 0; s < f->shards; s++)
                f->fence[s][q->lane] = l->generation;
            reply->kind = WIRE_NEXT_LEAVE;
        }
    }
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

static void coordinator_done(struct fake_node *n, peer_t from, const struct msg *m)
{
    struct fake *f = n->fake;
    /* counts this fake's tasks; cleared by fake_open through tasks_done */
    static bool counted[4096];
    if (f->tasks_done == 0)
        memset(counted, 0, sizeof counted);
    if (in.type == WIRE_TYPE_TASK_DONE && !counted[in.u.TASK_DONE.task]) {
        counted[in.u.TASK_DONE.task] = true;
        f->tasks_done++;
        f->examples += in.u.TASK_DONE.examples;
        f->bad_lines += in.u.TASK_DONE.bad_lines;
        f->drawn += in.u.TASK_DONE.drawn;
        f->loss_sum += in.u.TASK_DONE.loss_sum;
        f->weight_sum += in.u.TASK_DONE.weight_sum;
        f->loss_task += *(const double *)m->frame[2].data;
        f->batches += in.u.TASK_DONE.batches;
        f->refused += in.u.TASK_DONE.refused;
        if (in.u.TASK_DONE.refused > 0)
            memcpy(f->refused_where, in.u.TASK_DONE.refused_where, sizeof f->refused_where);
        for (uint32_t i = 0; i < 64; i++)
            f->staleness[i] += ((const uint64_t *)m->frame[1].data)[i];
    }
    if (in.type == WIRE_TYPE_EVAL_DONE && !f->eval_done[in.u.EVAL_DONE.task]) {
        f->eval_done[in.u.EVAL_DONE.task] = true;
        f->eval_examples += in.u.EVAL_DONE.examples;
        f->eval_bad_lines += in.u.EVAL_DONE.bad_lines;
        for (uint32_t i = 0; i < in.u.EVAL_DONE.examples; i++)
            f->eval_score_sum += ((const float *)m->frame[1].data)[i];
    }
    if (in.type == WIRE_TYPE_INDEX_DONE) {
        f->indexed[in.u.INDEX_DONE.split] = in.u.INDEX_DONE.fail_status == 0;
        f->rows[in.u.INDEX_DONE.split] = in.u.INDEX_DONE.rows;
        f->digest[in.u.INDEX_DONE.split] = in.u.INDEX_DONE.digest;
    }
    wire_reply_to(&in, 0, &out);
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

static void coordinator_beat(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    f->beat = in.u.WORKER_BEAT;
    if (in.u.WORKER_BEAT.pass < FAKE_PASS + f->known || f->forgets) {
        env_send(sim_node_env(n->node), from,
                 wire_refusal(&in, SHOAL_E_UNAVAILABLE, "who is this?"));
        return;
    }
    wire_reply_to(&in, 0, &out);
    out.u.WORKER_BEAT_reply.trace_every = f->trace_every;
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

static void coordinator_traces(struct fake_node *n, peer_t from, const struct msg *m)
{
    struct fake *f = n->fake;
    for (uint32_t i = 0; i < in.u.TRACES.count && f->traces < 512; i++)
        f->trace[f->traces++] = ((const struct wire_trace *)m->frame[1].data)[i];
    wire_reply_to(&in, 0, &out);
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

static void coordinator_leave(struct fake_node *n, peer_t from)
{
    struct fake *f = n->fake;
    f->left++;
    f->left_fatal += in.u.WORKER_LEAVE.fatal;
    if (in.u.WORKER_LEAVE.fatal) {
        f->fail_status = in.u.WORKER_LEAVE.fail_status;
        snprintf(f->fail_text, sizeof f->fail_text, "%s", in.u.WORKER_LEAVE.fail_text);
    }
    for (uint32_t l = 0; l < f->lanes; l++)
        if (f->lane[l].holder == in.u.WORKER_LEAVE.pass)
            fake_expire(f, l);
    wire_reply_to(&in, 0, &out);
    env_send(sim_node_env(n->node), from, wire_encode(&out));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void fake_on_message(void *core, peer_t from, struct msg *m)
{
    struct fake_node *n = core;
    struct err e = {0};
    int rc = wire_decode(m, &in, &e);
    ck_assert_msg(rc == 0 && !in.reply, "%s", e.text);
    bool done = n->fake->other != NULL && n->fake->other(n, from, &in, m);
    if (!done && !refused(n, from))
        switch (in.type) {
        case WIRE_TYPE_HELLO:
            wire_reply_to(&in, 0, &out);
            env_send(sim_node_env(n->node), from, wire_encode(&out));
            break;
        case WIRE_TYPE_PULL:
            shard_pull(n, from, m);
            break;
        case WIRE_TYPE_PUSH:
            shard_push(n, from, m);
            break;
        case WIRE_TYPE_WORKER_JOIN:
            coordinator_join(n, from);
            break;
        case WIRE_TYPE_TABLE_DECLARE:
            coordinator_declare(n, from, m);
            break;
        case WIRE_TYPE_MAP_GET:
            coordinator_map(n, from);
            break;
        case WIRE_TYPE_JOB_TEXT:
            coordinator_text(n, from);
            break;
        case WIRE_TYPE_LANE_NEXT:
            coordinator_next(n, from);
            break;
        case WIRE_TYPE_WORKER_BEAT:
            coordinator_beat(n, from);
            break;
        case WIRE_TYPE_TRACES:
            coordinator_traces(n, from, m);
            break;
        case WIRE_TYPE_WORKER_LEAVE:
            coordinator_leave(n, from);
            break;
        default:
            coordinator_done(n, from, m);
        }
    msg_free(m);
}

static void fake_on_drained(void *core)
{
    (void)core;
}

static const struct env_handler fake_handler = {.on_message = fake_on_message,
                                                .on_drained = fake_on_drained};

void fake_open(struct fake *f, const struct sim_options *sim, const char *job_text, uint32_t shards,
               uint32_t lanes)
{
    char name[32], endpoint[64];
    ck_assert_uint_le(shards, FAKE_SHARDS);
    ck_assert_uint_le(lanes, FAKE_LANES);
    memset(f, 0, sizeof *f);
    f->job_text = job_text;
    f->shards = shards;
    f->lanes = lanes;
    f->batch = 16;
    f->task_batches = 4;
    f->lease_ms = 3000;
    f->map_epoch = 1;
    f->sim = sim_new(sim);
    f->mark = calloc(FAKE_TABLES * LIMIT_TABLETS, sizeof *f->mark);
    for (uint32_t t = 0; t < FAKE_TABLES; t++)
        f->row[t] = calloc(ROWS, sizeof *f->row[t]);
    for (uint32_t l = 0; l < lanes; l++)
        fake_expire(f, l); /* generation 1 everywhere */
    for (uint32_t l = 0; l < lanes; l++)
        f->lane[l].mark = 0;
    for (uint32_t i = 0; i <= FAKE_SHARDS; i++) {
        snprintf(name, sizeof name, i == FAKE_SHARDS ? "coordinator" : "shard-%u", i);
        snprintf(endpoint, sizeof endpoint, "sim://%s", name);
        f->node[i] = (struct fake_node){.fake = f, .shard = i};
        f->node[i].node = sim_node_new(f->sim, name, &fake_handler, &f->node[i]);
        sim_listen(f->node[i].node, endpoint);
    }
}

void fake_close(struct fake *f)
{
    while (f->late != NULL) {
        struct fake_late *late = f->late;
        f->late = late->next;
        env_timer_stop(sim_node_env(late->node->node), &late->timer);
        msg_free(late->m);
        free(late);
    }
    sim_free(f->sim);
    for (uint32_t t = 0; t < FAKE_TABLES; t++)
        free(f->row[t]);
    free(f->mark);
}
