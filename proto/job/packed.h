/* packed.h: gradients in fewer bits, as they travel from a worker to a shard and as they lie in its
 * journal. A key's gradient is, at a width of
 *   0 (fp32): floats (schema_push_floats);
 *  16: bf16 (schema's width), padded to 4 bytes, then the key's statistics, floats;
 *   8: a float, the scale, int8 (schema's width), padded to 4 bytes, then the statistics, floats. A
 *      value is the scale times its int8; the scale is the row's largest magnitude / 127.
 *
 * Rounding is by chance, so that its mean is the exact value: a gradient below half a step is not
 * lost at each push (half.h). Alistarh and others 2017, QSGD, show that training then converges;
 * Seide and others 2014 carry the error to the next step instead, which needs memory for each row.
 * The chances are a function of (table, lane, batch, key), so a batch that is computed again gives
 * the same bits. The worker packs before the push is sent: what a shard checks, journals, applies
 * and repeats is one text.
 *
 * A gradient that a shard must refuse (gradient.h) stays one: a value that is not finite, or beyond
 * LIMIT_GRADIENT, becomes a NaN, at width 8 with its whole row. A shard looks at the packed values
 * (packed_fits) and opens a piece of a push when it applies it, so that no push is copied whole.
 *
 * Pure, and every vector level gives the same bits. Thread: any. */
#ifndef PROTO_JOB_PACKED_H
#define PROTO_JOB_PACKED_H

#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of a value; the numbers are part of messages and journals. */
enum packed_width { PACKED_NOT = 0, PACKED_INT8 = 8, PACKED_BF16 = 16 };

/* True for the widths above. */
bool packed_known(uint32_t width);
/* Bytes of a key's gradient: a multiple of 4. */
uint32_t packed_bytes(const struct table_schema *s, uint32_t width);
/* The width for a table's gradients: `wanted`, or bf16 where int8 with its scale is not smaller. */
enum packed_width packed_width(const struct table_schema *s, enum packed_width wanted);
/* Packs the gradients (count, schema_push_floats) of these keys in place, from the first byte on.
 * width: packed_width's. */
void packed_close(const struct table_schema *s, uint32_t width, uint32_t lane, uint64_t batch,
                  const uint64_t *keys, float *gradients, size_t count);
/* True when every value is finite and within LIMIT_GRADIENT once it is opened. False at width 8: a
 * row may still be good, if its scale times 128 is beyond the limit; gradient_fault_find tells, on
 * the opened row. */
bool packed_fits(const struct table_schema *s, uint32_t width, const void *packed, size_t count);
/* gradients: (count, schema_push_floats) from (count, packed_bytes). */
void packed_open(const struct table_schema *s, uint32_t width, const void *packed, float *gradients,
                 size_t count);

#endif
