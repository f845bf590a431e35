/* engine.h: all that a shard owns and journals: tables, runs with their lanes and marks, the
 * journal, the row store. No socket, no clock, no thread of its own: slow work (writing images)
 * leaves through env_work and comes back on the loop.
 *
 * The path of a change, live and in recovery alike. Beside it go engine_load and engine_load_drop
 * alone: they put in or take out whole tablets without a record, so who follows the journal does
 * not see them (load.c, 4; unload.c, 2).
 *
 *     record -> engine_admit_push (who takes it, marks move) -> journal_append
 *            -> engine_commit -> engine_apply_push (rows change) -> reply
 *     start:    journal_cursor -> apply_record, the same steps (engine/apply.h)
 *
 * Invariants, cited by number in code and tests:
 *  1. No reply before engine_commit has returned 0 for its record (and the sync is done where
 *     durability is fsync). [assert: engine_apply_push]
 *  2. Sequences of a shard have no gap; they begin at 1. [assert: queue_push, control_journal]
 *  3. engine_apply_push is a function of engine state and record alone, bit for bit.
 *     [test: test_recover, test_tier_random]
 *  4. A tablet's stored image, complete up to its flushed_seq (marks and undo included), plus the
 *     records above it, is the tablet. [test: test_recover, test_tier_random]
 *  5. The journal is trimmed only below the smallest flushed_seq that RocksDB has made durable,
 *     over all tablets, control state and cuts being made. [test: test_recover, test_cut]
 *  6. A recycled segment's old records are never read as new: the checksum covers the segment's
 *     generation. [test: a_recycled_tail_is_never_read_as_new]
 *
 * Push rule: a covered tablet with from <= mark < to takes a push, with mark >= to skips
 * it, with mark < from makes the whole push a GAP: nothing is done and the lowest mark is named. */
#ifndef EMBEDDING_ENGINE_H
#define EMBEDDING_ENGINE_H

#include "embedding/journal/archive.h"
#include "embedding/journal/record.h"
#include "embedding/table.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct json;

struct engine_options {
    const char
        /* the shard's own folder: journal/, rows/, cuts/; NULL: keep all in memory (simulator,
         * `memory` tests) */
        *dir;
    enum durability durability;
    /* checkpoints are written and loaded below it alone; NULL or "": anywhere. Borrowed */
    const char *checkpoint_root;
    /* only checkpoints that one of its keys has signed are loaded (proto/job/signature.h); the file
     * is read for each; NULL or "": any. Borrowed */
    const char *checkpoint_signers;
    uint64_t journal_max;   /* bytes; 0: max(1 GiB, row bytes) */
    uint32_t segment_bytes; /* 0: 64 MiB */
    /* bytes of trimmed segments that are kept for blame, in DIR/archive; 0: none */
    uint64_t journal_keep;
    /* free bytes below which pushes are refused (NO_SPACE); 0: min(5 %, 8 GiB) of the file
     * system */
    uint64_t disk_watermark;
    /* bytes that DIR may take, with what exports share with it on its file system; past it pushes
     * are refused (NO_SPACE) until there is room again (space.h). 0: no bound */
    uint64_t disk;
    /* bytes that this engine may take, its store's buffers among them; past it rows move to the
     * store (tier.h). 0: no bound, and rows stay in memory; without a store (`memory`) rows never
     * move */
    uint64_t memory;
    /* time since 1970, for lines in the quarantine alone; NULL: they have none */
    uint64_t (*wall_ns)(void);
    void (*on_synced)(void *context); /* fsync mode: engine_acknowledged() moved on; on the loop */
    /* rows have come from the store, or room was made: what engine_warm said no to may be asked
     * again; on the loop. NULL: nobody waits */
    void (*on_fetched)(void *context);
    /* engine_open and engine_restore may return before all tablets are back (engine_back), and this
     * says that they are; on the loop. NULL: they are when it returns */
    void (*on_recovered)(void *context);
    /* long work in one call moves (opening, a restore, a copy of all images, the last flush): it
     * has done so much `of` that; of 0: it does not know. On the loop. NULL: nobody asks */
    void (*on_pulse)(void *context, uint64_t done, uint64_t of);
    void (*on_fatal)(void *context,
                     /* disk broken: stop acknowledging, exit 74, recover at restart */
                     const struct err *e);
    void *context;
};

