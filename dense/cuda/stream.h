/* stream.h: a stream of the CUDA module: its device, its failure, its scratch memory, its
 * recordings.
 *
 * A failure stays: from then on every op does nothing and stream_finish gives the first failure,
 * with the call, the file and the line. So ops do not look at each status by themselves. While a
 * section is recorded a failure is that of the recording alone: what is left of the section does
 * nothing, and the section is queued once more.
 *
 * Scratch is handed out from blocks that are kept for the stream's life, one run of them for what
 * is queued freely (begun anew by pool_begin, so once a batch) and one for what is recorded (begun
 * anew by graph_begin): a section asks for the same pieces each time, so it gets the same
 * addresses, whatever went on before it. An op gives its pieces back when it has queued what uses
 * them (cuda_scratch_return), so a step needs as much as its greediest op.
 *
 * Recordings: a section is queued as it is the first time that its number is seen, which loads
 * every kernel and chooses every product's algorithm; it is recorded the second time, and played
 * from then on. A number stands for all arguments, addresses too. A recording that fails is tried
 * once more the next time, and then no more. */
#ifndef DENSE_CUDA_STREAM_H
#define DENSE_CUDA_STREAM_H

#include "dense/cuda/narrow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* the sizes that batches are filled up to (dense/model/run.c), of training and prediction */
#define STREAM_RECORDINGS 80u
#define RECORDING_TRIES 2u
#define SCRATCH_BLOCKS 160u
#define SCRATCH_BLOCKS_JOINED 16u             /* so many become one when scratch begins anew */
#define SCRATCH_BLOCK_BYTES ((size_t)4 << 20) /* at least */

/* Memory handed out from front to back; exact: each block is a piece, the last one is `current` -
 * 1. */
struct scratch {
    void *block[SCRATCH_BLOCKS]; /* owned */
    size_t bytes[SCRATCH_BLOCKS];
    uint32_t count, current;
    size_t used; /* of the current block */
};

struct stream_recording {
    uint64_t number, last;       /* last: use, counted by the stream; 0: the place is free */
    struct recording *recording; /* owned; NULL: seen, not recorded */
    uint32_t tries;              /* recordings begun */
};

/* The batch's values in the order of their rows; pool_begin makes it. */
struct sorted_values {
    uint32_t count;
    const uint32_t *row;   /* (count): ascending */
    const uint32_t *value; /* (count): place in index; ascending within a row */
    const uint32_t *slot;  /* by place in index: example * fields + field; NULL: the place itself */
};

/* An operand of matrix products that was made ready (product.c) and stays so until the section
 * ends. */
#define KEPT_MAX 128u

struct kept_operand {
    const float *x; /* as it lies in memory */
    uint32_t rows, columns, ld;
    const void *ready;
    uint32_t ready_ld;
};

struct stream {
    struct stream_spec spec;
    struct device *device; /* owned */
    struct err error;
    /* queued freely; in recorded sections; of these, what stays until they end */
    struct scratch scratch[3];
    struct kept_operand kept[KEPT_MAX];
    uint32_t kept_count;
    bool section; /* between graph_begin and graph_end */
    bool operand; /* products only: what is queued makes an operand ready, and is run */
    struct stream_recording *recorded; /* that is being made, or NULL */
    struct err spoiled;                /* what went wrong with it */
    struct choices *choices;           /* owned: how each product is computed (choice.c) */
    char refusal[160];                 /* what the library said when it last refused a product */
    struct stream_recording recording[STREAM_RECORDINGS];
    uint64_t uses;
    struct sorted_values sorted;
};

/* What the tests look at: counts since the module was loaded, of all streams. */
struct cuda_counters {
    uint64_t allocations; /* of device and of pinned memory */
    uint64_t launches;    /* kernels queued, recorded ones not */
    uint64_t products;    /* matrix products queued, recorded ones not */
    uint64_t recordings, plays;
    uint64_t calls;   /* of the stand-in: what SHOAL_CUDAHOST_FAIL counts */
    uint64_t spoiled; /* recordings that failed */
    uint64_t choices; /* ways of computing a product that were asked for */
    /* ... of these wanted while a section was recorded, which spoils it */
    uint64_t choices_recording;
    /* ways that were refused when they were run, and rungs (choice.c) without any */
    uint64_t refusals;
};
const struct cuda_counters *shoal_cuda_counters(void);
void cuda_counter_add(uint64_t *counter);
extern struct cuda_counters cuda_counters;

/* For measuring (tests/gpu/step.c): of what streams queue from now on, matrix products alone are
 * run, on what the steps before have left (a card's speed depends on the numbers it multiplies).
 * Operands in other types are made once, when a section is queued, and keep their scratch. What
 * comes out means nothing. Not while streams work. */
void shoal_cuda_products_only(bool on);
extern bool cuda_products_only;

/* SHOAL_CUDA_EXACT=1, for checkers of memory (compute-sanitizer; ASan on the host's stand-in):
 * every array and every piece of scratch is an allocation of its own, at its size, and given back
 * at once; nothing is recorded. On a card what the libraries write is zeroed before: initcheck does
 * not see all of their stores. */
extern bool cuda_exact;

/* Keeps the first failure: of the recording where one is being made, else of the stream. */
void stream_fail(struct stream *s, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Where it is kept. */
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
/* Room for an operand that stays until the section ends, kept as the one of (x, rows, columns, ld):
 * NULL: not in a section, too many, or the stream has failed. */
void *stream_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns, uint32_t ld,
                  size_t bytes, uint32_t ready_ld);
/* NULL: it was not kept. */
const struct kept_operand *stream_kept(const struct stream *s, const float *x, uint32_t rows,
                                       uint32_t columns, uint32_t ld);
/* pool_begin calls it: scratch begins anew. */
void stream_batch_begin(struct stream *s);

/* choice.c: computes a product in a way that the device's library allows. */
void cuda_product_compute(struct stream *s, const struct product *p);
void cuda_choices_free(struct stream *s);

/* product.c: where a kernel that computes x may write it in 16 bits as well, for the products that
 * read it later in this section, while it stays as it is; `to` NULL: nobody wants it. */
struct narrow_to cuda_narrow_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns,
                                  uint32_t ld);

/* ops_narrow.cu: rows x columns floats into type `type` with rows of ld_to >= columns, zeros
 * behind. */
void cuda_narrow(struct stream *s, enum product_type type, uint32_t rows, uint32_t columns,
                 const float *from, uint32_t ld, void *to, uint32_t ld_to);

/* ops_act.cu: as backend_ops.act_forward and act_backward; also: y once more, in 16 bits; instead:
 * dy is written there and nowhere else. */
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
