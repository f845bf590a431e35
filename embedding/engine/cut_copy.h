/* cut_copy.h: a cut that cannot link the journal (cut.c, 3): copies the image of every tablet as of
 * GO, a batch at a time.
 *
 *     the shard fills the flushes' batch, which is idle while a cut is made
 *         -> an I/O thread writes it into the cut's own store -> the next one
 *
 * The loop turns between two batches. The copy holds one batch and as much in the store's buffers;
 * tier_init reserves both. A cut that stays in memory counts as rows do. Invariants: cut_copy.c.
 * Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_CUT_COPY_H
#define EMBEDDING_ENGINE_CUT_COPY_H

#include "embedding/engine/cut.h"

struct cut_copy;

/* Copies the existing tables and the current control state. parent, tmp: borrowed, the folder of
 * the cut; NULL: in memory. NOMEM. */
int cut_copy_new(struct engine *g, const struct cut_facts *facts, const char *parent,
                 const char *tmp, struct cut_copy **out);
void cut_copy_free(struct engine *g, struct cut_copy *c); /* NULL is allowed */
/* True when any of tablets [first, first + count) is not copied yet and must not change. */
bool cut_copy_waits(const struct engine *g, uint32_t table, uint32_t first, uint32_t count);
/* True when any tablet of any table is not copied yet. */
bool cut_copy_under_way(const struct engine *g);
/* Copies the next batch, unless one is being written. True: nothing is left to copy, or it has
 * failed. */
bool cut_copy_step(struct cut_copy *c);
/* The result: 0 or the error. */
int cut_copy_status(const struct cut_copy *c, struct err *e);
uint64_t cut_copy_memory(const struct cut_copy *c); /* counts as rows do */
/* The last step, on an I/O thread: pairs of cold rows; then all is durable. */
int cut_copy_end(struct cut_copy *c, struct err *e);
/* The store of a cut that stays in memory; the caller owns it. */
struct store *cut_copy_take(struct cut_copy *c, uint64_t *bytes);

#endif