/* Opens or creates, and recovers: loads images, replays the journal. env is borrowed and used for
 * env_work (and env_now_ns, for recovered_ns). No tablet is led before engine_lead. `memory` with a
 * dir keeps cuts there and nothing else: it starts empty. */
int engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                struct err *e);
/* Whether all tablets are back. Until then they come in steps, those first that engine_warm is
 * asked for, and only engine_warm, engine_row, engine_lead, engine_flush_step (which does nothing),
 * closing and what reads without rows are allowed, and reading of rows that engine_warm has said
 * yes to. */
bool engine_back(const struct engine *g);
/* Whether it is a restore that they are not back from, or all is being dropped: then engine_warm
 * says no, until on_fetched, and engine_row AGAIN. */
bool engine_restoring(const struct engine *g);
/* Waits for work at hand; flush_all first writes every dirty tablet (a clean stop: the next start
 * replays nothing). */
int engine_close(struct engine *g, bool flush_all);

/* ---- where the shard belongs ---- */
/* The cluster, the shard's number there, and the newest map that it has taken: kept in its folder,
 * so that none is taken for another one: neither an empty one for this, nor this for an empty
 * one. */
struct engine_place {
    uint64_t cluster[2];      /* 0, 0: of none yet, and all else is 0 */
    uint32_t number, shards;  /* of the shard; of the cluster */
    uint64_t map_epoch;       /* 0: no map yet */
    uint32_t tablets;         /* of the map */
    const uint16_t *shard_of; /* borrowed, (tablets): the owner of each global tablet */
};
/* Good until the next engine_place_set. */
const struct engine_place *engine_place(const struct engine *g);
/* On disk when it returns; the map is copied. IO, NOMEM: nothing has changed. */
int engine_place_set(struct engine *g, const struct engine_place *place, struct err *e);
/* Whether the map of `next` would take a tablet away that has rows or marks here: CONFIG names it;
 * AGAIN while rows are read back and it cannot be known. */
int engine_place_leaves(const struct engine *g, const struct engine_place *next, struct err *e);

/* What the numbers in the keys mean: a line of proto/job/legend.h, kept in the folder for a
 * coordinator that has lost its own. A newer one has a higher version. */
struct engine_names {
    uint64_t version; /* 0: none are known; all else is 0 */
    const char *line; /* borrowed, (bytes), without its end */
    uint32_t bytes;
    uint64_t digest; /* XXH3 of the line */
};
/* Good until the next engine_names_set. */
const struct engine_names *engine_names(const struct engine *g);
/* On disk when it returns; the line is copied. IO, NOMEM: nothing has changed. */
int engine_names_set(struct engine *g, uint64_t version, const char *line, uint32_t bytes,
                     struct err *e);

/* What of logs the tables have learnt: bytes of the coordinator, opaque here, kept in the folder
 * for a coordinator that has lost its own. A newer one has a higher version. */
#define ENGINE_TAKEN_MAX ((16u << 20) - 4096u)
uint64_t engine_taken_version(const struct engine *g); /* 0: none are known */
/* On disk when it returns; the bytes (count) are copied. IO, NOMEM: nothing has changed. */
int engine_taken_set(struct engine *g, uint64_t version, const void *bytes, uint32_t count,
                     struct err *e);
/* Read from disk; *bytes is the caller's. IO, CORRUPT, NOMEM. */
int engine_taken_get(const struct engine *g, void **bytes, uint32_t *count, struct err *e);

