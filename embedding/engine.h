/* engine.h: all that a shard owns and journals: tables, runs with their lanes and marks, the
 * journal, the row store. No socket, no clock, no thread of its own: slow work (writing images)
 * leaves through env_work and comes back on the loop.
 *
 * A change takes the path below, live and in recovery. Only engine_load and engine_load_drop take
 * another one: they put in or take out whole tablets without a record, so a reader of the journal
 * does not see them (load.c, 4; unload.c, 2); for followers a RECORD_BASE precedes them (follow.h).
 *
 *     record -> engine_admit_push (checks, marks move) -> journal_append
 *            -> engine_commit -> engine_apply_push (rows change) -> reply
 *     start:    journal_cursor -> apply_record, the same steps (engine/apply.h)
 *
 * Invariants, cited by number in code and tests:
 *  1. A reply is sent only after engine_commit has returned 0 for its record, and with durability
 *     fsync only after the record is synced. [assert: engine_apply_push]
 *  2. The sequences of a shard begin at 1 and have no gap. [assert: queue_push, control_journal]
 *  3. The effect of engine_apply_push depends only on the engine's state and the record, bit for
 *     bit. [test: test_recover, test_tier_random]
 *  4. A tablet equals its stored image, which is complete up to its flushed_seq (marks and undo
 *     included), plus the records above it. [test: test_recover, test_tier_random]
 *  5. The journal is trimmed only below the smallest flushed_seq that RocksDB has made durable,
 *     over all tablets, the control state and unfinished cuts. [test: test_recover, test_cut]
 *  6. Old records of a recycled segment are never read as new ones: the checksum covers the
 *     segment's generation. [test: a_recycled_tail_is_never_read_as_new]
 *
 * Push rule, for each covered tablet: it takes the push if from <= mark < to, and skips it if
 * mark >= to. If mark < from, the whole push is a GAP: nothing is done and the lowest mark is
 * returned. */
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

struct meter_times;

struct engine;
struct json;

struct engine_options {
    /* the shard's own folder with journal/, rows/ and cuts/; NULL: all is kept in memory (in the
     * simulator and in tests of `memory`) */
    const char *dir;
    enum durability durability;
    /* checkpoints are written to and loaded from folders below it only; NULL or "": any folder.
     * Borrowed */
    const char *checkpoint_root;
    /* a file of keys (proto/job/signature.h), read for each load: only checkpoints that one of them
     * has signed are loaded; NULL or "": any checkpoint. Borrowed */
    const char *checkpoint_signers;
    uint64_t journal_max;   /* bytes; 0: max(1 GiB, row bytes) */
    uint32_t segment_bytes; /* 0: 64 MiB */
    /* bytes of trimmed segments that are kept in DIR/archive for blame; 0: none */
    uint64_t journal_keep;
    /* Records behind this one, and cuts of a later instant, are given up: the leader of a later
     * term has others (follow.h). 0: none. engine_open returns NOT_FOUND if stored rows are
     * newer */
    uint64_t until;
    /* pushes are refused (NO_SPACE) while fewer bytes are free; 0: min(5 %, 8 GiB) of the file
     * system */
    uint64_t disk_watermark;
    /* bytes that DIR and exported parts on its file system may take; beyond it pushes are refused
     * (NO_SPACE) until there is room again (space.h). 0: no limit */
    uint64_t disk;
    /* bytes of memory that this engine may take, with the buffers of its store; beyond it rows move
     * to the store (tier.h). 0: no limit, and rows stay in memory. Without a store (`memory`) rows
     * never move */
    uint64_t memory;
    /* time since 1970, used only in lines of the quarantine; NULL: the lines have no time */
    uint64_t (*wall_ns)(void);
    /* engine_synced() has increased, and in fsync mode engine_acknowledged(); on the loop */
    void (*on_synced)(void *context);
    /* rows have come from the store, or there is room again: the caller may repeat an engine_warm
     * that returned false. On the loop. NULL: no call */
    void (*on_fetched)(void *context);
    /* with it engine_open and engine_restore may return before all tablets are back (engine_back);
     * it is called on the loop when they are. NULL: they are back on return */
    void (*on_recovered)(void *context);
    /* progress within one long call (opening, a restore, a copy of all images, the last flush):
     * `done` of `of` units are done; of 0: the total is unknown. On the loop. NULL: no call */
    void (*on_pulse)(void *context, uint64_t done, uint64_t of);
    /* the disk failed: stop acknowledging, exit with 74, and recover at the restart */
    void (*on_fatal)(void *context, const struct err *e);
    void *context;
};

