/* ops_attend.cu: attention among the fields of an example.
 *
 * A head's shares are laid out (query, key). A share that dropout drops is stored with a minus
 * sign: the way back needs its size, and neither way has to draw the mask for each column again. */
#include "dense/cuda/act.h"
#include "dense/cuda/stream.h"

struct attend_kernel_args {
    struct attend_args a;
    struct dropout_mask mask;
    uint32_t row, part; /* floats of a field's maps; floats of one head */
    float scale;
    float *dshare; /* (count, heads, fields, fields) */
};

#define attend_score_args attend_kernel_args
#define attend_softmax_args attend_kernel_args
#define attend_output_args attend_kernel_args
#define attend_value_args attend_kernel_args
#define attend_dshare_args attend_kernel_args
#define attend_slope_args attend_kernel_args
#define attend_maps_args attend_kernel_args
#define attend_residual_args attend_kernel_args

/* The example, head, query and key of element i. */
struct attend_pair {
    uint32_t example, head, query, key;
};

BODY struct attend_pair attend_pair_of(const struct attend_kernel_args *a, size_t i)
{
    struct place of_query = place_of(i, a->a.fields), of_head = place_of(of_query.row, a->a.fields);
    struct place of_example = place_of(of_head.row, a->a.heads);
    struct attend_pair p = {of_example.row, of_example.column, of_head.column, of_query.column};
    return p;
}

/* The shares of one head of an example. */
BODY float *attend_share(const struct attend_kernel_args *a, uint32_t example, uint32_t head)
{
    return a->a.share +
           ((size_t)example * a->a.heads + head) * a->a.fields * attend_lanes(a->a.fields);
}

BODY size_t attend_row(const struct attend_kernel_args *a, uint32_t example, uint32_t field)
{
    return ((size_t)example * a->a.fields + field) * a->row;
}

BODY float attend_dot(const float *x, const float *y, uint32_t n)
{
    float sum = 0.0f;
    for (uint32_t d = 0; d < n; d++)
        sum += x[d] * y[d];
    return sum;
}

/* The weight of a share in sums: 0 when it is dropped. NaN passes. */
BODY float attend_kept(const struct attend_kernel_args *a, float share)
{
    return share < 0.0f ? 0.0f : share * a->mask.scale;
}

/* ---- forward --------------------------------------------------------------------------------- */

BODY void attend_score_at(const struct attend_kernel_args *a, size_t i)
{
    struct attend_pair p = attend_pair_of(a, i);
    const float *query = a->a.x + attend_row(a, p.example, p.query) + p.head * a->part;
    const float *key = a->a.x + attend_row(a, p.example, p.key) + a->a.width + p.head * a->part;
    attend_share(a, p.example, p.head)[(size_t)p.query * a->a.fields + p.key] =
        attend_dot(query, key, a->part) * a->scale;
}
KERNEL(attend_score)

/* A query's shares; dropped ones become negative. */
BODY void attend_softmax_at(const struct attend_kernel_args *a, size_t i)
{
    uint32_t fields = a->a.fields;
    struct place of_head = place_of(i, fields), of_example = place_of(of_head.row, a->a.heads);
    float *share =
        attend_share(a, of_example.row, of_example.column) + (size_t)of_head.column * fields;
    uint32_t example = dropout_example(&a->mask, a->a.first, of_example.row);
    uint32_t value = (example * a->a.heads + of_example.column) * fields * fields + of_head.column;
    float most = -INFINITY, sum = 0.0f;
    for (uint32_t k = 0; k < fields; k++)
        most = share[k] > most ? share[k] : most;
    for (uint32_t k = 0; k < fields; k++) {
        share[k] = expf(share[k] - most);
        sum += share[k];
    }
    for (uint32_t k = 0; k < fields; k++) {
        float v = share[k] / sum;
        share[k] = a->mask.threshold > 0 && !dropout_keeps(&a->mask, value + k * fields) ? -v : v;
    }
}
KERNEL(attend_softmax)

/* The place of element i of a (count, fields, width) array whose examples are `ld` floats apart. */
BODY size_t attend_apart(const struct attend_kernel_args *a, size_t i, uint32_t ld)
{
    struct place p = place_of(i, a->a.fields * a->a.width);
    return (size_t)p.row * ld + p.column;
}

/* Column `column` of field `row` of the output. */
BODY void attend_output_at(const struct attend_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->a.width), of_example = place_of(p.row, a->a.fields);
    const float *share = attend_share(a, of_example.row, p.column / a->part) +
                         (size_t)of_example.column * a->a.fields;
    const float *value =
        a->a.x + attend_row(a, of_example.row, 0) + 2 * (size_t)a->a.width + p.column;
    float sum;
    if (a->a.residual)
        sum = a->a.residual[attend_apart(a, i, a->a.ldresidual)];
    else
        sum = a->a.x[(size_t)p.row * a->row + 3 * (size_t)a->a.width + p.column];
    for (uint32_t k = 0; k < a->a.fields; k++)
        sum += attend_kept(a, share[k]) * value[(size_t)k * a->row];
    a->a.y[i] = sum;
}
KERNEL(attend_output)

