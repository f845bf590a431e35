/* flush.h: rows to the store, and what the journal may forget because of it.
 *
 * The shard copies tablets into one buffer (under 1 ms each); an I/O thread writes them, with marks
 * and control state, in one batch. Once in a while it flushes the store; only then the tablets'
 * durable sequences move and the journal is trimmed. One batch at a time. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_FLUSH_H
#define EMBEDDING_ENGINE_FLUSH_H

#include "embedding/engine/engine_state.h"
#include "embedding/rows/table_cold.h"

#define FLUSH_BATCH_BYTES (8u << 20)

uint64_t flush_journal_max(const struct engine *g);
/* Bytes that all images would take: rows in memory, for those in the store are no part of them. */
uint64_t flush_image_bytes(const struct engine *g);
/* That those of a table would take with all its rows, and with what tablets keep beside them. */
uint64_t flush_whole_bytes(const struct engine *g, uint32_t table);
/* Trims the journal as far as the durable images, the control state and cuts allow. */
void flush_trim(struct engine *g);
/* Writes every dirty tablet and flushes, on this thread: for a clean stop. */
int flush_all(struct engine *g, struct err *e);
/* Rewrites the store: nothing of what was overwritten is left in its files. IO: it is. On an I/O
 * thread, while nobody else writes there. */
int flush_rewrite(struct store *s, struct err *e);
/* Whether the images that were overwritten take more of the store than `images` bytes of those that
 * count, and more than a tidying writes again. */
bool flush_overgrown(struct store *s, uint64_t images);
/* They leave the disk, as far as whole files are dead. On an I/O thread, while nobody else writes
 * there. */
int flush_tidy(struct store *s, struct err *e);
/* Every tablet that may have an image is to be written again, clean ones too. */
void flush_touch_images(struct engine *g);
uint32_t flush_dirty(const struct engine *g); /* tablets */
uint64_t flush_floor(const struct engine *g); /* every record at or below is in durable images */
void flush_free(struct engine *g);
/* Bytes of a batch: FLUSH_BATCH_BYTES, less where memory is short. */
size_t flush_batch_bytes(const struct engine *g);

/* ---- the batch being gathered (flush_batch.c), for flush.c and tier.c ---- */
/* Whether so many more items and bytes of values fit; the first of a batch may be of any size. */
bool flush_room(struct engine *g, size_t items, size_t bytes);
size_t flush_bytes(const struct engine *g);
/* Adds a pair; returns where its value goes. The caller has asked for room. */
void *flush_put(struct engine *g, const struct store_item *key, size_t bytes);
/* Adds a tablet's image as of record `sequence`, or of a later one that it was read from the store
 * with. */
void flush_put_image(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence);
/* Adds a pair whose value is the caller's and stays until the batch is written. */
void flush_put_value(struct engine *g, const struct store_item *key, const void *value,
                     size_t bytes);
/* Adds a tablet's image for another store, as of record `sequence`: nothing is noted of it. */
void flush_put_copy(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence);
/* Deletes the pairs of the tablet's rows that went for good (table_cold_gone). They are forgotten
 * with the image: an image must follow, or flush_back. */
void flush_put_gone(struct engine *g, uint32_t table, uint32_t tablet);
struct flush_mark {
    size_t items, bytes;
};
struct flush_mark flush_mark(const struct engine *g);
void flush_back(struct engine *g, struct flush_mark mark);
/* Brings pairs put since `from`, which must be nearly so, into the order of their keys: the store
 * takes a key behind the last one fastest. */
void flush_sort(struct engine *g, struct flush_mark from);
/* Adds the control state, at the end: never older than what is in the batch. 0 or NOMEM. */
int flush_put_control(struct engine *g, uint64_t sequence);
/* Once the batch is written: pairs that its images have made stale go. 0 or IO. */
int flush_drop_stale(const struct engine *g, struct err *e);
/* Waits for the batch under way, or calls it off; what has been written counts. For a restore,
 * which writes to the store itself. BUSY: the store is being rewritten. */
int flush_settle(struct engine *g, struct err *e);
/* Recovery: rows leave, as of record `sequence`, until there is room, written and durable on this
 * thread. */
int flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e);

/* A tablet's image into another store, beside all batches; its bytes are added to *bytes. Any
 * thread. */
int flush_copy_image(struct store *to, const struct table *t, const struct runs *runs,
                     uint32_t tablet, uint64_t sequence, uint64_t *bytes, struct err *e);

#endif
