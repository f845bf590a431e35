/* ops_attention.cu: gates and sequences, and the table of dense/ops_attention.h. */
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

/* ---- gates ----------------------------------------------------------------------------------- */

/* Products of two streams: gates, and the products that are summed to a logit. */

/* parts that a row is summed in: neighbouring elements read neighbouring columns */
#define DOTS_LANES 32u

struct gate_kernel_args {
    uint32_t width, ldx, ldg, ldy, lddg, lddx, dx_width;
    float factor;
    bool add;
    const float *x, *g, *dy;
    float *y, *dg, *dx;
};

#define gate_forward_args gate_kernel_args
#define gate_backward_args gate_kernel_args

BODY void gate_forward_at(const struct gate_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    a->y[(size_t)p.row * a->ldy + p.column] = a->x[(size_t)p.row * a->ldx + p.column] *
                                              a->g[(size_t)p.row * a->ldg + p.column] * a->factor;
}
KERNEL(gate_forward)

BODY void gate_backward_at(const struct gate_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    float dy = a->dy[(size_t)p.row * a->ldy + p.column] * a->factor;
    a->dg[(size_t)p.row * a->lddg + p.column] = a->x[(size_t)p.row * a->ldx + p.column] * dy;
    if (p.column < a->dx_width) {
        float *to = a->dx + (size_t)p.row * a->lddx + p.column;
        *to = sum_begin(to, a->add) + a->g[(size_t)p.row * a->ldg + p.column] * dy;
    }
}
KERNEL(gate_backward)

static void gate_forward(struct stream *s, uint32_t count, uint32_t width, float factor,
                         const float *x, uint32_t ldx, const float *g, uint32_t ldg, float *y,
                         uint32_t ldy)
{
    struct gate_kernel_args a = {width, ldx, ldg, ldy,  0, 0,    0,   factor,
                                 false, x,   g,   NULL, y, NULL, NULL};
    gate_forward_run(s, (size_t)count * width, &a);
}

static void gate_backward(struct stream *s, uint32_t count, uint32_t width, float factor,
                          const float *x, uint32_t ldx, const float *g, uint32_t ldg,
                          const float *dy, uint32_t lddy, float *dg, uint32_t lddg, float *dx,
                          uint32_t lddx, uint32_t dx_width, bool add)
{
    struct gate_kernel_args a = {width, ldx, ldg, lddy, lddg, lddx, dx_width, factor,
                                 add,   x,   g,   dy,   NULL, dg,   dx};
    gate_backward_run(s, (size_t)count * width, &a);
}

struct dots_kernel_args {
    uint32_t width, ldt, ldz, stride, lddz, lanes;
    bool add;
    float *t;
    const float *z, *dlogit;
    float *logit, *dz;
    float *sums; /* (count, lanes) */
};

#define dots_lane_args dots_kernel_args
#define dots_logit_args dots_kernel_args
#define dots_backward_args dots_kernel_args

/* Sums columns lane, lane + lanes, .. of a row. */
BODY void dots_lane_at(const struct dots_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->lanes);
    const float *t = a->t + (size_t)p.row * a->ldt, *z = a->z + (size_t)p.row * a->ldz;
    float sum = 0.0f;
    for (uint32_t j = p.column; j < a->width; j += a->lanes)
        sum += t[j] * z[j];
    a->sums[i] = sum;
}
KERNEL(dots_lane)

BODY void dots_logit_at(const struct dots_kernel_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t lane = 0; lane < a->lanes; lane++)
        sum += a->sums[i * a->lanes + lane];
    a->logit[i * a->stride] += sum;
}
KERNEL(dots_logit)

BODY void dots_backward_at(const struct dots_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    float d = a->dlogit[(size_t)p.row * a->stride];
    float *t = a->t + (size_t)p.row * a->ldt + p.column,
          *dz = a->dz + (size_t)p.row * a->lddz + p.column;
    *dz = sum_begin(dz, a->add) + *t * d;
    *t = a->z[(size_t)p.row * a->ldz + p.column] * d;
}
KERNEL(dots_backward)

