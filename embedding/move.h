/* move.h: tablets that move from one shard's engine to another's, whole, while runs go on.
 *
 *     giver                        taker
 *     engine_give -> image ------> engine_take -> RECORD_TABLET_IN
 *     a new map, engine_lead       a new map, engine_lead
 *     engine_tablets_drop -> RECORD_TABLET_OUT
 *
 * The image has all that is kept by tablet: its rows (those in the store, too), their optimizer
 * state and statistics, the marks of all open runs, undo of bsp, the clock of ageing, keys that
 * wait for a row, sketches and names of keys. What is kept by shard stays: runs, generations and
 * offsets of lanes, schemas, the journal with its archive.
 *
 * From engine_give until a map decides, the caller lets nothing change the tablet at the giver: no
 * push, no engine_keys, no change of the schema. A tablet that is not led counts in no lowest mark
 * and no clock, so a taken tablet counts from engine_lead on. Numbers of tablets are global:
 * schema.tablet_first + the number in the table.
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_MOVE_H
#define EMBEDDING_MOVE_H

#include "embedding/engine.h"

/* status 0: `image` (bytes) has the tablet with its rows (their number). Otherwise the text is the
 * cause: AGAIN (rows came from the store meanwhile), CORRUPT, IO, NOMEM. All is valid during the
 * call. */
typedef void (*engine_give_done)(void *context, int status, const char *text, const void *image,
                                 size_t bytes, uint64_t rows);
/* Reads a tablet for another shard; nothing changes here. After 0 done will be called once, unless
 * the engine closes first: before the return, or on the loop after an I/O thread has read rows from
 * the store. AGAIN: an admitted push is not applied, or not all tablets are back. BUSY: a cut, a
 * load or a change of the schema is under way, or as many gives as may be. TOO_BIG: the image does
 * not fit a message. NO_TABLE, NOMEM, IO. */
int engine_give(struct engine *g, uint32_t tablet, engine_give_done done, void *context,
                struct err *e);
/* Checks an image of engine_give, journals it and applies it: the tablet has exactly its rows and
 * marks, whatever it had before. Marks of runs that are over here are left out. *sequence: the
 * record, which is on disk once engine_synced has reached it (engine_sync_due); the image may go
 * then, or after the return. The same image may be taken again. Nothing has changed after:
 *   AGAIN: a run of the marks is not open here yet; an admitted push is not applied; not all
 *     tablets are back.
 *   BUSY: the journal is full, a cut is being made, rows are leaving memory.
 *   EXISTS: the tablet is led here: the image would undo its pushes.
 *   NO_TABLE: no table here has the tablet; SCHEMA: it has another schema than the giver's.
 *   CORRUPT, CHECKSUM, VERSION: the image is damaged, another tablet's, or a later Shoal's.
 *   TOO_BIG: it does not fit a segment of the journal. NO_SPACE, NOMEM.
 * IO: on_fatal has been called. */
int engine_take(struct engine *g, uint32_t tablet, const void *image, size_t bytes,
                uint64_t *sequence, struct err *e);
/* Removes tablets (count) with rows, marks and all else, by a record; their images and rows in the
 * store go with the next flushes. Tablets of no table here are skipped. None of them is led. AGAIN,
 * BUSY as of engine_take; IO: on_fatal has been called. */
int engine_tablets_drop(struct engine *g, const uint32_t *tablet, uint32_t count, struct err *e);
/* Writes tablets (at most `most`) that have anything here although the map of engine_place gives
 * them to another shard; returns their number. None are known before all tablets are back, and none
 * without a map. */
uint32_t engine_strays(const struct engine *g, uint32_t *out, uint32_t most);

#endif
