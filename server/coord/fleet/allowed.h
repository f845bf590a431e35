/* allowed.h: the allow-list, which every shard is told, and the key that owns each server's name.
 *
 * The daemon reads the allow-list and calls coord_allowed_take when there is another one. The text
 * goes to each shard over the connection of its last beat, again and again until the shard
 * acknowledges it. A shard's beats carry the version of the list that it applies.
 *
 *     list -> each shard seen -> KEYLIST -> its daemon lets them in -> reply, and the next beat
 *
 * Invariants:
 *  1. A server's name belongs to the name of the key that it first came with. This is stored before
 *     it counts. [test: coord_a_servers_name_is_its_keys]
 *  2. A shard's public key is the one that it has shown, never the one that a frame states. [test:
 *     coord_map_tells_the_keys_that_were_shown] */
#ifndef SERVER_COORD_FLEET_ALLOWED_H
#define SERVER_COORD_FLEET_ALLOWED_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_shard;

struct coord_allowed {
    char *text; /* owned; NULL: there is no list */
    size_t bytes;
    uint64_t version; /* 0: none */
};

/* Takes another list. NOMEM: the shards keep the one before. */
int coord_allowed_take(struct coord_fleet *f, const char *text, size_t bytes, struct err *e);
/* Reads back from the store which key each server's name belongs to. */
int coord_allowed_open(struct coord_fleet *f, struct err *e);
/* Checks a message in the name of a server before anything in it is used. DENIED: the name belongs
 * to another key. */
int coord_allowed_claim(const struct coord_fleet *f, const char *server, const struct env_who *who,
                        struct err *e);
/* For a shard that belongs to this cluster: records the owner of its name, its key, and the version
 * of the list that it applies. IO. */
int coord_allowed_learn(struct coord_fleet *f, uint32_t shard, peer_t from, uint64_t version,
                        struct err *e);
/* The same for a copy that follows; true: the name of its key is new, and is to be stored. */
bool coord_allowed_note(struct coord_fleet *f, struct coord_shard *s, peer_t from,
                        uint64_t version);
/* Stores the name of the key of the shard's leader. */
bool coord_allowed_keep(struct coord_fleet *f, uint32_t shard);
/* A reply to KEYLIST. */
void coord_allowed_answer(struct coord_fleet *f, peer_t from, const struct wire *reply);
/* Sends the list to the shards that do not have it. */
void coord_allowed_tick(struct coord_fleet *f);
void coord_allowed_close(struct coord_allowed *k);

#endif