static void dots_forward(struct stream *s, uint32_t count, uint32_t width, const float *t,
                         uint32_t ldt, const float *z, uint32_t ldz, float *logit, uint32_t stride)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t lanes = MIN(width, DOTS_LANES);
    float *sums = (float *)cuda_scratch(s, (size_t)count * lanes * sizeof *sums);
    struct dots_kernel_args a = {width,      ldt, ldz,  stride, 0,    lanes, false,
                                 (float *)t, z,   NULL, logit,  NULL, sums};
    if (sums == NULL)
        return;
    dots_lane_run(s, (size_t)count * lanes, &a);
    dots_logit_run(s, count, &a);
    cuda_scratch_return(s, mark);
}

static void dots_backward(struct stream *s, uint32_t count, uint32_t width, float *t, uint32_t ldt,
                          const float *z, uint32_t ldz, const float *dlogit, uint32_t stride,
                          float *dz, uint32_t lddz, bool add)
{
    struct dots_kernel_args a = {width, ldt, ldz,    stride, lddz, 0,   add,
                                 t,     z,   dlogit, NULL,   dz,   NULL};
    dots_backward_run(s, (size_t)count * width, &a);
}

static void gate_fill(struct attention_ops *o)
{
    o->gate_forward = gate_forward;
    o->gate_backward = gate_backward;
    o->dots_forward = dots_forward;
    o->dots_backward = dots_backward;
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* The values of one field, each by itself (dense/layer/attention.c).
 *
 * A chunk holds the next places of `index`, of all fields, because the device alone knows how many
 * values an example has. A value of another field gets zeros for features and no weight. So do the
 * rows that fill the last chunk up to a multiple of CHUNK_GRANULE, which keeps the shapes of the
 * small network's products few. The gradients of values are kept by place. At the end they are
 * merged into rows, in the order that pool_begin has sorted the values in. */

#define CHUNK_GRANULE 512u

struct sequence_kernel_args {
    struct sequence_args a;
    struct sequence_chunk c;
    uint32_t begin;  /* place of the chunk's first row */
    uint32_t *slot;  /* (values): example * fields + field, by place */
    float *gradient; /* (values, dim), on the way back only */
};

#define sequence_slots_args sequence_kernel_args
#define sequence_zero_args sequence_kernel_args
#define sequence_owner_args sequence_kernel_args
#define sequence_features_args sequence_kernel_args
#define sequence_pool_args sequence_kernel_args
#define sequence_weight_args sequence_kernel_args
#define sequence_value_args sequence_kernel_args
#define sequence_target_args sequence_kernel_args

static size_t slots_bytes(const struct sequence_args *a)
{
    return ((size_t)a->values * sizeof(uint32_t) + 255) / 256 * 256;
}

static void sequence_args_begin(const struct sequence_args *from, const struct sequence_chunk *c,
                                struct sequence_kernel_args *a)
{
    memset(a, 0, sizeof *a);
    a->a = *from;
    a->slot = (uint32_t *)from->kept;
    a->gradient = (float *)(void *)((char *)from->kept + slots_bytes(from));
    if (c) {
        a->c = *c;
        a->begin = (c->place - 1) / from->room * from->room; /* all earlier chunks are full */
    }
}

/* Chunks. */

BODY void sequence_slots_at(const struct sequence_kernel_args *a, size_t i)
{
    uint32_t begin = slot_begin(a->a.offset, (uint32_t)i),
             end = slot_begin(a->a.offset, (uint32_t)i + 1);
    for (uint32_t value = begin; value < end; value++)
        a->slot[value] = (uint32_t)i;
}
KERNEL(sequence_slots)

BODY void sequence_zero_at(const struct sequence_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->a.dim);
    a->a.y[(size_t)p.row * a->a.ldy + p.column] = 0.0f;
}
KERNEL(sequence_zero)

