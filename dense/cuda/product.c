/* product.c: matrix products in the stream's precision, and linear layers around them.
 *
 * fp32 operands are used where they are. In the other precisions operands are converted first. bf16
 * and fp16 operands are rounded to 16 bits. Rows are moved to multiples of 16 bytes, as tensor
 * cores require (a row of 26 x 16 + 13 floats is none), so a tf32 operand with other rows is copied
 * too. Sums are always fp32. fp16 is rounded here, and not inside cuBLAS by a compute type, so that
 * an overflow becomes an infinity that the loss scale sees. */
#include "dense/cuda/stream.h"
#include "proto/base/assert.h"

#define READY_BYTES 16u

/* Converted once, an operand may serve several products of one op. */
struct operand {
    const float *x;
    uint32_t rows, columns, ld; /* the operand in fp32 */
    bool padded;                /* zeros follow its columns, up to READY_BYTES */
    bool keep;                  /* other ops of this section need it too */
    const void *ready;          /* in the product's type; NULL: not converted yet */
    uint32_t ready_ld;
    uint32_t zeros; /* columns, with the zeros that follow them */
};

static enum product_type product_type_of(const struct stream *s)
{
    switch (s->spec.precision) {
    case PRECISION_FP32:
        return PRODUCT_F32;
    case PRECISION_TF32:
        return PRODUCT_TF32;
    case PRECISION_BF16:
        return PRODUCT_BF16;
    case PRECISION_FP16:
        return PRODUCT_FP16;
    }
    return PRODUCT_F32;
}

static uint32_t element_bytes(enum product_type type)
{
    if (type == PRODUCT_BF16 || type == PRODUCT_FP16)
        return 2;
    return 4;
}

static bool lies_ready(const struct operand *o, enum product_type type)
{
    if (type == PRODUCT_F32)
        return true;
    return type == PRODUCT_TF32 && o->ld * sizeof *o->x % READY_BYTES == 0 &&
           (uintptr_t)o->x % READY_BYTES == 0;
}

/* The row length in elements of the type that keeps every row at a multiple of READY_BYTES. */
static uint32_t ready_columns(enum product_type type, uint32_t columns)
{
    uint32_t each = READY_BYTES / element_bytes(type);
    return (columns + each - 1) / each * each;
}

static bool is_half(enum product_type type)
{
    return type == PRODUCT_BF16 || type == PRODUCT_FP16;
}

struct narrow_to cuda_narrow_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns,
                                  uint32_t ld)
{
    enum product_type type = product_type_of(s);
    struct narrow_to n = {.ld = ready_columns(type, columns), .type = (uint32_t)type};
    if (is_half(type) && !cuda_products_only) /* else cuda_narrow alone converts operands */
        n.to =
            stream_keep(s, x, rows, columns, ld, (size_t)rows * n.ld * element_bytes(type), n.ld);
    return n;
}

/* True when an earlier op has converted the operand, or the product can use it as it is. */
static bool operand_found(const struct stream *s, struct operand *o)
{
    const struct kept_operand *kept = stream_kept(s, o->x, o->rows, o->columns, o->ld);
    if (kept != NULL) {
        o->ready = kept->ready;
        o->ready_ld = o->zeros = kept->ready_ld;
    } else if (lies_ready(o, product_type_of(s))) {
        o->ready = o->x;
        o->ready_ld = o->ld;
        o->zeros = o->columns;
        if (o->padded)
            o->zeros = ready_columns(PRODUCT_F32, o->columns);
    }
    return o->ready != NULL;
}

static void operand_ready(struct stream *s, struct operand *o)
{
    enum product_type type = product_type_of(s);
    void *to = NULL;
    SHOAL_ASSERT(o->ld >= o->columns);
    if (o->ready != NULL || operand_found(s, o))
        return;
    uint32_t ld = ready_columns(type, o->columns);
    size_t bytes = (size_t)o->rows * ld * element_bytes(type);
    if (o->keep)
        to = stream_keep(s, o->x, o->rows, o->columns, o->ld, bytes, ld);
    if (to == NULL)
        to = cuda_scratch(s, bytes);
    if (to == NULL)
        return;
    s->operand = s->recorded == NULL;
    cuda_narrow(s, type, o->rows, o->columns, o->x, o->ld, to, ld);
    s->operand = false;
    o->ready = to;
    o->ready_ld = o->zeros = ld;
}

