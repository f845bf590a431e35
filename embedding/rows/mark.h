/* mark.h: mark[lane][tablet]: for one run, the last batch of each lane that each tablet has
 * applied; and the lowest mark of each lane and table over the tablets that this shard leads,
 * updated by each push. The sum of the lanes' lowest marks is the steps of the table: how many
 * batches all its led tablets have applied. It depends on the marks alone, so copies of a shard
 * agree on it, and so do the shards before and after a recovery or a move.
 *
 * A push usually covers all led tablets of a table: the decision is one pass over them (lowest and
 * highest mark), the move is one fill. An array is made when its lane first touches the table;
 * without it every mark is 0. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_MARK_H
#define EMBEDDING_ROWS_MARK_H

#include "proto/base/limits.h"
#include "proto/base/table_set.h"

#include <stdbool.h>
#include <stdint.h>

/* The tablets of a table that this shard leads. */
struct mark_scope {
    uint32_t tablets;
    uint32_t led_count;
    uint8_t *led; /* owned by the engine's table; (tablets) */
    /* owned by the engine's table; (tablets + 1): number of led tablets below each */
    uint32_t *led_before;
};

enum push_verdict { PUSH_GAP, PUSH_TAKE, PUSH_SKIP, PUSH_SOME }; /* SOME: for a part of the range */

/* The push rule for one tablet. */
enum push_verdict mark_push_rule(uint64_t mark, uint64_t from, uint64_t to);

struct marks;

struct marks *marks_new(uint32_t lanes); /* NULL: out of memory */
void marks_free(struct marks *m);
uint64_t marks_bytes(const struct marks *m);                 /* bytes of the existing arrays */
uint64_t marks_bytes_most(uint32_t lanes, uint32_t tablets); /* bytes of all arrays of a table */

struct mark_plan {
    enum push_verdict verdict;
    uint32_t applied, skipped;
    uint64_t lowest, highest; /* marks of the covered tablets, before the push */
};
/* Decides what a push (from, to] of a lane means for tablets [first, first + count). Writes
 * nothing. */
void marks_plan(const struct marks *m, uint32_t lane, uint32_t table, uint32_t first,
                uint32_t count, uint64_t from, uint64_t to, struct mark_plan *out);
/* For PUSH_SOME: sets take[tablet] = 1 for tablets that take the push. take covers the whole table
 * (scope->tablets bytes, zeroed by the caller). */
void marks_take(const struct marks *m, uint32_t lane, uint32_t table, uint32_t first,
                uint32_t count, uint64_t from, uint64_t to, uint8_t *take);
/* Makes the array of a lane and table, so that marks_move cannot fail. 0 or NOMEM. */
int marks_reserve(struct marks *m, uint32_t lane, uint32_t table, uint32_t tablets);
/* Moves marks of tablets in the range to `to`: all of them (take NULL), or those with
 * take[tablet]. */
void marks_move(struct marks *m, uint32_t lane, uint32_t table, uint32_t first, uint32_t count,
                uint64_t to, const uint8_t *take, const struct mark_scope *scope);

uint64_t marks_get(const struct marks *m, uint32_t lane, uint32_t table, uint32_t tablet);
/* Sets one mark without updating the lowest: marks_refresh must follow. 0 or NOMEM. */
int marks_set(struct marks *m, uint32_t lane, uint32_t table, uint32_t tablets, uint32_t tablet,
              uint64_t mark);
/* Computes the lowest marks of a table anew. */
void marks_refresh(struct marks *m, uint32_t table, const struct mark_scope *scope);
/* The tables of which marks_refresh saw a led tablet. */
const struct table_set *marks_led(const struct marks *m);
/* Lowest mark of a lane over the led tablets of a table; UINT64_MAX: none is led. */
uint64_t marks_lowest(const struct marks *m, uint32_t lane, uint32_t table);
/* Steps of the table; 0: no tablet is led. */
uint64_t marks_steps(const struct marks *m, uint32_t table);

#endif
