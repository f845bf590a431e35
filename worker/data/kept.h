/* kept.h: parsed rows of a split, by number: what an epoch's order asks for. They are an event file
 * (events.h) of blocks that are not packed (slice.h) in the cache folder, read by mapping it.
 *
 * A file is made by one process of a machine while others wait. Read-only once open: any thread. */
#ifndef WORKER_DATA_KEPT_H
#define WORKER_DATA_KEPT_H

#include "worker/data/cache.h"
#include "worker/data/events.h"
#include "worker/data/parsed.h"

struct kept {
    uint8_t *map; /* owned; may only be read */
    size_t bytes;
    uint64_t rows;
    struct slice_layout layout;
    uint32_t blocks;
    struct slice *block; /* owned: (blocks) */
    unsigned shift;      /* of a row's number to about its block */
};

struct kept_wish {
    const struct cache *cache;
    uint64_t group, identity; /* of the file in the cache folder */
    struct parsed *parsed;    /* where it is made from; has the columns */
    uint64_t most;            /* bytes of all kept rows in the folder */
    bool nameless;            /* for this process alone */
};
/* A file that is kept, or else made. TOO_BIG: all would have more than `most` bytes. CANTCREATE,
 * IO, NOMEM, and as parsed_next. */
int kept_open(const struct kept_wish *w, struct kept *out, struct err *e);
void kept_close(struct kept *k);

/* As slice_row, slice_time, slice_expect. */
int kept_row(const struct kept *k, uint64_t row, struct slice_row *out);
uint32_t kept_time(const struct kept *k, uint64_t row);
void kept_expect(const struct kept *k, uint64_t row);

#endif
