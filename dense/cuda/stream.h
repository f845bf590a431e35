/* stream.h: a stream of the CUDA module: its device, its failure, its scratch memory, its
 * recordings.
 *
 * A failure stays: from then on every op does nothing, and stream_finish returns the first failure
 * with the call, the file and the line. So ops need not check each status. A failure while a
 * section is being recorded belongs to the recording alone: the rest of the section does nothing,
 * and the section is then queued again.
 *
 * Scratch comes from blocks that are kept for the stream's life. One set of blocks serves
 * unrecorded work and is reset by pool_begin, so once a batch; another serves sections and is reset
 * by graph_begin. A section asks for the same pieces each time, so it gets the same addresses
 * whatever ran before it. An op gives its pieces back once it has queued the work that uses them
 * (cuda_scratch_return), so a step needs only as much scratch as its largest op.
 *
 * Recordings: the first time a section's number is seen, its work is queued directly; this loads
 * every kernel and chooses the algorithm of every product. The second time the section is recorded,
 * and from then on the recording is played. A number stands for all arguments, addresses included.
 * A recording that fails is tried once more the next time and then given up. */
#ifndef DENSE_CUDA_STREAM_H
#define DENSE_CUDA_STREAM_H

#include "dense/cuda/narrow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* at least the number of sizes that batches are filled up to (dense/model/run.c), in training and
 * in prediction */
#define STREAM_RECORDINGS 80u
#define RECORDING_TRIES 2u
#define SCRATCH_BLOCKS 160u
#define SCRATCH_BLOCKS_JOINED 16u             /* this many blocks are joined into one at a reset */
#define SCRATCH_BLOCK_BYTES ((size_t)4 << 20) /* at least */

/* Memory handed out from front to back. With cuda_exact each piece is a block of its own; the last
 * one is `current` - 1. */
struct scratch {
    void *block[SCRATCH_BLOCKS]; /* owned */
    size_t bytes[SCRATCH_BLOCKS];
    uint32_t count, current;
    size_t used; /* bytes of the current block */
};

struct stream_recording {
    uint64_t number, last; /* last: its last use, counted by the stream; 0: the entry is free */
    struct recording *recording; /* owned; NULL: the number was seen but is not recorded */
    uint32_t tries;              /* recordings begun so far */
};

/* The batch's values, sorted by row; pool_begin fills it. */
struct sorted_values {
    uint32_t count;
    const uint32_t *row;   /* (count): ascending */
    const uint32_t *value; /* (count): place in index; ascending within a row */
    const uint32_t *slot;  /* by place in index: example * fields + field; NULL: the place itself */
};

/* An operand of matrix products that product.c has converted. It is kept until the section ends. */
#define KEPT_MAX 128u

struct kept_operand {
    const float *x; /* the operand in fp32 */
    uint32_t rows, columns, ld;
    const void *ready;
    uint32_t ready_ld;
};

struct stream {
    struct stream_spec spec;
    struct device *device; /* owned */
    struct err error;
    /* scratch for unrecorded work; for sections; for operands that are kept until their section
     * ends */
    struct scratch scratch[3];
    struct kept_operand kept[KEPT_MAX];
    uint32_t kept_count;
    bool section; /* between graph_begin and graph_end */
    bool operand; /* cuda_products_only: the work queued now converts an operand, and so is run */
    struct stream_recording *recorded; /* being recorded now, or NULL */
    struct err spoiled;                /* the failure of that recording */
    struct choices *choices;           /* owned: how each product is computed (choice.c) */
    char refusal[160];                 /* the library's reason when it last refused a product */
    struct stream_recording recording[STREAM_RECORDINGS];
    uint64_t uses;
    struct sorted_values sorted;
};

/* Counters for the tests, over all streams since the module was loaded. */
struct cuda_counters {
    uint64_t allocations; /* device and pinned memory */
    uint64_t launches;    /* kernels queued, without those in recordings */
    uint64_t products;    /* matrix products queued, without those in recordings */
    /* multiplications of the products that layers queued, without those of recordings played */
    uint64_t multiplications;
    uint64_t recordings, plays;
    uint64_t calls;   /* the stand-in's calls, as SHOAL_CUDAHOST_FAIL counts them */
    uint64_t spoiled; /* recordings that failed */
    uint64_t choices; /* times that the library was asked how to compute a product */
    /* the requests among them that came while a section was recorded, which spoils the recording */
    uint64_t choices_recording;
    /* ways that the library refused to run, and rungs (choice.c) for which it offered none */
    uint64_t refusals;
};
const struct cuda_counters *shoal_cuda_counters(void);
void cuda_counter_add(uint64_t *counter);
extern struct cuda_counters cuda_counters;

