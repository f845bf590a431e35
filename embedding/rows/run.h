/* run.h: the open runs of a shard: their lanes (generation, live, offset), their marks and their
 * clocks.
 *
 * A lane's clock is its lowest mark over the led tablets of the run's tables that count, plus its
 * offset. A run's low is the smallest clock of its live lanes. Both are updated, not searched. A
 * ghost is a run that recovery meets in old images or records although it has been dropped since:
 * it lives until its drop is replayed, or until the last image has been read. Thread: the
 * shard's. */
#ifndef EMBEDDING_ROWS_RUN_H
#define EMBEDDING_ROWS_RUN_H

#include "embedding/rows/mark.h"
#include "proto/base/err.h"
#include "proto/base/table_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of the wire, and of what is stored. APART is a bit beside one of the others: the run's
 * dense tables count in no clock and in no lowest mark, for its workers keep the network in step
 * and assign it whole. */
enum run_mode { RUN_ASYNC = 0, RUN_SSP = 1, RUN_BSP = 2, RUN_APART = 4 };

/* True for the mode of a run that this release knows. */
static inline bool run_mode_known(uint32_t mode)
{
    return (mode & ~(uint32_t)RUN_APART) <= RUN_BSP;
}

struct run_lane {
    uint64_t generation;
    int64_t offset;
    /* updated by pushes: over the led tablets of the run's tables; 0: none is led */
    uint64_t lowest;
    bool live;
};

struct run {
    uint64_t id;
    struct table_set tables; /* tables that it pushes to, which count in its clocks */
    struct table_set apart;  /* tables among these that do not count after all (RUN_APART) */
    uint32_t lanes, mode;
    bool ghost;
    uint64_t seen; /* ghost: the latest sequence at which it was open */
    /* updated by pushes: smallest clock of the live lanes; UINT64_MAX: none */
    uint64_t low;
    struct run_lane *lane; /* owned; (lanes) */
    struct marks *marks;   /* owned */
};

/* A dropped run, kept as long as records from before are needed. Its pushes may be later than
 * stored tablets that have no column of it, and the record that opened it may be gone, so the
 * control state describes it for recovery. */
struct run_past {
    uint64_t id;
    struct table_set tables;
    uint32_t lanes, mode;
    uint64_t seen;  /* the latest known sequence at which it was open */
    uint64_t until; /* no record from this sequence on is its own */
};

/* The history of the tables that had one number. */
struct run_place {
    uint64_t newest; /* the highest id ever added of a run that pushes to one */
    /* The job for which one was last dropped (clear.c), and the last record before that: no record
     * up to it concerns the table that is here. 0: never. */
    uint64_t cleared, barrier;
};

struct runs {
    struct run **run; /* owned */
    uint32_t count, capacity;
    struct run_past *past; /* owned */
    uint32_t past_count, past_capacity;
    uint64_t newest;                   /* the highest id ever added */
    struct run_place of[LIMIT_TABLES]; /* by the number of a table */
    struct table_set dense;            /* the dense tables that are here */
    uint64_t barrier;                  /* the highest of all tables */
};

struct run *runs_find(const struct runs *r, uint64_t id); /* NULL: none */
int runs_add(struct runs *r, uint64_t id, struct table_set tables, uint32_t lanes, uint32_t mode,
             struct run **out);
void runs_drop(struct runs *r, struct run *run);
/* A table is here now, or gone: it counts in the clocks of the runs that are not apart from it. The
 * lowest marks are not counted anew: run_refresh must follow. */
void runs_dense_set(struct runs *r, uint32_t table, bool dense);
/* The highest id ever added of a run that has one of these tables. */
uint64_t runs_newest(const struct runs *r, struct table_set tables);
/* Makes *out what r becomes when tables, of those that are `here`, are dropped for a
 * job after record `barrier`: without their runs and dropped runs, except such as push to other
 * tables too. The runs in it are r's. It ends with runs_become, or with runs_lists_free. NOMEM. */
int runs_without(const struct runs *r, struct table_set tables, struct table_set here, uint64_t job,
                 uint64_t barrier, struct runs *out);
/* Frees the runs that r has and `after` lacks; r becomes `after`, which is empty then. */
void runs_become(struct runs *r, struct runs *after);
void runs_lists_free(struct runs *r);
/* True when all tables of a run go that are here. */
bool run_goes(struct table_set of_run, struct table_set tables, struct table_set here);
/* Returns those of the tables that were not dropped for the job, or for a later one. */
struct table_set runs_uncleared(const struct runs *r, struct table_set tables, uint64_t job);
/* Returns the tables that were dropped after the record. */
struct table_set runs_gone(const struct runs *r, uint64_t sequence);
/* Drops a run and keeps it in `past`. NOMEM: it is not dropped. */
int runs_end(struct runs *r, struct run *run, uint64_t seen, uint64_t until);
/* Records up to `floor` are no longer needed. */
void runs_forget(struct runs *r, uint64_t floor);
void runs_free(struct runs *r);            /* frees the contents; the caller owns r */
uint32_t runs_open(const struct runs *r);  /* without ghosts */
uint64_t runs_bytes(const struct runs *r); /* bytes of their marks */

/* True under bsp, apart or not. */
static inline bool run_is_bsp(const struct run *run)
{
    return (run->mode & ~(uint32_t)RUN_APART) == RUN_BSP;
}
/* Marks of a lane in one table have moved. */
void run_lane_moved(struct run *run, uint32_t lane);
/* Marks of all lanes, or the led tablets, have changed. */
void run_refresh(struct run *run, uint32_t table, const struct mark_scope *scope);
void run_fence(struct run *run, uint32_t lane, uint64_t generation, bool live, int64_t offset);
/* The offset of a lane that goes live now. */
int64_t run_offset(const struct run *run, uint32_t lane);
/* The smallest clock of the live lanes other than this one; UINT64_MAX: none. */
uint64_t run_low_beside(const struct run *run, uint32_t lane);
/* mark + offset, at least 0. */
uint64_t run_clock(const struct run *run, uint32_t lane, uint64_t mark);

/* A tablet's column: for each run its marks by lane, stored with the tablet's image. */
size_t runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet);
void runs_column_write(const struct runs *r, uint32_t table, uint32_t tablet, void *out);
/* Sets the marks; an unknown run becomes a ghost, seen at `sequence`. CORRUPT or NOMEM. */
int runs_column_read(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     uint64_t sequence, const void *bytes, size_t count);
/* True when some run has a mark in the tablet. */
bool runs_marked(const struct runs *r, uint32_t table, uint32_t tablet);
/* The column of a tablet that another shard had. check: 0 if it can be taken in; CORRUPT; AGAIN: it
 * has marks of *run, which is newer than every run here of its tables. take: the tablet has exactly
 * the marks of the column (NULL: none); those of runs that are over are left out. The lowest marks
 * are not counted anew: run_refresh must follow if the tablet is led. NOMEM. */
int runs_column_check(const struct runs *r, const void *bytes, size_t count, uint64_t *run);
int runs_column_take(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     const void *bytes, size_t count);

#endif
