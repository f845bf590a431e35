/* exchange.c: chunks are taken, added up and passed on.
 *
 *                  begin, or its part comes        the sum comes, or it is the owner
 *   CHUNK_WAITS --------------------------> CHUNK_GONE ------------------> CHUNK_SUMMED
 *
 * A part that comes before the member's own contributions waits in CHUNK_HELD. */
#include "worker/ring/exchange.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "worker/ring/add.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum chunk_state { CHUNK_WAITS, CHUNK_HELD, CHUNK_GONE, CHUNK_SUMMED };

struct chunk {
    uint64_t weight;
    uint32_t hop; /* on which it is sent next, or was sent; WAY_NO_HOP: on none */
    uint8_t state;
    bool due;     /* it is in the list of chunks to send */
    bool owed;    /* its sum is here, and the second may not have it yet */
    bool refused; /* shards.make was false */
};

/* One of the two steps that may be under way. */
struct slot {
    uint64_t step;
    float *sum;            /* owned (floats): partial sums, then the sums */
    struct chunk *chunk;   /* owned (chunks) */
    uint32_t summed, owed; /* chunks that are */
    bool begun, refused;   /* refused: one of the chunks is */
};

struct exchange {
    struct way_shape shape;
    struct way_cut cut;
    uint32_t member;
    enum value_kind values;
    uint64_t step; /* complete */
    const struct exchange_part *part;
    struct slot slot[2]; /* slots of even and of odd steps */
    float *error;        /* owned (floats); NULL: values are fp32 */
    const uint32_t *order[WAY_PARTS];
    struct exchange_shards shards;
    /* with `shards`: the parameters that this member makes as the second: owned, chunk c from
     * made_at[c] on (owned) */
    float *made;
    uint64_t *made_at;
    /* owned (2 x chunks): a ring of due chunks, each with its slot in the lowest bit */
    uint32_t *due;
    uint32_t due_first, due_count;
};

