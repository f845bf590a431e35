/* engine_state.h: the struct behind an engine, for its room and for checkpoints. */
#ifndef EMBEDDING_ENGINE_ENGINE_STATE_H
#define EMBEDDING_ENGINE_ENGINE_STATE_H

#include "embedding/engine.h"
#include "embedding/engine/guard.h"
#include "embedding/engine/offload.h"
#include "embedding/journal/archive.h"
#include "embedding/journal/journal.h"
#include "embedding/journal/record.h"
#include "embedding/journal/term.h"
#include "embedding/rows/mark.h"
#include "embedding/rows/run.h"
#include "embedding/store.h"
#include "proto/meter/meter.h"

/* A table and the state of its tablets. The three sequences (tablets): `changed`: the last record
 * that the tablet took; `written`: that of the image last handed to the store; `durable`: that of
 * the image on disk. changed > written: dirty; changed > durable: the journal must be kept. A
 * tablet that was clean when a record came counts as durable up to the record before. */
struct engine_table {
    struct table *table; /* owned */
    struct mark_scope scope;
    uint64_t *changed, *written, *durable; /* owned */
};

#define ENGINE_CUT_REFS 16u
#define ENGINE_MEM_CUTS 16u

struct cut_ref { /* a cut that an untrimmed RESTORE record names */
    uint64_t cut, sequence;
    bool drop; /* its dropping was requested while it was needed */
};

/* Facts about a cut. run 0: there is none, and the cut cannot be restored. */
struct cut_facts {
    uint64_t cut, sequence, rows, bytes;
    struct table_set existing; /* tables that existed */
    uint64_t run;
    struct table_set tables; /* the run's; without a run those that the cut is made for */
    uint32_t lanes, mode;
    /* lowest mark of each lane of the run over the tablets led here */
    uint64_t lowest[LIMIT_LANES];
    /* By table: its rows here, and the bytes of its images. sized: false in an older release's cut,
     * which lacks them. */
    bool sized;
    uint64_t table_rows[LIMIT_TABLES], table_bytes[LIMIT_TABLES];
};

struct mem_cut { /* a cut of an engine without a folder */
    struct cut_facts facts;
    struct store *store; /* owned */
};

/* A finished load, which opened `run`. arena: owned, has its rows; NULL: they were recovered, and
 * are in the engine's own. */
struct engine_loaded {
    uint64_t run;
    struct table_set tables;
    struct arena *arena;
    bool leaving; /* it is being taken back */
};

struct stale { /* a tablet that began an epoch: pairs of other epochs may remain */
    uint32_t table, tablet, epoch;
};

struct flush_state {
    bool busy;                 /* a batch is in flight */
    struct offload *under_way; /* borrowed; that batch, if flush.c began it */
    bool settling;             /* a caller waits for it: no new batch begins */
    struct stale *stale; /* owned; (stale_room): tablets whose older pairs go after the batch */
    uint32_t stale_count, stale_room;
    uint8_t *buffer;         /* owned; values of the batch */
    size_t capacity, bytes;  /* used bytes of the buffer */
    struct store_item *item; /* owned; (item_room) */
    size_t item_room, items;
    void *control; /* owned; the control value of the batch */
    uint64_t control_seq;
    uint64_t credit;        /* image bytes that the journal's growth has paid for */
    uint64_t seen_written;  /* journal_written at the last step */
    uint64_t since_flush;   /* bytes written since the store's last flush */
    uint32_t table, tablet; /* next tablet of the round */
    uint64_t image_bytes;   /* written since start */
    bool rewriting;         /* a round writes clean tablets, too */
    /* borrowed; reads the records of a start's replay; NULL: none is in progress */
    const struct journal_cursor *read;
};

#define TIER_LEAVING 256u

struct wanted {    /* keys of one table to be fetched */
    uint64_t *key; /* owned; (count) */
    uint32_t count, room;
};

struct tier_tablet {
    uint32_t table, tablet;
};

