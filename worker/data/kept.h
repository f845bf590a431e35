/* kept.h: parsed rows of a split by number, which is how an epoch's order asks for them. They are
 * an event file (events.h) of unpacked blocks (slice.h) in the cache folder, mapped into memory.
 *
 * One process of a machine makes a file while others wait. Read-only once open: any thread. */
#ifndef WORKER_DATA_KEPT_H
#define WORKER_DATA_KEPT_H

#include "worker/data/cache.h"
#include "worker/data/events.h"
#include "worker/data/parsed.h"

struct kept {
    uint8_t *map; /* owned; read-only */
    size_t bytes;
    uint64_t rows;
    struct slice_layout layout;
    uint32_t blocks;
    struct slice *block; /* owned: (blocks) */
    unsigned shift;      /* a row's number >> shift is about its block's */
};

struct kept_wish {
    const struct cache *cache;
    uint64_t group, identity; /* name of the file in the cache folder */
    struct parsed *parsed;    /* the rows to keep, and their columns */
    uint64_t most;            /* limit of all kept rows in the folder, in bytes */
    bool nameless;            /* for this process alone */
};
/* Finds the kept file, or makes it. TOO_BIG: all files would exceed `most` bytes. CANTCREATE, IO,
 * NOMEM, and the errors of parsed_next. */
int kept_open(const struct kept_wish *w, struct kept *out, struct err *e);
void kept_close(struct kept *k);

/* As slice_row, slice_time and slice_expect. */
int kept_row(const struct kept *k, uint64_t row, struct slice_row *out);
uint32_t kept_time(const struct kept *k, uint64_t row);
void kept_expect(const struct kept *k, uint64_t row);

#endif
