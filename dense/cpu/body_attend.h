/* body_attend.h: attention among the fields of an example, one example and one head at a time.
 *
 * A head's matrices have some ten rows of some thirty floats: too small for BLAS, and small enough
 * for the first-level cache. All six products have one form (attend_product): an element of one
 * matrix times a row of the other. Where the keys must be kept apart, queries are in the lanes, so
 * that a softmax needs no sum across lanes; queries and the gradient of y are transposed for that.
 * Lanes after the last query hold meaningless numbers. They are stored only in the work space, and
 * zeros in the transposed matrices keep them finite. */
#ifndef DENSE_CPU_BODY_ATTEND_H
#define DENSE_CPU_BODY_ATTEND_H

#include "dense/backend_ops.h"
#include "dense/cpu/body_act.h"
#include "dense/cpu/vector.h"

#include <math.h>

#define ATTEND_ROWS 4u /* rows of a block: this many sums stay in registers */

/* c (m, n) = (add ? c : 0) + a b. Element (i, k) of a is a[i * row_step + k * step]; b has rows of
 * n. */
struct attend_product {
    uint32_t m, n, steps;
    const float *a;
    size_t row_step, step;
    const float *b;
    size_t ldb;
    float *c;
    size_t ldc;
    bool add;
};

/* Loops over the rows of a block: their sums stay in registers only when the loops are unrolled. */
#ifdef __clang__
#define ATTEND_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ATTEND_UNROLL _Pragma("GCC unroll 8")
#endif

/* `rows` rows from i on, and `vectors` times 16 columns from j on; the last vector has `n`
 * columns. */
KERNEL_INLINE void attend_block(const struct attend_product *p, uint32_t i, uint32_t rows,
                                uint32_t j, uint32_t vectors, uint32_t n)
{
    const float *a = p->a + i * p->row_step, *b = p->b + j;
    const size_t row_step = p->row_step, step = p->step, ldb = p->ldb;
    float *c = p->c + i * p->ldc + j;
    vf left[ATTEND_ROWS] = {{0}}, right[ATTEND_ROWS] = {{0}};
    uint32_t n_left = VECTOR;
    if (vectors == 1)
        n_left = n;
    for (uint32_t k = p->steps; k > 0; k--, a += step, b += ldb) {
        vf b_left = vector_load_n(b, n_left),
           b_right = vectors == 1 ? b_left : vector_load_n(b + VECTOR, n);
        ATTEND_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            left[r] += b_left * a[r * row_step];
            if (vectors > 1)
                right[r] += b_right * a[r * row_step];
        }
    }
    ATTEND_UNROLL
    for (uint32_t r = 0; r < rows; r++, c += p->ldc) {
        vector_put_n(c, left[r], n_left, p->add);
        if (vectors > 1)
            vector_put_n(c + VECTOR, right[r], n, p->add);
    }
}

KERNEL_INLINE void attend_rows(const struct attend_product *p, uint32_t i, uint32_t rows)
{
    uint32_t j = 0;
    for (; j + 2 * VECTOR <= p->n; j += 2 * VECTOR)
        attend_block(p, i, rows, j, 2, VECTOR);
    for (; j + VECTOR <= p->n; j += VECTOR)
        attend_block(p, i, rows, j, 1, VECTOR);
    if (j < p->n)
        attend_block(p, i, rows, j, 1, p->n - j);
}

static void attend_multiply(struct attend_product p)
{
    uint32_t i = 0;
    for (; i + ATTEND_ROWS <= p.m; i += ATTEND_ROWS)
        attend_rows(&p, i, ATTEND_ROWS);
    if (i + 2 <= p.m) {
        attend_rows(&p, i, 2);
        i += 2;
    }
    if (i < p.m)
        attend_rows(&p, i, 1);
}

/* gcc has this builtin from release 12 on; without it another way gives the same numbers. */
#if defined(__AVX512F__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ATTEND_SHUFFLES
#endif
#endif

/* Transposes sixteen vectors: element i of vector k becomes element k of vector i. Each of four
 * rounds interleaves the two halves of the vectors, like a riffle shuffle; a round rotates the bits
 * of an element's row and column, taken together, by one. */
KERNEL_INLINE void attend_turn_tile(vf tile[VECTOR])
{
#ifdef ATTEND_SHUFFLES
    for (uint32_t round = 0; round < 4; round++) {
        vf dealt[VECTOR];
        for (uint32_t k = 0; k < VECTOR / 2; k++) {
            vf a = tile[k], b = tile[k + VECTOR / 2];
            dealt[2 * k] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                   6, 22, 7, 23);
            dealt[2 * k + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                       13, 29, 14, 30, 15, 31);
        }
        for (uint32_t k = 0; k < VECTOR; k++)
            tile[k] = dealt[k];
    }
#else
    float from[VECTOR][VECTOR], to[VECTOR];
    memcpy(from, tile, sizeof from);
    for (uint32_t i = 0; i < VECTOR; i++) {
        for (uint32_t k = 0; k < VECTOR; k++)
            to[k] = from[k][i];
        tile[i] = vector_load(to);
    }
