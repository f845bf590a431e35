/* onnx.h: a graph of operators (proto/base/graph.h) as a file of ONNX: one protobuf ModelProto
 * (onnx.proto), of IR version 7 and operator set 13, which every reader since 2020 takes. Weights
 * are initializers in raw little-endian bytes. Pure functions, any thread. */
#ifndef PROTO_WIRE_ONNX_H
#define PROTO_WIRE_ONNX_H

#include "proto/base/err.h"
#include "proto/base/graph.h"

#include <stddef.h>

/* Readers take no protobuf message beyond this. */
#define ONNX_BYTES_MAX ((size_t)INT32_MAX)

/* Calls add with the bytes of the file, one piece after the other. name: the graph's. Weights that
 * no node reads are left out. Before the first piece it fails with TOO_BIG: over ONNX_BYTES_MAX;
 * CONFIG: two values have one name; NOMEM: also when the graph is not complete. */
int onnx_write(const struct graph *g, const char *name,
               void (*add)(void *context, const void *data, size_t bytes), void *context,
               struct err *e);

#endif