/* ---- records ---- */
struct push_plan {             /* what engine_admit_push decided; handed to engine_apply_push */
    uint32_t applied, skipped; /* tablets */
    /* lowest mark of the covered tablets, after the push (or as it is, for a refusal) */
    uint64_t mark;
    uint64_t sequence; /* 0: nothing to journal (all skipped) */
    bool all;          /* every covered tablet takes it */
    bool uneven;       /* their marks differ */
    bool bsp;          /* rows keep undo for its clock */
    uint8_t *take;     /* engine's scratch when !all; valid until engine_apply_push of this plan */
    /* batches that it stands for in each tablet; with `steps`, the same kind of scratch, where they
     * differ */
    uint64_t step;
    uint32_t *steps;
};

/* The part of engine_admit_push that looks at size and values (guard.h), for a push that is held
 * before it is admitted. 0, TOO_BIG, NOT_FINITE or MALFORMED. */
int engine_check_body(struct engine *g, const struct push_record *r, struct err *e);
/* What was refused for its values, and clipped, since the start: guard_json. */
struct json *engine_refused_json(const struct engine *g);
/* Checks run, lane, generation, table, range, counts, the gradients' values and the push rule. On 0
 * with plan->applied > 0 the marks have moved and the record is queued for the next engine_commit:
 * the bytes it points to must stay until engine_apply_push. Refusals: OLD_RUN, FENCED, NO_TABLE,
 * GAP, NOT_FINITE, MALFORMED, NO_SPACE (disk), BUSY (journal full, flush behind, tablets that a
 * cut is still to copy: ask again later). */
int engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                      struct err *e);
/* Writes all queued records with one gathered write (fsync mode: starts a group sync). Non-zero:
 * on_fatal was called.
 */
int engine_commit(struct engine *g);
/* Rows change. After engine_commit, in the order of admission. */
int engine_apply_push(struct engine *g, const struct push_record *r, struct push_plan *plan);
/* Highest sequence that may be acknowledged: all committed ones (memory, journal), or those synced
 * (fsync). */
uint64_t engine_acknowledged(const struct engine *g);
/* Highest sequence that is on disk, whatever the durability; 0 where none ever is (memory). */
uint64_t engine_synced(const struct engine *g);
/* The highest run that was ever opened here, by whatever, be it dropped since; 0: none. */
uint64_t engine_newest_run(const struct engine *g);
/* The same for the runs that have one of these tables (a bit each). */
uint64_t engine_newest_run_of(const struct engine *g, uint64_t tables);
/* journal mode, called by a timer (the engine has no clock): starts a sync of what is committed,
 * unless one is under way. Whether there was anything that is not synced yet: then the timer is
 * wanted again. */
bool engine_sync_due(struct engine *g);
/* Whether anything committed is not synced yet. Cheap. */
bool engine_unsynced(const struct engine *g);

/* Control records: each is checked, journalled, committed (synced in fsync mode, and of runs and
 * lanes in journal mode too; queued pushes with it) and applied in the call. All idempotent.
 * engine_run_drop and engine_restore answer AGAIN while an admitted push has not been applied, or a
 * cut is being copied. */
/* A table that is there with another schema gets this one, if schema_change lets it: AGAIN while
 * its rows are being written for it (engine/change.h), or a cut is. SCHEMA names what may not
 * change. */
int engine_table_create(struct engine *g, const struct table_schema *schema, struct err *e);
/* NO_SPACE: the marks of so many lanes have no room in the memory budget. CONFIG: it is not above
 * engine_newest_run: it was here and is over, and would begin anew with marks 0. */
int engine_run_open(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode, struct err *e);
/* The same for a run that does not push to all tables of the shard (those of other spaces): only
 * tables whose bit is set count in its clocks and lowest marks. engine_run_open counts all, and
 * those created later. */
int engine_run_open_tables(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode,
                           uint64_t tables, struct err *e);
/* Whether the run that was opened here before still is: 0, or NOT_FOUND or CONFIG with what that
 * means. */
int engine_run_still(const struct engine *g, uint64_t run, struct err *e);
int engine_run_drop(struct engine *g, uint64_t run, struct err *e);
/* Drops the runs below this number that push to one of `tables` (a bit each), but for one whose
 * load engine_load_drop may yet take back. What engine_run_drop says of the first that it could not
 * drop. */