#endif
}

/* to (lanes of width, lanes of fields) = x (fields, width) transposed and multiplied by factor;
 * zeros follow the last field. */
static void attend_turn(const float *x, size_t ldx, uint32_t fields, uint32_t width, float factor,
                        float *to)
{
    uint32_t lanes = attend_lanes(fields);
    for (uint32_t f = 0; f < lanes; f += VECTOR)
        for (uint32_t d = 0; d < width; d += VECTOR) {
            uint32_t n = vector_left(width, d);
            vf tile[VECTOR];
            for (uint32_t k = 0; k < VECTOR; k++)
                tile[k] =
                    f + k < fields ? vector_load_n(x + (f + k) * ldx + d, n) * factor : (vf){0};
            attend_turn_tile(tile);
            for (uint32_t k = 0; k < VECTOR; k++)
                vector_store(to + (size_t)(d + k) * lanes + f, tile[k]);
        }
}

/* One head of one example. Matrices are (fields, width of the head), with rows ldx or ldy apart;
 * shares are (key, lanes of queries). */
struct attend_head {
    const float *query, *key, *value, *dy;
    float *dquery, *dkey, *dvalue, *y;
    size_t ldx, ldy;
    uint32_t fields, width;
    float *share;
    float *turned, *dropped, *dshare; /* in the work space */
    float scale;
    const struct dropout_mask *mask;
    uint32_t first_value; /* the mask's number of the head's first value */
};

static struct attend_head attend_head_of(const struct attend_args *a, uint32_t example,
                                         uint32_t head)
{
    uint32_t lanes = attend_lanes(a->fields), width = a->width / a->heads;
    size_t row = (size_t)a->parts * a->width,
           at = (size_t)example * a->fields * row + (size_t)head * width;
    size_t at_y = (size_t)example * a->fields * a->width + (size_t)head * width;
    float *work = a->work + (size_t)attend_lanes(width) * lanes;
    struct attend_head h = {
        .query = a->x + at,
        .key = a->x + at + a->width,
        .value = a->x + at + 2 * (size_t)a->width,

        .ldx = row,
        .ldy = a->width,
        .fields = a->fields,
        .width = width,
        .share = a->share + ((size_t)example * a->heads + head) * a->fields * lanes,
        .turned = a->work,
        .dropped = work,
        .dshare = work + (size_t)a->fields * lanes,
        .scale = 1.0f / sqrtf((float)width),
        .mask = a->mask,
        .first_value = ((a->first + example) * a->heads + head) * a->fields * a->fields,
    };
    if (a->y != NULL)
        h.y = a->y + at_y;
    if (a->dy != NULL)
        h.dy = a->dy + at_y;
    if (a->dx != NULL) {
        h.dquery = a->dx + at;
        h.dkey = h.dquery + a->width;
        h.dvalue = h.dkey + a->width;
    }
    return h;
}

/* A softmax over the keys, in each lane. */
KERNEL_INLINE void attend_softmax(const struct attend_head *h, uint32_t at)
{
    uint32_t lanes = attend_lanes(h->fields);
    vf most = vector_all(-INFINITY), sum = {0};
    for (uint32_t j = 0; j < h->fields; j++) {
        vf v = vector_load(h->share + j * lanes + at);
        most = vector_choose(v > most, v, most);
    }
    for (uint32_t j = 0; j < h->fields; j++) {
        vf v = vector_exp(vector_load(h->share + j * lanes + at) - most);
        vector_store(h->share + j * lanes + at, v);
        sum += v;
    }
    sum = 1.0f / sum;
    for (uint32_t j = 0; j < h->fields; j++)
        vector_store(h->share + j * lanes + at, vector_load(h->share + j * lanes + at) * sum);
}

/* to = share, or its gradient, where the mask keeps it; elsewhere 0. */
static void attend_drop(const struct attend_head *h, const float *from, float *to)
{
    uint32_t lanes = attend_lanes(h->fields);
    for (uint32_t j = 0; j < h->fields; j++)
        for (uint32_t i = 0; i < lanes; i += VECTOR) {
            vf v = vector_load(from + j * lanes + i) * h->mask->scale;
            vi kept = dropout_kept(h->mask, h->first_value + j * h->fields + i);
            vector_store(to + j * lanes + i, (vf)((vi)v & kept));
        }
}

static void attend_head_forward(const struct attend_head *h)
{
    uint32_t lanes = attend_lanes(h->fields);
    const float *share = h->share;
    attend_turn(h->query, h->ldx, h->fields, h->width, h->scale, h->turned);
    attend_multiply((struct attend_product){h->fields, lanes, h->width, h->key, h->ldx, 1,
                                            h->turned, lanes, h->share, lanes, false});
    for (uint32_t i = 0; i < lanes; i += VECTOR)
        attend_softmax(h, i);
    if (h->mask->threshold > 0) {
        attend_drop(h, h->share, h->dropped);
        share = h->dropped;
    }
    attend_multiply((struct attend_product){h->fields, h->width, h->fields, share, 1, lanes,
                                            h->value, h->ldx, h->y, h->ldy, true});
}

