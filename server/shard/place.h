/* place.h: where this shard belongs: what the coordinator says of it, against what its folder says
 * (engine_place). Thread: the shard's.
 *
 *     SHARD_BEAT --place_beat: what the folder says--> coordinator
 *     its reply  --place_told: cluster and number, kept before anything is led--> lead.self
 *     MAP_SET    --place_map: the map, kept before it is answered--> lead
 *     MAP_HELD   --place_held: the map that is kept--> a coordinator that has lost its own
 *     NAMES_SET, NAMES_HELD: likewise what the fields in the keys are called
 *     TAKEN_SET, TAKEN_HELD: likewise what of logs the tables have learnt
 *
 * 1. Nothing is led that the folder does not say it leads. [assert: epoch_of]
 *    [test: a_map_is_kept_before_it_is_led]
 * 2. No map takes a tablet with rows or marks away. [test: a_map_that_leaves_rows_is_refused]
 *
 * A shard without a coordinator (tests, shoal bench) belongs nowhere: it takes any map, and keeps
 * none. */
#ifndef SERVER_SHARD_PLACE_H
#define SERVER_SHARD_PLACE_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

struct shard;

void place_beat(const struct shard *s, struct wire_SHARD_BEAT *out);
/* CONFIG: the coordinator's cluster, or number, is not the one of this folder. */
int place_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, struct err *e);
/* The map of a MAP_SET. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_map(struct shard *s, const struct wire_MAP_SET *r, const uint16_t *shard_of,
              struct err *e);
void place_held(struct shard *s, peer_t from); /* answers MAP_HELD */
/* The line of a NAMES_SET. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_names(struct shard *s, const struct wire_NAMES_SET *r, const char *line, size_t bytes,
                struct err *e);
void place_names_held(struct shard *s, peer_t from); /* answers NAMES_HELD */
/* The bytes (count) of a TAKEN_SET. MALFORMED, CONFIG, AGAIN, IO, NOMEM. */
int place_taken(struct shard *s, const struct wire_TAKEN_SET *r, const void *bytes, size_t count,
                struct err *e);
void place_taken_held(struct shard *s, peer_t from); /* answers TAKEN_HELD */

#endif
