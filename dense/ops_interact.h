/* ops_interact.h: kernels of products of field vectors (FwFM, IPNN, DLRM, DCNv2, xDeepFM). Part of struct backend_ops (backend.h): its words on memory, streams, layout and order
 * hold here too. */
#ifndef DENSE_OPS_INTERACT_H
#define DENSE_OPS_INTERACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

struct interact_ops {
    void (*unused)(struct stream *s);
};

#endif
