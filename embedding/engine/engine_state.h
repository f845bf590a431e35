/* engine_state.h: the engine's insides, as its room and the checkpoints' see them. */
#ifndef EMBEDDING_ENGINE_ENGINE_STATE_H
#define EMBEDDING_ENGINE_ENGINE_STATE_H

#include "embedding/engine.h"
#include "embedding/engine/guard.h"
#include "embedding/engine/work.h"
#include "embedding/journal/archive.h"
#include "embedding/journal/journal.h"
#include "embedding/journal/record.h"
#include "embedding/rows/mark.h"
#include "embedding/rows/run.h"
#include "embedding/store.h"

/* A table with what is known of its tablets. The three sequences (tablets): `changed` by the last
 * record that the tablet took, `written` in the image last handed to the store, `durable` in the
 * image that the store has on disk: changed > written is dirty, changed > durable holds the
 * journal. A tablet that was clean when a record came counts as durable up to the record before. */
struct engine_table {
    struct table *table; /* owned */
    struct mark_scope scope;
    uint64_t *changed, *written, *durable; /* owned */
};

#define ENGINE_CUT_REFS 16u
#define ENGINE_MEM_CUTS 16u

struct cut_ref { /* a cut that an untrimmed RESTORE record names */
    uint64_t cut, sequence;
    bool drop; /* asked for while it was needed */
};

/* What a cut is of. run 0: none, and the cut cannot be restored. */
struct cut_facts {
    uint64_t cut, sequence, rows, bytes;
    uint64_t existing; /* bit t: table t was there */
    uint64_t run, tables;
    uint32_t lanes, mode;
    uint64_t lowest[LIMIT_LANES]; /* of each lane of the run over the tablets led here */
    /* By table: its rows here, and the bytes of its images. sized: an older release's cut does not
     * say them. */
    bool sized;
    uint64_t table_rows[LIMIT_TABLES], table_bytes[LIMIT_TABLES];
};

struct mem_cut { /* a cut of an engine without a folder */
    struct cut_facts facts;
    struct store *store; /* owned */
};

/* What a load brought. run: opened by it. arena: owned, of its rows; NULL: they were recovered, and
 * lie in the engine's own. */
struct engine_loaded {
    uint64_t run, tables;
    struct arena *arena;
    bool leaving; /* it is being taken back */
};

struct stale { /* a tablet that began an epoch: pairs of other epochs may be left */
    uint32_t table, tablet, epoch;
};

struct flush_state {
    bool busy;              /* one batch is on its way */
    struct work *under_way; /* borrowed: it, if it is of flush.c */
    bool settling;          /* it is waited for: nothing new is begun */
    struct stale *stale;    /* owned; (stale_room): tablets whose older pairs go behind the batch */
    uint32_t stale_count, stale_room;
    uint8_t *buffer;         /* owned: values of the batch */
    size_t capacity, bytes;  /* of them in use */
    struct store_item *item; /* owned; (item_room) */
    size_t item_room, items;
    void *control; /* owned: the control value of the batch */
    uint64_t control_seq;
    uint64_t credit;        /* image bytes that the journal's growth has paid for */
    uint64_t seen_written;  /* journal_written at the last step */
    uint64_t since_flush;   /* bytes written since the store was last flushed */
    uint32_t table, tablet; /* where the round stands */
    uint64_t image_bytes;   /* written since start */
    bool rewriting;         /* a round that writes clean tablets too is under way */
};

#define TIER_LEAVING 256u

struct wanted {    /* keys of one table to be fetched */
    uint64_t *key; /* owned; (count) */
    uint32_t count, room;
};

struct tier_tablet {
    uint32_t table, tablet;
};

