/* heat.h: how much of the shard's time each tablet takes: the nanoseconds of pulls and pushes by
 * tablet, as sums that halve every five minutes. A coordinator balances shards by them, and
 * `shoal tables --heat` shows them.
 *
 * A request's time goes to its tablets in proportion to their keys. Of many keys about HEAT_KEYS
 * stand for all: every n-th, from another one each time, so that over many requests each key counts
 * alike, and the sums cost nothing that could be measured. A key counts as 1 ns at least, so that
 * the simulator's clock, which stands still in a handler, gives sums too. Time means the walk over
 * the rows, with a pull's reply: what requests share (journal, sync) is left out. The sums are in
 * memory only: a shard that starts, and a copy that begins to lead, count from 0. Those of a tablet
 * that moves go with it.
 *
 * Thread: the shard's. heat_add neither allocates nor fails. */
#ifndef SERVER_SHARD_HEAT_H
#define SERVER_SHARD_HEAT_H

#include "proto/base/env.h"
#include "proto/base/limits.h"
#include "proto/job/schema.h"

#include <stddef.h>
#include <stdint.h>

struct shard;

#define HEAT_HALF_NS UINT64_C(300000000000)
#define HEAT_KEYS 64u
#define HEAT_STEP_NS (HEAT_HALF_NS / 10) /* sums shrink in steps */

enum heat_kind { HEAT_PULL, HEAT_PUSH, HEAT_KINDS };

struct heat_table {
    uint64_t (*ns)[HEAT_KINDS]; /* owned, (span); NULL: no tablet is led */
    uint32_t first, span;       /* as struct lead_range */
};

struct heat {
    struct heat_table table[LIMIT_TABLES];
    uint64_t shrunk_ns; /* the time up to which the sums have shrunk */
    uint32_t turn;      /* first of the next request's keys that are counted; in parts of 2^32 */
};

/* Makes room for a table's tablets [first, first + span); those that stay keep their sums. NOMEM:
 * nothing changed. */
int heat_range(struct heat *h, uint32_t table, uint32_t first, uint32_t span);
void heat_close(struct heat *h);
/* Adds the time of a request from began_ns until now_ns. keys: sorted by key_mix; keys of other
 * tablets are left out. */
void heat_add(struct heat *h, const struct table_schema *s, enum heat_kind kind,
              const uint64_t *keys, uint32_t count, uint64_t began_ns, uint64_t now_ns);
/* Lets the sums shrink up to now. */
void heat_shrink(struct heat *h, uint64_t now_ns);

/* Nanoseconds of a tablet by its global number; 0 where it is in no led range. */
void heat_tablet(const struct shard *s, uint32_t tablet, uint64_t ns[HEAT_KINDS]);
/* Sets them, in a led range. */
void heat_tablet_set(struct shard *s, uint32_t tablet, const uint64_t ns[HEAT_KINDS]);
/* Takes over the led ranges (lead.h). NOMEM. */
int heat_take_lead(struct shard *s);
/* The request HEAT. */
void heat_on_message(struct shard *s, peer_t from);

#endif
