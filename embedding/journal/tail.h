/* tail.h: the newest records of a journal in memory, for the followers of a shard that are not far
 * behind. A shard without a journal (`memory`) has its records nowhere else.
 *
 *     journal_append -> tail_add .. chunk, chunk, chunk .. tail_read -> a follower
 *                                   (the oldest goes when there are too many bytes, or when
 *                                   all followers have its records)
 *
 * A record has the bytes that it has in the journal: head, payload, padding. A chunk has whole
 * records without a gap, so that a read returns a pointer into one.
 *
 * Invariants:
 * 1. The records of a tail have no gap: when one cannot be added, or a load took its sequence, all
 *    earlier ones go. [assert: tail_add] [test: a_gap_begins_the_tail_anew]
 * 2. A read returns only records above `after` and up to `until`, whole ones, from after + 1 on.
 *    [test: a_read_returns_whole_records_in_order]
 *
 * 3. The bytes of a chunk that is held do not change before its last hold is released.
 *    [test: records_that_are_held_stay]
 *
 * Thread: the shard's, except tail_release. */
#ifndef EMBEDDING_JOURNAL_TAIL_H
#define EMBEDDING_JOURNAL_TAIL_H

#include "embedding/journal/record.h"

struct tail;

/* Keeps at most about `bytes`; one chunk always stays. `next`: the sequence of the first record
 * that will be added. NULL: no memory. */
struct tail *tail_new(uint64_t bytes, uint64_t next);
void tail_free(struct tail *t);
void tail_limit(struct tail *t, uint64_t bytes);
uint64_t tail_bytes(const struct tail *t); /* size in memory */
/* Copies a sealed record. */
void tail_add(struct tail *t, const struct record_header *h, const struct record_payload *payload);
/* Lets go of records up to this one, which every follower has. The memory is used again, while
 * caches have it. */
void tail_trim(struct tail *t, uint64_t sequence);
/* The oldest sequence that is here, or the next one. */
uint64_t tail_first(const struct tail *t);
/* Finds records from after + 1 on, up to `until`: about `most` bytes, at least one record; *last is
 * the last one. They are valid until the next tail_add. False: after + 1 is not here. */
bool tail_read(const struct tail *t, uint64_t after, uint64_t until, size_t most,
               const void **records, size_t *bytes, uint64_t *last);
/* Keeps the records that tail_read returned, without a copy, until tail_release(hold) on any
 * thread. NULL: they are not here. */
void *tail_hold(const struct tail *t, const void *records);
void tail_release(void *hold);

#endif