/* Opens or creates an engine and recovers it: loads images and replays the journal. env is
 * borrowed; the engine uses env_work, and env_now_ns for recovered_ns. No tablet is led before
 * engine_lead. With durability `memory` a dir keeps only cuts: the engine starts empty. */
int engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                struct err *e);
/* True when all tablets are back. Until then they come back in steps, first the ones that an
 * engine_warm asks for. Allowed meanwhile are only engine_warm, engine_row, engine_lead,
 * engine_flush_step (which does nothing), closing, calls that read no rows, and reading rows for
 * which engine_warm has returned true. */
bool engine_back(const struct engine *g);
/* True while a restore or a clear is under way. Then engine_warm returns false until on_fetched,
 * and engine_row returns AGAIN. */
bool engine_restoring(const struct engine *g);
/* Waits for work in flight. flush_all first writes every dirty tablet: after such a clean stop the
 * next start replays nothing. */
int engine_close(struct engine *g, bool flush_all);

/* ---- where the shard belongs ---- */
/* The cluster, the shard's number in it, and the newest map that the shard has accepted. They are
 * kept in its folder, so that neither another shard's folder nor an empty one is mistaken for
 * it. */
struct engine_place {
    uint64_t cluster[2];      /* 0, 0: no cluster yet, and all else is 0 */
    uint32_t number, shards;  /* this shard; all shards of the cluster */
    uint64_t map_epoch;       /* 0: no map yet */
    uint32_t tablets;         /* tablets of the map */
    const uint16_t *shard_of; /* borrowed, (tablets): the owner of each global tablet */
};
/* Valid until the next engine_place_set. */
const struct engine_place *engine_place(const struct engine *g);
/* The place is on disk on return; the map is copied. IO, NOMEM: nothing has changed. */
int engine_place_set(struct engine *g, const struct engine_place *place, struct err *e);
/* 0 if every tablet that has rows or marks here stays here under the map of `next`, is one of the
 * global tablets may_leave (count), or is a stray already (move.h); else CONFIG, which names the
 * tablet. AGAIN while rows are being read back and this is unknown. */
int engine_place_leaves(const struct engine *g, const struct engine_place *next,
                        const uint32_t *may_leave, uint32_t count, struct err *e);

/* The fleet's spaces and the names of the numbers in their keys: a text in the format of
 * proto/job/catalog.h. The folder keeps it for a coordinator that has lost its store. A newer text
 * has a higher version. */
struct engine_names {
    uint64_t version; /* 0: none is known, and all else is 0 */
    const char *line; /* borrowed, (bytes), without a final newline */
    uint32_t bytes;
    uint64_t digest; /* XXH3 of the text */
};
/* Valid until the next engine_names_set. */
const struct engine_names *engine_names(const struct engine *g);
/* The text is on disk on return; it is copied. IO, NOMEM: nothing has changed. */
int engine_names_set(struct engine *g, uint64_t version, const char *line, uint32_t bytes,
                     struct err *e);

/* The parts of logs that the tables of a space have learnt, as bytes of the coordinator that are
 * opaque here. They are kept in the folder for a coordinator that has lost its own. Newer bytes
 * have a higher version. space: below LIMIT_SPACES. */
#define ENGINE_TAKEN_MAX ((16u << 20) - 4096u)
uint64_t engine_taken_version(const struct engine *g, uint32_t space); /* 0: none are known */
uint64_t engine_taken_newest(const struct engine *g); /* the greatest version of all spaces */
/* The bytes (count) are on disk on return; they are copied. IO, NOMEM: nothing has changed. */
int engine_taken_set(struct engine *g, uint32_t space, uint64_t version, const void *bytes,
                     uint32_t count, struct err *e);
/* Reads them from disk; the caller frees *bytes. IO, CORRUPT, NOMEM. */
int engine_taken_get(const struct engine *g, uint32_t space, void **bytes, uint32_t *count,
                     struct err *e);

