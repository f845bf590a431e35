/* tensor.h: arrays in files of other programs: npy (numpy, formats 1 to 3) and safetensors. The
 * heads are read here, from the bytes of a whole file; nothing in them is believed before it is
 * checked.
 *
 *     tensor_npy(file, bytes, &t, &e)           one array
 *     tensor_safe(file, bytes, &list, &e)       all arrays of a safetensors file
 *     tensor_floats(&t, file, from, count, out)
 *
 * Elements are little-endian, in C order. A big-endian array, one in Fortran order, a type that is
 * no number of 16 to 64 bits, a size that differs from the file's, and in safetensors arrays that
 * overlap or leave a hole are refused. Pure; thread: any. */
#ifndef PROTO_JOB_TENSOR_H
#define PROTO_JOB_TENSOR_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_RANK 8u
#define TENSOR_NAME 256u
#define TENSOR_COUNT 4096u          /* arrays of a safetensors file */
#define TENSOR_NPY_HEAD (64u << 10) /* bytes of an npy head */
#define TENSOR_SAFE_HEAD (8u << 20) /* bytes of a safetensors head; the format allows 100 MB */

enum tensor_type {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_U64,
    TENSOR_I64,
    TENSOR_U32,
    TENSOR_I32,
    TENSOR_TYPES
};

struct tensor {
    char name[TENSOR_NAME]; /* in npy: "" */
    enum tensor_type type;
    uint32_t rank;
    uint64_t shape[TENSOR_RANK];
    uint64_t elements;
    uint64_t at; /* where its bytes begin in the file */
};

struct tensor_list {
    struct tensor *item; /* owned; (count), in the order of their bytes */
    uint32_t count;
    bool shoal; /* the metadata says that `shoal export` wrote the file */
};

/* "F32" */
const char *tensor_type_name(enum tensor_type t);
uint32_t tensor_type_bytes(enum tensor_type t);
static inline bool tensor_whole(enum tensor_type t) /* true for integers */
{
    return t >= TENSOR_U64;
}
/* DATA with a sentence. */
int tensor_npy(const void *file, uint64_t bytes, struct tensor *out, struct err *e);
/* DATA, TOO_BIG or NOMEM. */
int tensor_safe(const void *file, uint64_t bytes, struct tensor_list *out, struct err *e);
void tensor_list_free(struct tensor_list *l); /* leaves an empty one */
/* NULL: there is none of this name. */
const struct tensor *tensor_find(const struct tensor_list *l, const char *name);

/* Elements [from, from + count) as floats: F64 to the nearest; not for integers. */
void tensor_floats(const struct tensor *t, const void *file, uint64_t from, uint64_t count,
                   float *out);
/* An element of an integer array: its value; *negative for one below 0, as its two's complement. */
uint64_t tensor_integer(const struct tensor *t, const void *file, uint64_t at, bool *negative);

#endif
