/* map.c: the shard that leads each tablet. */
#include "server/coord/fleet/map.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int coord_map_check(const struct table_schema *table, uint32_t count, struct err *e)
{
    uint32_t next = 0;
    if (count == 0 || count > LIMIT_TABLES)
        return err_set(e, SHOAL_E_SCHEMA, "a job has 1 to %u tables, this one declares %u",
                       LIMIT_TABLES, count);
    for (uint32_t t = 0; t < count; t++) {
        int rc = schema_check(&table[t], e);
        if (rc != 0)
            return rc;
        if (table[t].table != t || table[t].tablet_first != next)
            return err_set(e, SHOAL_E_SCHEMA,
                           "table %s: number %u and first tablet %u, expected %u and %u",
                           table[t].name, table[t].table, table[t].tablet_first, t, next);
        for (uint32_t other = 0; other < t; other++)
            if (strcmp(table[other].name, table[t].name) == 0)
                return err_set(e, SHOAL_E_SCHEMA, "tables %u and %u are both named %s", other, t,
                               table[t].name);
        next += 1u << table[t].tablet_bits;
    }
    return 0;
}

uint32_t coord_map_tablets(const struct table_schema *table, uint32_t count)
{
    uint32_t sum = 0;
    SHOAL_ASSERT(count > 0 && count <= LIMIT_TABLES);
    for (uint32_t t = 0; t < count; t++)
        sum += 1u << table[t].tablet_bits;
    return sum;
}

int coord_map_make(const struct table_schema *table, uint32_t count,
                   const struct coord_members *members, uint16_t *shard_of, struct err *e)
{
    uint16_t number[LIMIT_SHARDS];
    uint32_t shards = 0;
    COORD_EACH_SHARD (members, s)
        number[shards++] = (uint16_t)s;
    SHOAL_ASSERT(shards > 0 && count <= LIMIT_TABLES);
    for (uint32_t t = 0; t < count; t++) {
        uint64_t tablets = 1ull << table[t].tablet_bits;
        if (table[t].dense == 0 && tablets / shards < LIMIT_SHARD_TABLETS_MIN)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s has %" PRIu64
                           " tablets for %u shards, at least %u a shard are needed: raise "
                           "tables.tablets or take fewer shards",
                           table[t].name, tablets, shards, LIMIT_SHARD_TABLETS_MIN);
        for (uint64_t i = 0; i < tablets; i++)
            shard_of[table[t].tablet_first + i] = number[i * shards / tablets];
    }
    return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

bool coord_map_place(const struct coord_cluster *cl, uint32_t number)
{
    return number < cl->tables && cl->bits[number] != COORD_NO_PLACE;
}

struct table_set coord_map_places(const struct coord_cluster *cl)
{
    struct table_set places = TABLE_SET_NONE;
    for (uint32_t n = 0; n < cl->tables; n++)
        if (coord_map_place(cl, n))
            table_set_add(&places, n);
    return places;
}

bool coord_map_plain(const struct coord_cluster *cl)
{
    uint32_t at = 0;
    for (uint32_t n = 0; n < cl->tables; n++) {
        if (!coord_map_place(cl, n) || cl->first[n] != at)
            return false;
        at += 1u << cl->bits[n];
    }
    return at == cl->tablets;
}

bool coord_map_spare(const struct coord_cluster *cl, uint32_t tablet)
{
    for (uint32_t n = 0; n < cl->tables; n++)
        if (coord_map_place(cl, n) && tablet >= cl->first[n] &&
            tablet - cl->first[n] < 1u << cl->bits[n])
            return false;
    return cl->tables > 0;
}

uint32_t coord_map_room(const uint8_t bits[LIMIT_TABLES], const uint32_t first[LIMIT_TABLES],
                        struct table_set taken, uint32_t count)
{
    uint32_t at = 0;
    for (bool moved = true;
         moved;) { /* each turn passes a place, so there are LIMIT_TABLES at most */
        moved = false;
        TABLE_SET_EACH (n, &taken) {
            uint32_t end = first[n] + (1u << bits[n]);
            if (at < end && first[n] < at + count) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

/* ---- the tables of a job --------------------------------------------------------------------- */

bool coord_map_has(const struct coord_cluster *cl, struct table_set numbers,
                   const struct table_schema *table, uint32_t tables)
{
    if (table_set_count(numbers) != tables || coord_map_tablets(table, tables) > cl->tablets)
        return false;
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t n = table_set_nth(numbers, t);
        /* the map of a cluster that was taken over may have no places yet */
        if (cl->tables == 0 && table_set_is_first(numbers))
            continue;
        if (!coord_map_place(cl, n) || cl->bits[n] != table[t].tablet_bits)
            return false;
    }
    return true;
}

uint32_t coord_map_first(const struct coord_cluster *cl, struct table_set numbers,
                         const struct table_schema *s)
{
    uint32_t number = table_set_nth(numbers, s->table);
    if (cl->tables == 0 && table_set_is_first(numbers))
        return s->tablet_first;
    SHOAL_ASSERT(coord_map_place(cl, number));
    return cl->first[number];
}

void coord_map_view(const struct coord_cluster *cl, struct table_set numbers,
                    const struct table_schema *table, uint32_t tables, uint16_t *shard_of)
{
    for (uint32_t t = 0; t < tables; t++) {
        const struct table_schema *s = &table[t];
        uint32_t first = coord_map_first(cl, numbers, s), count = 1u << s->tablet_bits;
        SHOAL_ASSERT(first + count <= cl->tablets);
        memcpy(shard_of + s->tablet_first, cl->shard_of + first, count * sizeof *shard_of);
    }
}