/* ---- records ---- */
struct push_plan {             /* decided by engine_admit_push, for engine_apply_push */
    uint32_t applied, skipped; /* tablets */
    /* lowest mark of the covered tablets: after the push, or the present one if it is refused */
    uint64_t mark;
    uint64_t sequence; /* 0: nothing to journal (all skipped) */
    bool all;          /* every covered tablet takes it */
    bool uneven;       /* their marks differ */
    bool bsp;          /* rows keep undo for its clock */
    /* the engine's scratch when !all; valid until engine_apply_push of this plan */
    uint8_t *take;
    /* batches that the push stands for in each tablet; if that differs between tablets, `steps`
     * (scratch, too) has it by tablet */
    uint64_t step;
    uint32_t *steps;
    struct assign_counts assigned; /* rows by key: set by engine_apply_push */
};

/* The part of engine_admit_push that checks size and values (guard.h), for a push that is held
 * before it is admitted. 0, TOO_BIG, NOT_FINITE or MALFORMED. */
int engine_check_body(struct engine *g, const struct push_record *r, struct err *e);
/* Counts of pushes refused for their values and of clipped gradients since the start:
 * guard_json. */
struct json *engine_refused_json(const struct engine *g);
/* Checks run, lane, generation, table, range, counts, the gradients' values and the push rule. With
 * an image: that it is a tablet of a dense table, whole, of the table's schema and with finite
 * values (else also SCHEMA); engine_apply_push puts it in the place of the tablet's rows. With
 * rows: that they are a table's, of keys in these tablets, and can be stored (table_assign_ok);
 * OLD_RUN while a run is open that pushes to the table; every tablet takes them, no mark moves.
 * After 0 with plan->applied > 0 the marks have moved and the record is queued for the next
 * engine_commit; the bytes that it points to must stay until engine_apply_push. Refusals: OLD_RUN,
 * FENCED, NO_TABLE, GAP, NOT_FINITE, MALFORMED, NO_SPACE (disk), and BUSY, after which the caller
 * asks again later: the journal is full, flushing is behind, or a cut has not copied the tablets
 * yet. */
int engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                      struct err *e);
/* Writes all queued records with one gathered write, and in fsync mode starts a group sync. After a
 * status other than 0 on_fatal has been called. */
int engine_commit(struct engine *g);
/* Changes rows. Called after engine_commit, in the order of admission. */
int engine_apply_push(struct engine *g, const struct push_record *r, struct push_plan *plan);
/* The newest record's sequence; 0: none. Unlike engine_stats_get, it looks at no tablets. */
uint64_t engine_sequence(const struct engine *g);
/* Highest sequence that may be acknowledged: the last committed one (memory, journal) or the last
 * synced one (fsync). */
uint64_t engine_acknowledged(const struct engine *g);
/* Highest sequence that is on disk, with any durability; 0 with `memory`, which writes none. */
uint64_t engine_synced(const struct engine *g);
/* The highest run that was ever opened here by any call, even if it was dropped since; 0: none. */
uint64_t engine_newest_run(const struct engine *g);
/* The same for the runs that have one of these tables. */
uint64_t engine_newest_run_of(const struct engine *g, struct table_set tables);
/* journal mode: starts a sync of the committed records unless one is under way. The engine has no
 * clock, so the caller's timer calls it. Returns true if some record was not synced yet: then the
 * timer must run again. */
bool engine_sync_due(struct engine *g);
/* True while a committed record is not synced. Cheap. */
bool engine_unsynced(const struct engine *g);

/* Control records. Each call checks, journals, commits and applies its record; queued pushes are
 * committed with it. The record is synced in fsync mode, and if it is about runs or lanes in
 * journal mode, too. All calls are idempotent. engine_run_drop and engine_restore return AGAIN
 * while an admitted push is not applied yet or a cut is being copied. */
/* Creates the table. A table that exists with another schema gets this one if schema_change allows
 * it: AGAIN while its rows are being written for the new schema (engine/change.h) or a cut is being
 * copied. SCHEMA names the part that may not change. */
int engine_table_create(struct engine *g, const struct table_schema *schema, struct err *e);
/* mode: as in rows/run.h. NO_SPACE: the marks of `lanes` lanes do not fit the memory budget.
 * CONFIG: the run is not above engine_newest_run, so it is over, and would begin again with marks
 * 0. */
int engine_run_open(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode, struct err *e);
/* The same for a run that pushes only to some tables of the shard (the others belong to other
 * spaces): its clocks and lowest marks count only these tables. engine_run_open
 * counts all tables, later ones included. */
