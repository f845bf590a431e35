/* run.h: the runs open on a shard: their lanes (generation, live, offset), their marks and their
 * clocks.
 *
 * A lane's clock is its lowest mark over the led tablets of the run's tables, plus its offset; a
 * run's low is the smallest clock of its live lanes. Both are kept, not searched. A ghost is a run
 * that recovery meets in old images or records although it has been dropped since: it lives until
 * its drop is replayed, or until the last image has been read. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_RUN_H
#define EMBEDDING_ROWS_RUN_H

#include "embedding/rows/mark.h"
#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum run_mode { RUN_ASYNC = 0, RUN_SSP = 1, RUN_BSP = 2 }; /* as on the wire */

struct run_lane {
    uint64_t generation;
    int64_t offset;
    uint64_t lowest; /* kept: over the led tablets of the run's tables; 0 when none is led */
    bool live;
};

struct run {
    uint64_t id;
    uint64_t tables; /* bit t: table t counts */
    uint32_t lanes, mode;
    bool ghost;
    uint64_t seen;         /* of a ghost: the latest sequence at which it was open */
    uint64_t low;          /* kept: smallest clock of the live lanes; UINT64_MAX when none */
    struct run_lane *lane; /* owned; (lanes) */
    struct marks *marks;   /* owned */
};

/* A run that was dropped, as long as records from before are needed. Its pushes may be younger than
 * stored tablets that know nothing of it, and the record that opened it may be gone: the control
 * state tells recovery who it was. */
struct run_past {
    uint64_t id, tables;
    uint32_t lanes, mode;
    uint64_t seen;  /* a sequence at which it was open, the latest known */
    uint64_t until; /* no record from there on is its own */
};

struct runs {
    struct run **run; /* owned */
    uint32_t count, capacity;
    struct run_past *past; /* owned */
    uint32_t past_count, past_capacity;
    uint64_t newest; /* the highest id that was ever added, however long ago it was dropped */
    /* the job for which all was dropped last (clear.c), and the last record before that: none up to
     * there is of anything that is here. 0: never */
    uint64_t cleared, barrier;
};

struct run *runs_find(const struct runs *r, uint64_t id); /* or NULL */
int runs_add(struct runs *r, uint64_t id, uint64_t tables, uint32_t lanes, uint32_t mode,
             struct run **out);
void runs_drop(struct runs *r, struct run *run);
/* The same, and it is kept in `past`. NOMEM: it is not dropped. */
int runs_end(struct runs *r, struct run *run, uint64_t seen, uint64_t until);
/* No record up to `floor` is needed any more. */
void runs_forget(struct runs *r, uint64_t floor);
void runs_free(struct runs *r);            /* all of them; r itself is the caller's */
uint32_t runs_open(const struct runs *r);  /* ghosts not counted */
uint64_t runs_bytes(const struct runs *r); /* of their marks */

/* A lane's marks in one table have moved. */
void run_lane_moved(struct run *run, uint32_t lane);
/* Marks of all lanes, or what is led, have changed. */
void run_refresh(struct run *run, uint32_t table, const struct mark_scope *scope);
void run_fence(struct run *run, uint32_t lane, uint64_t generation, bool live, int64_t offset);
/* What the offset of a lane becomes when it goes live now. */
int64_t run_offset(const struct run *run, uint32_t lane);
/* mark + offset, at least 0. */
uint64_t run_clock(const struct run *run, uint32_t lane, uint64_t mark);

/* A tablet's column: for each run its marks by lane, as stored with the tablet's image. */
size_t runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet);
void runs_column_write(const struct runs *r, uint32_t table, uint32_t tablet, void *out);
/* Sets the marks; a run not known becomes a ghost, seen at `sequence`. CORRUPT or NOMEM. */
int runs_column_read(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     uint64_t sequence, const void *bytes, size_t count);

#endif