#define TIER_FETCHES 2u
struct fetch_work;
struct tier {          /* tier.h */
    uint64_t budget;   /* what the options let tables take, in bytes; 0: no bound */
    uint64_t rows_max; /* what they may: that, or less where they reach less */
    uint32_t narrow;   /* the table that reaches less; LIMIT_TABLES: none */
    uint64_t beside;   /* what they had beside the arenas at the last look */
    uint32_t looks;
    bool making;                              /* room is being made */
    bool stuck;                               /* there is none to be made */
    uint64_t stuck_used;                      /* bytes that tables had then */
    bool full;                                /* the last push was refused for it */
    uint32_t idle;                            /* tablets looked at since a row went */
    struct tier_tablet hand;                  /* the next one to lose rows */
    struct tier_tablet leaving[TIER_LEAVING]; /* whose rows leave with the batch under way */
    uint32_t leaving_count;
    uint64_t leaving_bytes; /* of rows, about */
    bool written;           /* the batch is, but pushes wait to be applied: rows leave after them */
    struct wanted wanted[LIMIT_TABLES];
    uint32_t wanted_count;
    uint64_t *asked;     /* owned: names of keys wanted or on their way */
    uint64_t asked_salt; /* of their places */
    uint64_t *among;     /* owned: scratch of engine_warm */
    uint32_t among_room;
    struct fetch_work *fetch[TIER_FETCHES]; /* on their way; NULL: none */
    bool refused; /* somebody, for want of room, and has not been told since that there is some */
    struct env_timer timer; /* a flush step when nothing else makes one */
    bool tell;              /* who waits is to be told then */
    uint64_t fetched, evicted, evicted_clean;
    /* since the last look back: rows that came in, keys of requests whose rows were all there */
    uint64_t came, used;
    uint64_t in_vain; /* looks back that found most rows had left again unused */
};

#define SPACE_PARTS 1024u

enum space_short { SPACE_ENOUGH, SPACE_BOUND, SPACE_DISK }; /* the bound; the file system */
/* images are being written; the store lets go */
enum space_reclaim { RECLAIM_NONE, RECLAIM_WRITE, RECLAIM_TIDY };

struct space {             /* space.h */
    uint64_t taken, small; /* bytes at the last look; of them in the store's small pairs */
    uint64_t store_seen, made_seen, added_seen; /* when it began: */
    uint64_t added;                             /* bytes that went to DIR by other ways */
    uint64_t journal_next; /* journal_written at which to ask the file system again */
    uint64_t look_next_ns;
    enum space_short refusing;
    enum space_reclaim reclaim;
    bool looking, again; /* a look is under way; one more after it */
    bool stopped;        /* nothing is handed to the store */
    char **part;         /* owned, each; (parts): folders of parts that exports made */
    uint32_t parts;
};

/* A job is what an engine does over several turns of the loop beside its flushing: a cut that
 * waits for the store and copies, a scrub, a schema that waits for its rows, a load, a load taken
 * back, tablets that come back after a start or are put back to a cut. While one is under way it
 * sits in engine.job[kind]; the flush steps it, the memory budget counts its bytes and engine_close
 * ends it, without knowing what it is. So rooms above the engine's have jobs as well. */
struct engine_job;
/* One of a kind at a time; the kinds step in this order, those from JOB_LOAD on behind the flush:
 * images of others have their turn first. */
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
    void (*step)(struct engine *g);         /* goes on if it can; cheap. NULL: a timer steps it */
    bool (*urgent)(const struct engine *g); /* images are waited for; NULL: never */
    uint64_t (*bytes)(const struct engine *g); /* of rows in memory, or soon there; NULL: none */
    void (*close)(struct engine *g);           /* frees it, after work_drain */
};

/* In the struct of a job, which is found with container_of. */
struct engine_job {
    const struct engine_job_ops *ops;
};

struct engine {
    struct engine_options options;
    char *dir; /* owned; NULL: all in memory */
    int lock_fd;
    struct engine_place place;
    struct engine_names names;
    uint64_t taken_version;
    void *place_file, *names_file; /* owned: what place and names point into (identity.c) */
    void *taken_file;              /* owned; NULL where there is a folder to read it from */
    struct env *env;               /* borrowed */
    struct work_list works;
    struct arena *arena;
    struct engine_table table[LIMIT_TABLES];
    uint8_t *led; /* owned; (led_count): global tablets that this shard leads */
    uint32_t led_count;
    struct runs runs;
    struct guard *guard;     /* owned */
    struct journal *journal; /* owned; NULL in memory mode and without a folder */
    struct store *store;     /* owned; likewise */
    uint32_t segment_bytes;

    uint64_t sequence;  /* of the last record admitted */
    uint64_t committed; /* of the last one written (or, without a journal, done with) */
    uint32_t pending;   /* admitted, not applied yet */
    uint64_t control_changed, control_written, control_durable;
    bool broken;  /* the disk failed: nothing is acknowledged any more */
    bool syncing; /* a journal sync is on its way */
    struct space space;
    struct flush_state flush;
    struct tier tier;

