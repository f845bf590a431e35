/* tier.h: moves rows between memory and the store. engine.h has the promise.
 *
 *     wanted:   fetch.h
 *     too full: a hand passes over the tablets; in each it chooses the least used rows
 *               -> those that the store has are dropped at once
 *               -> for others pairs and image go into a flush (flush.h) -> written
 *                  -> those that were not touched meanwhile are dropped
 *
 * Rows leave memory in two ways, both by table_cold_choose:
 *     with their tablet's image (tier_gather):  flush steps, live; flush_make_room, in replay
 *     pairs alone (spill_tablet):  recover_make_room, for a reload and a restore; load_build.c
 * The second needs tablets that equal their images, or that have none: if replay has changed a
 * tablet, the old image may list a key whose pair would then be newer. With the first way alone a
 * load and a restore would write each image once more for every third of its rows.
 *
 * They come back in two ways:
 *     by their pairs:  for keys, in fetch.c (engine_warm) and without waiting in fetch_now
 *         (replay), engine_row; for a whole tablet, fetch_whole (a restore, a checkpoint,
 *         engine_whole)
 *     with their tablet's image:  reload.h (a start), recover_tablets (a restore)
 * Rows that expire in the store end when they come in: age.h.
 *
 * A live shard may not block on the store; replay may, because no request waits for it, and a loop
 * beside it would have to buffer every record.
 *
 * A tablet's stored image and the pairs that it lists therefore belong to one instant, its
 * flushed_seq. Memory is the used part of the arenas, what tables have outside of them, the marks
 * of runs, and cuts that stay in memory. Making room begins at 15/16 of the rows' limit and ends at
 * 14/16; above the limit pushes wait and nothing is fetched. With several models share.h decides
 * which one waits, and which one's rows leave. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_TIER_H
#define EMBEDDING_ENGINE_TIER_H

#include "embedding/engine/engine_state.h"
#include "embedding/rows/table_cold.h"

/* Derives the limits for rows and for the store from the options. */
void tier_init(struct engine *g);
uint64_t tier_store_memory(const struct engine *g); /* 0: no bound */
/* Bytes of tables, in arenas and outside; the latter as of the last check. */
uint64_t tier_used(struct engine *g);
/* The part of them that is no table's. */
uint64_t tier_rest(const struct engine *g);
/* 0: a push to this table may proceed; BUSY: room is being made, for which the pushes of
 * tier.short_tables wait; NO_SPACE: no row can leave. shared: the share of the table's group
 * counts, and not only the memory as a whole. */
int tier_check_room(struct engine *g, uint32_t table, bool shared, struct err *e);
/* 0: the marks of one more run, for all lanes in all of its tables, fit; NO_SPACE: with those of
 * all other runs they exceed a quarter of the rows' limit. */
int tier_check_marks(const struct engine *g, uint64_t run, uint32_t lanes, struct table_set tables,
                     struct err *e);
/* True when `bytes` of rows of this table may be fetched: always, unless no row can leave. */
bool tier_lets_in(struct engine *g, uint32_t table, uint64_t bytes);
/* No row of the group can leave. */
void tier_stuck(struct engine *g, struct tier_group *s);
/* True when room must be made. */
bool tier_wants_room(struct engine *g);
/* Adds tablets that rows leave to the current batch, about `limit` bytes of them, as of record
 * `sequence`; rows that need no write leave at once. */
void tier_gather(struct engine *g, uint64_t sequence, size_t limit);
/* Moves the hand to the next tablet of these tables with rows in memory that may
 * leave; with `clean`, it must also equal its stored image. False: there is none. */
bool tier_hand_next(struct engine *g, struct tier_tablet *hand, const struct table_set *tables,
                    bool clean, uint32_t *table, uint32_t *tablet);
/* Tables have gone: memory is measured again, and no row is known to be stuck. */
void tier_empty(struct engine *g);
/* The batch was written: its rows leave. */
void tier_leave(struct engine *g);
/* The batch was cancelled: its rows stay. */
void tier_stay(struct engine *g);

#endif