static void attend_args_begin(const struct attend_args *from, struct attend_kernel_args *a)
{
    memset(a, 0, sizeof *a);
    a->a = *from;
    a->mask = *from->mask;
    a->a.mask = NULL; /* a host pointer */
    if (a->mask.threshold == 0)
        a->mask.scale = 1.0f;
    a->row = from->parts * from->width;
    a->part = from->width / from->heads;
    a->scale = 1.0f / sqrtf((float)a->part);
}

static void attend_forward(struct stream *s, const struct attend_args *from)
{
    struct attend_kernel_args a;
    size_t queries = (size_t)from->count * from->heads * from->fields;
    attend_args_begin(from, &a);
    attend_score_run(s, queries * from->fields, &a);
    attend_softmax_run(s, queries, &a);
    attend_output_run(s, (size_t)from->count * from->fields * from->width, &a);
}

/* ---- back ------------------------------------------------------------------------------------ */

/* The gradient of one column of a field's value. */
BODY void attend_value_at(const struct attend_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->a.width), of_example = place_of(p.row, a->a.fields);
    const float *share = attend_share(a, of_example.row, p.column / a->part) + of_example.column;
    const float *dy = a->a.dy + (size_t)of_example.row * a->a.fields * a->a.width + p.column;
    float sum = 0.0f;
    for (uint32_t q = 0; q < a->a.fields; q++)
        sum += attend_kept(a, share[(size_t)q * a->a.fields]) * dy[(size_t)q * a->a.width];
    a->a.dx[(size_t)p.row * a->row + 2 * (size_t)a->a.width + p.column] = sum;
}
KERNEL(attend_value)

BODY void attend_dshare_at(const struct attend_kernel_args *a, size_t i)
{
    struct attend_pair p = attend_pair_of(a, i);
    const float *value =
        a->a.x + attend_row(a, p.example, p.key) + 2 * (size_t)a->a.width + p.head * a->part;
    const float *dy =
        a->a.dy + ((size_t)p.example * a->a.fields + p.query) * a->a.width + p.head * a->part;
    float share = attend_share(a, p.example, p.head)[(size_t)p.query * a->a.fields + p.key];
    a->dshare[i] = share < 0.0f ? 0.0f : attend_dot(value, dy, a->part) * a->mask.scale;
}
KERNEL(attend_dshare)

/* Turns a query's shares into the gradients of its products with the keys. */
BODY void attend_slope_at(const struct attend_kernel_args *a, size_t i)
{
    uint32_t fields = a->a.fields;
    struct place of_head = place_of(i, fields), of_example = place_of(of_head.row, a->a.heads);
    float *share =
        attend_share(a, of_example.row, of_example.column) + (size_t)of_head.column * fields;
    const float *dshare = a->dshare + i * fields;
    float sum = 0.0f;
    for (uint32_t k = 0; k < fields; k++)
        sum += dshare[k] * fabsf(share[k]);
    for (uint32_t k = 0; k < fields; k++)
        share[k] = fabsf(share[k]) * (dshare[k] - sum) * a->scale;
}
KERNEL(attend_slope)

/* The gradients of one column of a field's query and key. */
BODY void attend_maps_at(const struct attend_kernel_args *a, size_t i)
{
    uint32_t fields = a->a.fields;
    struct place p = place_of(i, a->a.width), of_example = place_of(p.row, fields);
    const float *slope = attend_share(a, of_example.row, p.column / a->part);
    const float *query = a->a.x + attend_row(a, of_example.row, 0) + p.column,
                *key = query + a->a.width;
    float *to = a->a.dx + (size_t)p.row * a->row + p.column;
    float to_query = 0.0f, to_key = 0.0f;
    for (uint32_t f = 0; f < fields; f++) {
        to_query += slope[(size_t)of_example.column * fields + f] * key[(size_t)f * a->row];
        to_key += slope[(size_t)f * fields + of_example.column] * query[(size_t)f * a->row];
    }
    to[0] = to_query;
    to[a->a.width] = to_key;
}
KERNEL(attend_maps)

BODY void attend_residual_at(const struct attend_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->a.width);
    if (a->a.parts == 4) {
        a->a.dx[(size_t)p.row * a->row + 3 * (size_t)a->a.width + p.column] = a->a.dy[i];
    } else {
        float *to = a->a.dresidual + attend_apart(a, i, a->a.lddresidual);
        *to = sum_begin(to, a->a.add) + a->a.dy[i];
    }
}
KERNEL(attend_residual)

static void attend_backward(struct stream *s, const struct attend_args *from)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct attend_kernel_args a;
    size_t queries = (size_t)from->count * from->heads * from->fields;
    size_t numbers = (size_t)from->count * from->fields * from->width;
    attend_args_begin(from, &a);
    a.dshare = (float *)cuda_scratch(s, queries * from->fields * sizeof *a.dshare);
    if (!a.dshare)
        return;
    attend_value_run(s, numbers, &a);
    attend_dshare_run(s, queries * from->fields, &a);
    attend_slope_run(s, queries, &a);
    attend_maps_run(s, numbers, &a);
    if (from->parts == 4 || from->dresidual)
        attend_residual_run(s, numbers, &a);
    cuda_scratch_return(s, mark);
}

void cuda_attend_fill(struct attention_ops *o)
{
    o->attend_forward = attend_forward;
    o->attend_backward = attend_backward;
}