/* Turns dshare into the gradient of query . key: share (dshare - sum over the keys of dshare *
 * share), scaled. */
KERNEL_INLINE void attend_softmax_backward(const struct attend_head *h, uint32_t at)
{
    uint32_t lanes = attend_lanes(h->fields);
    vf sum = {0};
    for (uint32_t j = 0; j < h->fields; j++)
        sum += vector_load(h->dshare + j * lanes + at) * vector_load(h->share + j * lanes + at);
    for (uint32_t j = 0; j < h->fields; j++) {
        vf v = vector_load(h->dshare + j * lanes + at) - sum;
        vector_store(h->dshare + j * lanes + at,
                     v * vector_load(h->share + j * lanes + at) * h->scale);
    }
}

static void attend_head_backward(const struct attend_head *h)
{
    uint32_t f = h->fields, lanes = attend_lanes(f);
    const float *share = h->share;
    bool drop = h->mask->threshold > 0;
    if (drop) {
        attend_drop(h, h->share, h->dropped);
        share = h->dropped;
    }
    attend_multiply((struct attend_product){f, h->width, f, share, lanes, 1, h->dy, h->ldy,
                                            h->dvalue, h->ldx, false});
    attend_turn(h->dy, h->ldy, f, h->width, 1.0f, h->turned);
    attend_multiply((struct attend_product){f, lanes, h->width, h->value, h->ldx, 1, h->turned,
                                            lanes, h->dshare, lanes, false});
    if (drop)
        attend_drop(h, h->dshare, h->dshare);
    for (uint32_t i = 0; i < lanes; i += VECTOR)
        attend_softmax_backward(h, i);
    attend_multiply((struct attend_product){f, h->width, f, h->dshare, 1, lanes, h->key, h->ldx,
                                            h->dquery, h->ldx, false});
    attend_multiply((struct attend_product){f, h->width, f, h->dshare, lanes, 1, h->query, h->ldx,
                                            h->dkey, h->ldx, false});
}

/* to (rows, width) = (add ? to : 0) + from */
KERNEL_INLINE void attend_copy(uint32_t rows, uint32_t width, const float *from, size_t ldfrom,
                               bool add, float *to, size_t ldto)
{
    for (uint32_t i = 0; i < rows; i++, from += ldfrom, to += ldto)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(from + j, n);
            vector_put_n(to + j, v, n, add);
        }
}

/* Prefetches part `part` of `parts` of the data that the next example reads and writes: heads take
 * columns of many rows, which the processor does not predict. */
KERNEL_INLINE void attend_prefetch(const float *next, size_t floats, uint32_t part, uint32_t parts,
                                   bool write)
{
    const char *at = (const char *)(next + floats * part / parts),
               *end = (const char *)(next + floats * (part + 1) / parts);
    for (; next != NULL && at < end; at += 64)
        if (write)
            __builtin_prefetch(at, 1);
        else
            __builtin_prefetch(at, 0);
}

static void body_attend_forward(struct stream *s, const struct attend_args *a)
{
    size_t width = a->width, row = a->parts * width, fields = a->fields;
    (void)s;
    for (uint32_t e = 0; e < a->count; e++) {
        size_t at = e * fields;
        const float *residual = a->x + at * row + 3 * width;
        size_t ldresidual = row;
        if (a->residual != NULL) {
            residual = a->residual + (size_t)e * a->ldresidual;
            ldresidual = width;
        }
        attend_copy(a->fields, a->width, residual, ldresidual, false, a->y + at * width, width);
        for (uint32_t h = 0; h < a->heads; h++) {
            struct attend_head head = attend_head_of(a, e, h);
            if (e + 1 < a->count) {
                attend_prefetch(a->x + (at + fields) * row, fields * row, h, a->heads, false);
                attend_prefetch(a->y + (at + fields) * width, fields * width, h, a->heads, true);
            }
            attend_head_forward(&head);
        }
    }
}

static void body_attend_backward(struct stream *s, const struct attend_args *a)
{
    size_t width = a->width, row = a->parts * width, fields = a->fields;
    (void)s;
    for (uint32_t e = 0; e < a->count; e++) {
        size_t at = e * fields;
        for (uint32_t h = 0; h < a->heads; h++) {
            struct attend_head head = attend_head_of(a, e, h);
            if (e + 1 < a->count) {
                attend_prefetch(a->x + (at + fields) * row, fields * row, h, a->heads, false);
                attend_prefetch(a->dx + (at + fields) * row, fields * row, h, a->heads, true);
                attend_prefetch(a->dy + (at + fields) * width, fields * width, h, a->heads, false);
            }
            attend_head_backward(&head);
        }
        if (a->parts == 4)
            attend_copy(a->fields, a->width, a->dy + at * width, width, false,
                        a->dx + at * row + 3 * width, row);
        else if (a->dresidual != NULL)
            attend_copy(a->fields, a->width, a->dy + at * width, width, a->add,
                        a->dresidual + (size_t)e * a->lddresidual, width);
    }
}

#endif
