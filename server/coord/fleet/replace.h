/* replace.h: the stored order of an operator after a server's disk is lost: the numbers of its
 * shards are vacant (member.h), and all shards go back to one checkpoint. job/replace.h checks and
 * gives the order, and carries it out.
 *
 * Invariants:
 *  1. The vacant numbers and the checkpoint are stored in one transaction. A number that is taken
 *     by an empty folder while no checkpoint is to be loaded would read as new rows. [test:
 *     replace_survives_the_coordinator]
 *  2. The order stays until the progress is stored with which the job goes back (back.c), or until
 *     no job is to go on with the tables. [test: replace_survives_the_coordinator] */
#ifndef SERVER_COORD_FLEET_REPLACE_H
#define SERVER_COORD_FLEET_REPLACE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

struct coord_replace {     /* value of "replace" */
    char from[LIMIT_PATH]; /* the checkpoint; empty: there is no order */
};

/* CORRUPT, IO. */
int coord_replace_open(struct coord_fleet *f, struct err *e);
/* Returns how many shards have been given to the server. */
uint32_t coord_replace_shards(const struct coord_fleet *f, const char *server);
/* Checks that the server may be replaced. NOT_FOUND: it holds no shard; BUSY: it beats, or may beat
 * (`since_ns`: when this coordinator started); USAGE: another copy has its rows. */
int coord_replace_check(const struct coord_fleet *f, const char *server, uint64_t since_ns,
                        struct err *e);
/* Stores the order. False: the store failed. */
bool coord_replace_put(struct coord_fleet *f, const char *server, const char *from);
/* The order is carried out, or given up. False: the store failed. */
bool coord_replace_done(struct coord_fleet *f);

#endif
