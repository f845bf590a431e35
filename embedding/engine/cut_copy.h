/* cut_copy.h: a cut that cannot link the journal (cut.c, 3): the image of every tablet as it was at
 * GO, copied a batch at a time.
 *
 *     the shard fills the flushes' batch, which rests while a cut is made
 *         -> an I/O thread writes it into the cut's own store -> the next one
 *
 * Between two batches the loop turns. What the copying holds is that batch and as much in the
 * store's buffers, both set aside by tier_init; a cut that stays in memory counts as rows do.
 * Invariants: cut_copy.c. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_CUT_COPY_H
#define EMBEDDING_ENGINE_CUT_COPY_H

#include "embedding/engine/cut.h"

struct cut_copy;

/* Of the tables that there are and the control state of now. parent, tmp: borrowed, where the cut
 * is made; NULL: in memory. NOMEM. */
int cut_copy_new(struct engine *g, const struct cut_facts *facts, const char *parent,
                 const char *tmp, struct cut_copy **out);
void cut_copy_free(struct engine *g, struct cut_copy *c); /* NULL: nothing */
/* Whether any of tablets [first, first + count) is not copied yet: it must not change. */
bool cut_copy_waits(const struct engine *g, uint32_t table, uint32_t first, uint32_t count);
/* Whether any is, of any table. */
bool cut_copy_under_way(const struct engine *g);
/* Goes on: the next batch, unless one is being written. True: nothing is left to copy, or it has
 * failed. */
bool cut_copy_step(struct cut_copy *c);
/* How it ended: 0, or why not. */
int cut_copy_status(const struct cut_copy *c, struct err *e);
uint64_t cut_copy_memory(const struct cut_copy *c); /* that counts as rows do */
/* The last part, on an I/O thread: pairs of cold rows, and all that was written is durable. */
int cut_copy_end(struct cut_copy *c, struct err *e);
/* The store of a cut that stays in memory; it is the caller's. */
struct store *cut_copy_take(struct cut_copy *c, uint64_t *bytes);

#endif
