/* sim_oracle.c: stores acknowledged batches by run, lane, table and tablet, and requests in flight
 * by connection and id, the newest REQUESTS of them. */
#include "tests/lib/sim_oracle.h"
#include "proto/base/array.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "proto/job/packed.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 8192u
#define RUNS 16u
#define LANES 8u
#define TABLETS 64u
#define OWNERS 1024u

struct request_seen {
    uint64_t line, id;
    uint64_t before; /* the one before it in its bucket, counted from 1; 0: none */
    enum wire_type type;
    union {
        struct wire_PUSH push;
        struct wire_PULL pull;
        struct wire_FENCE fence;
    } u;
    uint64_t *wanted; /* owned: the keys whose rows a push asks for; NULL: none */
};

struct acknowledged {
    uint64_t run; /* 0: free */
    uint64_t batch[LANES][CLUSTER_TABLES][TABLETS];
};

static struct {
    struct cluster *c;
    char who[64];
    struct request_seen request[REQUESTS];
    uint64_t newest[REQUESTS]; /* by bucket: the newest request, counted from 1; 0: none */
    /* so far; packed: acknowledged pushes with gradients in fewer bits; echoes: with rows back */
    uint64_t requests, pushes, packed, echoes;
    uint64_t lost; /* batches lost with power, counted by tablet */
    bool power;    /* power may have taken some */
    struct acknowledged run[RUNS];
    uint16_t owner[OWNERS]; /* the newest map that a coordinator has stored */
    uint32_t owners;
} o;

#define BROKEN(format, ...) ck_abort_msg("%s: " format, o.who, __VA_ARGS__)

uint64_t oracle_acknowledged(void)
{
    return o.pushes;
}

uint64_t oracle_packed(void)
{
    return o.packed;
}

uint64_t oracle_echoed(void)
{
    return o.echoes;
}

/* ---- what was acknowledged ------------------------------------------------------------------- */

static struct acknowledged *acknowledged_of(uint64_t run)
{
    struct acknowledged *free_one = NULL;
    for (uint32_t i = 0; i < RUNS; i++) {
        if (o.run[i].run == run)
            return &o.run[i];
        if (o.run[i].run == 0 && free_one == NULL)
            free_one = &o.run[i];
    }
    ck_assert_ptr_nonnull(free_one);
    free_one->run = run;
    return free_one;
}

/* Returns the lowest batch that was acknowledged in all tablets [first, first + count). */
static uint64_t acknowledged_low(uint64_t run, uint32_t lane, uint32_t table, uint32_t first,
                                 uint32_t count)
{
    const uint64_t *batch = acknowledged_of(run)->batch[lane][table];
    uint64_t low = UINT64_MAX;
    for (uint32_t i = first; i < first + count; i++)
        low = batch[i] < low ? batch[i] : low;
    return low;
}

/* Returns true if power may have taken acknowledged batches. Those above `mark` then count as lost,
 * and are not checked again. */
static bool lost(uint64_t run, uint32_t lane, uint32_t table, uint32_t first, uint32_t count,
                 uint64_t mark)
{
    uint64_t *batch = acknowledged_of(run)->batch[lane][table];
    for (uint32_t i = first; o.power && i < first + count; i++) {
        o.lost += batch[i] > mark ? batch[i] - mark : 0;
        batch[i] = batch[i] > mark ? mark : batch[i];
    }
    return o.power;
}

/* ---- the shard that leads -------------------------------------------------------------------- */

/* False for a tablet that has moved to another shard, which this shard may not have been told. Its
 * late answers, to pushes that it took before, may have a mark that is too low. */
static bool leads(const struct shard *s, const struct table_schema *schema, uint32_t tablet)
{
    uint32_t global = schema->tablet_first + tablet;
    if (o.c->coord != NULL) {
        const struct coord_cluster *cl = &o.c->coord->fleet.cluster;
        o.owners = cl->tablets < OWNERS ? cl->tablets : OWNERS;
        if (o.owners > 0)
            memcpy(o.owner, cl->shard_of, o.owners * sizeof o.owner[0]);
    }
    return global < s->lead.tablet_count && s->lead.shard_of[global] == s->lead.self &&
           (global >= o.owners || o.owner[global] == s->lead.self);
}

