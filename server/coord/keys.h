/* keys.h: who may come, told to every shard; whose key is whose.
 *
 * The daemon reads the allow-list and says when there is another one (coord_keys_take). Its
 * text goes to each shard over the connection of its last beat, again and again until it is
 * acknowledged: what a shard goes by stands in its beats.
 *
 *     list -> each shard seen -> KEYLIST -> its daemon lets them in -> reply, and the next beat
 *
 * Invariants:
 *  1. A server's name belongs to the name of the key that it first came with, stored before it
 *     counts. [test: coord_a_servers_name_is_its_keys]
 *  2. A shard's public key is the one that it has shown, never what a frame says.
 *     [test: coord_map_tells_the_keys_that_were_shown] */
#ifndef SERVER_COORD_KEYS_H
#define SERVER_COORD_KEYS_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stddef.h>
#include <stdint.h>

struct coord_fleet;

struct coord_keys {
    char *text; /* owned; NULL: there is no list */
    size_t bytes;
    uint64_t version; /* 0: none */
};

/* Reads back whose the servers are. */
/* Another list. NOMEM: the shards keep the one before. */
int coord_keys_take(struct coord_fleet *f, const char *text, size_t bytes, struct err *e);
int coord_keys_open(struct coord_fleet *f, struct err *e);
/* What comes in the name of a server, before anybody believes it: 0, or DENIED: the server is
 * another key's. */
int coord_keys_claim(const struct coord_fleet *f, const char *server, const struct env_who *who,
                     struct err *e);
/* Of a shard that belongs here: whose it is, its key, and the list that it goes by. IO. */
int coord_keys_learn(struct coord_fleet *f, uint32_t shard, peer_t from, uint64_t version,
                     struct err *e);
/* A reply to KEYLIST. */
void coord_keys_answer(struct coord_fleet *f, peer_t from, const struct wire *reply);
/* Sends the list to those that do not have it. */
void coord_keys_tick(struct coord_fleet *f);
void coord_keys_close(struct coord_keys *k);

#endif
