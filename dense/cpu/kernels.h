/* kernels.h: the element-wise kernels of the CPU module, compiled once for each vector width from
 * the same bodies.
 *
 * The bodies (body_*.h) use vectors of 16 floats, which the compiler splits where the machine's are
 * shorter. Every width does the same operations in the same order, so all give the same bits. */
#ifndef DENSE_CPU_KERNELS_H
#define DENSE_CPU_KERNELS_H

#include "dense/backend_ops.h"

/* Each fills everything in *ops except what backend_cpu.c fills itself. */
void kernels_base(struct backend_ops *ops);
void kernels_avx2(struct backend_ops *ops);
void kernels_avx512(struct backend_ops *ops);

#endif