static bool leads_all(const struct shard *s, uint32_t table, uint32_t first, uint32_t count)
{
    const struct table *t = engine_table(s->engine, table);
    for (uint32_t i = first; t != NULL && i < first + count; i++)
        if (!leads(s, table_schema_of(t), i))
            return false;
    return true;
}

static bool names_fit(uint32_t lane, uint32_t table, uint32_t first, uint32_t count)
{
    return lane < LANES && table < CLUSTER_TABLES && first < TABLETS && count <= TABLETS - first;
}

/* ---- what a shard says ----------------------------------------------------------------------- */

static const struct cluster_server *server_of(const struct sim_node *n)
{
    for (uint32_t i = 0; i < o.c->options.servers * o.c->options.shards; i++)
        if (o.c->server[i].node == n)
            return &o.c->server[i];
    return NULL;
}

/* Checks that the copies that count as in sync have a push that is acknowledged. Rows of a process
 * that has died go with it in `memory`, and what was not synced goes with power: the leader does
 * not know it yet. */
static void copies_have(const struct shard *s, const struct wire_PUSH *q)
{
    if (o.c->options.durability == DURABLE_MEMORY || o.c->options.power ||
        !leads_all(s, q->table, q->tablet_first, q->tablet_count))
        return;
    for (uint32_t i = 0; i < o.c->options.servers * o.c->options.shards; i++) {
        const struct shard *f = o.c->server[i].shard;
        if (f == NULL || f->copies.role != COPIES_FOLLOWS || f->lead.self != s->lead.self ||
            (s->copies.in_sync >> f->copies.place & 1) == 0 || !engine_back(f->engine))
            continue;
        uint64_t mark = engine_mark_range(f->engine, q->run, q->lane, q->table, q->tablet_first,
                                          q->tablet_count);
        if (mark < q->to)
            BROKEN("shard %s acknowledges batch %" PRIu64 " of lane %u; its copy %s, in sync, has "
                   "%" PRIu64,
                   s->name, q->to, q->lane, f->name, mark);
    }
}

/* Checks the rows that a push got back. Where an answer waits for nothing, they are those of now,
 * and so are the clocks that describe them. */
static void echoed(const struct shard *s, const struct request_seen *seen,
                   const struct wire_PUSH_reply *r, const struct msg *m)
{
    const struct wire_PUSH *q = &seen->u.push;
    uint32_t mode, lanes;
    uint64_t clock, unused, low = engine_low_beside(s->engine, q->run, q->lane),
                            steps = engine_steps(s->engine, q->run, q->table);
    if (r->key_count == 0 || engine_run_mode(s->engine, q->run, &mode, &lanes) != 0)
        return;
    o.echoes++;
    if (r->key_count != q->echo || mode == WIRE_BSP)
        BROKEN("shard %s gives %u rows with batch %" PRIu64 " of lane %u, in mode %u: it asks for "
               "%u",
               s->name, r->key_count, q->to, q->lane, mode, q->echo);
    if (o.c->options.durability == DURABLE_FSYNC || o.c->options.replicas > 1)
        return;
    if (engine_clock(s->engine, q->run, q->lane, q->to, &clock, &unused) != 0 ||
        r->clock != clock || r->low != low || r->steps != steps)
        BROKEN("shard %s gives rows with batch %" PRIu64 " of lane %u as of clock %" PRIu64
               ", low %" PRIu64 ", steps %" PRIu64 ": it is at %" PRIu64 ", %" PRIu64 ", %" PRIu64,
               s->name, q->to, q->lane, r->clock, r->low, r->steps, clock, low, steps);
    char *rows = malloc(m->frame[1].bytes);
    ck_assert_ptr_nonnull(rows);
    table_pull_as(engine_table(s->engine, q->table),
                  &(struct pull_args){.values = (enum value_kind)r->values}, seen->wanted, q->echo,
                  rows);
    if (memcmp(rows, m->frame[1].data, m->frame[1].bytes) != 0)
        BROKEN("shard %s gives other rows with batch %" PRIu64 " of lane %u, table %u, than it has",
               s->name, q->to, q->lane, q->table);
    free(rows);
}

