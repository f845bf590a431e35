/* npy.h: the head of a file in numpy's npy format, version 1.0 (numpy.lib.format, NEP 1): a magic
 * number, the version, the length of the rest, a Python dictionary with the type of the elements
 * and the shape of the array, blanks, and a newline. The elements follow, the last index first, in
 * the byte order that the type names.
 *
 * The head has one length for every shape, so a writer that learns the number of rows at the end
 * writes the head over the first bytes of its file. Pure; thread: any. */
#ifndef PROTO_BASE_NPY_H
#define PROTO_BASE_NPY_H

#include <stdint.h>

enum {
    NPY_HEAD = 128, /* bytes; a multiple of 64, so that the elements are aligned when mapped */
    NPY_DIMS = 4    /* dimensions of an array, at most */
};

/* type: "<f4". shape: (dims), each below 10^13, so that the text fits; dims: 1..NPY_DIMS. */
void npy_head(const char *type, const uint64_t *shape, uint32_t dims, char out[NPY_HEAD]);

#endif