/* c of struct product from operands in fp32, in the stream's precision. */
static void operand_product(struct stream *s, bool transpose_a, bool transpose_b, uint32_t m,
                            uint32_t n, uint32_t k, struct operand *a, struct operand *b,
                            float beta, float *c, uint32_t ldc, const float *bias)
{
    if (m == 0 || n == 0 || k == 0) /* every layer has inputs, and every pass has examples */
        return;
    struct extent of_a = product_extent(transpose_a, a->rows, a->columns),
                  of_b = product_extent(transpose_b, b->rows, b->columns);
    SHOAL_ASSERT(of_a.columns == k && of_b.rows == k);
    SHOAL_ASSERT(of_a.rows >= m && of_b.columns >= n);
    SHOAL_ASSERT(ldc >= n && (bias == NULL || beta == 0.0f));
    operand_ready(s, a);
    operand_ready(s, b);
    if (stream_failed(s))
        return;
    /* Where k runs along the rows of both operands, k may include the zeros that follow them:
     * tensor cores work faster with such a k. */
    if (!transpose_a && transpose_b && a->zeros == b->zeros && a->columns == k && b->columns == k)
        k = a->zeros;
    struct product p = {.type = product_type_of(s),
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .m = m,
                        .n = n,
                        .k = k,
                        .a = a->ready,
                        .b = b->ready,
                        .lda = a->ready_ld,
                        .ldb = b->ready_ld,
                        .ldc = ldc,
                        .beta = beta,
                        .c = c,
                        .bias = bias};
    __atomic_fetch_add(&cuda_counters.multiplications, (uint64_t)m * n * k, __ATOMIC_RELAXED);
    cuda_product_compute(s, &p);
}

/* As backend_ops.gemm. */
static void gemm(struct stream *s, bool transpose_a, bool transpose_b, uint32_t m, uint32_t n,
                 uint32_t k, const float *a, uint32_t lda, const float *b, uint32_t ldb, float beta,
                 float *c, uint32_t ldc)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct extent of_a = product_extent(transpose_a, m, k),
                  of_b = product_extent(transpose_b, k, n);
    struct operand x = {.x = a, .rows = of_a.rows, .columns = of_a.columns, .ld = lda};
    struct operand y = {.x = b, .rows = of_b.rows, .columns = of_b.columns, .ld = ldb};
    operand_product(s, transpose_a, transpose_b, m, n, k, &x, &y, beta, c, ldc, NULL);
    cuda_scratch_return(s, mark);
}

/* ---- linear layers --------------------------------------------------------------------------- */

/* A linear layer: matrix products and the work on each output around them.
 *
 * The product itself adds a bias that comes without activation and dropout (cuBLASLt's epilogue).
 * An activation is a kernel of ours, with bias and dropout in the same pass: cuBLASLt does not
 * document what its relu does to NaN, and a model that diverges must show it. On the way back, one
 * pass computes the derivative and the bias's sums (ops_act.cu), in an order of our own. */

static struct operand input_of(const struct linear_args *a)
{
    return (struct operand){.x = a->x,
                            .rows = a->count,
                            .columns = a->in,
                            .ld = a->ldx,
                            .padded = a->padded,
                            .keep = a->keep};
}

static struct operand weights_of(const struct linear_args *a)
{
    return (struct operand){
        .x = a->w, .rows = a->out, .columns = a->in, .ld = a->in, .keep = a->keep};
}

static void linear_forward(struct stream *s, const struct linear_args *a)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct operand x = input_of(a), w = weights_of(a);
    struct narrow_to also = {.to = NULL};
    bool plain = a->act == ACT_NONE && a->mask.threshold == 0;
    const float *bias = NULL;
    if (plain)
        bias = a->bias;
    operand_product(s, false, true, a->count, a->out, a->in, &x, &w, 0.0f, a->y, a->ldy, bias);
    if (a->act != ACT_NONE && a->keep) /* then y does not change afterwards (plan_settle.c) */
        also = cuda_narrow_keep(s, a->y, a->count, a->out, a->ldy);
    if (!plain)
        cuda_act_forward(s, a->act, &a->mask, a->first, a->count, a->out, a->bias, a->y, a->ldy,
                         also);
    cuda_scratch_return(s, mark);
}

/* The gradient of the product's result. In 16-bit precision it is stored in the products' form
 * only. */
static struct operand output_gradient(struct stream *s, const struct linear_args *a)
{
    struct operand dy = {.x = a->dy, .rows = a->count, .columns = a->out, .ld = a->lddy};
    enum product_type type = product_type_of(s);
    struct narrow_to instead = {.ld = ready_columns(type, a->out), .type = (uint32_t)type};
    if (a->dbias == NULL && a->act == ACT_NONE && a->mask.threshold == 0)
        return dy;
    if (is_half(type) && !cuda_products_only)
        instead.to = cuda_scratch(s, (size_t)a->count * instead.ld * element_bytes(type));
    cuda_act_backward(s, a->act, &a->mask, a->first, a->count, a->out, a->y, a->ldy, a->dy, a->lddy,
                      a->dbias, instead);
    if (instead.to != NULL) {
        dy.ready = instead.to;
        dy.ready_ld = dy.zeros = instead.ld;
    }
    return dy;
}

static void linear_backward(struct stream *s, const struct linear_args *a)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct operand dy = output_gradient(s, a), x = input_of(a);
    operand_product(s, true, false, a->out, a->in, a->count, &dy, &x, 1.0f, a->dw, a->in, NULL);
    if (a->dx != NULL) {
        struct operand w = weights_of(a);
        operand_product(s, false, false, a->count, a->dx_width, a->out, &dy, &w,
                        a->add ? 1.0f : 0.0f, a->dx, a->lddx, NULL);
    }
    cuda_scratch_return(s, mark);
}

void cuda_product_fill(struct backend_ops *o)
{
    o->gemm = gemm;
    o->linear_forward = linear_forward;
    o->linear_backward = linear_backward;
}