/* Checks the answer to a push, or to an assignment, which covers one tablet. */
static void pushed(const struct shard *s, const struct wire_PUSH *q, const struct wire *reply)
{
    const bool assigned = reply->type == WIRE_TYPE_ASSIGN;
    uint64_t mark = assigned ? reply->u.ASSIGN_reply.mark : reply->u.PUSH_reply.mark;
    bool applied = assigned ? reply->u.ASSIGN_reply.applied : reply->u.PUSH_reply.applied > 0;
    if ((reply->status != 0 && reply->status != SHOAL_E_GAP) ||
        !names_fit(q->lane, q->table, q->tablet_first, q->tablet_count))
        return;
    uint64_t low = acknowledged_low(q->run, q->lane, q->table, q->tablet_first, q->tablet_count);
    if (mark < low && leads_all(s, q->table, q->tablet_first, q->tablet_count) &&
        !lost(q->run, q->lane, q->table, q->tablet_first, q->tablet_count, mark))
        BROKEN("shard %s says mark %" PRIu64 " of lane %u, table %u, tablets [%u, +%u); batch "
               "%" PRIu64 " was acknowledged there",
               s->name, mark, q->lane, q->table, q->tablet_first, q->tablet_count, low);
    if (reply->status != 0)
        return;
    uint64_t is =
        engine_mark_range(s->engine, q->run, q->lane, q->table, q->tablet_first, q->tablet_count);
    if (mark < q->to || mark > is)
        BROKEN("shard %s acknowledges batch %" PRIu64 " of lane %u, table %u, tablets [%u, +%u), "
               "and says mark %" PRIu64 ": the mark there is %" PRIu64,
               s->name, q->to, q->lane, q->table, q->tablet_first, q->tablet_count, mark, is);
    copies_have(s, q);
    /* under fsync and with followers a push is answered later than it is admitted, an assignment
     * with any durability but `memory` */
    bool later = assigned || o.c->options.durability == DURABLE_FSYNC || o.c->options.replicas > 1;
    uint64_t generation = engine_lane_generation(s->engine, q->run, q->lane);
    if (applied && q->generation != generation && !later)
        BROKEN("shard %s takes batch %" PRIu64 " of lane %u from generation %" PRIu64
               ", the lane has %" PRIu64,
               s->name, q->to, q->lane, q->generation, generation);
    uint64_t *batch = acknowledged_of(q->run)->batch[q->lane][q->table];
    for (uint32_t i = q->tablet_first; i < q->tablet_first + q->tablet_count; i++)
        batch[i] = q->to > batch[i] ? q->to : batch[i];
    o.pushes++;
    o.packed += q->width != PACKED_NOT && q->key_count > 0;
}

/* Checks the bound of an answered pull. Under bsp each table has its own clock (clock.h). */
static void pulled(const struct shard *s, const struct wire_PULL *q, const struct wire *reply)
{
    const struct wire_PULL_reply *r = &reply->u.PULL_reply;
    uint32_t mode, lanes;
    uint64_t low, other;
    if (reply->status != 0 || q->lane == UINT32_MAX || q->bound == WIRE_BOUND_ASYNC ||
        engine_run_mode(s->engine, q->run, &mode, &lanes) != 0 || mode == WIRE_ASYNC)
        return;
    int rc = mode == WIRE_BSP ? clock_range(s->engine, q->run, q->table, &low, &other)
                              : engine_clock(s->engine, q->run, q->lane, q->batch, &other, &low);
    uint64_t bound = mode == WIRE_BSP ? 0 : q->bound;
    if (rc != 0 || r->low > low || (r->low != UINT64_MAX && r->low + bound + 1 < r->clock))
        BROKEN("shard %s answers a pull of lane %u, clock %" PRIu64 ", bound %" PRIu64
               ", when a lane is at clock %" PRIu64 " (it says %" PRIu64 ")",
               s->name, q->lane, r->clock, bound, low, r->low);
}

/* Checks the reply to a fence, a lane's first and last message: the batch up to which all of the
 * shard's tablets are. */
