/* space.h: how much of the disk this engine takes, and whether it may write more. The promise is in
 * engine.h (options.disk, options.disk_watermark).
 *
 * What is taken is counted by walking DIR, and the parts of checkpoints that exports made on the
 * same file system (a part shares its files with DIR until the store has let go of them), on an I/O
 * thread: a look. A file of several names counts once. In between, what is handed to the store,
 * segments that are made and copies of cuts are added, so the figure may be too high for a moment
 * and never too low.
 *
 *     taken + kept free for: every image written once more, a compaction, two segments, the
 *     quarantine <= options.disk
 *
 * Else pushes are refused, and what can be had back is fetched: every image is written anew, the
 * journal is trimmed and its spare files deleted, the store lets go of what was overwritten; then
 * one more look. What others must give back (cuts, checkpoints) is seen by the looks that refused
 * pushes begin, one in LOOK_NS. Pushes are taken again once a thirty-second of the bound is free.
 *
 * Beside it the file system itself: below the watermark of free bytes pushes are refused, below
 * half of it nothing is written to the store at all, for RocksDB may abort on a full disk. Thread:
 * the shard's. */
#ifndef EMBEDDING_ENGINE_SPACE_H
#define EMBEDDING_ENGINE_SPACE_H

#include "embedding/engine/engine_state.h"

/* Bytes that stay free of a file system of so many: a twentieth, of a large one what the
 * compactions of a few shards take. */
static inline uint64_t space_free_least(uint64_t bytes)
{
    if (bytes / 20 < UINT64_C(8) << 30)
        return bytes / 20;

    return UINT64_C(8) << 30;
}
/* Once the engine has recovered: the first look, on this thread. */
void space_open(struct engine *g);
/* All tablets are back: what was found full at opening can be had room in. */
void space_back(struct engine *g);
/* Whether a push may be taken: 0 or NO_SPACE, which says what is short, by how much, and what to
 * do. Cheap. */
int space_check(struct engine *g, struct err *e);
/* Whether `bytes` more may be kept for long (a cut, a load): 0 or NO_SPACE. what: such as "cut
 * 7". */
int space_check_for(const struct engine *g, uint64_t bytes, const char *what, struct err *e);
/* Whether a batch of `bytes` may be handed to the store now. */
bool space_batch(struct engine *g, uint64_t bytes);
/* That many bytes go to DIR by another way than the store and the journal. */
void space_add(struct engine *g, uint64_t bytes);
/* Something was written, or has gone: a look begins, or one more after that under way. */
void space_look(struct engine *g);
/* Bytes taken, as far as is known; 0 without a folder. */
uint64_t space_taken(const struct engine *g);
/* Whether everything is to be written so that room comes back; flush.c writes. */
bool space_reclaiming(const struct engine *g);
/* All is written and durable, and no batch is under way: goes on with the reclaiming. */
void space_reclaim(struct engine *g);
/* Whether images that are overwritten should leave the disk earlier than usual. */
bool space_pressed(const struct engine *g);
/* Bytes of journal that suit the bound; UINT64_MAX: there is none. */
uint64_t space_journal_max(const struct engine_options *o);
/* Bytes that one file of the quarantine may have; 0: as many as usual. */
uint64_t space_quarantine(const struct engine_options *o);
/* A part of a checkpoint was made in `dir`: while it is there, and on DIR's file system, it is
 * counted. */
void space_note_part(struct engine *g, const char *dir);
/* Bytes of the files under the folders (count), each file once; what cannot be read counts nothing.
 * UINT64_MAX: no memory. Any thread. */
uint64_t space_walk(char *const *folder, uint32_t count);
void space_free(struct engine *g); /* after work_drain */

#endif
