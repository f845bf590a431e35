/* share.c: shares of the rows' memory by group of tables.
 *
 * 1. Each table is in one group, and the parts of all groups are ENGINE_PARTS. So their limits are
 *    together what the memory limit leaves for rows. [assert: groups_check]
 *    [test: shares_make_the_whole]
 * 2. A group that is within its share loses no row for another's.
 *    [test: a_group_within_its_share_keeps_its_rows, shares_are_kept_at_random]
 * 3. Requests whose rows have come are served before these leave again, however little memory there
 *    is: else rows could come and go for ever.
 *    [test: keys_of_a_group_that_is_held_take_no_places, a_small_share_gets_on] */
#include "embedding/engine/share.h"

#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEAVE_UNTIL 14u /* sixteenths of the limit at which rows stop leaving */
#define BORROW_UNTIL 15u
#define PAIR_BYTES 16u /* bytes of a row on disk, beside the row */

/* ---- groups ---- */

static void groups_check(const struct engine *g)
{
    struct table_set seen = TABLE_SET_NONE;
    uint64_t parts = 0;
    for (uint32_t i = 0; i < g->tier.groups; i++) {
        SHOAL_ASSERT(!table_set_meet(seen, g->tier.group[i].is.tables)); /* 1 */
        seen = table_set_or(seen, g->tier.group[i].is.tables);
        parts += g->tier.group[i].is.parts;
    }
    SHOAL_ASSERT(table_set_equal(seen, TABLE_SET_ALL) && parts == ENGINE_PARTS); /* 1 */
}

void share_init(struct engine *g)
{
    struct tier *tier = &g->tier;
    memset(tier->group_of, 0, sizeof tier->group_of);
    tier->group[0] = (struct tier_group){.is = {.tables = TABLE_SET_ALL, .parts = ENGINE_PARTS}};
    tier->groups = 1;
}

static int shares_check(const struct engine_share *share, uint32_t count, struct err *e)
{
    struct table_set seen = TABLE_SET_NONE;
    uint64_t parts = 0;
    if (count > LIMIT_SPACES)
        return err_set(e, SHOAL_E_MALFORMED, "%u shares, at most %u", count, LIMIT_SPACES);
    for (uint32_t i = 0; i < count; i++) {
        const struct engine_share *s = &share[i];
        if (!table_set_any(s->tables) || table_set_meet(seen, s->tables) || s->parts == 0 ||
            memchr(s->name, 0, sizeof s->name) == NULL)
            return err_set(e, SHOAL_E_MALFORMED,
                           "share %u has no tables, tables of another share, no part, or no name",
                           i);
        seen = table_set_or(seen, s->tables);
        parts += s->parts;
    }
    if (parts > ENGINE_PARTS)
        return err_set(e, SHOAL_E_MALFORMED, "the shares have %" PRIu64 " parts of %u", parts,
                       ENGINE_PARTS);
    return 0;
}

/* The counts of a group that stays go on. */
static struct tier_group group_made(const struct tier *before, const struct engine_share *share)
{
    struct tier_group s = {.is = *share};
    for (uint32_t i = 1; i < before->groups; i++)
        if (table_set_equal(before->group[i].is.tables, share->tables)) {
            s.waits = before->group[i].waits;
            s.refused = before->group[i].refused;
            s.stored = before->group[i].stored;
        }
    return s;
}

int engine_shares_set(struct engine *g, const struct engine_share *share, uint32_t count,
                      struct err *e)
{
    struct tier *tier = &g->tier;
    struct tier_group made[LIMIT_SPACES];
    int rc = shares_check(share, count, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < count; i++)
        made[i] = group_made(tier, &share[i]);
    /* the tablets whose rows leave with the batch in flight stay known: they are kept by table */
    share_init(g);
    for (uint32_t i = 0; i < count; i++) {
        struct tier_group *s = &tier->group[tier->groups];
        *s = made[i];
        tier->group[0].is.tables = table_set_less(tier->group[0].is.tables, s->is.tables);
        tier->group[0].is.parts -= s->is.parts;
        TABLE_SET_EACH (t, &s->is.tables)
            tier->group_of[t] = (uint8_t)tier->groups;
        tier->groups++;
    }
    groups_check(g);
    tier->tell = true; /* requests may have room now */
    env_timer_start(g->env, &tier->timer, 0);
    return 0;
}

/* ---- bytes ---- */

/* Bytes of the work under way for one space, if the first of its tables is among these. */
static uint64_t jobs_bytes(const struct engine *g, struct table_set tables)
{
    uint64_t bytes = 0;
    for (unsigned kind = 0; kind < JOB_KINDS; kind++) {
        const struct engine_job *j = g->job[kind];
        if (j != NULL && j->ops->bytes != NULL &&
            table_set_has(&tables, table_set_lowest(j->tables)))
            bytes += j->ops->bytes(g);
    }
    return bytes;
}

uint64_t share_rest(const struct engine *g)
{
    return tier_rest(g) - jobs_bytes(g, TABLE_SET_ALL);
}

static uint64_t table_bytes(const struct engine *g, uint32_t table)
{
    return table_taken(g->table[table].table) + g->tier.beside_of[table];
}

/* Bytes of those tables of the set that are here. */
static uint64_t tables_bytes(const struct engine *g, const struct table_set *tables)
{
    const struct table_set there = table_set_and(*tables, g->here);
    uint64_t bytes = 0;
    TABLE_SET_EACH (t, &there)
        bytes += table_bytes(g, t);
    return bytes;
}

uint64_t share_used(const struct engine *g, const struct tier_group *s)
{
    return tables_bytes(g, &s->is.tables) + jobs_bytes(g, s->is.tables);
}

