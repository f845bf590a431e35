/* pull.h: pulls: rows of keys for a worker. A pull never writes. It is noted on arrival and
 * answered in the tick, after the drain's pushes have been applied, or later, when its clock is
 * reached and its rows are in memory. The rows are copied once, from the table into the reply's
 * frame.
 *
 * Under bsp a pull of batch b sees all pushes of clock b - 1 and none of clock b, whatever process
 * died: it waits until the whole of clock b - 1 is applied here, and reads rows as they were before
 * the parts of clock b that are already applied (table_pull_as). So a batch that is computed
 * again for a shard that lacks it gives the same gradients. Once clock b + 1 is applied here those
 * rows are gone, and the pull is refused (GAP): this happens to a worker that pushes b + 1 to a
 * shard before all shards have acknowledged b. */
#ifndef SERVER_SHARD_PULL_H
#define SERVER_SHARD_PULL_H

#include "server/shard/shard.h"

/* s->in holds the decoded PULL. */
void pull_on_message(struct shard *s, peer_t from);
/* Answers the waiting pulls that are due, then answers the new ones or makes them wait. */
void pull_tick(struct shard *s);
/* The form in which rows travel: a table of 16 bits gives its rows as it stores them, where the
 * sender takes that. wanted: `values` of struct wire_PULL. */
static inline enum value_kind pull_values(const struct table_schema *schema, uint32_t wanted)
{
    if (wanted == 0)
        return VALUES_FP32;
    if (schema->values != VALUES_FP32)
        return (enum value_kind)schema->values;
    return (enum value_kind)(wanted - WIRE_VALUES);
}
/* Called now and then: refuses pulls whose senders no longer wait. */
void pull_expire(struct shard *s);

#endif