int engine_runs_drop_below(struct engine *g, uint64_t run, uint64_t tables, struct err *e);

/* status 0: all has gone. On the loop, once; the text dies with the call. */
typedef void (*engine_clear_done)(void *context, int status, const char *text);
/* Drops all tables, runs, marks and cuts for good: what is here now goes before `job` begins, its
 * run and those of older jobs among it. Once for a job: again it is done at once, whatever is here
 * by then. engine_newest_run stays. 0: done will be called, perhaps before this returns; until then
 * the engine is not back (engine_back). A kill leaves all as it was but the cuts, or nothing.
 * AGAIN, BUSY: something is under way. CONFIG: a run of this job or of a newer one was opened here
 * without it. */
int engine_clear(struct engine *g, uint64_t job, engine_clear_done done, void *context,
                 struct err *e);

/* Raises the generation, sets live and, when the lane becomes live (ssp, async), its offset: the
 * one given, the same on all shards, or (NULL) by where the others stand here. The same generation
 * makes no lane less live: it is a late copy of what was asked before. *mark: lowest mark of the
 * lane over led tablets. */
int engine_fence(struct engine *g, uint64_t run, uint32_t lane, uint64_t generation, bool live,
                 const int64_t *offset, uint64_t *mark, struct err *e);
/* Keys by name (table_keys, table.h), journalled as a change of their tablets: kill and replay, or
 * a cut, repeat it. Keys of tablets that are not led are passed over. *changed: keys that had
 * another name before. AGAIN while an admitted push has not been applied; TOO_BIG when a tablet
 * would have more than a million names. Erased rows leave the store with the next image of their
 * tablets and the journal when it is trimmed. */
int engine_keys(struct engine *g, uint32_t table, enum key_action action, const uint64_t *keys,
                uint32_t count, uint64_t *changed, struct err *e);
/* Sets of fields, by table. */
struct engine_fields {
    uint64_t of[LIMIT_TABLES][LIMIT_FIELDS / 64];
};
/* Reads a list of them: "TABLE:NUMBER" or "TABLE:*" for all of a table, separated by blanks; tables
 * that are not here are passed over. NULL: none. MALFORMED. */
int engine_fields_take(const struct engine *g, const char *text, struct engine_fields *out,
                       struct err *e);
/* All rows of the fields (one table's) leave a tablet, journalled as engine_keys is, and what was
 * counted of keys that wait for one; names: those too, as if the fields had never been. *rows: how
 * many went. A tablet that is not led is passed over. Refuses as engine_keys does. */
int engine_fields_drop(struct engine *g, uint32_t table, uint32_t tablet, const uint64_t *fields,
                       bool names, uint64_t *rows, struct err *e);
/* What engine_keys would refuse so many keys for, whichever they are: for who has it do them some
 * at a time. */
int engine_keys_check(const struct engine *g, uint32_t table, enum key_action action,
                      uint32_t count, struct err *e);
/* Which global tablets this shard leads: (count) of shard numbers. Not journalled: the coordinator
 * tells it at every registration, and a push for a tablet not led is NOT_LEADER. Clocks and lowest
 * marks count led tablets only. */
int engine_lead(struct engine *g, const uint16_t *shard_of, uint32_t count, uint16_t self);

/* ---- reading ---- */
struct table *engine_table(struct engine *g, uint32_t table); /* or NULL */
/* Run's clocks over the led tablets of all tables: lane clock = lowest mark + offset. `low` is the
 * smallest over live lanes (UINT64_MAX when none live). clock_of: the clock of batch `batch` of a
 * lane = batch + offset. NOT_FOUND for an unknown run or lane. */
int engine_clock(const struct engine *g, uint64_t run, uint32_t lane, uint64_t batch,
                 uint64_t *clock_of, uint64_t *low);