struct tier_group {          /* share.h */
    struct engine_share is;  /* its tables, and its part of the memory */
    struct tier_tablet hand; /* the next tablet to lose rows */
    uint32_t idle;           /* tablets visited since a row left */
    uint64_t leaving;        /* estimated bytes of its rows that leave with the batch in flight */
    bool came;               /* rows came from the store, and none has left since */
    bool stuck;              /* no room can be made */
    uint64_t stuck_used;     /* bytes of all tables at that time */
    bool full;               /* its last push was refused for lack of room */
    uint64_t waits, refused; /* pushes that its share put off or refused */
    uint64_t stored;         /* bytes on disk when the disk last had room */
};

#define TIER_FETCHES 2u
struct fetch_work;
struct tier {          /* tier.h */
    uint64_t budget;   /* limit from the options for tables in bytes; 0: none */
    uint64_t rows_max; /* effective limit: budget, or less if a table cannot address more */
    uint32_t narrow;   /* the table that addresses least; LIMIT_TABLES: none */
    /* at the last check: bytes outside the arenas of all tables and of each; of the store */
    uint64_t beside, beside_of[LIMIT_TABLES], readers;
    uint32_t looks;
    bool making;                               /* room is being made */
    struct tier_group group[LIMIT_SPACES + 1]; /* (groups); 0: the tables in no share */
    uint32_t groups;
    uint8_t group_of[LIMIT_TABLES];
    struct table_set short_tables; /* engine_short_tables */
    /* tablets whose rows leave with the batch in flight */
    struct tier_tablet leaving[TIER_LEAVING];
    uint32_t leaving_count;
    uint64_t leaving_bytes; /* estimated bytes of these rows */
    bool written;           /* the batch is written, but unapplied pushes delay the leaving */
    struct wanted wanted[LIMIT_TABLES];
    uint32_t wanted_count;
    uint64_t *asked;     /* owned; names of keys wanted or in flight */
    uint64_t asked_salt; /* salt of their places */
    uint64_t *among;     /* owned; scratch of engine_warm */
    uint32_t among_room;
    struct fetch_work *fetch[TIER_FETCHES]; /* fetches in flight; NULL: none */
    uint64_t rest_until_ns;                 /* no fetch begins before (fetch_rest) */
    bool refused;           /* a request was refused for lack of room and was not notified since */
    struct env_timer timer; /* runs a flush step when nothing else does */
    bool tell;              /* the timer notifies waiting requests */
    uint64_t fetched, evicted, evicted_clean;
    /* since the last check: rows that came in; keys of requests whose rows were all there */
    uint64_t came, used;
    uint64_t in_vain; /* checks that found most fetched rows unused */
};

#define SPACE_PARTS 1024u

/* SPACE_BOUND: over options.disk; SPACE_DISK: the file system is full */
enum space_short { SPACE_ENOUGH, SPACE_BOUND, SPACE_DISK };
/* WRITE: images are being written; TIDY: the store deletes dead files */
enum space_reclaim { RECLAIM_NONE, RECLAIM_WRITE, RECLAIM_TIDY };

struct space {             /* space.h */
    uint64_t taken, small; /* bytes at the last walk; small: of these, in the store's small pairs */
    uint64_t store_seen, made_seen, added_seen; /* values at the start of that walk: */
    uint64_t added;                             /* bytes that reached DIR in other ways */
    uint64_t journal_next; /* journal_written at which the file system is asked again */
    uint64_t look_next_ns;
    enum space_short refusing;
    enum space_reclaim reclaim;
    bool looking, again; /* a walk is in progress; another one follows */
    bool stopped;        /* nothing is handed to the store */
    char **part;         /* owned, each; (parts): folders of parts that exports made */
    uint32_t parts;
};

/* A job is an activity of an engine over several turns of the loop beside its flushing: a cut that
 * waits for the store and copies, a scrub, a schema that waits for its rows, a load, an unload,
 * tablets that come back after a start or are restored to a cut. While it runs it is in
 * engine.job[kind]; the flush steps it, the memory budget counts its bytes and engine_close ends
 * it, without knowledge of its kind, so that rooms above the engine's can have jobs as well. */
