/* follow.h: copies of a shard: the leader's records, in order, for engines that follow it.
 *
 *     leader:    engine_admit_push .. engine_commit -> engine_records -> the wire
 *     follower:  the wire -> engine_follow -> engine_commit -> engine_apply_push
 *
 * A follower takes the leader's records with their sequences into its own journal and applies them
 * with the code of a live shard, so rows, marks, runs and digests are equal bit for bit. Without
 * followers nothing of this runs.
 *
 * Terms number the leaderships of a shard (embedding/journal/term.h). A leader journals the
 * beginning of its term; a copy that comes back learns from the new leader up to which record it
 * may keep its own (engine_common), and opens with engine_options.until.
 *
 * Not in the records: loads, taking them back, and clears. Where a tail is kept they journal
 * RECORD_BASE first, and a follower that meets it begins anew with a copy. Cuts are made by each
 * copy for itself: behind a cut the leader journals RECORD_CUT, and a follower makes its own cut of
 * that number when it meets the record, before it takes it.
 *
 * Thread: the engine's. */
#ifndef EMBEDDING_FOLLOW_H
#define EMBEDDING_FOLLOW_H

#include "embedding/engine.h"

/* ---- the leader ---- */
/* Keeps the newest records in memory, too, at most about `bytes` of them; 0: none any more. Records
 * from before are read from the journal; with `memory` they are nowhere. NOMEM. */
int engine_tail(struct engine *g, uint64_t bytes, struct err *e);

/* status 0: `records` has whole records (bytes) up to sequence `last`; bytes 0: there is none yet.
 * NOT_FOUND: record after + 1 is not here any more, or never was. AGAIN: its file was reused
 * meanwhile; ask again. CORRUPT, IO: the journal cannot be read. The records are valid during the
 * call, and aligned to 8 bytes. */
typedef void (*engine_records_done)(void *context, int status, const void *records, size_t bytes,
                                    uint64_t last);
/* Reads committed records behind `after`: about `most` bytes, at least one record. After 0 done
 * will be called unless the engine closes first: before the return if the tail has the records,
 * otherwise on the loop when an I/O thread has read the journal. BUSY: as many reads are under way
 * as a shard has followers. NOMEM, IO. */
int engine_records(struct engine *g, uint64_t after, size_t most, engine_records_done done,
                   void *context, struct err *e);
/* In a call of done: keeps its records valid, without a copy, until engine_records_release(hold) on
 * any thread. NULL: the caller copies them. */
void *engine_records_hold(struct engine *g, const void *records);
void engine_records_release(void *hold);
/* The journal, while it has room, and the tail keep records behind `after`, and let go of those up
 * to it; UINT64_MAX: as if there were no follower. Call it again as followers advance. */
void engine_records_keep(struct engine *g, uint64_t after);
/* True when the journal's room runs short because of engine_records_keep. It soon trims records
 * nevertheless. */
bool engine_records_press(const struct engine *g);

/* Journals the beginning of a term; it is on disk on return. CONFIG: it is not above the last
 * one. */
int engine_term_begin(struct engine *g, uint64_t term, struct err *e);
/* The term of the last record; 0: none was begun. */
uint64_t engine_last_term(const struct engine *g);
/* *common: the newest record that this copy shares with one whose last record is `sequence`, of
 * `term`. NOT_FOUND: it is not known, and the other one begins anew with a copy. */
int engine_common(const struct engine *g, uint64_t term, uint64_t sequence, uint64_t *common);
/* Journals RECORD_BASE. Loads, their taking back and clears call it where a tail is kept. */
int engine_base_mark(struct engine *g, struct err *e);
/* Journals RECORD_CUT. Call it in the turn in which engine_go returned 0, so that the record is the
 * one behind the cut's sequence. */
int engine_cut_mark(struct engine *g, uint64_t cut, uint64_t run, struct err *e);
/* Journals RECORD_CUT_DROP, before engine_cut_drop: a kill in between leaves the cut to the leader,
 * which is told again. */
int engine_cut_drop_mark(struct engine *g, uint64_t cut, struct err *e);

/* ---- a follower ---- */
struct engine_followed { /* a record of the leader */
    uint32_t kind;       /* enum record_kind */
    uint64_t sequence;
    size_t bytes;            /* its length in the buffer */
    struct push_record push; /* record_pushes(kind); points into the buffer */
    struct push_plan plan;   /* the same, of engine_follow */
    /* RECORD_CUT: make that cut now, unless it is here at sequence - 1; RECORD_CUT_DROP: drop it */
    uint64_t cut, run;
    uint64_t term; /* RECORD_TERM */
};
/* The kind of the record at `at`, which is not checked; 0: there is none. Cheap. */
uint32_t engine_follow_kind(const void *at, size_t available);
/* Checks and reads the record at `at`, which is aligned to 8 bytes, without taking it. CORRUPT,
 * VERSION. */
int engine_follow_peek(const struct engine *g, const void *at, size_t available,
                       struct engine_followed *out, struct err *e);
/* Checks the record and takes it. A push is admitted and queued, as by engine_admit_push: its bytes
 * must stay until engine_apply_push, which follows engine_commit. Any other record is journalled
 * and applied at once, after all pushes before it. Its rows are fetched as by engine_warm.
 *   AGAIN: rows come from the store, or a restore is under way: ask again at on_fetched or
 *     on_recovered.
 *   BUSY: no room now, pushes are not applied yet, or a cut is under way: ask again after a while,
 *     with engine_flush_step in between.
 *   NOT_FOUND: RECORD_BASE: this copy begins anew.
 *   CORRUPT: the record is damaged, or does not follow from the state here (sequence, run, marks,
 *     tables, no such cut): this copy begins anew.
 *   VERSION: the leader is a later Shoal. TOO_BIG: segments here are smaller than the leader's. IO.
 * After each of them nothing has changed. */
int engine_follow(struct engine *g, const void *at, size_t available, struct engine_followed *out,
                  struct err *e);

#endif