int engine_run_open_tables(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode,
                           struct table_set tables, struct err *e);
/* 0 if the run, which was opened here before, still is open; else NOT_FOUND or CONFIG with the
 * consequence. */
int engine_run_still(const struct engine *g, uint64_t run, struct err *e);
int engine_run_drop(struct engine *g, uint64_t run, struct err *e);
/* Drops the runs below this number that push to one of `tables`, except a run whose
 * load engine_load_drop may still take back. Stops at the first run that cannot be dropped and
 * returns the status of its engine_run_drop. */
int engine_runs_drop_below(struct engine *g, uint64_t run, struct table_set tables, struct err *e);

/* status 0: everything is dropped. Called once, on the loop; the text is valid during the call. */
typedef void (*engine_clear_done)(void *context, int status, const char *text);
/* Drops tables for good, with their schemas, runs, marks and cuts, so that `job`
 * begins without them; their numbers are free. Other tables keep all that is theirs. It happens
 * once for each job and table: a repeated call is done at once, whatever is there by then.
 * engine_newest_run_of stays. After 0 done will be called, perhaps before the return; until then
 * the engine is not back (engine_back). After a kill either all of the tables but their cuts is
 * still there, or nothing. AGAIN, BUSY: other work is under way. CONFIG: a run of this job or of a
 * newer one was opened here for these tables without a clear. */
int engine_clear(struct engine *g, uint64_t job, struct table_set tables, engine_clear_done done,
                 void *context, struct err *e);

/* Raises the lane's generation and sets `live`. A lane that becomes live (ssp, async) also gets its
 * offset: the given one, which is the same on all shards, or with NULL one that follows from the
 * other lanes here. A fence with the current generation never ends a lane's life: it is a late copy
 * of an earlier request. *mark: lowest mark of the lane over the led tablets. */
int engine_fence(struct engine *g, uint64_t run, uint32_t lane, uint64_t generation, bool live,
                 const int64_t *offset, uint64_t *mark, struct err *e);
/* Applies an action to keys (table_keys, table.h). The change is journalled, so a replay or a cut
 * repeats it. Keys of tablets that are not led are ignored. *changed: keys that had another name
 * before. AGAIN while an admitted push is not applied yet; TOO_BIG when a tablet might have more
 * than NAMED_MAX names (524,288). Erased rows leave the store with the next image of their tablets,
 * and the journal when it is trimmed. */
int engine_keys(struct engine *g, uint32_t table, enum key_action action, const uint64_t *keys,
                uint32_t count, uint64_t *changed, struct err *e);
/* Sets of fields, by table. */
struct engine_fields {
    uint64_t of[LIMIT_TABLES][LIMIT_FIELDS / 64];
};
/* Reads a list of fields: "TABLE:NUMBER", or "TABLE:*" for all fields of a table, separated by
 * blanks. Of several tables with one name those of `tables` are meant. Tables that are
 * not here are ignored. NULL: no fields. MALFORMED. */
int engine_fields_take(const struct engine *g, const char *text, struct table_set tables,
                       struct engine_fields *out, struct err *e);
/* Drops all rows of the fields (one table's) from a tablet, and the counts of its keys that wait
 * for a row. names: drops the names of keys, too, as if the fields had never existed. Journalled as
 * engine_keys is. *rows: dropped rows. A tablet that is not led is ignored. Refusals as of
 * engine_keys. */
int engine_fields_drop(struct engine *g, uint32_t table, uint32_t tablet, const uint64_t *fields,
                       bool names, uint64_t *rows, struct err *e);
/* 0, or the refusal that engine_keys would give for any `count` keys. A caller that sends keys in
 * portions checks the total with it. */
int engine_keys_check(const struct engine *g, uint32_t table, enum key_action action,
                      uint32_t count, struct err *e);
/* Tells which global tablets this shard leads: (count) numbers of shards. It is not journalled: the
 * coordinator sends it at every registration. A push for a tablet that is not led is NOT_LEADER.
 * Clocks and lowest marks count only led tablets. */
int engine_lead(struct engine *g, const uint16_t *shard_of, uint32_t count, uint16_t self);

/* ---- reading ---- */
struct table *engine_table(struct engine *g, uint32_t table); /* or NULL */
/* Clocks of a run over the led tablets of all its tables: lane clock = lowest mark + offset. *low
 * is the smallest clock of the live lanes (UINT64_MAX when none is live). *clock_of is the clock of
 * the lane's batch `batch`: batch + offset. NOT_FOUND for an unknown run or lane. */