struct engine_job;
/* One of each kind at a time. The kinds step in this order; those from JOB_LOAD on after the flush,
 * so that images of others have their turn first. */
enum engine_job_kind {
    JOB_CUT,
    JOB_SCRUB,
    JOB_CHANGE,
    JOB_AHEAD,
    JOB_LOAD,
    JOB_UNLOAD,
    JOB_RELOAD,
    JOB_RESTORE,
    JOB_CLEAR,
    JOB_KINDS
};

struct engine_job_ops {
    void (*step)(struct engine *g);         /* continues if it can; cheap. NULL: a timer steps it */
    bool (*urgent)(const struct engine *g); /* images are waited for; NULL: never */
    /* bytes of rows in memory, or soon there; NULL: none */
    uint64_t (*bytes)(const struct engine *g);
    void (*close)(struct engine *g); /* frees it, after offload_drain */
};

/* A member of a job's struct, which container_of finds. */
struct engine_job {
    const struct engine_job_ops *ops;
    struct table_set tables; /* one space's, whose rows its bytes are; none: of none alone */
};

/* Readers of the journal for followers that are far behind. */
#define ENGINE_READERS 4u
struct engine_readers {
    struct records_read *read[ENGINE_READERS]; /* owned; NULL: none (follow_read.c) */
    uint64_t keep;                             /* records behind it are wanted; UINT64_MAX: none */
};

struct engine {
    struct engine_options options;
    char *dir; /* owned; NULL: all is in memory */
    int lock_fd;
    struct engine_place place;
    struct engine_names names;
    uint64_t taken_version[LIMIT_SPACES];
    void *place_file, *names_file;  /* owned; place and names point into these (identity.c) */
    void *taken_file[LIMIT_SPACES]; /* owned; NULL with a folder, from which they are read */
    struct env *env;                /* borrowed */
    struct offload_list works;
    struct arena *arena;
    struct engine_table table[LIMIT_TABLES];
    struct table_set here; /* the tables that are not NULL */
    uint8_t *led;          /* owned; (led_count): global tablets that this shard leads */
    uint32_t led_count;
    struct runs runs;
    struct guard *guard;     /* owned */
    struct journal *journal; /* owned; NULL in memory mode and without a folder */
    struct store *store;     /* owned; NULL in memory mode and without a folder */
    uint32_t segment_bytes;

    uint64_t sequence;  /* last admitted record */
    uint64_t committed; /* last written record (without a journal: last applied) */
    uint32_t pending;   /* admitted and not applied yet */
    uint64_t control_changed, control_written, control_durable;
    struct terms terms; /* terms of the records up to `sequence` */
    struct tail *tail;  /* owned; NULL: there are no followers */
    struct engine_readers readers;
    bool broken;  /* the disk failed: nothing is acknowledged any more */
    bool syncing; /* a journal sync is in flight */
    struct space space;
    struct flush_state flush;
    struct tier tier;

    bool holding;
    struct cut_facts held;
    bool cut_busy;            /* from GO to its end: no flush, no trim */
    struct cut_copy *copying; /* borrowed; that cut's copy, while tablets are left to copy */
    struct {
        uint64_t cut; /* 0: none */
        bool busy;    /* it is being read */
        bool good;    /* it was read as a whole (restore_check.h) */
    } check;
    struct cut_ref ref[ENGINE_CUT_REFS];
    uint32_t ref_count;
    struct mem_cut mem_cut[ENGINE_MEM_CUTS];
    uint32_t mem_cut_count;

    struct copy *copies; /* owned; copies that followers read (copy.c) */
    uint64_t copies_made;

    uint32_t gives; /* tablets that are read for another shard, on I/O threads (move.c) */

    uint64_t exporting;                /* the cut that is exported to a checkpoint; 0: none */
    bool export_drop;                  /* its dropping was requested meanwhile */
    struct engine_job *job[JOB_KINDS]; /* owned by the code that began them; NULL: none */
    uint64_t opening;                  /* the run that the current load will open; 0: none */
    struct table_set loading;          /* the load writes them, so nothing else may change them */
    struct engine_loaded loaded[LIMIT_TABLES]; /* (loads) */
    uint32_t loads;
    struct archive *archive;  /* owned; NULL: trimmed segments are reused */
    struct blame_work *blame; /* in progress; the list of works owns it */

