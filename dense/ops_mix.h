/* ops_mix.h: kernels of experts and gates of several tasks (MMoE, PLE). Part of struct backend_ops (backend.h): its words on memory, streams, layout and order
 * hold here too. */
#ifndef DENSE_OPS_MIX_H
#define DENSE_OPS_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

struct mix_ops {
    void (*unused)(struct stream *s);
};

#endif