int engine_clock(const struct engine *g, uint64_t run, uint32_t lane, uint64_t batch,
                 uint64_t *clock_of, uint64_t *low);
/* The smallest clock of the live lanes other than `lane`; UINT64_MAX: there is none, or no such run
 * or lane. */
uint64_t engine_low_beside(const struct engine *g, uint64_t run, uint32_t lane);
/* *mode: without RUN_APART. */
int engine_run_mode(const struct engine *g, uint64_t run, uint32_t *mode, uint32_t *lanes);
/* The tables to which the run pushes. None: the run is not open. */
struct table_set engine_run_tables(const struct engine *g, uint64_t run);
/* The tables of the run that count in its clocks and lowest marks. */
struct table_set engine_run_counts(const struct engine *g, uint64_t run);
bool engine_lane_live(const struct engine *g, uint64_t run, uint32_t lane);
/* Lowest mark of a lane over the led tablets of one table. */
uint64_t engine_mark(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table);
/* Steps of a table in a run: how many batches, over all lanes, each of its led tablets has applied
 * (mark.h). 0: the run is not open, no tablet is led, or none has applied a batch. */
uint64_t engine_steps(const struct engine *g, uint64_t run, uint32_t table);
/* The same over the led tablets in [first, first + count) of the table; UINT64_MAX when none is
 * led. */
uint64_t engine_mark_range(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table,
                           uint32_t first, uint32_t count);
uint64_t engine_lane_generation(const struct engine *g, uint64_t run, uint32_t lane);

/* ---- shares of the memory (engine/share.h) ---- */
#define ENGINE_PARTS 65536u
struct engine_share {
    struct table_set tables; /* a table has one share at most */
    uint32_t parts;          /* the share, in parts of ENGINE_PARTS; more than 0 */
    char name[LIMIT_NAME];   /* name of the space, for messages */
};
/* Sets the shares, which replace all others; they are kept in memory only. Tables in no share have
 * the parts that are left, together; without shares (count 0) all tables have all. MALFORMED:
 * nothing has changed. */
int engine_shares_set(struct engine *g, const struct engine_share *share, uint32_t count,
                      struct err *e);
struct engine_share_use {
    struct engine_share share;
    uint64_t rows, cold_rows; /* cold_rows: those of them that are in the store */
    uint64_t bytes, limit;    /* in memory; its share of it, 0: memory has no limit */
    uint64_t waits, refused;  /* pushes that the share has put off, or refused, since it was set */
};
/* Writes how each share is used, in the order of engine_shares_set, and returns their number. */
uint32_t engine_shares(const struct engine *g, struct engine_share_use out[LIMIT_SPACES]);
/* Tables whose pushes wait for the same as the last push that engine_admit_push has refused with
 * BUSY. */
struct table_set engine_short_tables(const struct engine *g);
/* Tables that are held to their share now: until room is made no row of theirs comes from the store
 * (engine_warm asks for none), and no push is admitted. on_fetched tells when to ask again. */
struct table_set engine_held_tables(struct engine *g);

/* ---- rows in the store (tier.h) ---- */
/* True when every existing row of the keys (count) is in memory. Otherwise rows in the store are
 * requested, and on_fetched tells the caller to ask again when some have come. A push must be
 * admitted, or a pull answered, in the same turn of the loop in which this returned true. Cheap if
 * the table has no row in the store. The keys may include ones of tablets that are not led. */