    bool holding;
    struct cut_facts held;
    bool cut_busy;            /* from GO until it is done: no flush, no trim */
    struct cut_copy *copying; /* borrowed: of that cut, while tablets are left to copy */
    struct {
        uint64_t cut; /* 0: none */
        bool busy;    /* it is being read */
        bool good;    /* it has been, as a whole (restore_check.h) */
    } check;
    struct cut_ref ref[ENGINE_CUT_REFS];
    uint32_t ref_count;
    struct mem_cut mem_cut[ENGINE_MEM_CUTS];
    uint32_t mem_cut_count;

    uint64_t exporting;                /* the cut that is being put into a checkpoint; 0: none */
    bool export_drop;                  /* asked for meanwhile */
    struct engine_job *job[JOB_KINDS]; /* owned by those who began them; NULL: none of the kind */
    uint64_t opening;                  /* the run that the load under way will open; 0: none */
    uint64_t loading; /* bit t: table t is being written by it, so nobody else may change it */
    struct engine_loaded loaded[LIMIT_TABLES]; /* (loads) */
    uint32_t loads;
    struct archive *archive;  /* owned; NULL: trimmed segments are used again */
    struct blame_work *blame; /* under way; the list of works owns it */

    /* owned; of the copy that engine_whole made last; NULL: none (fetch.h) */
    struct arena *whole_arena;
    struct table *whole; /* owned */

    struct env_timer reload_timer; /* of a reload, or a restore */
    uint32_t reload_rows;          /* of a step, about */
    uint64_t replayed, recovered_ns;
};

/* engine_state.c */
struct engine_table *engine_slot(struct engine *g, uint32_t table); /* or NULL */
int engine_table_add(struct engine *g, const struct table_schema *s, struct err *e);
/* Whether nobody has the table's tablet numbers: 0 or SCHEMA. */
int engine_overlap(struct engine *g, const struct table_schema *s, struct err *e);
/* Takes a table out of the engine; it is the caller's now. */
struct table *engine_table_take(struct engine *g, uint32_t table);
void engine_refresh_marks(struct engine *g);
/* Notes that record `sequence` changed the tablets of a range: all (take NULL) or those with
 * take[tablet]. */
void engine_touch(struct engine_table *t, uint32_t first, uint32_t count, const uint8_t *take,
                  uint64_t sequence);
/* Long work in one call moves (engine_options.on_pulse): who watches for hangs is told. */
void engine_pulse(const struct engine *g, uint64_t done, uint64_t of);
/* Starts what sits in a struct of the caller's, on another thread (work.h). */
void engine_work(struct engine *g, struct work *w, void (*run)(struct work *w),
                 void (*done)(struct work *w));
int engine_fail(struct engine *g, const struct err *e); /* tells the shard, once; returns e->code */
/* The same, and *e (may be NULL) is the failure too. */
int engine_fail_with(struct engine *g, const struct err *failure, struct err *e);
/* What engine_whole and engine_row made last goes. Cheap when there is nothing. */
void engine_whole_free(struct engine *g);

void engine_sync_start(struct engine *g); /* of the journal, unless one is under way */

void engine_job_begin(struct engine *g, enum engine_job_kind kind, struct engine_job *job,
                      const struct engine_job_ops *ops);
/* It has ended; its memory is the caller's. Nothing happens when there is none. */
void engine_job_end(struct engine *g, enum engine_job_kind kind);
/* Steps the jobs of kinds [from, below). A step may end jobs and begin others. */
void engine_jobs_step(struct engine *g, enum engine_job_kind from, enum engine_job_kind below);
bool engine_jobs_urgent(const struct engine *g);
uint64_t engine_jobs_bytes(const struct engine *g);
void engine_jobs_close(struct engine *g);

/* replay.c */
int engine_recover(struct engine *g, struct err *e);
/* restore.c: applies a RESTORE record: tablets of its tables older than `sequence` are put back to
 * the cut, its run is opened with the cut's marks, every other run of these tables dropped. past:
 * the record is already in the control state. In one go: */
int engine_restore_apply(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         bool past, struct err *e);
/* In steps, from timers: until its end the engine is not back. 0 or NOMEM. */
int engine_restore_start(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         struct err *e);

#endif
