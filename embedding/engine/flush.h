/* flush.h: writes rows to the store, and trims the journal accordingly.
 *
 * The shard copies tablets into one buffer (under 1 ms each); an I/O thread writes them, with marks
 * and control state, in one batch. From time to time it flushes the store; only then do the
 * tablets' durable sequences move and is the journal trimmed. One batch at a time. Thread: the
 * shard's. */
#ifndef EMBEDDING_ENGINE_FLUSH_H
#define EMBEDDING_ENGINE_FLUSH_H

#include "embedding/engine/engine_state.h"
#include "embedding/rows/table_cold.h"

#define FLUSH_BATCH_BYTES (8u << 20)

uint64_t flush_journal_max(const struct engine *g);
/* Bytes of all images: those of rows in memory, because rows in the store are no part of images. */
uint64_t flush_image_bytes(const struct engine *g);
/* Bytes of a table's images with all its rows and the tablets' other state. */
uint64_t flush_whole_bytes(const struct engine *g, uint32_t table);
/* Trims the journal as far as durable images, control state and cuts allow. */
void flush_trim(struct engine *g);
/* Syncs the journal, as collected by journal_sync_peek, before the store is flushed or rewritten:
 * the store must not be ahead of it (flush.c, 2). On an I/O thread. IO. */
struct journal_sync;
int flush_sync(const struct engine *g, struct journal_sync *sync, struct err *e);
/* Writes every dirty tablet and flushes, on this thread: for a clean stop. */
int flush_all(struct engine *g, struct err *e);
/* Flushes and rewrites the store, so that its files have no overwritten value; the journal was
 * synced before (flush_sync). IO: some remain. On an I/O thread, while nothing else writes
 * there. */
int flush_rewrite(struct store *s, struct err *e);
/* True when overwritten images take about as much of the store as `images`, the bytes of current
 * ones, or more, and more than tidying writes again. */
bool flush_overgrown(struct store *s, uint64_t images);
/* Flushes, and deletes files whose images were all overwritten; all that is flushed was synced in
 * the journal before (flush_sync). On an I/O thread, while nothing else writes there. */
int flush_tidy(struct store *s, struct err *e);
/* The same for the images and cold rows of a table (by number), which were deleted. */
int flush_tidy_table(struct store *s, uint32_t table, struct err *e);
/* Marks every tablet that may have an image as dirty, so that its image is written again. */
void flush_touch_images(struct engine *g);
uint32_t flush_dirty(const struct engine *g); /* number of tablets */
/* durable images include all records up to this one */
uint64_t flush_floor(const struct engine *g);
void flush_free(struct engine *g);
/* Bytes of a batch: FLUSH_BATCH_BYTES, less if memory is short. */
size_t flush_batch_bytes(const struct engine *g);

/* ---- the current batch (flush_batch.c), for flush.c and tier.c ---- */
/* Makes room for `items` more items with `bytes` of values; the first of a batch may have any size.
 * False: they do not fit. */
bool flush_room(struct engine *g, size_t items, size_t bytes);
size_t flush_bytes(const struct engine *g);
/* Adds a pair; returns the place for its value. Call flush_room first. */
void *flush_put(struct engine *g, const struct store_item *key, size_t bytes);
/* Adds a tablet's image as of record `sequence`, or of the later one with which it was read from
 * the store. */
void flush_put_image(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence);
/* Adds a pair whose value belongs to the caller and stays until the batch is written. */
void flush_put_value(struct engine *g, const struct store_item *key, const void *value,
                     size_t bytes);
/* Adds a tablet's image for another store, as of record `sequence`; its state here does not
 * change. */
void flush_put_copy(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence);
/* Deletes the pairs of the tablet's rows that went for good (table_cold_gone). They are forgotten
 * with the image: an image must follow, or flush_back. */
void flush_put_gone(struct engine *g, uint32_t table, uint32_t tablet);
struct flush_mark {
    size_t items, bytes;
};
struct flush_mark flush_mark(const struct engine *g);
void flush_back(struct engine *g, struct flush_mark mark);
/* Sorts the pairs put since `from`, which must be nearly sorted, by key: the store takes a key
 * behind the last one fastest. */
void flush_sort(struct engine *g, struct flush_mark from);
/* Written images of all tables but these (a bit each) include every record up to the result, which
 * is `sequence` at most. */
uint64_t flush_written_floor(const struct engine *g, struct table_set but, uint64_t sequence);
/* Adds the control state, at the end: it is never older than the batch. 0 or NOMEM. */
int flush_put_control(struct engine *g, uint64_t sequence);
/* After the batch is written: deletes pairs that its images have made stale. 0 or IO. */
int flush_drop_stale(const struct engine *g, struct err *e);
/* Waits for the batch in flight, or cancels it; written parts count. For a restore, which writes to
 * the store itself. BUSY: the store is being rewritten. */
int flush_settle(struct engine *g, struct err *e);
/* For recovery: makes rows leave, as of record `sequence`, which was just read, until there is
 * room; written on this thread. */
int flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e);
/* Before the store is flushed for another reason: the records are on disk that its batches of a
 * replay follow from. `engine`: a struct engine (spill.h). IO, NO_SPACE, NOMEM. */
int flush_save_read(void *engine, struct err *e);

/* Writes a tablet's image to another store, outside of batches, and adds its bytes to *bytes. Any
 * thread. */
int flush_copy_image(struct store *to, const struct table *t, const struct runs *runs,
                     uint32_t tablet, uint64_t sequence, uint64_t *bytes, struct err *e);

#endif