static void fenced(const struct shard *s, const struct wire_FENCE *q, const struct wire *reply)
{
    uint64_t low = UINT64_MAX;
    if (reply->status != 0)
        return;
    const struct table_set counted = engine_run_counts(s->engine, q->run);
    for (uint32_t t = 0; t < CLUSTER_TABLES; t++) {
        const struct table *of = engine_table(s->engine, t);
        bool counts = of != NULL && table_set_has(&counted, t);
        uint32_t tablets = of == NULL ? 0 : 1u << table_schema_of(of)->tablet_bits;
        uint64_t mark = engine_mark_range(s->engine, q->run, q->lane, t, 0, tablets);
        low = counts && mark < low ? mark : low;
    }
    /* with followers a reply is sent later than it is made, and pushes move the mark meanwhile */
    uint64_t said = reply->u.FENCE_reply.mark;
    if (said > low || (said < low && o.c->options.replicas < 2))
        BROKEN("shard %s says that all of lane %u is there up to batch %" PRIu64 ": it is up to "
               "%" PRIu64,
               s->name, q->lane, reply->u.FENCE_reply.mark, low);
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* last: the required mark; 0: it must not be below the acknowledged batch. */
static void shard_marks(const struct shard *s, uint64_t run, uint32_t lane, uint32_t table,
                        uint64_t last)
{
    const struct table *t = engine_table(s->engine, table);
    if (t == NULL)
        return;
    const struct table_schema *schema = table_schema_of(t);
    for (uint32_t i = 0; i < 1u << schema->tablet_bits && i < TABLETS; i++) {
        if (!leads(s, schema, i))
            continue;
        uint64_t low = acknowledged_low(run, lane, table, i, 1);
        uint64_t mark = engine_mark_range(s->engine, run, lane, table, i, 1);
        bool gone = mark < low && !lost(run, lane, table, i, 1, mark);
        if (gone || (last != 0 && mark != last && !o.power))
            BROKEN("shard %s has mark %" PRIu64 " of lane %u in tablet %u of table %s: batch "
                   "%" PRIu64 " was acknowledged, %" PRIu64 " is the lane's last",
                   s->name, mark, lane, i, schema->name, low, last);
    }
}

void oracle_power_lost(void)
{
    o.power = true;
}

uint64_t oracle_lost(void)
{
    return o.lost;
}

/* False for a follower, and for a former leader that has not heard of its end. */
static bool leads_now(const struct shard *s)
{
    return s->copies.role == COPIES_ALONE || copies_leased(s);
}

static bool has_run(const struct shard *s, uint64_t run)
{
    uint32_t mode, lanes;
    return s != NULL && leads_now(s) && engine_back(s->engine) && lead_ready(&s->lead) &&
           engine_run_mode(s->engine, run, &mode, &lanes) == 0;
}

void oracle_marks(void)
{
    if (o.c->coord == NULL)
        return;
    uint64_t run = o.c->coord->slot[0].at.run;
    for (uint32_t i = 0; i < o.c->options.servers * o.c->options.shards; i++) {
        const struct shard *s = o.c->server[i].shard;
        for (uint32_t l = 0; l < LANES && has_run(s, run); l++)
            for (uint32_t t = 0; t < CLUSTER_TABLES; t++)
                shard_marks(s, run, l, t, 0);
    }
}

/* Returns the batches of an object; no batch has rows of two windows. */
static uint64_t batches_of_object(const struct coord_object *of, uint64_t batch)
{
    uint64_t sum = of->windows > 0 ? 0 : (of->rows + batch - 1) / batch;
    for (uint32_t w = 0; w < of->windows; w++)
        sum += (of->window[w].rows + batch - 1) / batch;
    return sum;
}

/* Checks at the end of the epochs that all batches that the coordinator dealt are in the tables.
 * After a restore the marks are those of the best epoch; a coordinator that has restarted at this
 * step knows no lanes. */
static void digested(const struct shard *s)
{
    const struct coord_job *j = &o.c->coord->slot[0];
    uint64_t sum = 0, rows = j->at.split[WIRE_TRAIN].rows, batch = job_batch_rows(&j->spec);
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        sum += j->tasks->lane[l].next_batch - 1;
    if (j->at.run != j->at.number || sum == 0 || !has_run(s, j->at.run))
        return;
    uint64_t least = j->at.epoch * ((rows + batch - 1) / batch);
    for (uint32_t i = 0; i < j->replay->windows; i++) /* no batch has rows of two windows */
        least = (i == 0 ? 0 : least) + (j->replay->window[i].rows + batch - 1) / batch;
    if (j->objects[WIRE_TRAIN].count > 0) /* nor of two objects */
        least = 0;
    for (uint32_t i = 0; i < j->objects[WIRE_TRAIN].count; i++)
        least += j->at.epoch * batches_of_object(&j->objects[WIRE_TRAIN].object[i], batch);
    if (coord_grow_on(j))
        least = j->grow->at.before_batches + j->grow->at.batches;
    if (sum < least || (!job_dealt(&j->spec) && sum != least))
        BROKEN("the lanes have %" PRIu64 " batches, the input has %" PRIu64, sum, least);
    const struct table_set counted = engine_run_counts(s->engine, j->at.run);
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        for (uint32_t t = 0; t < j->at.tables; t++) {
            /* a table of the network has the mark of what was last assigned, of one lane */
            bool counts = table_set_has(&counted, t);
            shard_marks(s, j->at.run, l, t, counts ? j->tasks->lane[l].next_batch - 1 : 0);
        }
}

/* ---- the net --------------------------------------------------------------------------------- */

static uint64_t *bucket_of(uint64_t line, uint64_t id)
{
    return &o.newest[rng_mix(line ^ rng_mix(id)) % REQUESTS];
}

/* The keys whose rows a push asks for; NULL: none. */
static uint64_t *wanted_of(const struct wire_PUSH *q, const struct msg *m)
{
    const uint64_t *keys = m->frame[1].data;
    const uint8_t *bits = m->frame[3].data;
    uint32_t count = 0;
    if (q->echo == 0)
        return NULL;
    uint64_t *wanted = malloc(q->echo * sizeof *wanted);
    ck_assert_ptr_nonnull(wanted);
    for (uint32_t i = 0; i < q->key_count; i++)
        if (bits[i / 8] >> i % 8 & 1)
            wanted[count++] = keys[i];
    return wanted;
}

static void request_note(uint64_t line, const struct wire *w, const struct msg *m)
{
    struct request_seen *q = &o.request[o.requests++ % REQUESTS];
    uint64_t *newest = bucket_of(line, w->id);
    free(q->wanted);
    *q = (struct request_seen){.line = line, .id = w->id, .before = *newest, .type = w->type};
    *newest = o.requests;
    if (w->type == WIRE_TYPE_PUSH) {
        q->u.push = w->u.PUSH;
        q->wanted = wanted_of(&w->u.PUSH, m);
    } else if (w->type == WIRE_TYPE_ASSIGN) {
        const struct wire_ASSIGN *a = &w->u.ASSIGN;
        q->u.push = (struct wire_PUSH){.run = a->run,
                                       .table = a->table,
                                       .lane = a->lane,
                                       .generation = a->generation,
                                       .from = a->from,
                                       .to = a->to,
                                       .tablet_first = a->tablet,
                                       .tablet_count = 1};
    } else if (w->type == WIRE_TYPE_PULL) {
        q->u.pull = w->u.PULL;
    } else {
        q->u.fence = w->u.FENCE;
    }
}

static const struct request_seen *request_of(uint64_t line, uint64_t id, enum wire_type type)
{
    uint64_t oldest = o.requests > REQUESTS ? o.requests - REQUESTS : 0;
    for (uint64_t i = *bucket_of(line, id); i > oldest;) {
        const struct request_seen *q = &o.request[(i - 1) % REQUESTS];
        if (q->line == line && q->id == id && q->type == type)
            return q;
        i = q->before;
    }
    return NULL;
}

static void answered(const struct cluster_server *of, uint64_t line, const struct wire *reply,
                     const struct msg *m)
{
    const struct request_seen *q = request_of(line, reply->id, reply->type);
    if (q == NULL)
        return;
    if (reply->type == WIRE_TYPE_PUSH) {
        pushed(of->shard, &q->u.push, reply);
        if (reply->status == 0)
            echoed(of->shard, q, &reply->u.PUSH_reply, m);
    } else if (reply->type == WIRE_TYPE_ASSIGN) {
        pushed(of->shard, &q->u.push, reply);
    } else if (reply->type == WIRE_TYPE_PULL) {
        pulled(of->shard, &q->u.pull, reply);
    } else {
        fenced(of->shard, &q->u.fence, reply);
    }
}

static void seen(void *context, const struct sim_node *from, uint64_t line, bool up,
                 const struct msg *m)
{
    struct wire w;
    (void)context;
    (void)up;
    if (wire_decode(m, &w, NULL) != 0)
        return;
    const struct cluster_server *shard = server_of(from);
    if (w.type == WIRE_TYPE_DIGEST && !w.reply && from == o.c->coord_node)
        for (uint32_t i = 0; i < o.c->options.servers * o.c->options.shards; i++)
            digested(o.c->server[i].shard);
    if (w.type != WIRE_TYPE_PUSH && w.type != WIRE_TYPE_ASSIGN && w.type != WIRE_TYPE_PULL &&
        w.type != WIRE_TYPE_FENCE)
        return;
    if (!w.reply && shard == NULL)
        request_note(line, &w, m);
    else if (w.reply && shard != NULL)
        answered(shard, line, &w, m);
}

void oracle_watch(struct cluster *c, const char *who)
{
    for (uint32_t i = 0; i < REQUESTS; i++)
        free(o.request[i].wanted);
    memset(&o, 0, sizeof o);
    o.c = c;
    snprintf(o.who, sizeof o.who, "%s", who);
    sim_watch(c->sim, seen, NULL);
}

void oracle_name(const char *who)
{
    snprintf(o.who, sizeof o.who, "%s", who);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct taking {
    struct oracle_rows *out;
    uint32_t table, shard, words;
};

static void row_take(void *context, const void *row)
{
    const struct taking *t = context;
    struct oracle_rows *r = t->out;
    size_t bytes = t->words * sizeof(float);
    ck_assert_int_eq(array_room(&r->row, r->count, &r->capacity, 256), 0);
    while (r->bytes_capacity < r->bytes_count + bytes) {
        r->bytes_capacity = r->bytes_capacity * 2 + 4096;
        r->bytes = realloc(r->bytes, r->bytes_capacity);
        ck_assert_ptr_nonnull(r->bytes);
    }
    struct oracle_row *to = &r->row[r->count++];
    *to = (struct oracle_row){.table = t->table, .shard = t->shard, .at = r->bytes_count};
    memcpy(&to->key, row, sizeof to->key);
    memcpy(r->bytes + r->bytes_count, (const char *)row + sizeof to->key, bytes);
    r->bytes_count += bytes;
}

static void table_take(struct oracle_rows *out, const struct shard *s, uint32_t table)
{
    const struct coord_cluster *cl = &o.c->coord->fleet.cluster;
    const struct table *t = engine_table(s->engine, table);
    if (t == NULL)
        return;
    const struct table_schema *schema = table_schema_of(t);
    uint32_t words = schema_weight_floats(schema) + schema_state_floats(schema);
    struct taking to = {out, table, s->lead.self, words};
    out->table[table] = *schema;
    for (uint32_t i = 0; i < 1u << schema->tablet_bits; i++) {
        struct err e = {0};
        uint32_t global = schema->tablet_first + i;
        uint32_t owner = global < cl->tablets ? cl->shard_of[global] : UINT32_MAX;
        if (table_tablet_rows(t, i) > 0 && owner != s->lead.self)
            BROKEN("shard %s, number %u, has %" PRIu64 " rows of tablet %u of table %s, which is "
                   "shard %u's",
                   s->name, s->lead.self, table_tablet_rows(t, i), i, schema->name, owner);
        const struct table *whole = engine_whole(s->engine, table, i, &e);
        ck_assert_msg(whole != NULL, "%s: %s", o.who, e.text);
        table_visit(whole, i, row_take, &to);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct oracle_row *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

void oracle_rows_take(struct oracle_rows *out)
{
    const struct coord_cluster *cl = &o.c->coord->fleet.cluster;
    uint32_t leaders = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < o.c->options.servers * o.c->options.shards; i++) {
        const struct shard *s = o.c->server[i].shard;
        if (s->copies.role == COPIES_FOLLOWS)
            continue;
        leaders++;
        if (s->lead.tablet_count != cl->tablets ||
            memcmp(s->lead.shard_of, cl->shard_of, cl->tablets * sizeof *cl->shard_of) != 0)
            BROKEN("shard %s has another map of epoch %" PRIu64 " than the coordinator", s->name,
                   s->lead.epoch);
        for (uint32_t t = 0; t < CLUSTER_TABLES; t++)
            table_take(out, s, t);
    }
    uint32_t shards = coord_member_count(&o.c->coord->fleet.members);
    if (leaders != shards)
        BROKEN("%u copies lead, there are %u shards", leaders, shards);
    if (out->count > 0)
        qsort(out->row, out->count, sizeof *out->row, by_name);
    for (uint32_t i = 1; i < out->count; i++)
        if (by_name(&out->row[i - 1], &out->row[i]) == 0)
            BROKEN("key %016" PRIx64 " of table %s is on shard %u and on shard %u", out->row[i].key,
                   out->table[out->row[i].table].name, out->row[i - 1].shard, out->row[i].shard);
}

void oracle_rows_free(struct oracle_rows *r)
{
    free(r->row);
    free(r->bytes);
    memset(r, 0, sizeof *r);
}

/* Describes the first difference between two rows of a table. */
static void difference(const struct table_schema *s, const uint8_t *is, const uint8_t *must,
                       char *out, size_t bytes)
{
    uint32_t weights = schema_weight_floats(s), i = 0;
    float a, b;
    while (memcmp(is + i * sizeof a, must + i * sizeof a, sizeof a) == 0)
        i++;
    memcpy(&a, is + i * sizeof a, sizeof a);
    memcpy(&b, must + i * sizeof b, sizeof b);
    snprintf(out, bytes, "%s %u is %.9g, %.9g must be", i < weights ? "weight" : "state",
             i < weights ? i : i - weights, (double)a, (double)b);
}

void oracle_rows_same(const struct oracle_rows *r, const struct oracle_rows *must)
{
    for (uint32_t i = 0; i < r->count || i < must->count; i++) {
        const struct oracle_row *is = &r->row[i], *as = &must->row[i];
        char text[128];
        if (i == must->count || (i < r->count && by_name(is, as) < 0))
            BROKEN("key %016" PRIx64 " of table %s, on shard %u, is in no undisturbed run", is->key,
                   r->table[is->table].name, is->shard);
        if (i == r->count || by_name(is, as) > 0)
            BROKEN("key %016" PRIx64 " of table %s is missing", as->key,
                   must->table[as->table].name);
        const struct table_schema *s = &must->table[as->table];
        size_t bytes = (schema_weight_floats(s) + schema_state_floats(s)) * sizeof(float);
        if (memcmp(r->bytes + is->at, must->bytes + as->at, bytes) == 0)
            continue;
        difference(s, r->bytes + is->at, must->bytes + as->at, text, sizeof text);
        BROKEN("key %016" PRIx64 " of table %s, on shard %u: %s", is->key, s->name, is->shard,
               text);
    }
}

void oracle_rows_count(const struct oracle_rows *r, const struct oracle_count *must, uint32_t keys,
                       uint32_t times)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < keys; i++) {
        const struct oracle_row want = {.key = must[i].key};
        const struct oracle_row *row = bsearch(&want, r->row, r->count, sizeof want, by_name);
        float count = 0;
        if (row != NULL)
            memcpy(&count, r->bytes + row->at, sizeof count);
        found += row != NULL;
        if (count != (float)(must[i].examples * times))
            BROKEN("key %016" PRIx64 " is counted %.9g times, the input has it %u times (row %s)",
                   must[i].key, (double)count, must[i].examples * times,
                   row == NULL ? "missing" : "found");
    }
    if (found != r->count)
        BROKEN("%u rows, the input has %u keys", r->count, found);
}
