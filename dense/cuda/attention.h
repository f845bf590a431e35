/* attention.h: the files that fill attention_ops, each its own part. */
#ifndef DENSE_CUDA_ATTENTION_H
#define DENSE_CUDA_ATTENTION_H

#include "dense/cuda/stream.h"

void cuda_attend_fill(struct attention_ops *o);     /* ops_attend.cu */
void cuda_gate_fill(struct attention_ops *o);       /* ops_gate.cu */
void cuda_layer_norm_fill(struct attention_ops *o); /* ops_layer_norm.cu */
void cuda_sequence_fill(struct attention_ops *o);   /* ops_sequence.cu */

#endif
