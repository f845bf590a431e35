/* ops_attention.cu: the kernels of dense/ops_attention.h. */
#include "dense/cuda/attention.h"

void cuda_attention_fill(struct attention_ops *o)
{
    cuda_attend_fill(o);
    cuda_gate_fill(o);
    cuda_layer_norm_fill(o);
    cuda_sequence_fill(o);
}
