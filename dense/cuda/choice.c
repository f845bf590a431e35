/* choice.c: how each matrix product is computed: chosen once for each shape, kept for the stream's
 * life.
 *
 * The device's library offers ways of computing a product, best first. It may offer none, and it
 * may refuse to run a way that it has offered. So a product climbs a ladder and stays on the first
 * rung and way that work:
 *
 *     WHOLE    as it is, its bias added by the library
 *     BARE     without the bias, which a kernel of ours adds afterwards
 *     ALIGNED  also with operands and result moved so that rows begin at multiples of 16 bytes
 *
 * 1. Nothing is chosen while a section is recorded: a new product, or a way that is refused, spoils
 *    the recording, and the section is queued directly (stream.h). Libraries differ in what they
 *    allow there. [assert: ladder_try, ladder_climb, choices_grow]
 * 2. A choice is kept while the stream lives, so the ways that a recording uses stay valid. Shapes
 *    are few because there are few sizes of batches (dense/layer/pass.c). [assert: choices_grow]
 * 3. The same shape is computed in the same way at each step. The library's advice depends on
 *    shape, card and version alone, so the way is also the same at each run, unless the library
 *    refuses a way that it has advised; a warning then names the shape.
 *    [assert: ladder_try] [test: model_is_repeatable_bit_for_bit] */
#include "dense/cuda/stream.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

#include <stdlib.h>

#define PLACES_BEGIN 64u /* a power of two */
#define ALIGN_MAX 256u
/* the library's advice ignores the bias's alignment, but its kernels load 16 bytes of the bias at
 * once */
#define ALIGN_BIAS 16u
#define ALIGN_ROW 16u

/* Everything that the choice depends on. All members have one size, so there is no padding: shapes
 * are compared byte by byte. */
struct shape {
    uint32_t type, transpose_a, transpose_b, m, n, k, lda, ldb, ldc, beta;
    uint32_t align_a, align_b, align_c, align_bias; /* bytes; 0: no bias */
};

enum rung { WHOLE, BARE, ALIGNED, RUNGS };

struct choice {
    struct shape shape; /* its type is stored + 1: 0 marks a free entry */
    enum rung rung;
    bool asked;                /* the library was asked for the ways of this rung */
    struct product_ways *ways; /* owned; or NULL */
    uint32_t count, way;       /* number of ways; the one to use */
    uint32_t refused;          /* ways refused, on all rungs */
};

struct choices {
    struct choice *choice; /* owned (places): hash table, open addressing, at most half full */
    uint32_t places, count;
};

static const char *const type_name[] = {[PRODUCT_F32] = "fp32",
                                        [PRODUCT_TF32] = "tf32",
                                        [PRODUCT_BF16] = "bf16",
                                        [PRODUCT_FP16] = "fp16"};

/* ---- the table ------------------------------------------------------------------------------- */

static uint32_t alignment_of(const void *p)
{
    uint32_t align = 0;
    if (p != NULL)
        align = ALIGN_MAX;
    while (p != NULL && (uintptr_t)p % align != 0)
        align /= 2;
    return align;
}

static struct shape shape_of(const struct product *p)
{
    return (struct shape){.type = (uint32_t)p->type + 1,
                          .transpose_a = p->transpose_a,
                          .transpose_b = p->transpose_b,
                          .m = p->m,
                          .n = p->n,
                          .k = p->k,
                          .lda = p->lda,
                          .ldb = p->ldb,
                          .ldc = p->ldc,
                          .beta = p->beta != 0.0f,
                          .align_a = alignment_of(p->a),
                          .align_b = alignment_of(p->b),
                          .align_c = alignment_of(p->c),
                          .align_bias = alignment_of(p->bias)};
}

/* FNV-1a. */
static uint32_t shape_hash(const struct shape *shape)
{
    const unsigned char *byte = (const unsigned char *)shape;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *shape; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash;
}

/* The shape's entry, or the free one where it would go. */
static struct choice *choice_find(const struct choices *all, const struct shape *shape)
{
    uint32_t at = shape_hash(shape) % all->places;
    while (all->choice[at].shape.type != 0 &&
           memcmp(&all->choice[at].shape, shape, sizeof *shape) != 0)
        at = (at + 1) % all->places;
    return &all->choice[at];
}

