/* cluster_map.h: the cluster's map, which shard leads which tablet: stored before a shard or worker
 * is told. map.h computes one, without the store.
 *
 *     a job's tables, or tablets that have moved -> a map of the next epoch -> stored -> MAP_SET
 *     a shard knows a newer map -> MAP_HELD -> stored -> MAP_SET to all
 *
 * A table number has a place in the map: its tablets, which lie beside each other. The numbers of a
 * space's tables are its own: they are the first ones for the only space, and a further one takes
 * such as are free, and tablets that are free, wherever they are. Tablets of a table that was
 * dropped are spare: they belong to shards, which have nothing of them. A map that was taken from
 * shards has no places, because shards know none of them; where there are several spaces, the text
 * of names.h, which shards keep as well, has them.
 *
 * Invariants:
 *  1. The owner of a tablet in the map changes only when the tablet has moved (moves.h): new tables
 *     are distributed over the shards, the others stay. A job that first drops the rows of its
 *     space (fresh.h) may put other tables in their place, and spare tablets have no rows. [assert:
 *     map_put] [test: coord_map_of_more_tables_keeps_the_owners] */
#ifndef SERVER_COORD_FLEET_CLUSTER_MAP_H
#define SERVER_COORD_FLEET_CLUSTER_MAP_H

#include "proto/base/err.h"
#include "proto/job/schema.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/cluster.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the stored map, if there is one. CORRUPT, IO. */
int coord_cluster_map_open(struct coord_fleet *f, struct err *e);
/* True when the cluster is known and no shard has a newer map: a job may begin. */
bool coord_cluster_ready(const struct coord_cluster *cl);
/* Asks for the newer map, if a shard has one. Cheap. */
void coord_cluster_step(struct coord_fleet *f);

/* Puts a job's tables into the map and stores it: tables that are in it keep their owners, the
 * others are distributed. *numbers: those by which the shards know the space's tables, before
 * the call and after it; they rise with the job's own (table_set_nth), and no other space has
 * them. *left: the same for tables that no job of the space uses any more, and that the shards
 * still have. An error leaves both as they were. fresh:
 * all of these are dropped first, so the tables need not fit, and after the call they are in *left.
 * The moves are told afterwards (coord_moves_map_changed). CONFIG, BUSY, NOMEM, IO. */
int coord_cluster_map(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                      bool fresh, struct table_set *numbers, struct table_set *left, struct err *e);
/* The shards have dropped these tables: their places are free. False: the store failed, or out of
 * memory. */
bool coord_cluster_map_free(struct coord_fleet *f, struct table_set numbers);

struct catalog;
/* Takes the places of tables from the list of spaces, for a map that came from shards. False: the
 * store failed, or out of memory. */
bool coord_cluster_map_sizes(struct coord_fleet *f, const struct catalog *c);

/* Stores a map of the next epoch, in which these tablets (count, possibly 0) belong to the shard.
 * False: the store failed, or out of memory, and nothing has changed. */
bool coord_cluster_move(struct coord_fleet *f, const uint32_t *tablet, uint32_t count,
                        uint32_t shard);
/* Fills in MAP_SET and returns the bytes of its frame, shard_of. */
size_t coord_cluster_map_wire(const struct coord_cluster *cl, struct wire *w);
/* Returns the number of the map's tablets that a shard leads. */
uint32_t coord_cluster_led(const struct coord_cluster *cl, uint32_t shard);
/* The same of these tables, of all of them where their places are not known. */
uint32_t coord_cluster_led_of(const struct coord_cluster *cl, uint32_t shard,
                              const struct table_set *tables);

#endif
