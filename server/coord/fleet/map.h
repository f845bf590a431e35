/* map.h: the shard that leads each tablet, over all tables and as one job counts them. Pure: a
 * function of tables and shard numbers.
 *
 * Each table is dealt over the shards by itself, in contiguous ranges of tablets whose lengths
 * differ by one at most, so that a batch sorted by tablet goes out as one range a shard. Global
 * tablet numbers run through all tables: schema.tablet_first + tablet. */
#ifndef SERVER_COORD_FLEET_MAP_H
#define SERVER_COORD_FLEET_MAP_H

#include "proto/base/err.h"
#include "proto/job/schema.h"
#include "server/coord/fleet/member.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_cluster;

/* Checks that tables are declared by number, complete and without gap: numbers 0..count-1, unique
 * names, tablets one after another from 0. SCHEMA. */
int coord_map_check(const struct table_schema *table, uint32_t count, struct err *e);
/* Returns the number of tablets of all tables. */
uint32_t coord_map_tablets(const struct table_schema *table, uint32_t count);
/* shard_of: (coord_map_tablets). CONFIG when a sparse table would have fewer than
 * LIMIT_SHARD_TABLETS_MIN tablets a shard; dense tables are small and may leave a shard without
 * one. */
int coord_map_make(const struct table_schema *table, uint32_t count,
                   const struct coord_members *members, uint16_t *shard_of, struct err *e);

/* True when a number has a place in the map. */
bool coord_map_place(const struct coord_cluster *cl, uint32_t number);
/* Returns the numbers that have one. */
struct table_set coord_map_places(const struct coord_cluster *cl);
/* True when each table's tablets follow those of the number before it, up to the map's end. */
bool coord_map_plain(const struct coord_cluster *cl);
/* True for a tablet that is no table's: no shard has rows of it. */
bool coord_map_spare(const struct coord_cluster *cl, uint32_t tablet);
/* Returns where `count` tablets are free, beside those of the places `taken`. */
uint32_t coord_map_room(const uint8_t bits[LIMIT_TABLES], const uint32_t first[LIMIT_TABLES],
                        struct table_set taken, uint32_t count);

/* True when the map has the job's tables under these numbers. */
bool coord_map_has(const struct coord_cluster *cl, struct table_set numbers,
                   const struct table_schema *table, uint32_t tables);
/* Returns where in the map a table begins that belongs to a job of these numbers. */
uint32_t coord_map_first(const struct coord_cluster *cl, struct table_set numbers,
                         const struct table_schema *s);
/* Writes the map as the job of these tables counts: the shard of each tablet of its tables. */
void coord_map_view(const struct coord_cluster *cl, struct table_set numbers,
                    const struct table_schema *table, uint32_t tables, uint16_t *shard_of);

#endif