bool engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
/* The same for assertions: it asks for no rows, and looks at each key. */
bool engine_here(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
/* A table in which `tablet` has all its rows, aged up to now. It is the table itself, or, if some
 * rows are in the store, a copy of that tablet, valid until the next such call or any change of the
 * engine. Reads the store on this thread, a few ms a tablet. NULL: e says why. */
const struct table *engine_whole(struct engine *g, uint32_t table, uint32_t tablet, struct err *e);
/* The same for one row: a table that has the row, if the row exists. It is the table itself, or, if
 * the row is in the store (*stored), a copy of that row, aged up to now and valid as long. Reads
 * one row, or, after a start, the row's whole tablet. NULL: e says why. */
const struct table *engine_row(struct engine *g, uint32_t table, uint64_t key, bool *stored,
                               struct err *e);

/* ---- a dense table's tablet, whole ---- */
struct engine_image_of {
    uint32_t table, tablet; /* tablet: its number in the table */
    uint64_t run;           /* run of the mark */
    uint32_t lane;
};
struct engine_image {
    const struct table *from; /* table_image_write(from, tablet, ..) writes the image */
    size_t bytes;
    uint64_t rows;
    uint64_t mark; /* mark of the lane in the run; 0: it has none, or the run is not open */
    /* the newest record that changed the tablet; without a journal, the newest one of all */
    uint64_t sequence;
};
/* Tells how a tablet of a dense table can be read. *out is valid until the engine changes. No
 * admitted push is unapplied, and all tablets are back. NO_TABLE; MALFORMED: the table is not
 * dense, or has no such tablet, or the run no such lane; TOO_BIG: no message has room for it. */
int engine_image(const struct engine *g, const struct engine_image_of *of, struct engine_image *out,
                 struct err *e);

/* ---- the cut ---- */
/* 0 if the disk, or without a folder the memory, has room for a cut; else NO_SPACE, which says what
 * is short. */
int engine_cut_room(struct engine *g, uint64_t cut, struct err *e);
typedef void (*engine_ahead_done)(void *context);
/* Prepares a cut that will be exported, before engine_hold: writes the rows that records in the
 * journal changed, while pushes go on, so that the cut has few records. done is called once on the
 * loop, perhaps before the return: when the rows are written, when writing is impossible or does
 * not pay, or at engine_hold. The next engine_cut_ahead must wait for that call. */
void engine_cut_ahead(struct engine *g, engine_ahead_done done, void *context);
/* Notes the current sequence and the run's marks, and pins the journal. No push may be admitted
 * between hold and go (the shard queues them). run 0: the cut belongs to no run and cannot be
 * restored. OLD_RUN: the run is not open here. NO_SPACE: see engine_cut_room. */
int engine_hold(struct engine *g, uint64_t cut, uint64_t run, uint64_t *sequence);
/* The cut that is held belongs to no run, and is made for these tables (none: all). */
void engine_hold_tables(struct engine *g, struct table_set tables);
/* Makes cuts/CUT: a RocksDB checkpoint, linked segments of the journal and a manifest with
 * checksums, which one rename makes visible. If the journal cannot be linked, all tablets are
 * copied, batch by batch (cut_copy.h). done is called on the loop. */
int engine_go(struct engine *g, uint64_t cut,
              void (*done)(void *context, int status, uint64_t rows, uint64_t bytes),
              void *context);
int engine_release(struct engine *g, uint64_t cut); /* HOLD without GO */
/* The first of two steps: checks that the cut can be restored as `run`. An I/O thread reads the
 * whole cut; nothing changes and all other work goes on. done is called once on the loop, with
 * status 0 or with a sentence. If several shards restore, all are checked before the first one
 * restores. After 0 done will be called, perhaps before the return. NOT_FOUND (no such cut, or no
 * run in it), CORRUPT, SCHEMA, by return or by done; BUSY: another cut is being read. */
typedef void (*engine_restore_checked)(void *context, int status, const char *text);
int engine_restore_check(struct engine *g, uint64_t cut, uint64_t run, engine_restore_checked done,
                         void *context, struct err *e);
/* The second step: journals RESTORE and puts the tables of the cut's run back to the cut, unless
 * their schemas have changed since (SCHEMA). Opens `run` with the cut's marks and drops all other
 * runs that push to one of these tables. Other tables and runs stay as they are. A cut that was not
 * checked since the start is read first, within the call. Returns when the restore has begun
 * (engine_back), or, without on_recovered, when it is done. If the process is killed in between,
 * the next start restores from the record. */
int engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e);
/* Drops a cut. One that is being exported is dropped after the export. */
int engine_cut_drop(struct engine *g, uint64_t cut);

/* ---- checkpoints (what a folder of one holds, and how tools read it: checkpoint.h) ---- */
/* status 0: the text is ""; otherwise it is a sentence with the cause. Called once, on the loop;
 * the text is valid during the call. */
typedef void (*engine_export_done)(void *context, int status, const char *text, uint64_t rows,
                                   uint64_t bytes);