int engine_run_mode(const struct engine *g, uint64_t run, uint32_t *mode, uint32_t *lanes);
/* Bit t: the run pushes to table t. 0: it is not open. */
uint64_t engine_run_tables(const struct engine *g, uint64_t run);
/* True: a run is open that pushes to none of these tables. */
bool engine_runs_beside(const struct engine *g, uint64_t tables);
bool engine_lane_live(const struct engine *g, uint64_t run, uint32_t lane);
/* Lowest mark of a lane over the led tablets of one table. */
uint64_t engine_mark(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table);
/* The same over the led ones of tablets [first, first + count) of the table; UINT64_MAX when there
 * are none. */
uint64_t engine_mark_range(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table,
                           uint32_t first, uint32_t count);
uint64_t engine_lane_generation(const struct engine *g, uint64_t run, uint32_t lane);

/* ---- rows in the store (tier.h) ---- */
/* Whether every row that there is of keys (count) lies in memory. If not, those in the store are
 * asked for, and on_fetched is called when some have come: ask again then. A push must be admitted,
 * and a pull be answered, in the same turn of the loop in which this has said true. Cheap where the
 * table has no row in the store. Keys of tablets that are not led may be among them. */
bool engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
/* A table in which `tablet` has all its rows, aged as of now: the table itself, or, where some are
 * in the store, a copy of the one tablet that stands until the next call or any change of the
 * engine. Reads the store on this thread, a few ms a tablet. NULL: e says why. */
const struct table *engine_whole(struct engine *g, uint32_t table, uint32_t tablet, struct err *e);
/* The same for one row: a table in which it is, if there is one. The table itself, or, where the
 * row is in the store (*stored), a copy of the row alone, aged as of now, that stands as long. One
 * row is read, or, after a start, its tablet comes back. NULL: e says why. */
const struct table *engine_row(struct engine *g, uint32_t table, uint64_t key, bool *stored,
                               struct err *e);

/* ---- the cut ---- */
/* Whether disk, or memory where there is no folder, has room for a cut: 0 or NO_SPACE, which says
 * what is short. */
int engine_cut_room(struct engine *g, uint64_t cut, struct err *e);
typedef void (*engine_ahead_done)(void *context);
/* Before engine_hold, for a cut that is exported: writes the rows that the journal's records are
 * about, while pushes go on, so that the cut has few records. done comes on the loop, once, perhaps
 * before this returns: when that is done, or not worth it, or cannot be, or with engine_hold. Not
 * again before it has come. */
void engine_cut_ahead(struct engine *g, engine_ahead_done done, void *context);
/* Notes sequence and the run's marks of this instant and pins the journal; pushes must not be
 * admitted between hold and go (the shard queues them). run 0: the cut is of none, and cannot be
 * restored. OLD_RUN: that one is not open here. NO_SPACE: engine_cut_room says why. */
int engine_hold(struct engine *g, uint64_t cut, uint64_t run, uint64_t *sequence);
/* Makes cuts/CUT: RocksDB checkpoint, linked journal segments, a manifest with checksums, visible
 * by one rename; or, where the journal cannot be linked, a copy, batch by batch (cut_copy.h). done
 * comes on the loop. */
int engine_go(struct engine *g, uint64_t cut,
              void (*done)(void *context, int status, uint64_t rows, uint64_t bytes),
              void *context);
int engine_release(struct engine *g, uint64_t cut); /* HOLD without GO */
/* The first of two steps: whether the cut can be put back as `run`. An I/O thread reads all of it;
 * nothing is changed, and all else goes on. done comes on the loop, once: status 0, or a sentence.
 * Where several shards go back, each is asked before any is told to. 0: done will be called,
 * perhaps before this returns. NOT_FOUND (no such cut, or no run in it), CORRUPT, SCHEMA, by return
 * or by done; BUSY: another cut is being read. */
typedef void (*engine_restore_checked)(void *context, int status, const char *text);
int engine_restore_check(struct engine *g, uint64_t cut, uint64_t run, engine_restore_checked done,
                         void *context, struct err *e);
