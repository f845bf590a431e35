/* space.h: how much of the disk this engine uses, and whether it may write more. engine.h has the
 * promise (options.disk, options.disk_watermark).
 *
 * An I/O thread counts the space in use by walking DIR, and the parts of checkpoints that exports
 * made on the same file system (a part shares files with DIR until the store has deleted them). A
 * file with several names counts once. Between two walks bytes handed to the store, new segments
 * and copies of cuts are added, so the figure may be too high for a moment and is never too low.
 *
 *     in use + kept free for: every image written once more, a compaction, two segments, the
 *     quarantine <= options.disk
 *
 * Beyond that pushes are refused and space is reclaimed: every image is written anew, the journal
 * is trimmed and its spare files deleted, the store deletes overwritten values; then another walk
 * follows. Space is reclaimed too when tables were dropped (clear.c). Space that others must free
 * (cuts, checkpoints) is found by the walks that refused pushes begin, one in LOOK_NS. Pushes are
 * accepted again once a thirty-second of the limit is free.
 *
 * The file system itself is checked, too: below the watermark of free bytes pushes are refused,
 * below half of it nothing is written to the store at all, because RocksDB may abort on a full
 * disk. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_SPACE_H
#define EMBEDDING_ENGINE_SPACE_H

#include "embedding/engine/engine_state.h"

/* Bytes that stay free on a file system of this size: a twentieth, or on a large one enough for the
 * compactions of a few shards. */
static inline uint64_t space_free_least(uint64_t bytes)
{
    if (bytes / 20 < UINT64_C(8) << 30)
        return bytes / 20;

    return UINT64_C(8) << 30;
}
/* After recovery of the engine: the first walk, on this thread. */
void space_open(struct engine *g);
/* All tablets are back: space that was short at opening can be reclaimed. */
void space_back(struct engine *g);
/* 0: a push may be accepted; NO_SPACE: the message says what is short, by how much, and the remedy.
 * Cheap. */
int space_check(struct engine *g, struct err *e);
/* 0: `bytes` more may be kept for long (a cut, a load), else NO_SPACE. what: for the message, such
 * as "cut 7". */
int space_check_for(const struct engine *g, uint64_t bytes, const char *what, struct err *e);
/* True when a batch of `bytes` may be handed to the store now. */
bool space_batch(struct engine *g, uint64_t bytes);
/* Adds bytes that reach DIR in other ways than through store and journal. */
void space_add(struct engine *g, uint64_t bytes);
/* After a write or a deletion: begins a walk, or another one after the current. */
void space_look(struct engine *g);
/* Bytes in use, as far as known; 0 without a folder. */
uint64_t space_taken(const struct engine *g);
/* Free bytes of the file system, and with how few pushes are refused; false: unknown, a write will
 * show it. */
bool space_left(const struct engine *g, uint64_t *left, uint64_t *least);
/* Begins to reclaim, unless it does already: also when tables went whose images lie in files with
 * those of others. */
void space_reclaim_begin(struct engine *g);
/* True when everything must be written to reclaim space; flush.c writes. */
bool space_reclaiming(const struct engine *g);
/* All is written and durable, and no batch is in flight: continues to reclaim. */
void space_reclaim(struct engine *g);
/* True when overwritten images should leave the disk earlier than usual. */
bool space_pressed(const struct engine *g);
/* Bytes of journal that fit the limit; UINT64_MAX: no limit. */
uint64_t space_journal_max(const struct engine_options *o);
/* Limit of a quarantine file in bytes; 0: the default. */
uint64_t space_quarantine(const struct engine_options *o);
/* A part of a checkpoint was made in `dir`: it counts while it exists on DIR's file system. */
void space_note_part(struct engine *g, const char *dir);
/* Bytes of the files under the folders (count), each file once; unreadable ones count nothing.
 * UINT64_MAX: no memory. Any thread. */
uint64_t space_walk(char *const *folder, uint32_t count);
void space_free(struct engine *g); /* after offload_drain */

#endif