struct engine_export {
    uint64_t cut;
    const char *path;
    uint32_t part, parts;
    struct table_set tables; /* a cut that belongs to no run: the tables to export; none: all */
};
/* Exports the complete cut to the new folder PATH/part-PPPP (part of `parts`) on an I/O thread.
 * Rows and journal are hard links where the file system allows it, else copies; a manifest has the
 * checksum of every file. The folder is made as part-PPPP.tmp, synced, and named by one rename.
 * PATH is absolute; it is created if only its last component is missing. A repeated call gets the
 * same answer. After 0 done will be called. Refusals, without done: NOT_FOUND (no such complete
 * cut), MALFORMED (part, parts, path), DENIED (not below checkpoint_root), BUSY (another export is
 * under way), AGAIN (no tablet is led yet), IO, NOMEM. done: EXISTS (the folder holds another cut,
 * or another part), CANTCREATE, NO_SPACE, CORRUPT, IO. */
int engine_cut_export_tables(struct engine *g, const struct engine_export *what,
                             engine_export_done done, void *context, struct err *e);
/* The same for all tables of the cut. */
int engine_cut_export(struct engine *g, uint64_t cut, const char *path, uint32_t part,
                      uint32_t parts, engine_export_done done, void *context, struct err *e);

struct engine_load_options {
    const char *path; /* absolute folder of a checkpoint, with all its part-PPPP */
    /* the run that the load opens. lanes 0: it continues the checkpoint's run, with its lanes, mode
     * and marks. lanes above 0: it begins with that many lanes, this mode and no marks */
    uint64_t run;
    uint32_t lanes, mode;
    /* tables that may belong to the run; none: any table may. Only tables that were never changed
     * here are filled. A changed table whose name the checkpoint has is refused. Another changed
     * table stays as it is; it belongs to a run that begins only if it is one of these */
    struct table_set tables;
    /* fields whose rows are left out (engine_fields_take); NULL: none */
    const char *without;
};
/* status 0: the text has a line for each translation, "" if the tables are taken as they are; rows:
 * those of the run's tables on this shard. Otherwise the text is the cause. Called once, on the
 * loop; the text is valid during the call. */
typedef void (*engine_load_done)(void *context, int status, const char *text, uint64_t rows);
/* Fills tables that exist here by name (made before by engine_table_create) with the tablets that
 * this shard leads, from all parts of the checkpoint: the rows, all else in the images, and the
 * marks of the checkpoint's run under the new run's number. Every file is verified before anything
 * changes. done is called when all is durable here: a kill before that leaves the tables empty and
 * the run closed (load again), a kill after it leaves everything. A repeated load for the same run
 * answers with its rows. After 0 done will be called. Refusals, by return or by done: EXISTS (a
 * table of the checkpoint was changed here, or the run is open and was not loaded), NOT_FOUND (no
 * checkpoint there), CORRUPT and CHECKSUM (with the file, or the key of a row that is not finite),
 * DENIED (not below checkpoint_root, or not signed as checkpoint_signers requires), SCHEMA
 * (checkpoint_translation), BUSY (another load is under way), AGAIN (a cut is being made, pushes
 * are being applied, no tablet is led yet), NO_SPACE, NOMEM. During a load pushes to its tables,
 * cuts and restores are refused with BUSY; all else goes on. */
int engine_load(struct engine *g, const struct engine_load_options *options, engine_load_done done,
                void *context, struct err *e);

typedef void (*engine_load_drop_done)(void *context, int status, const char *text);
/* Takes back the load for `run`, and loads for older runs, if their runs never trained (no lane was
 * ever fenced): the tables that a load filled are empty again, as if it had never happened, so that
 * another load can fill them. A load that shares no table with `tables` belongs to
 * another job and stays. A load in progress is stopped: its done gets STOPPED. In any case `run` is
 * dropped. After 0 done will be called, perhaps before the return; a kill before that leaves the
 * load as it was, or without rows, and a repeated call completes it. Meanwhile pushes to the tables
 * concerned, cuts and restores are refused with BUSY. BUSY: another engine_load_drop is under
 * way. */
int engine_load_drop(struct engine *g, uint64_t run, struct table_set tables,
                     engine_load_drop_done done, void *context, struct err *e);

/* ---- looking back, and erasing to the end ---- */
#define ENGINE_BLAME_MAX 65536u
/* status 0: entry (count), newest first; complete: they reach back to the journal's first record.
 * Called once, on the loop. */
