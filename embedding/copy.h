/* copy.h: a copy of an engine that begins anew with the contents of another one, the leader.
 *
 *     leader     engine_copy_begin -> private cut -> engine_copy_read, part by part
 *                                                       |           -> engine_copy_end
 *     follower   engine_seed_begin -------------> engine_seed_take, part by part
 *                                                                   -> engine_seed_open
 *
 * The parts are opaque to the caller, which moves them from one process to the other: images, cold
 * rows and the control state of the cut, then its records. The opened engine equals the leader at
 * the cut's sequence bit for bit: rows, marks, runs, lanes, names of keys, admission, ageing, undo
 * and schemas. The identity of the copy (engine_place, engine_names, engine_taken) is not part of
 * it and stays.
 *
 * Thread: the shard's. Reading is on an I/O thread; the calls of a seed block. */
#ifndef EMBEDDING_COPY_H
#define EMBEDDING_COPY_H

#include "embedding/engine.h"

struct msg;

/* Most bytes of a position. */
#define ENGINE_COPY_POSITION 64u

/* ---- the leader ---- */

/* status 0: parts of copy `number` can be read. sequence: the record that the copy is complete up
 * to; bytes: an estimate of all parts. Otherwise the text is the cause, and there is no copy.
 * Called once, on the loop; the text is valid during the call. */
typedef void (*engine_copy_begun)(void *context, int status, const char *text, uint64_t number,
                                  uint64_t sequence, uint64_t bytes);
/* Makes a private cut, which engine_cuts does not name and no other call uses. After 0 done will be
 * called unless the engine closes first. BUSY: a cut or a load is under way; AGAIN: a push is not
 * applied yet, or not all tablets are back; NO_SPACE, NOMEM, IO. */
int engine_copy_begin(struct engine *g, engine_copy_begun done, void *context, struct err *e);
/* status 0: a part, and the position of the next one (next_bytes 0: this was the last). Otherwise
 * the text is the cause. Called once, on the loop; all is valid during the call. m: the message
 * that has the part's bytes: msg_hold keeps them. */
typedef void (*engine_copy_part)(void *context, int status, const char *text, struct msg *m,
                                 const void *part, size_t bytes, const void *next,
                                 size_t next_bytes);
/* Reads the part at a position (position_bytes 0: the first), of about `most` bytes and never more
 * than LIMIT_FRAME_BYTES. A part may be read again. After 0 done will be called unless the engine
 * closes first. NOT_FOUND: there is no such copy, or the position is another's; AGAIN: its cut is
 * not made yet; BUSY: another part of it is being read; NOMEM. done: CORRUPT, IO, or NOT_FOUND if
 * the copy was ended meanwhile. */
int engine_copy_read(struct engine *g, uint64_t number, const void *position, size_t position_bytes,
                     size_t most, engine_copy_part done, void *context, struct err *e);
/* Removes the cut. Without this call it goes when the engine is closed or opened. */
void engine_copy_end(struct engine *g, uint64_t number);

/* ---- the follower ---- */

struct engine_seed;
/* Begins an empty seed, for engine_seed_open with the same options; with a dir and a durability
 * other than `memory` it is beside the rows of dir, else in memory. An engine may be open in dir
 * until engine_seed_open. An earlier seed in dir goes. */
int engine_seed_begin(const struct engine_options *o, struct engine_seed **out, struct err *e);
/* Takes the next part. A part that was taken before changes nothing. CHECKSUM, CORRUPT, VERSION:
 * the part is damaged, or it is not the next one of this copy; nothing has changed, and the right
 * part may follow. CONFIG: an engine with these options cannot take the copy. IO, NO_SPACE, NOMEM:
 * the seed could not be written, and takes no more. */
int engine_seed_take(struct engine_seed *s, const void *part, size_t bytes, struct err *e);
/* Puts the complete seed in the place of all rows, records, cuts and archived records of dir, and
 * opens the engine. Frees s in any case. A kill or a loss of power leaves the old contents or the
 * new ones. MALFORMED: parts are missing; UNAVAILABLE: an engine is open in dir; the errors of
 * engine_open. */
int engine_seed_open(struct engine_seed *s, const struct engine_options *o, struct env *env,
                     struct engine **out, struct err *e);
void engine_seed_free(struct engine_seed *s); /* removes it; NULL is allowed */
/* Removes all rows, records, cuts and archived records from the folder of a closed engine. A kill
 * or a loss of power leaves all rows and records, or none. */
int engine_wipe(const char *dir, struct err *e);

#endif