/* The second: journals RESTORE and puts the tables of the cut's run back to the cut, unless their
 * schemas have changed since (SCHEMA); opens `run` with the cut's marks, drops all other runs that
 * push to one of these tables. Other tables and runs stay as they are. A cut that was not
 * checked since the start is read first, in the call. It returns when that has begun (engine_back),
 * or, without on_recovered, when it is done. Killed in between, the next start does it from the
 * record. */
int engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e);
/* while it is being exported: once that is done */
int engine_cut_drop(struct engine *g, uint64_t cut);

/* ---- checkpoints (what a folder of one holds, and how tools read it: checkpoint.h) ---- */
/* status 0: the text is ""; else it is the sentence that says why. On the loop, once; the text dies
 * with the call. */
typedef void (*engine_export_done)(void *context, int status, const char *text, uint64_t rows,
                                   uint64_t bytes);
/* Puts the complete cut into the new folder PATH/part-PPPP (part of `parts`) on an I/O thread: rows
 * and journal by hard link where the file system allows, else copied, and a manifest with the
 * checksum of every file; made as part-PPPP.tmp, synced, and named by one rename. PATH is absolute;
 * it is made when only its last part is missing. Again: the same answer. 0: done will be called.
 * Refusals, without done: NOT_FOUND (no such complete cut), MALFORMED (part, parts, path), DENIED
 * (not below checkpoint_root), BUSY
 * (another export is under way), AGAIN (nothing is led yet), IO, NOMEM. done: EXISTS (the folder
 * holds another cut, or another part), CANTCREATE, NO_SPACE, CORRUPT, IO. */
int engine_cut_export(struct engine *g, uint64_t cut, const char *path, uint32_t part,
                      uint32_t parts, engine_export_done done, void *context, struct err *e);

struct engine_load_options {
    const char *path; /* absolute folder of a checkpoint: all part-PPPP are under it */
    /* opened by the load, with the lanes and mode of the checkpoint's run and its marks; or, with
     * lanes above 0, begun: with so many, this mode and no marks */
    uint64_t run;
    uint32_t lanes, mode;
    /* bit t: table t may belong to the run; 0: each may. Filled are those that were never touched
     * here; one that was is refused where the checkpoint has it by name, else it stays as it is:
     * named here, it belongs to a run that begins */
    uint64_t tables;
    /* rows that are left out (engine_fields_take); NULL: none */
    const char *without;
};
/* status 0: the text holds what was translated, a sentence a line, "" where the tables are taken as
 * they are; rows: of the run's tables on this shard. Else it says why not. On the loop, once; the
 * text dies with the call. */
typedef void (*engine_load_done)(void *context, int status, const char *text, uint64_t rows);
/* Fills tables that are here by name (made before, by engine_table_create) with the tablets that
 * this shard leads, from all parts of the checkpoint: rows, what else an image carries, and the
 * marks of the checkpoint's run under the new run's number. Every file is verified before anything
 * changes. Answers when all is durable here; a kill before that leaves the tables empty and the run
 * closed (load again), one after it everything. A load again for the same run answers its rows. 0:
 * done will be called. Refusals, by return or by done: EXISTS (a table of the checkpoint has been
 * touched here, or the run is open and was not loaded), NOT_FOUND (no checkpoint there), CORRUPT
 * and CHECKSUM (the file is named, or the key of a row that is not finite), DENIED (not below
 * checkpoint_root, or not signed as checkpoint_signers asks), SCHEMA (checkpoint_translation),
 * BUSY (another load is under way), AGAIN (a cut is being made, pushes are being applied, no tablet
 * is led yet), NO_SPACE, NOMEM. While it runs, pushes to
 * the tables concerned, cuts and restores are refused with BUSY; all else goes on. */
int engine_load(struct engine *g, const struct engine_load_options *options, engine_load_done done,
                void *context, struct err *e);