typedef void (*engine_blame_done)(void *context, int status, const char *text,
                                  const struct blame_entry *entry, uint32_t count, bool complete);
/* Finds the newest `limit` pushes of a key in the journal and its archive, on an I/O thread. After
 * 0 done will be called unless the engine closes first. BUSY: another search or a scrub is under
 * way. NOT_FOUND: there is no journal. */
int engine_blame(struct engine *g, uint32_t table, uint64_t key, uint32_t limit,
                 engine_blame_done done, void *context, struct err *e);
/* A push as JSON; event_time null: it had none; assigned: it brought the row's tablet whole. */
struct json *engine_blame_json(const struct blame_entry *entry);
/* status 0: no record of the journal up to `sequence` has anything of the keys. Called once, on the
 * loop. */
typedef void (*engine_scrub_done)(void *context, int status, const char *text, uint64_t sequence);
/* Removes all that is left of erased keys (engine_keys with KEY_ERASE) from journal, archive and
 * store: all dirty tablets are written, the journal up to now is trimmed and its files are deleted,
 * the store is rewritten, records in the archive are blanked. Not removed are the keys themselves
 * (blocked by name), cuts (engine_cuts) and checkpoints, the quarantine, and free blocks of the
 * file system. The cost is that of writing all rows. After 0 done will be called, without a journal
 * at once. BUSY, AGAIN, NOMEM. */
int engine_scrub(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count,
                 engine_scrub_done done, void *context, struct err *e);
/* Stops a search, or the archive's part of a scrub: done is called with STOPPED. */
void engine_audit_stop(struct engine *g);
/* Writes the numbers of the cuts that are kept here, at most `most`, and returns how many. */
uint32_t engine_cuts(const struct engine *g, uint64_t *out, uint32_t most);
/* Tables of a cut that is held or kept here: bit t is set if the cut's run pushes to table t, or,
 * for a cut without a run, if it was made for the table (engine_hold_tables). All bits are set
 * if the cut cannot be read. */
struct table_set engine_cut_tables(struct engine *g, uint64_t cut);

struct engine_stats {
    uint64_t rows, row_bytes, memory_bytes, journal_bytes, journal_written, image_bytes_written;
    /* recovered_ns: time from the start until all tablets were back; 0 until then */
    uint64_t sequence, flushed_sequence, replayed, recovered_ns;
    uint32_t tables, tablets_dirty;
    uint32_t tablets_away, tablets_awaited; /* tablets not back yet; those at the start */
    /* the ones of `rows` that are in the store, with aged rows that are not yet removed */
    uint64_t cold_rows;
    /* rows that came from the store; rows that moved to it, and how many of them without a write */
    uint64_t fetched, evicted, evicted_clean;
    uint64_t store_memory; /* the part of memory_bytes in buffers of the store */
    /* bytes of DIR and of exported parts on its file system, as far as known; 0 without a folder */
    uint64_t disk_bytes;
    bool disk_short;   /* pushes are refused, or a change of schema waits, for lack of disk */
    bool memory_short; /* the last push was refused for lack of memory: no row could move */
};
void engine_stats_get(const struct engine *g, struct engine_stats *out);

/* Figures of the disk's part: the journal's files, and the row store (struct store_space,
 * store_load). All 0 without a folder. Cheap. */
struct engine_disk_stats {
    /* borrowed: syncs of the journal beside the loop, and batches written to the store, by their
     * time */
    const struct meter_times *sync_times, *write_times;
    uint64_t syncs;    /* syncs counted in sync_times */
    bool syncing;      /* a further one runs */
    uint64_t segments; /* files of the journal with records that are not trimmed */
    uint64_t large, small, memory, readers;
    uint64_t flushes, compactions, pending, slowed;
    bool stopped;
};
void engine_disk_stats_get(const struct engine *g, struct engine_disk_stats *out);
/* Asks the file system of the folder: its free bytes, and with how few of them pushes are refused.
 * False: there is no folder, or the system does not tell. */
bool engine_disk_free(const struct engine *g, uint64_t *left, uint64_t *least);

/* Writes images and trims as the journal grows; the shard calls it after each drained batch. Cheap
 * when there is nothing to do. */
void engine_flush_step(struct engine *g);

/* Names the check of the store's files, in words. */
const char *engine_checksums(void);
/* "RocksDB 7.8.3" */
const char *engine_library(void);

#endif