static uint64_t floats_of(const struct exchange *x)
{
    return x->cut.weighted + x->cut.plain;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Room for the parameters of the chunks whose second this member is. */
static int made_make(struct exchange *x)
{
    uint64_t at = 0;
    x->made_at = calloc(x->cut.chunks, sizeof *x->made_at);
    for (uint32_t c = 0; x->made_at != NULL && c < x->cut.chunks; c++) {
        struct way w;
        way_of(&x->shape, x->member, c, &w);
        x->made_at[c] = at;
        if (way_second(&w))
            at += way_place(&x->cut, c).floats;
    }
    x->made = calloc(at + 1, sizeof *x->made);
    return x->made_at == NULL || x->made == NULL ? SHOAL_E_NOMEM : 0;
}

static int arrays_make(struct exchange *x)
{
    size_t chunks = x->cut.chunks, floats = floats_of(x);
    x->due = calloc(2 * chunks, sizeof *x->due);
    if (x->values != VALUES_FP32)
        x->error = calloc(floats, sizeof *x->error);
    for (uint32_t i = 0; i < 2; i++) {
        x->slot[i].sum = calloc(floats, sizeof(float));
        x->slot[i].chunk = calloc(chunks, sizeof(struct chunk));
        if (x->slot[i].sum == NULL || x->slot[i].chunk == NULL)
            return SHOAL_E_NOMEM;
    }
    if (x->due == NULL || (x->values != VALUES_FP32 && x->error == NULL))
        return SHOAL_E_NOMEM;
    if (x->shards.make != NULL)
        return made_make(x);
    return 0;
}

int exchange_new(const struct exchange_options *options, struct exchange **out, struct err *e)
{
    SHOAL_ASSERT(options->member < options->shape.members && options->cut.chunks > 0);
    SHOAL_ASSERT(options->values == VALUES_FP32 || options->values == VALUES_BF16);
    struct exchange *x = calloc(1, sizeof *x);
    int rc = SHOAL_E_NOMEM;
    if (x != NULL) {
        x->shape = options->shape;
        x->cut = options->cut;
        x->member = options->member;
        x->values = options->values;
        x->step = options->step;
        x->shards = options->shards;
        memcpy(x->order, options->order, sizeof x->order);
        rc = arrays_make(x);
    }
    if (rc != 0) {
        exchange_free(x);
        return err_set(e, rc, "no memory for a ring that sums %" PRIu64 " floats",
                       options->cut.weighted + options->cut.plain);
    }
    /* the slots have steps that are over */
    x->slot[x->step % 2] = (struct slot){.step = x->step,
                                         .sum = x->slot[x->step % 2].sum,
                                         .chunk = x->slot[x->step % 2].chunk,
                                         .summed = x->cut.chunks,
                                         .begun = true};
    *out = x;
    return 0;
}

void exchange_free(struct exchange *x)
{
    if (x == NULL)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        free(x->slot[i].sum);
        free(x->slot[i].chunk);
    }
    free(x->error);
    free(x->made);
    free(x->made_at);
    free(x->due);
    free(x);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* Adds a place of a contribution, whose units may be in another order. */
static void part_add(const struct exchange *x, const struct way_place *p, float *to,
                     const struct exchange_part *part, bool begins)
{
    const float *from = part->weighted;
    const uint32_t *order = x->order[WAY_WEIGHTED], unit = x->cut.unit;
    float factor = (float)part->weight;
    uint64_t at = p->at;
    if (!p->weighted) {
        from = part->plain;
        order = x->order[WAY_PLAIN];
        factor = 1.0f;
        at -= x->cut.weighted;
    }
    if (order == NULL) {
        add_scaled(to, from + at, factor, begins, p->floats);
        return;
    }
    for (uint32_t i = 0; i < p->floats; i += unit)
        add_scaled(to + i, from + (uint64_t)order[(at + i) / unit] * unit, factor, begins,
                   MIN(unit, p->floats - i));
}

/* Adds the lanes [first, end) to a chunk. */
static void lanes_add(struct exchange *x, struct slot *s, uint32_t c, uint32_t first, uint32_t end)
{
    struct way_place p = way_place(&x->cut, c);
    float *to = s->sum + p.at;
    for (uint32_t lane = first; lane < end; lane++) {
        const struct exchange_part *part = &x->part[lane - x->shape.first[x->member]];
        bool begins = s->chunk[c].weight == 0;
        if (part->weight == 0)
            continue;
        part_add(x, &p, to, part, begins);
        s->chunk[c].weight += part->weight;
    }
}

/* Rounds what this member has added to the values that it sends. */
static void chunk_round(struct exchange *x, struct slot *s, uint32_t c)
{
    if (x->error == NULL || s->chunk[c].weight == 0)
        return;
    struct way_place p = way_place(&x->cut, c);
    float *sum = s->sum + p.at, *error = x->error + p.at;
    add_scaled(sum, error, 1.0f, false, p.floats);
    memcpy(error, sum, p.floats * sizeof *error);
    half_nearest(x->values, sum, p.floats);
    add_scaled(error, sum, -1.0f, false, p.floats);
}

/* ---- the way of a chunk ---------------------------------------------------------------------- */

static void chunk_send(struct exchange *x, struct slot *s, uint32_t c, uint32_t hop)
{
    struct chunk *k = &s->chunk[c];
    k->hop = hop;
    if (k->due)
        return;
    SHOAL_ASSERT(x->due_count < 2 * x->cut.chunks);
    k->due = true;
    x->due[(x->due_first + x->due_count++) % (2 * x->cut.chunks)] =
        c << 1 | (uint32_t)(s - x->slot);
}

/* The step of a slot is complete once all is there, and the seconds have what they need of it. */
static void slot_settle(struct exchange *x, struct slot *s)
{
    if (s->begun && s->summed == x->cut.chunks && s->owed == 0)
        x->step = s->step;
}

/* With `shards`: the owner waits for its second, and the second makes the parameters. */
static void chunk_shard(struct exchange *x, struct slot *s, uint32_t c, const struct way *w)
{
    struct chunk *k = &s->chunk[c];
    struct way_place p = way_place(&x->cut, c);
    if (w->sum_hop == WAY_NO_HOP && x->shape.members > 1) {
        k->owed = true;
        s->owed++;
    }
    if (way_second(w) && k->weight > 0)
        k->refused =
            !x->shards.make(x->shards.owner, &p, s->sum + p.at, k->weight, x->made + x->made_at[c]);
    s->refused = s->refused || k->refused;
}

/* The chunk has its sum, which goes on to the members that lack it. */
static void chunk_summed(struct exchange *x, struct slot *s, uint32_t c, const struct way *w,
                         uint32_t hop)
{
    s->chunk[c].state = CHUNK_SUMMED;
    s->chunk[c].hop = WAY_NO_HOP;
    s->summed++;
    if (x->shards.make != NULL)
        chunk_shard(x, s, c, w);
    if (x->shape.members > 1 && hop <= w->last + x->shape.members - 2)
        chunk_send(x, s, c, hop);
    slot_settle(x, s);
}

/* Adds this member's lanes and sends the chunk on. The member that begins a chunk inside its
 * stretch comes here twice: the second time with the part that has gone round. */
static void chunk_add(struct exchange *x, struct slot *s, uint32_t c, const struct way *w)
{
    struct chunk *k = &s->chunk[c];
    bool round = w->begins && k->state == CHUNK_GONE;
    if (!round)
        lanes_add(x, s, c, w->lane, w->lane_end);
    if (round || x->shape.members == 1)
        lanes_add(x, s, c, w->rest, w->rest_end);
    chunk_round(x, s, c);

    k->state = CHUNK_GONE;
    if (w->sum_hop == WAY_NO_HOP && (round || w->distance == w->last || x->shape.members == 1))
        chunk_summed(x, s, c, w, w->last);
    else
        chunk_send(x, s, c, w->distance);
}

/* Frees a slot for a step. The step that it had is complete at all members: this one has taken, or
 * begins, a later step (exchange.h, 1). So no chunk of it is still to be sent. */
static void slot_renew(struct exchange *x, struct slot *s, uint64_t step)
{
    uint32_t capacity = 2 * x->cut.chunks, kept = 0;
    for (uint32_t i = 0; i < x->due_count; i++) {
        uint32_t due = x->due[(x->due_first + i) % capacity];
        if ((due & 1) != (uint32_t)(s - x->slot))
            x->due[(x->due_first + kept++) % capacity] = due;
    }
    x->due_count = kept;
    *s = (struct slot){.step = step, .sum = s->sum, .chunk = s->chunk};
    memset(s->chunk, 0, x->cut.chunks * sizeof *s->chunk);
}

void exchange_begin(struct exchange *x, const struct exchange_part *part)
{
    struct slot *s = &x->slot[(x->step + 1) % 2];
    SHOAL_ASSERT(x->slot[x->step % 2].step == x->step && exchange_complete(x)); /* exchange.h, 1 */
    if (s->step != x->step + 1)
        slot_renew(x, s, x->step + 1);
    x->part = part;
    s->begun = true;
    for (uint32_t c = 0; c < x->cut.chunks; c++) {
        struct way w;
        way_of(&x->shape, x->member, c, &w);
        if (w.begins || s->chunk[c].state == CHUNK_HELD)
            chunk_add(x, s, c, &w);
    }
}

/* ---- chunks that come ------------------------------------------------------------------------ */

/* The slot of a chunk's step; NULL: the step is over. */
static struct slot *slot_of(struct exchange *x, uint64_t step)
{
    struct slot *s = &x->slot[step % 2];
    if (step <= x->step)
        return NULL;
    if (s->step != step)
        slot_renew(x, s, step);
    return s;
}

static int chunk_check(const struct exchange *x, const struct exchange_chunk *c, struct err *e)
{
    bool begun = x->slot[(x->step + 1) % 2].step == x->step + 1 && x->slot[(x->step + 1) % 2].begun;
    if (c->step > x->step + 1 + begun)
        return err_set(e, SHOAL_E_MALFORMED,
                       "a chunk of step %" PRIu64 ", and this member has no more than %" PRIu64,
                       c->step, x->step);
    uint32_t floats = 0;
    if (c->chunk < x->cut.chunks && c->weight > 0 && !c->refused)
        floats = way_place(&x->cut, c->chunk).floats;
    if (c->chunk >= x->cut.chunks || c->floats != floats)
        return err_set(e, SHOAL_E_MALFORMED, "chunk %u with %u floats: this ring has other chunks",
                       c->chunk, c->floats);
    return 0;
}

/* The values that a chunk has on a hop: parameters are not rounded. */
static enum value_kind values_on(const struct exchange *x, const struct way *w, uint32_t hop)
{
    if (x->shards.make != NULL && hop > w->last)
        return VALUES_FP32;
    return x->values;
}

static void values_take(struct exchange *x, struct slot *s, const struct exchange_chunk *c,
                        const void *values)
{
    half_widen(c->values, values, s->sum + way_place(&x->cut, c->chunk).at, c->floats);
    s->chunk[c->chunk].weight = c->weight;
    s->chunk[c->chunk].refused = c->refused;
}

int exchange_take(struct exchange *x, const struct exchange_chunk *c, const void *values,
                  struct err *e)
{
    int rc = chunk_check(x, c, e);
    if (rc != 0)
        return rc;
    struct way w;
    way_of(&x->shape, x->member, c->chunk, &w);
    if (c->hop == WAY_NO_HOP || (c->hop != w.part_hop && c->hop != w.sum_hop))
        return err_set(e, SHOAL_E_MALFORMED, "chunk %u on hop %u does not come by member %u",
                       c->chunk, c->hop, x->member);
    if (c->values != values_on(x, &w, c->hop) ||
        (c->refused && (x->shards.make == NULL || c->hop <= w.last)))
        return err_set(e, SHOAL_E_MALFORMED,
                       "chunk %u on hop %u has values of kind %u, which this ring has not there",
                       c->chunk, c->hop, (uint32_t)c->values);
    struct slot *s = slot_of(x, c->step);
    if (s == NULL)
        return 0;

    struct chunk *k = &s->chunk[c->chunk];
    bool sum = c->hop == w.sum_hop, early = w.begins || sum;
    if (k->state == CHUNK_SUMMED || k->state == CHUNK_HELD || (k->state == CHUNK_GONE && !early))
        return 0;
    if (early && k->state != CHUNK_GONE)
        return err_set(e, SHOAL_E_MALFORMED,
                       "chunk %u of step %" PRIu64 " on hop %u comes before this member's lanes",
                       c->chunk, c->step, c->hop);
    values_take(x, s, c, values);
    if (sum)
        chunk_summed(x, s, c->chunk, &w, c->hop + 1);
    else if (s->begun)
        chunk_add(x, s, c->chunk, &w);
    else
        k->state = CHUNK_HELD;
    return 0;
}

/* ---- chunks that go -------------------------------------------------------------------------- */

bool exchange_next(struct exchange *x, struct exchange_chunk *out)
{
    while (x->due_count > 0) {
        uint32_t due = x->due[x->due_first], c = due >> 1;
        struct slot *s = &x->slot[due & 1];
        struct chunk *k = &s->chunk[c];
        x->due_first = (x->due_first + 1) % (2 * x->cut.chunks);
        x->due_count--;
        k->due = false;
        struct way w;
        if (k->hop == WAY_NO_HOP)
            continue;
        way_of(&x->shape, x->member, c, &w);
        *out = (struct exchange_chunk){.step = s->step,
                                       .weight = k->weight,
                                       .chunk = c,
                                       .hop = k->hop,
                                       .values = values_on(x, &w, k->hop),
                                       .refused = k->refused};
        if (k->weight > 0 && !k->refused)
            out->floats = way_place(&x->cut, c).floats;
        return true;
    }
    return false;
}

bool exchange_wanted(const struct exchange *x, const struct exchange_chunk *c)
{
    const struct slot *s = &x->slot[c->step % 2];
    return s->step == c->step && s->chunk[c->chunk].hop == c->hop;
}

void exchange_arrived(struct exchange *x, const struct exchange_chunk *c)
{
    struct slot *s = &x->slot[c->step % 2];
    if (!exchange_wanted(x, c) || !s->chunk[c->chunk].owed)
        return;
    s->chunk[c->chunk].owed = false;
    s->owed--;
    slot_settle(x, s);
}

void exchange_values(const struct exchange *x, const struct exchange_chunk *c, void *to)
{
    SHOAL_ASSERT(exchange_wanted(x, c));
    const float *from = x->slot[c->step % 2].sum + way_place(&x->cut, c->chunk).at;
    struct way w;
    way_of(&x->shape, x->member, c->chunk, &w);
    if (x->shards.make != NULL && way_second(&w) && c->hop > w.last)
        from = x->made + x->made_at[c->chunk];
    if (c->values == VALUES_FP32)
        memcpy(to, from, c->floats * sizeof *from);
    else
        half_narrow(c->values, from, to, c->floats);
}

/* ---- the sum --------------------------------------------------------------------------------- */

bool exchange_complete(const struct exchange *x)
{
    const struct slot *next = &x->slot[(x->step + 1) % 2];
    return next->step != x->step + 1 || !next->begun;
}

uint64_t exchange_step(const struct exchange *x)
{
    return x->step;
}

const float *exchange_sum(const struct exchange *x, uint64_t *weight)
{
    const struct slot *s = &x->slot[x->step % 2];
    *weight = s->chunk[0].weight;
    return s->sum;
}

bool exchange_refused(const struct exchange *x)
{
    return x->slot[x->step % 2].refused;
}

const float *exchange_begun(const struct exchange *x, uint64_t *weight)
{
    const struct slot *s = &x->slot[(x->step + 1) % 2];
    if (x->shards.make == NULL || exchange_complete(x))
        return NULL;
    *weight = 0;
    for (uint32_t c = 0; c < x->cut.chunks; c++) {
        struct way w;
        way_of(&x->shape, x->member, c, &w);
        if (w.sum_hop != WAY_NO_HOP && !way_second(&w))
            continue; /* its sum may lack lanes, and so may its weight */
        if (s->chunk[c].state != CHUNK_SUMMED)
            return NULL;
        *weight = s->chunk[c].weight;
    }
    return s->sum;
}
