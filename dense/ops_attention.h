/* ops_attention.h: kernels of attention, gates and layer norm (AutoInt, FinalMLP, DIN). Part of struct backend_ops (backend.h): its words on memory, streams, layout and order
 * hold here too. */
#ifndef DENSE_OPS_ATTENTION_H
#define DENSE_OPS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

struct attention_ops {
    void (*unused)(struct stream *s);
};

#endif
