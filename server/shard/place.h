/* place.h: the place of this shard: the cluster, number and map that the coordinator sends, checked
 * against those that its folder keeps (engine_place). Thread: the shard's.
 *
 *     SHARD_BEAT --place_beat: the place in the folder--> coordinator
 *     its reply  --place_told: cluster and number, kept before anything is led--> lead.self
 *     MAP_SET    --place_map: the map, kept before it is answered--> lead
 *     MAP_HELD   --place_held: the map that is kept--> a coordinator that has lost its own
 *     NAMES_SET, NAMES_HELD: the same for the names of the fields in the keys
 *     TAKEN_SET, TAKEN_HELD: the same for the parts of logs that the tables have learnt
 *
 * 1. A shard leads only tablets that the map in its folder gives it. [assert: epoch_of]
 *    [test: a_map_is_kept_before_it_is_led]
 *    An engine that is opened again keeps its place. [test:
 *    a_follower_keeps_its_place_in_an_emptied_folder]
 * 2. A map that takes away a tablet with rows or marks is refused, unless it was moved. [test:
 *    a_map_that_leaves_rows_is_refused]
 *
 * A shard without a coordinator (tests, shoal bench) belongs to no cluster: it takes any map, and
 * keeps none. */
#ifndef SERVER_SHARD_PLACE_H
#define SERVER_SHARD_PLACE_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

struct shard;

void place_beat(const struct shard *s, struct wire_SHARD_BEAT *out);
/* CONFIG: the coordinator's cluster, or number, is not the one of this folder. */
int place_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, struct err *e);
/* Tablets that a map may take away with their rows: another shard has them on disk. */
struct place_gone {
    const uint32_t *tablet; /* borrowed, (count): global numbers */
    uint32_t count;
};
/* Takes the map of a MAP_SET or MOVE_MAP; gone may be NULL. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_map(struct shard *s, const struct wire_MAP_SET *r, const uint16_t *shard_of,
              const struct place_gone *gone, struct err *e);
/* The place of an engine that is about to be closed and opened again; the map is that of lead. */
struct place_kept {
    uint64_t cluster[2];
    uint32_t number, shards;
};
struct place_kept place_keep(const struct shard *s);
/* Tells it to an engine that has none: its folder was emptied while the server ran, or it has no
 * folder. IO, NOMEM. */
int place_again(struct shard *s, struct place_kept was, struct err *e);
void place_held(struct shard *s, peer_t from); /* answers MAP_HELD */
/* Takes the line of a NAMES_SET. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_names(struct shard *s, const struct wire_NAMES_SET *r, const char *line, size_t bytes,
                struct err *e);
void place_names_held(struct shard *s, peer_t from); /* answers NAMES_HELD */
/* Takes the bytes (count) of a TAKEN_SET. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_taken(struct shard *s, const struct wire_TAKEN_SET *r, const void *bytes, size_t count,
                struct err *e);
void place_taken_held(struct shard *s, peer_t from); /* answers TAKEN_HELD */

#endif