static bool choices_grow(struct stream *s, struct choices *all)
{
    SHOAL_ASSERT(s->recorded == NULL); /* 1 */
    uint32_t places = 2 * all->places, kept = 0;
    if (places == 0)
        places = PLACES_BEGIN;
    struct choices more = {
        .choice = calloc(places, sizeof *more.choice), .places = places, .count = all->count};
    if (more.choice == NULL) {
        stream_fail(s, SHOAL_E_NOMEM, "a stream of the device: out of memory");
        return false;
    }
    for (uint32_t i = 0; i < all->places; i++)
        if (all->choice[i].shape.type != 0) {
            *choice_find(&more, &all->choice[i].shape) = all->choice[i];
            kept++;
        }
    SHOAL_ASSERT(kept == all->count && 2 * kept < places); /* 2 */
    free(all->choice);
    *all = more;
    return true;
}

/* NULL: the stream, or its recording, has failed. */
static struct choice *choice_of(struct stream *s, const struct product *p)
{
    struct shape shape = shape_of(p);
    if (s->choices == NULL && (s->choices = calloc(1, sizeof *s->choices)) == NULL) {
        stream_fail(s, SHOAL_E_NOMEM, "a stream of the device: out of memory");
        return NULL;
    }
    struct choices *all = s->choices;
    struct choice *c = NULL;
    if (all->places > 0)
        c = choice_find(all, &shape);
    if (c != NULL && c->shape.type != 0)
        return c;
    if (s->recorded != NULL) { /* (1) */
        cuda_counter_add(&cuda_counters.choices_recording);
        stream_fail(s, SHOAL_E_INTERNAL,
                    "a product of (%u, %u) by (%u, %u) is recorded that was not queued before",
                    p->m, p->k, p->k, p->n);
        return NULL;
    }
    if (2 * (all->count + 1) > all->places && !choices_grow(s, all))
        return NULL;
    c = choice_find(all, &shape);
    SHOAL_ASSERT(c->shape.type == 0 && 2 * (all->count + 1) <= all->places);
    *c = (struct choice){.shape = shape, .rung = BARE};
    if (p->bias != NULL && shape.align_bias >= ALIGN_BIAS)
        c->rung = WHOLE;
    all->count++;
    return c;
}

