/* tier.h: rows between memory and the store. The promise is in engine.h.
 *
 *     wanted:   fetch.h
 *     too full: a hand goes round the tablets; in each it chooses the rows that are used least
 *               -> those that the store has are dropped at once
 *               -> else pairs and image go into a flush (flush.h) -> written
 *                  -> what nobody has touched is dropped
 *
 * Rows leave memory in two ways, both by table_cold_choose:
 *     with their tablet's image (tier_gather):  flush steps, live; flush_make_room, in replay
 *     pairs alone (spill_tablet):  replay_make_room, for a reload and a restore; load_build.c
 * The second needs tablets that are what their images say, or that have none: of a tablet that
 * replay has changed the old image may list a key whose pair would then be newer. To use the first
 * alone a load and a restore would write each image once more for every third of its rows.
 *
 * They come back in two:
 *     by their pairs:  of keys, in fetch.c (engine_warm) and without waiting fetch_now (replay),
 *         engine_row; of a whole tablet, fetch_whole (a restore, a checkpoint, engine_whole)
 *     with their tablet's image:  reload.h (a start), replay_tablets (a restore)
 * What ages in the store ends when it comes in: age.h.
 *
 * Live a shard may not block on the store; replay has nobody to wait for, and a loop that ran
 * beside it would have to put each record aside.
 *
 * So a tablet's stored image and the pairs that it lists are of one instant, its flushed_seq.
 * Memory is what the arenas have handed out, what tables keep beside them, the marks of runs, and
 * cuts that stay in memory; making room begins at
 * 15/16 of what rows may take and ends at 14/16; beyond the whole of it pushes wait and nothing is
 * fetched. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_TIER_H
#define EMBEDDING_ENGINE_TIER_H

#include "embedding/engine/engine_state.h"
#include "embedding/rows/table_cold.h"

/* From the options: what rows may take, what the store may. */
void tier_init(struct engine *g);
uint64_t tier_store_memory(const struct engine *g); /* 0: no bound */
/* Bytes that tables have, in arenas and beside; the latter as of the last look. */
uint64_t tier_used(struct engine *g);
/* Whether a push must wait: BUSY while room is being made, NO_SPACE when no row can go; 0: there is
 * room. */
int tier_check_room(struct engine *g, struct err *e);
/* Whether the marks of one more run, all lanes' in all of its tables, fit: they may take a quarter
 * of what rows may, with those of all other runs. 0 or NO_SPACE. */
int tier_check_marks(const struct engine *g, uint64_t run, uint32_t lanes, uint64_t tables,
                     struct err *e);
/* Whether so many bytes of rows may be wanted: always, but while none can go. */
bool tier_lets_in(struct engine *g, uint64_t bytes);
/* There is no room to be made. */
void tier_stuck(struct engine *g);
/* Whether room is to be made. */
bool tier_wants_room(struct engine *g);
/* Puts tablets that rows leave into the batch being gathered, about `limit` bytes of them, as of
 * record `sequence`; where no write is needed rows go at once. */
void tier_gather(struct engine *g, uint64_t sequence, size_t limit);
/* The hand goes on to the next tablet with rows in memory that may leave, or, clean, one that is
 * besides what its stored image says. False: there is none. */
bool tier_hand_next(struct engine *g, struct tier_tablet *hand, bool clean, uint32_t *table,
                    uint32_t *tablet);
/* The batch was written: the rows go. */
void tier_leave(struct engine *g);
/* The batch was called off, its rows stay. */
void tier_stay(struct engine *g);

#endif