typedef void (*engine_load_drop_done)(void *context, int status, const char *text);
/* Takes back what a load for `run`, or for an older run, did or does here, if nobody has trained on
 * it (no lane of its run was ever fenced): the tables that it filled are empty again, as if it had
 * never been, so that another load can go there. A load that shares no table with `tables` (bit t:
 * table t) is another job's and stays. A load under way is called off: its done is told
 * STOPPED. In any case `run` is dropped. 0: done will be called, perhaps before this returns; a
 * kill before that leaves it as it was or without rows: the same again ends it. While it runs,
 * pushes to the tables concerned, cuts and restores are refused with BUSY. BUSY: another one is
 * under way. */
int engine_load_drop(struct engine *g, uint64_t run, uint64_t tables, engine_load_drop_done done,
                     void *context, struct err *e);

/* ---- looking back, and erasing to the end ---- */
#define ENGINE_BLAME_MAX 65536u
/* status 0: entry (count), newest first; complete: they reach back to the journal's first record.
 * On the loop, once. */
typedef void (*engine_blame_done)(void *context, int status, const char *text,
                                  const struct blame_entry *entry, uint32_t count, bool complete);
/* The newest `limit` pushes of a key in the journal and its archive, searched on an I/O thread. 0:
 * done will be called, but for an engine that closes first. BUSY: another one, or a scrub, is under
 * way. NOT_FOUND: there is no journal. */
int engine_blame(struct engine *g, uint32_t table, uint64_t key, uint32_t limit,
                 engine_blame_done done, void *context, struct err *e);
/* status 0: up to `sequence` no record of the journal has anything of the keys. On the loop,
 * once. */
typedef void (*engine_scrub_done)(void *context, int status, const char *text, uint64_t sequence);
/* After engine_keys with KEY_ERASE: makes sure that nothing of the keys' rows and gradients is left
 * in journal, archive and store. All dirty tablets are written, the journal up to now is trimmed
 * and its files deleted, the store is rewritten, the archive's records are blanked. Left are: the
 * keys themselves (blocked by name), cuts (engine_cuts) and checkpoints, the quarantine, and free
 * blocks of the file system. Costs the writing of all rows. 0: done will be called (at once where
 * there is no journal). BUSY, AGAIN, NOMEM. */
int engine_scrub(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count,
                 engine_scrub_done done, void *context, struct err *e);
/* Calls off a search, or the archive's part of a scrub: done is called with STOPPED. */
void engine_audit_stop(struct engine *g);
/* Numbers of the cuts that are kept here, at most `most`. Returns how many. */
uint32_t engine_cuts(const struct engine *g, uint64_t *out, uint32_t most);
/* Bit t: a cut that is held or kept here is of a run that pushes to table t, or of no run and has
 * the table. All bits where that cannot be read. */
uint64_t engine_cut_tables(struct engine *g, uint64_t cut);

struct engine_stats {
    uint64_t rows, row_bytes, memory_bytes, journal_bytes, journal_written, image_bytes_written;
    /* recovered_ns: until all tablets were back; 0 before */
    uint64_t sequence, flushed_sequence, replayed, recovered_ns;
    uint32_t tables, tablets_dirty;
    uint32_t tablets_away, tablets_awaited; /* not back yet; of how many at the start */
    /* among `rows`: those in the store, aged ones that nobody has noticed yet too */
    uint64_t cold_rows;
    /* rows that came from the store; that went to it, of them without a write */
    uint64_t fetched, evicted, evicted_clean;
    uint64_t store_memory; /* among memory_bytes: buffers of the store */
    /* of DIR and of exported parts on its file system, as far as it knows; 0 without a folder */
    uint64_t disk_bytes;
    bool disk_short;   /* for lack of disk pushes are refused, or a change of schema waits */
    bool memory_short; /* the last push was, for lack of memory: no row could go */
};
void engine_stats_get(const struct engine *g, struct engine_stats *out);

/* Write images and trim as the journal grows; the shard calls it after each drained batch. Cheap
 * when there is nothing to do. */
void engine_flush_step(struct engine *g);

/* How the files of its store are checked, in words. */
const char *engine_checksums(void);
/* "RocksDB 7.8.3" */
const char *engine_library(void);

#endif
