/* spill.h: rows that leave memory while their tablets are rebuilt (a restored cut, a loaded
 * checkpoint, images after a start): their pairs go to the store without an image.
 *
 * That is safe only where no stored image names one of these keys as cold under the tablet's epoch
 * (cold.h). After a kill before the tablet's image is written, the pairs are leftovers, and the
 * process that repeats the work writes each pair again before it counts the key as cold. Batches of
 * the store become durable in order, so an image that is written later never lacks the pairs.
 * Thread: one at a time with the store's other writers. */
#ifndef EMBEDDING_STORE_SPILL_H
#define EMBEDDING_STORE_SPILL_H

#include "embedding/store.h"
#include "embedding/table.h"

struct spill {
    struct store *store;               /* borrowed */
    size_t batch;                      /* bytes of one write */
    uint64_t flush_every, since_flush; /* bytes between two flushes of the store */
    /* called before each flush: the store's other batches become durable with it. NULL: they may */
    int (*on_flush)(void *context, struct err *e);
    void *context;
    char *value;             /* owned; (batch) */
    struct store_item *item; /* owned; (items_most) */
    size_t items, items_most, bytes;
    struct err *err;
};

/* memory: that of the engine; the spill takes 1/32 of it, between 256 KiB and 8 MiB, allocated at
 * the first row. */
void spill_init(struct spill *s, struct store *store, uint64_t memory);
void spill_free(struct spill *s);
/* Makes about `most` rows of the tablet cold, the least used first. fresh: no image of the tablet's
 * epoch is stored yet, so pairs of rows that went for good are deleted, too; otherwise an image may
 * still name them as cold, and the next image deletes them. *count: number of rows. 0, IO or
 * NOMEM. */
int spill_tablet(struct spill *s, struct table *t, uint32_t tablet, bool fresh, uint32_t most,
                 uint32_t *count, struct err *e);

#endif