    /* owned; the last copy of engine_whole; NULL: none (fetch.h) */
    struct arena *whole_arena;
    struct table *whole; /* owned */

    struct env_timer reload_timer; /* for a reload or a restore */
    uint32_t reload_rows;          /* approximate rows of a step */
    uint64_t replayed, recovered_ns;
    struct meter_times sync_times, write_times; /* engine_disk_stats */
    uint64_t syncs;
};

/* engine_state.c */
struct engine_table *engine_slot(struct engine *g, uint32_t table); /* NULL: none */
int engine_table_add(struct engine *g, const struct table_schema *s, struct err *e);
/* 0 or SCHEMA: another table has some of its tablet numbers. */
int engine_overlap(struct engine *g, const struct table_schema *s, struct err *e);
/* Takes a table out of the engine; the caller owns it. */
struct table *engine_table_take(struct engine *g, uint32_t table);
void engine_refresh_marks(struct engine *g);
/* Notes that record `sequence` changed the tablets of a range: all (take NULL), or those with
 * take[tablet]. */
void engine_touch(struct engine_table *t, uint32_t first, uint32_t count, const uint8_t *take,
                  uint64_t sequence);
/* Reports progress within one long call to a watchdog (engine_options.on_pulse). */
void engine_pulse(const struct engine *g, uint64_t done, uint64_t of);
/* Starts work in a struct of the caller's on another thread (offload.h). */
void engine_work(struct engine *g, struct offload *w, void (*run)(struct offload *w),
                 void (*done)(struct offload *w));
/* notifies the shard, once; returns e->code */
int engine_fail(struct engine *g, const struct err *e);
/* engine_fail with the failure in *e (may be NULL), too. */
int engine_fail_with(struct engine *g, const struct err *failure, struct err *e);
/* Frees the last copies of engine_whole and engine_row. Cheap when there are none. */
void engine_whole_free(struct engine *g);

void engine_sync_start(struct engine *g); /* syncs the journal, unless a sync is in flight */

void engine_job_begin(struct engine *g, enum engine_job_kind kind, struct engine_job *job,
                      const struct engine_job_ops *ops);
/* The job has ended; the caller owns its memory. Does nothing without a job. */
void engine_job_end(struct engine *g, enum engine_job_kind kind);
/* Steps the jobs of kinds [from, below). A step may end jobs and begin others. */
void engine_jobs_step(struct engine *g, enum engine_job_kind from, enum engine_job_kind below);
bool engine_jobs_urgent(const struct engine *g);
uint64_t engine_jobs_bytes(const struct engine *g);
void engine_jobs_close(struct engine *g);

/* control.c: journals and applies a control record whose conditions hold; returns its status. An
 * error after it was journalled is the engine's end (engine_fail). */
int engine_record(struct engine *g, enum record_kind kind, const void *bytes, size_t count,
                  struct err *e);
/* The same for a RESTORE, whose cut is here. */
int engine_record_restore(struct engine *g, const struct record_restore *r, struct err *e);
/* engine_push.c: admits a push that another engine has admitted in the same state, so that its
 * values are not checked again. CORRUPT: the state here is another one; BUSY, AGAIN. */
int engine_admit_followed(struct engine *g, const struct push_record *r, bool bsp,
                          struct push_plan *plan, struct err *e);

/* recover.c */
int engine_recover(struct engine *g, struct err *e);
/* restore.c: applies a RESTORE record: restores tablets of its tables that are older than
 * `sequence` to the cut, opens its run with the cut's marks, drops every other run of these tables.
 * past: the control state includes the record. In one call: */
int engine_restore_apply(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         bool past, struct err *e);
/* In steps, from timers: until its end the engine is not back. 0 or NOMEM. */
int engine_restore_start(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         struct err *e);

#endif
