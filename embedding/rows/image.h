/* image.h: a tablet as one value, little-endian; the functions are in table.h. The layout, without
 * gaps:
 *
 *     struct image_header | keys u64 (row_count) | rows as they are stored (row_count, row_floats
 *     places of 4 bytes) | undo keys u64 (undo_count) | undo weights f32 (undo_count, width) |
 *     waiting keys, struct waiting_key: young (young_count), old (old_count) | sketch u16 (2,
 *     sketch_cells) | struct named_key (name_count) | keys of cold rows u64 (cold_count) | XXH3 of
 *     all before, u64
 *
 * The rows are those in memory; a cold row (cold.h) is a pair in the store that has the image. */
#ifndef EMBEDDING_ROWS_IMAGE_H
#define EMBEDDING_ROWS_IMAGE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAGIC 0x4154204c414f4853ULL /* "SHOAL TA" in memory */
#define IMAGE_VERSION 5u

struct image_header {
    uint64_t magic;
    uint32_t version;
    uint32_t tablet;        /* its number in its table */
    uint64_t schema_digest; /* covers the schema except its number and place */
    uint64_t bytes;         /* length of the whole image */
    uint32_t row_floats;
    uint32_t width;
    uint64_t row_count;
    /* 0: no undo; with undo_count 0 the clock has just begun */
    uint64_t undo_clock;
    uint64_t undo_count;
    uint64_t batches; /* tablet.batches */
    uint32_t clock;   /* tablet_life.clock; this and the rest are zeros without a life */
    uint32_t young_count, old_count;
    uint32_t sketch_cells; /* cells of one generation; 0: none yet */
    uint32_t sketch_keys[2];
    uint32_t name_count;
    uint32_t cold_count, cold_epoch, cold_began;
    uint32_t undo_from; /* undo.from */
    uint32_t none;      /* 0 */
};
_Static_assert(sizeof(struct image_header) == 120, "image_header is a disk format");

/* True when the checksum matches; nothing else is checked. */
bool image_whole(const void *image, size_t bytes);
/* The digest of a schema in its images. */
struct table_schema;
uint64_t image_schema_digest(const struct table_schema *s);

/* The part of an image for a tablet's life (image_life.c), used by image.c. */
struct table;
struct tablet;
struct tablet_life;
void image_life_counts(const struct tablet_life *l, struct image_header *h); /* NULL: no life */
size_t image_life_bytes(const struct image_header *h);
/* These write to or read from `at`; image_life_write returns the place behind. */
char *image_life_write(const struct tablet_life *l, const struct image_header *h, char *at);
/* True when the table can have such counts; older: with its schema before the last change. */
bool image_life_ok(const struct table *t, const struct image_header *h, bool older);
/* Into a tablet whose rows are there: CORRUPT or NOMEM with the reason. */
int image_life_read(const struct table *t, uint32_t tablet, const struct image_header *h,
                    const char *at, struct tablet *into, struct err *e);

#endif
