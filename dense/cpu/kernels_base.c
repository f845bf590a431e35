/* kernels_base.c: the kernels for the plain x86-64 (or any other) machine. */
#include "dense/cpu/kernels.h"

#include "dense/cpu/body.h"

void kernels_base(struct backend_ops *ops)
{
    body_fill(ops);
}