static uint64_t part_of(uint64_t bytes, uint32_t parts)
{
    return bytes / ENGINE_PARTS * parts + bytes % ENGINE_PARTS * parts / ENGINE_PARTS;
}

uint64_t share_limit(const struct engine *g, const struct tier_group *s, uint32_t sixteenths)
{
    uint64_t most = g->tier.rows_max / 16 * sixteenths, rest = share_rest(g);
    return part_of(SAT_SUB(most, rest), s->is.parts);
}

/* ---- decisions ---- */

/* True when a group with `used` bytes is further over its share than one with `than` bytes. */
static bool is_further(uint64_t used, const struct tier_group *s, uint64_t than,
                       const struct tier_group *other)
{
    return (double)used * other->is.parts > (double)than * s->is.parts;
}

/* True when rows may leave a group that has so many bytes. */
static bool gives(const struct engine *g, const struct tier_group *s, uint64_t used)
{
    return !s->stuck && (!share_several(g) || used > share_limit(g, s, LEAVE_UNTIL));
}

bool share_gives(const struct engine *g)
{
    for (uint32_t i = 0; i < g->tier.groups; i++)
        if (gives(g, &g->tier.group[i], share_used(g, &g->tier.group[i])))
            return true;
    return false;
}

struct tier_group *share_giver(struct engine *g)
{
    struct tier_group *most = NULL;
    uint64_t most_used = 0;
    for (uint32_t i = 0; i < g->tier.groups; i++) {
        struct tier_group *s = &g->tier.group[i];
        uint64_t used = share_used(g, s);
        used = SAT_SUB(used, s->leaving);
        if (!gives(g, s, used))
            continue;
        if (most == NULL || is_further(used, s, most_used, most)) {
            most = s;
            most_used = used;
        }
    }
    return most;
}

const struct tier_group *share_most(const struct engine *g)
{
    const struct tier_group *most = NULL;
    for (uint32_t i = 1; i < g->tier.groups; i++) {
        const struct tier_group *s = &g->tier.group[i];
        if (share_used(g, s) > share_limit(g, s, 16) &&
            (most == NULL || is_further(share_used(g, s), s, share_used(g, most), most)))
            most = s;
    }
    return most;
}

bool share_waits(const struct engine *g, const struct tier_group *s, uint64_t used)
{
    /* 3 */
    return share_several(g) && !s->came && used > g->tier.rows_max / 16 * BORROW_UNTIL &&
           share_used(g, s) > share_limit(g, s, 16);
}

bool share_refuses(const struct engine *g, uint32_t table, bool can_move)
{
    const struct tier_group *s = &g->tier.group[g->tier.group_of[table]];
    const struct table *of = g->table[table].table;
    uint64_t fixed = 0;
    /* tables of no share are not held to one: their shares may be on the way */
    if (s == &g->tier.group[0] || table_schema_of(of)->dense || (can_move && table_cold_may(of)))
        return false;
    const struct table_set there = table_set_and(s->is.tables, g->here);
    TABLE_SET_EACH (t, &there)
        if (!(can_move && table_cold_may(g->table[t].table)))
            fixed += table_bytes(g, t);
    return fixed > share_limit(g, s, 16);
}

struct table_set engine_held_tables(struct engine *g)
{
    struct table_set tables = TABLE_SET_NONE;
    if (g->tier.rows_max == 0 || !share_several(g))
        return tables;
    uint64_t used = tier_used(g);
    for (uint32_t i = 0; i < g->tier.groups; i++)
        if (!g->tier.group[i].stuck && share_waits(g, &g->tier.group[i], used))
            tables = table_set_or(tables, g->tier.group[i].is.tables);
    return tables;
}

struct table_set engine_short_tables(const struct engine *g)
{
    return g->tier.short_tables;
}

/* ---- figures ---- */

uint32_t engine_shares(const struct engine *g, struct engine_share_use out[LIMIT_SPACES])
{
    const struct tier *tier = &g->tier;
    for (uint32_t i = 1; i < tier->groups; i++) {
        const struct tier_group *s = &tier->group[i];
        struct engine_share_use *u = &out[i - 1];
        *u = (struct engine_share_use){
            .share = s->is, .bytes = share_used(g, s), .waits = s->waits, .refused = s->refused};
        if (tier->rows_max > 0)
            u->limit = share_limit(g, s, 16);
        TABLE_SET_EACH (t, &s->is.tables)
            if (g->table[t].table != NULL) {
                u->rows += table_rows(g->table[t].table);
                u->cold_rows += table_cold_rows(g->table[t].table);
            }
    }
    return tier->groups - 1;
}

/* ---- the disk ---- */

static uint64_t stored_bytes(const struct engine *g, const struct tier_group *s)
{
    uint64_t bytes = 0;
    TABLE_SET_EACH (t, &s->is.tables)
        if (g->table[t].table != NULL)
            bytes +=
                table_rows(g->table[t].table) * (table_row_bytes(g->table[t].table) + PAIR_BYTES);
    return bytes;
}

void share_stored(struct engine *g)
{
    for (uint32_t i = 1; i < g->tier.groups; i++)
        g->tier.group[i].stored = stored_bytes(g, &g->tier.group[i]);
}

void share_grown(const struct engine *g, char *text, size_t bytes)
{
    const struct tier_group *most = NULL;
    uint64_t by = 0;
    text[0] = 0;
    for (uint32_t i = 1; i < g->tier.groups; i++) {
        const struct tier_group *s = &g->tier.group[i];
        uint64_t now = stored_bytes(g, s), grown = SAT_SUB(now, s->stored);
        if (grown > by) {
            most = s;
            by = grown;
        }
    }
    if (most != NULL)
        (void)snprintf(text, bytes, "; space %s has grown most, by %" PRIu64 " bytes",
                       most->is.name, by);
}