/* Takes the whole batch only: first is 0, and the slots of all examples are filled. */
static void *sequence_begin(struct stream *s, const struct sequence_args *from, bool back)
{
    struct sequence_args with = *from;
    struct sequence_kernel_args a;
    size_t bytes = slots_bytes(from) + 1;
    if (back)
        bytes += (size_t)from->values * from->dim * sizeof(float);
    with.kept = cuda_scratch(s, bytes);
    if (!with.kept)
        return NULL;
    sequence_args_begin(&with, NULL, &a);
    sequence_slots_run(s, (size_t)from->count * from->fields, &a);
    if (!back)
        sequence_zero_run(s, (size_t)from->count * from->dim, &a);
    return with.kept;
}

BODY void sequence_owner_at(const struct sequence_kernel_args *a, size_t i)
{
    bool there = a->begin + i < a->a.values;
    uint32_t slot = there ? a->slot[a->begin + i] : 0, example = slot / a->a.fields;
    bool meant = there && slot - example * a->a.fields == a->a.field;
    a->c.owner[i] = meant ? example - a->a.first : SEQUENCE_NOBODY;
    a->c.value[i] = a->begin + (uint32_t)i;
}
KERNEL(sequence_owner)

static bool sequence_next(struct stream *s, const struct sequence_args *from,
                          struct sequence_chunk *c)
{
    struct sequence_kernel_args a;
    uint32_t left = from->values - c->place;
    if (stream_failed(s) || left == 0)
        return false;
    left = MIN(left, from->room);
    c->place += left;
    c->rows = (left + CHUNK_GRANULE - 1) / CHUNK_GRANULE * CHUNK_GRANULE;
    c->rows = MIN(c->rows, from->room);
    sequence_args_begin(from, c, &a);
    sequence_owner_run(s, c->rows, &a);
    return true;
}

/* The rows of a chunk that belong to an example's values: [*begin, *end). */
BODY void sequence_rows_of(const struct sequence_kernel_args *a, uint32_t example, uint32_t *begin,
                           uint32_t *end)
{
    uint32_t slot = (a->a.first + example) * a->a.fields + a->a.field, last = a->begin + a->c.rows;
    uint32_t from = slot_begin(a->a.offset, slot), to = slot_begin(a->a.offset, slot + 1);
    from = MAX(from, a->begin);
    to = MIN(to, last);
    *begin = from - a->begin;
    *end = MAX(from, to) - a->begin;
}

/* Forward. */

BODY void sequence_features_at(const struct sequence_kernel_args *a, size_t i)
{
    uint32_t dim = a->a.dim;
    struct place p = place_of(i, dim);
    uint32_t owner = a->c.owner[p.row];
    float *to = a->a.features + (size_t)p.row * 4 * dim + p.column, h = 0.0f, t = 0.0f;
    if (owner != SEQUENCE_NOBODY) {
        const float *row =
            a->a.rows + (size_t)a->a.index[a->begin + p.row] * (a->a.first_order + dim);
        h = row[a->a.first_order + p.column];
        t = a->a.target[(size_t)owner * a->a.ldtarget + p.column];
    }
    to[0] = h;
    to[dim] = t;
    to[2 * dim] = h - t;
    to[3 * dim] = h * t;
}
KERNEL(sequence_features)

/* One column of an example's sum. */
BODY void sequence_pool_at(const struct sequence_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->a.dim);
    uint32_t begin, end;
    sequence_rows_of(a, p.row, &begin, &end);
    float *y = a->a.y + (size_t)p.row * a->a.ldy + p.column, sum = 0.0f;
    for (uint32_t r = begin; r < end; r++)
        sum += a->a.features[(size_t)r * 4 * a->a.dim + p.column] * a->a.weight[r];
    if (end > begin)
        *y += sum;
}
KERNEL(sequence_pool)

static void sequence_features(struct stream *s, const struct sequence_args *from,
                              const struct sequence_chunk *c)
{
    struct sequence_kernel_args a;
    sequence_args_begin(from, c, &a);
    sequence_features_run(s, (size_t)c->rows * from->dim, &a);
}

