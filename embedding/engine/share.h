/* share.h: shares of the rows' memory. A group is a set of tables with a part of the memory; tables
 * that no share names are the first group, which has the parts that are left. Without shares that
 * is the only group, and has all. engine_shares_set changes them; they are not state, and are in
 * memory alone.
 *
 *     rest:      marks of runs, cuts in memory, work under way, readers of the store
 *     a limit:   a group's part of what the memory limit leaves beside the rest
 *     borrowing: a group may use memory that others leave free, if its rows can give it back
 *
 *     memory in use   up to 15/16 of the limit   above it          above the limit
 *     over its share  takes rows in              waits             waits
 *     within it       takes rows in              takes rows in     waits
 *
 * So the last sixteenth is for groups within their shares, and is there before they ask for it. A
 * group whose rows have come from the store does not wait before some have left again: its
 * requests would never be served.
 * Rows leave from the group that is furthest over its share (share_giver), until 14/16 of the limit
 * are in use; a group below 14/16 of its share loses none. As the limits of all groups make the
 * memory that there is for rows, some group is over its share when memory is full.
 *
 * Rows that cannot leave cannot give back: without a store all of them, else those of tables with a
 * capacity. A push to such a table is refused while such rows of its group are over its share.
 * Dense tables are never refused for that: their rows are few, and each batch changes all of them.
 * A follower's pushes wait for the memory as a whole only, because their order is the leader's.
 *
 * Bytes of a group: what its tables have of the arenas, in whole pages, and beside them; and those
 * of a load into them that is under way. Ageing, capacities and the disk's limits are one for all.
 * Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_SHARE_H
#define EMBEDDING_ENGINE_SHARE_H

#include "embedding/engine/engine_state.h"

/* One group of all tables. */
void share_init(struct engine *g);
/* The group of a table. */
static inline struct tier_group *share_of(struct engine *g, uint32_t table)
{
    return &g->tier.group[g->tier.group_of[table]];
}
/* True when there are shares. */
static inline bool share_several(const struct engine *g)
{
    return g->tier.groups > 1;
}
/* Bytes in memory that are no rows of a group. */
uint64_t share_rest(const struct engine *g);
/* Bytes in memory of a group. */
uint64_t share_used(const struct engine *g, const struct tier_group *s);
/* Bytes that the group may use when `sixteenths` of the memory limit are in use. */
uint64_t share_limit(const struct engine *g, const struct tier_group *s, uint32_t sixteenths);
/* The group that is furthest over its share, beyond 14/16 of it, and not stuck; NULL: there is
 * none. Rows that leave with the batch in flight count as gone. */
struct tier_group *share_giver(struct engine *g);
/* True when rows of some group leave, or may leave. */
bool share_gives(const struct engine *g);
/* The group that is furthest over its share; NULL: none is over it. */
const struct tier_group *share_most(const struct engine *g);
/* True when rows of the group may not come in while `used` bytes of memory are in use, although
 * there is room for others. */
bool share_waits(const struct engine *g, const struct tier_group *s, uint64_t used);
/* True when rows of this table's group that cannot leave are over its share, and no push may make
 * more. */
bool share_refuses(const struct engine *g, uint32_t table, bool can_move);
/* Notes the bytes on disk of each group, while the disk has room. */
void share_stored(struct engine *g);
#define SHARE_GROWN (LIMIT_NAME + 64u)
/* Writes which group has grown most on disk since then: "; space ads has grown most, by 1048576
 * bytes". Empty without shares. bytes: SHARE_GROWN are enough. */
void share_grown(const struct engine *g, char *text, size_t bytes);

#endif
