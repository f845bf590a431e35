/* exchange.c: chunks are taken, added up and passed on.
 *
 *                  begin, or its part comes        the sum comes, or it is the owner
 *   CHUNK_WAITS --------------------------> CHUNK_GONE ------------------> CHUNK_SUMMED
 *
 * A part that comes before the member's own contributions waits in CHUNK_HELD. */
#include "worker/ring/exchange.h"

#include "proto/base/assert.h"
#include "worker/ring/add.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum chunk_state { CHUNK_WAITS, CHUNK_HELD, CHUNK_GONE, CHUNK_SUMMED };

struct chunk {
    uint64_t weight;
    uint32_t hop; /* on which it is sent next, or was sent; WAY_NO_HOP: on none */
    uint8_t state;
    bool due; /* it is in the list of chunks to send */
};

/* One of the two steps that may be under way. */
struct slot {
    uint64_t step;
    float *sum;          /* owned (floats): partial sums, then the sums */
    struct chunk *chunk; /* owned (chunks) */
    uint32_t summed;
    bool begun;
};

struct exchange {
    struct way_shape shape;
    struct way_cut cut;
    uint32_t member;
    enum value_kind values;
    uint64_t step; /* complete */
    const struct exchange_part *part;
    struct slot slot[2]; /* of even and of odd steps */
    float *error;        /* owned (floats); NULL: values are fp32 */
    uint32_t *order;     /* owned (chunks): in which they begin */
    /* owned (2 x chunks): a ring of due chunks, each with its slot in the lowest bit */
    uint32_t *due;
    uint32_t due_first, due_count;
};

static uint64_t floats_of(const struct exchange *x)
{
    return x->cut.weighted + x->cut.plain;
}

/* ---- making ---------------------------------------------------------------------------------- */

struct ordered {
    uint64_t tensor; /* floats of the tensor in which the chunk begins */
    uint32_t chunk;
};

static int larger_first(const void *a, const void *b)
{
    const struct ordered *one = a, *other = b;
    if (one->tensor != other->tensor)
        return one->tensor < other->tensor ? 1 : -1;
    return one->chunk < other->chunk ? -1 : 1;
}

static int order_make(struct exchange *x, const uint64_t *tensor, uint32_t count)
{
    struct ordered *o = calloc(x->cut.chunks, sizeof *o);
    uint64_t end = 0;
    uint32_t at = 0;
    if (o == NULL)
        return SHOAL_E_NOMEM;

    for (uint32_t c = 0; c < x->cut.chunks; c++) {
        uint64_t first = way_place(&x->cut, c).at;
        while (at < count && end + tensor[at] <= first)
            end += tensor[at++];
        o[c].chunk = c;
        if (at < count)
            o[c].tensor = tensor[at];
    }
    qsort(o, x->cut.chunks, sizeof *o, larger_first);
    for (uint32_t c = 0; c < x->cut.chunks; c++)
        x->order[c] = o[c].chunk;
    free(o);
    return 0;
}

static int arrays_make(struct exchange *x)
{
    size_t chunks = x->cut.chunks, floats = floats_of(x);
    x->order = calloc(chunks, sizeof *x->order);
    x->due = calloc(2 * chunks, sizeof *x->due);
    if (x->values != VALUES_FP32)
        x->error = calloc(floats, sizeof *x->error);
    for (uint32_t i = 0; i < 2; i++) {
        x->slot[i].sum = calloc(floats, sizeof(float));
        x->slot[i].chunk = calloc(chunks, sizeof(struct chunk));
        if (x->slot[i].sum == NULL || x->slot[i].chunk == NULL)
            return SHOAL_E_NOMEM;
    }
    if (x->order == NULL || x->due == NULL || (x->values != VALUES_FP32 && x->error == NULL))
        return SHOAL_E_NOMEM;
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
        rc = arrays_make(x);
    }
    if (rc == 0)
        rc = order_make(x, options->tensor, options->tensor_count);
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
    free(x->order);
    free(x->due);
    free(x);
}

/* ---- adding ---------------------------------------------------------------------------------- */

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
        if (p.weighted)
            add_scaled(to, part->weighted + p.at, (float)part->weight, begins, p.floats);
        else
            add_scaled(to, part->plain + (p.at - x->cut.weighted), 1.0f, begins, p.floats);
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

/* The chunk has its sum, which goes on to the members that lack it. */
static void chunk_summed(struct exchange *x, struct slot *s, uint32_t c, const struct way *w,
                         uint32_t hop)
{
    s->chunk[c].state = CHUNK_SUMMED;
    s->chunk[c].hop = WAY_NO_HOP;
    s->summed++;
    if (x->shape.members > 1 && hop <= w->last + x->shape.members - 2)
        chunk_send(x, s, c, hop);
    if (s->begun && s->summed == x->cut.chunks)
        x->step = s->step;
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
    for (uint32_t i = 0; i < x->cut.chunks; i++) {
        uint32_t c = x->order[i];
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
    if (c->chunk < x->cut.chunks && c->weight > 0)
        floats = way_place(&x->cut, c->chunk).floats;
    if (c->chunk >= x->cut.chunks || c->floats != floats)
        return err_set(e, SHOAL_E_MALFORMED, "chunk %u with %u floats: this ring has other chunks",
                       c->chunk, c->floats);
    return 0;
}

static void values_take(struct exchange *x, struct slot *s, const struct exchange_chunk *c,
                        const void *values)
{
    half_widen(x->values, values, s->sum + way_place(&x->cut, c->chunk).at, c->floats);
    s->chunk[c->chunk].weight = c->weight;
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
        if (k->hop == WAY_NO_HOP)
            continue;
        *out = (struct exchange_chunk){
            .step = s->step, .weight = k->weight, .chunk = c, .hop = k->hop};
        if (k->weight > 0)
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

void exchange_values(const struct exchange *x, const struct exchange_chunk *c, void *to)
{
    SHOAL_ASSERT(exchange_wanted(x, c));
    const float *sum = x->slot[c->step % 2].sum + way_place(&x->cut, c->chunk).at;
    if (x->values == VALUES_FP32)
        memcpy(to, sum, c->floats * sizeof *sum);
    else
        half_narrow(x->values, sum, to, c->floats);
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