void cuda_choices_free(struct stream *s)
{
    for (uint32_t i = 0; s->choices != NULL && i < s->choices->places; i++)
        if (s->choices->choice[i].ways != NULL)
            device_ways_free(s, s->choices->choice[i].ways);
    if (s->choices != NULL)
        free(s->choices->choice);
    free(s->choices);
    s->choices = NULL;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

/* Copies an fp32 operand to scratch unless its rows begin at multiples of 16 bytes already. */
static void operand_align(struct stream *s, uint32_t rows, uint32_t columns, const void **x,
                          uint32_t *ld)
{
    uint32_t each = ALIGN_ROW / sizeof(float), ld_to = (columns + each - 1) / each * each;
    if (*ld % each == 0 && (uintptr_t)*x % ALIGN_ROW == 0)
        return;
    float *to = (float *)cuda_scratch(s, (size_t)rows * ld_to * sizeof *to);
    if (to == NULL)
        return;
    cuda_narrow(s, PRODUCT_F32, rows, columns, (const float *)*x, *ld, to, ld_to);
    *x = to;
    *ld = ld_to;
}

/* The product as this rung computes it; on ALIGNED its scratch copies are filled. */
static struct product rung_product(struct stream *s, enum rung rung, const struct product *p)
{
    struct product q = *p;
    if (rung != WHOLE)
        q.bias = NULL;
    if (rung != ALIGNED)
        return q;
    if (p->type == PRODUCT_F32 || p->type == PRODUCT_TF32) {
        struct extent a = product_extent(p->transpose_a, p->m, p->k),
                      b = product_extent(p->transpose_b, p->k, p->n);
        operand_align(s, a.rows, a.columns, &q.a, &q.lda);
        operand_align(s, b.rows, b.columns, &q.b, &q.ldb);
    }
    uint32_t each = ALIGN_ROW / sizeof(float);
    q.ldc = (p->n + each - 1) / each * each;
    q.c = (float *)cuda_scratch(s, (size_t)p->m * q.ldc * sizeof *q.c);
    if (q.c != NULL && p->beta != 0.0f)
        cuda_matrix_copy(s, p->m, p->n, p->c, p->ldc, q.c, q.ldc);
    return q;
}

/* Completes the product: copies an aligned result back, adds a bias that the library left out. */
static void rung_end(struct stream *s, enum rung rung, const struct product *p,
                     const struct product *q)
{
    if (rung == ALIGNED)
        cuda_matrix_copy(s, p->m, p->n, q->c, q->ldc, p->c, p->ldc);
    if (p->bias != NULL && q->bias == NULL)
        cuda_bias_add(s, p->m, p->n, p->bias, p->c, p->ldc);
}

/* ---- the ladder ------------------------------------------------------------------------------ */

static void ladder_fail(struct stream *s, const struct choice *c, const struct product *p)
{
    stream_fail(s, SHOAL_E_INTERNAL,
                "%s computes no product in %s of (%u, %u)%s by (%u, %u)%s, rows of a, b, c %u, %u, "
                "%u elements apart, "
                "beginning at %u, %u, %u bytes%s: %u ways refused, the last: %.120s; set "
                "%strain.backend to cpu",
                device_library(), type_name[p->type], p->m, p->k,
                text_if(p->transpose_a, " turned"), p->k, p->n, text_if(p->transpose_b, " turned"),
                p->lda, p->ldb, p->ldc, c->shape.align_a, c->shape.align_b, c->shape.align_c,
                text_if(p->bias != NULL, ", with a bias"), c->refused, s->refusal,
                text_if(p->type != PRODUCT_F32, "train.precision to fp32 or "));
}

/* One try on the choice's rung. true: the product was computed, or the stream or its recording has
 * failed. */
static bool ladder_try(struct stream *s, struct choice *c, const struct product *p)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct product q = rung_product(s, c->rung, p);
    bool ran = stream_failed(s);
    if (!ran && !c->asked) {
        /* a recorded product was queued before, so its shape was asked for then, and ways once
         * found are kept (3) */
        SHOAL_ASSERT(s->recorded == NULL && c->ways == NULL); /* 1 */
        cuda_counter_add(&cuda_counters.choices);
        c->ways = device_ways_new(s, &q, &c->count);
        c->asked = true;
        c->way = 0;
    }
    if (!ran && c->way < c->count) {
        SHOAL_ASSERT(q.bias == NULL || (uintptr_t)q.bias % ALIGN_BIAS == 0);
        ran = device_ways_run(s, c->ways, c->way, &q);
        if (ran)
            rung_end(s, c->rung, p, &q);
    }
    cuda_scratch_return(s, mark);
    return ran || stream_failed(s);
}

/* The way was refused: goes on to the next way, or to the next rung. */
static void ladder_climb(struct stream *s, struct choice *c, const struct product *p)
{
    SHOAL_ASSERT(s->recorded == NULL); /* 1 */
    SHOAL_ASSERT(c->asked && c->way <= c->count);
    cuda_counter_add(&cuda_counters.refusals);
    if (c->way < c->count) {
        c->refused++;
        c->way++;
    }
    if (c->way < c->count)
        return;
    if (c->ways != NULL)
        device_ways_free(s, c->ways);
    c->ways = NULL;
    c->asked = false;
    c->count = c->way = 0;
    if (c->rung + 1 == RUNGS) {
        ladder_fail(s, c, p);
        return;
    }
    c->rung++;
    log_warn("%s: no way for a product in %s of (%u, %u) by (%u, %u) as it is (%s); it is computed "
             "%s, which is slower",
             device_library(), type_name[p->type], p->m, p->k, p->k, p->n, s->refusal,
             c->rung == BARE ? "without its bias" : "with rows moved to 16 bytes");
}

void cuda_product_compute(struct stream *s, const struct product *p)
{
    struct choice *c = NULL;
    if (!stream_failed(s))
        c = choice_of(s, p);
    while (c != NULL && !stream_failed(s) && !ladder_try(s, c, p)) {
        if (s->recorded != NULL) { /* (1) */
            stream_fail(s, SHOAL_E_INTERNAL,
                        "a way of computing a product is refused in a recording: %s", s->refusal);
            return;
        }
        ladder_climb(s, c, p);
    }
}