/* For measuring (tests/gpu/step.c): from now on streams run matrix products only, on the data that
 * earlier steps have left (a card's speed depends on the numbers it multiplies). Operands are
 * converted once, when a section is queued, and keep their scratch. The results mean nothing. Call
 * it only while no stream is working. */
void shoal_cuda_products_only(bool on);
extern bool cuda_products_only;

/* SHOAL_CUDA_EXACT=1, for memory checkers (compute-sanitizer; ASan with the stand-in): every array
 * and every piece of scratch is an allocation of exactly its size and is freed at once; nothing is
 * recorded. On a card, memory that the libraries write is zeroed first because initcheck does not
 * see all of their stores. */
extern bool cuda_exact;

/* Keeps the first failure: in the recording while one is being made, otherwise in the stream. */
void stream_fail(struct stream *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Where stream_fail keeps it. */
struct err *stream_error(struct stream *s);

static inline bool stream_failed(const struct stream *s)
{
    return s->error.code != 0 || s->spoiled.code != 0;
}

/* stream.c: the entries of backend_ops of the same name. */
int stream_new(const struct stream_spec *spec, struct stream **out, struct err *e);
void stream_free(struct stream *s);
int stream_finish(struct stream *s, struct err *e);
void *stream_alloc(struct stream *s, size_t bytes);
void stream_release(struct stream *s, void *p);
bool stream_graph_begin(struct stream *s, uint64_t number);
bool stream_graph_end(struct stream *s);
/* Memory for a converted operand that is kept until the section ends, to be found again by (x,
 * rows, columns, ld). NULL: not in a section, too many operands, or the stream has failed. */
void *stream_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns, uint32_t ld,
                  size_t bytes, uint32_t ready_ld);
/* NULL: this operand is not kept. */
const struct kept_operand *stream_kept(const struct stream *s, const float *x, uint32_t rows,
                                       uint32_t columns, uint32_t ld);
/* Called by pool_begin: resets the scratch of unrecorded work. */
void stream_batch_begin(struct stream *s);

/* choice.c: computes a product in a way that the device's library allows. */
void cuda_product_compute(struct stream *s, const struct product *p);
void cuda_choices_free(struct stream *s);

/* product.c: where a kernel that computes x may also store it in 16 bits, for the products that
 * read x later in this section. x must not change until then. `to` NULL: no 16-bit copy is
 * needed. */
struct narrow_to cuda_narrow_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns,
                                  uint32_t ld);

/* ops_narrow.cu: converts rows x columns floats to `type`, into rows of ld_to >= columns elements;
 * zeros fill the rest of each row. */
void cuda_narrow(struct stream *s, enum product_type type, uint32_t rows, uint32_t columns,
                 const float *from, uint32_t ld, void *to, uint32_t ld_to);

/* ops_act.cu: as backend_ops.act_forward and act_backward. also: y is stored there in 16 bits as
 * well. instead: dy is stored there only. */
void cuda_act_forward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                      uint32_t first, uint32_t count, uint32_t width, const float *bias, float *y,
                      uint32_t ldy, struct narrow_to also);
void cuda_act_backward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                       uint32_t first, uint32_t count, uint32_t width, const float *y, uint32_t ldy,
                       float *dy, uint32_t lddy, float *bias_gradient, struct narrow_to instead);

/* ops_act.cu: c (m, n) += bias (n) in each row. ops_loss.cu: to (rows, columns) = from. */
void cuda_bias_add(struct stream *s, uint32_t m, uint32_t n, const float *bias, float *c,
                   uint32_t ldc);
void cuda_matrix_copy(struct stream *s, uint32_t rows, uint32_t columns, const float *from,
                      uint32_t ld, float *to, uint32_t ld_to);

/* backend_cuda.c fills the table from these: one for each file of core ops. */
void cuda_act_fill(struct backend_ops *o);
void cuda_fm_fill(struct backend_ops *o);
void cuda_loss_fill(struct backend_ops *o);
void cuda_norm_fill(struct backend_ops *o);
void cuda_pool_fill(struct backend_ops *o);
void cuda_rows_fill(struct backend_ops *o);
void cuda_product_fill(struct backend_ops *o);

#ifdef __cplusplus
}
#endif

#endif