static void sequence_pool(struct stream *s, const struct sequence_args *from,
                          const struct sequence_chunk *c)
{
    struct sequence_kernel_args a;
    sequence_args_begin(from, c, &a);
    sequence_pool_run(s, (size_t)from->count * from->dim, &a);
}

/* Back. */

BODY void sequence_weight_at(const struct sequence_kernel_args *a, size_t i)
{
    uint32_t owner = a->c.owner[i];
    float sum = 0.0f;
    for (uint32_t d = 0; owner != SEQUENCE_NOBODY && d < a->a.dim; d++)
        sum += a->a.features[i * 4 * a->a.dim + d] * a->a.dy[(size_t)owner * a->a.lddy + d];
    a->a.dweight[i] = sum;
}
KERNEL(sequence_weight)

static void sequence_pool_backward(struct stream *s, const struct sequence_args *from,
                                   const struct sequence_chunk *c)
{
    struct sequence_kernel_args a;
    sequence_args_begin(from, c, &a);
    sequence_weight_run(s, c->rows, &a);
}

/* One column of a value's gradient. */
BODY void sequence_value_at(const struct sequence_kernel_args *a, size_t i)
{
    uint32_t dim = a->a.dim;
    struct place p = place_of(i, dim);
    uint32_t owner = a->c.owner[p.row];
    const float *g = a->a.dfeatures + (size_t)p.row * 4 * dim + p.column;
    if (owner == SEQUENCE_NOBODY)
        return;
    float t = a->a.target[(size_t)owner * a->a.ldtarget + p.column];
    float sum = g[0] + g[2 * dim] + g[3 * dim] * t;
    a->gradient[(size_t)(a->begin + p.row) * dim + p.column] =
        sum + a->a.weight[p.row] * a->a.dy[(size_t)owner * a->a.lddy + p.column];
}
KERNEL(sequence_value)

/* One column of a target's gradient. */
BODY void sequence_target_at(const struct sequence_kernel_args *a, size_t i)
{
    uint32_t dim = a->a.dim, begin, end;
    struct place p = place_of(i, dim);
    sequence_rows_of(a, p.row, &begin, &end);
    float *to = a->a.dtarget + (size_t)p.row * a->a.lddtarget + p.column, sum = 0.0f;
    for (uint32_t r = begin; r < end; r++) {
        const float *g = a->a.dfeatures + (size_t)r * 4 * dim + p.column;
        sum += g[dim] - g[2 * dim] + g[3 * dim] * a->a.features[(size_t)r * 4 * dim + p.column];
    }
    if (end > begin)
        *to += sum;
}
KERNEL(sequence_target)

static void sequence_features_backward(struct stream *s, const struct sequence_args *from,
                                       const struct sequence_chunk *c)
{
    struct sequence_kernel_args a;
    sequence_args_begin(from, c, &a);
    sequence_value_run(s, (size_t)c->rows * from->dim, &a);
    sequence_target_run(s, (size_t)from->count * from->dim, &a);
}

static void sequence_end(struct stream *s, const struct sequence_args *from)
{
    struct sequence_kernel_args a;
    if (!from->kept)
        return;
    sequence_args_begin(from, NULL, &a);
    cuda_values_add(s, from->fields, from->field, from->dim, a.gradient, from->dim,
                    from->row_gradients + from->first_order, from->first_order + from->dim);
}

static void sequence_fill(struct attention_ops *o)
{
    o->sequence_begin = sequence_begin;
    o->sequence_next = sequence_next;
    o->sequence_features = sequence_features;
    o->sequence_pool = sequence_pool;
    o->sequence_pool_backward = sequence_pool_backward;
    o->sequence_features_backward = sequence_features_backward;
    o->sequence_end = sequence_end;
}

void cuda_attention_fill(struct attention_ops *o)
{
    cuda_attend_fill(o);
    gate_fill(o);
    cuda_layer_norm_fill(o);
    sequence_fill(o);
}
