/* place.c: the invariants are in place.h. */
#include "server/shard/place.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/job/catalog.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool nowhere(const struct engine_place *p)
{
    return (p->cluster[0] | p->cluster[1]) == 0;
}

void place_beat(const struct shard *s, struct wire_SHARD_BEAT *out)
{
    const struct engine_place *p = engine_place(s->engine);
    struct engine_stats stats;
    engine_stats_get(s->engine, &stats);
    out->cluster_high = p->cluster[0];
    out->cluster_low = p->cluster[1];
    out->number = p->number;
    if (nowhere(p))
        out->number = WIRE_NO_SHARD;
    out->shards = p->shards;
    out->map_epoch = p->map_epoch;
    out->holds = stats.tables > 0;
    out->in_memory = s->options.engine.durability == DURABLE_MEMORY;
    out->durability = (uint32_t)s->options.engine.durability + 1;
    out->newest_run = engine_newest_run(s->engine);
    out->newest_cut = s->newest_cut;
    out->sequence = stats.sequence;
    out->synced = engine_synced(s->engine);
    out->names_version = engine_names(s->engine)->version;
    out->names_digest = engine_names(s->engine)->digest;
    out->taken_version = engine_taken_newest(s->engine);
}

int place_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, struct err *e)
{
    const struct engine_place *p = engine_place(s->engine);
    if ((r->cluster_high | r->cluster_low) == 0 || r->shards == 0 || r->shards > LIMIT_SHARDS ||
        r->shard >= LIMIT_SHARDS)
        return err_set(e, SHOAL_E_MALFORMED, "the coordinator calls it shard %u of %u", r->shard,
                       r->shards);
    if (nowhere(p))
        return engine_place_set(s->engine,
                                &(struct engine_place){.cluster = {r->cluster_high, r->cluster_low},
                                                       .number = r->shard,
                                                       .shards = r->shards},
                                e);
    if (p->cluster[0] != r->cluster_high || p->cluster[1] != r->cluster_low)
        return err_set(e, SHOAL_E_CONFIG,
                       "its rows are of cluster %016" PRIx64 "%016" PRIx64
                       ", the coordinator's is %016" PRIx64 "%016" PRIx64
                       ": see `coordinator` and `data_dir` in the server's file",
                       p->cluster[0], p->cluster[1], r->cluster_high, r->cluster_low);
    if (p->number != r->shard)
        return err_set(e, SHOAL_E_CONFIG,
                       "its rows are those of shard %u, the coordinator calls it %u: see "
                       "`data_dir` in the server's file",
                       p->number, r->shard);
    if (p->shards == r->shards)
        return 0;
    struct engine_place next = *p; /* shards were added, or retired */
    next.shards = r->shards;
    return engine_place_set(s->engine, &next, e);
}

/* The epoch of the newest accepted map. */
static uint64_t epoch_of(const struct shard *s)
{
    uint64_t kept = engine_place(s->engine)->map_epoch;
    SHOAL_ASSERT(s->beat.coordinator == 0 || s->lead.epoch <= kept); /* 1 */
    return MAX(s->lead.epoch, kept);
}

static bool same_map(const struct engine_place *p, const uint16_t *shard_of, uint32_t tablets)
{
    return p->tablets == tablets &&
           (tablets == 0 || memcmp(p->shard_of, shard_of, tablets * sizeof *shard_of) == 0);
}

static int map_check(const struct shard *s, const struct wire_MAP_SET *r, struct err *e)
{
    const struct engine_place *p = engine_place(s->engine);
    if (r->map_epoch == 0 || r->tablet_count > LIMIT_FLEET_TABLETS)
        return err_set(e, SHOAL_E_MALFORMED, "map of epoch %" PRIu64 " with %u tablets",
                       r->map_epoch, r->tablet_count);
    if (s->beat.coordinator != 0 && nowhere(p))
        return err_set(e, SHOAL_E_AGAIN, "it has not been told its number yet; ask again");
    if (s->beat.coordinator != 0 &&
        (r->cluster_high != p->cluster[0] || r->cluster_low != p->cluster[1]))
        return err_set(e, SHOAL_E_CONFIG, "the map is of another cluster");
    if (r->map_epoch < epoch_of(s))
        return err_set(e, SHOAL_E_CONFIG,
                       "the map is of epoch %" PRIu64 ", this shard has that of epoch %" PRIu64
                       ": the coordinator's data_dir is older than it was",
                       r->map_epoch, epoch_of(s));
    return 0;
}

static int leaves_check(const struct shard *s, const struct engine_place *next,
                        const struct place_gone *gone, struct err *e)
{
    static const struct place_gone none;
    if (s->copies.role == COPIES_FOLLOWS || engine_place(s->engine)->map_epoch < s->copies.map_due)
        return 0; /* its rows came and went with the leader's records */
    if (gone == NULL)
        gone = &none;
    return engine_place_leaves(s->engine, next, gone->tablet, gone->count, e);
}

int place_map(struct shard *s, const struct wire_MAP_SET *r, const uint16_t *shard_of,
              const struct place_gone *gone, struct err *e)
{
    struct engine_place next = *engine_place(s->engine);
    int rc = map_check(s, r, e);
    if (rc != 0)
        return rc;
    if (r->map_epoch == next.map_epoch && !same_map(&next, shard_of, r->tablet_count))
        return err_set(e, SHOAL_E_CONFIG,
                       "two maps of epoch %" PRIu64 ": two coordinators have run on copies of one "
                       "data_dir",
                       r->map_epoch);
    if (s->beat.coordinator != 0 && r->map_epoch > next.map_epoch) {
        next.map_epoch = r->map_epoch;
        next.tablets = r->tablet_count;
        next.shard_of = shard_of;
        rc = leaves_check(s, &next, gone, e);
        if (rc == 0)
            rc = engine_place_set(s->engine, &next, e);
    }
    if (rc == 0 && lead_set_map(&s->lead, r->map_epoch, shard_of, r->tablet_count) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", r->tablet_count);
    return rc;
}

struct place_kept place_keep(const struct shard *s)
{
    const struct engine_place *p = engine_place(s->engine);
    return (struct place_kept){{p->cluster[0], p->cluster[1]}, p->number, p->shards};
}

int place_again(struct shard *s, struct place_kept was, struct err *e)
{
    const struct lead *l = &s->lead;
    const struct engine_place place = {.cluster = {was.cluster[0], was.cluster[1]},
                                       .number = was.number,
                                       .shards = was.shards,
                                       .map_epoch = l->epoch,
                                       .tablets = l->tablet_count,
                                       .shard_of = l->shard_of};
    if (nowhere(&place) || !nowhere(engine_place(s->engine)))
        return 0;
    return engine_place_set(s->engine, &place, e);
}

void place_held(struct shard *s, peer_t from)
{
    const struct engine_place *p = engine_place(s->engine);
    uint64_t id = s->in.id;
    shard_reply(s, WIRE_TYPE_MAP_HELD, id)->u.MAP_HELD_reply =
        (struct wire_MAP_HELD_reply){p->map_epoch, p->tablets};
    struct msg *m = wire_encode(&s->out);
    void *map = msg_add(m, p->tablets * sizeof *p->shard_of);
    if (map == NULL) {
        msg_free(m);
        return; /* out of memory: the coordinator asks again */
    }
    if (p->tablets > 0)
        memcpy(map, p->shard_of, p->tablets * sizeof *p->shard_of);
    shard_send(s, from, m);
}

static int names_check(const struct shard *s, const struct wire_NAMES_SET *r, const char *line,
                       size_t bytes, struct err *e)
{
    const struct engine_place *p = engine_place(s->engine);
    const struct engine_names *n = engine_names(s->engine);
    struct catalog spaces;
    if (s->beat.coordinator != 0 && nowhere(p))
        return err_set(e, SHOAL_E_AGAIN, "it has not been told its number yet; ask again");
    if (s->beat.coordinator != 0 &&
        (r->cluster_high != p->cluster[0] || r->cluster_low != p->cluster[1]))
        return err_set(e, SHOAL_E_CONFIG, "the names are of another cluster");
    if (r->version == 0 || catalog_read(line, bytes, &spaces, e) != 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "names of version %" PRIu64 " in %zu bytes are not as a coordinator writes "
                       "them",
                       r->version, bytes);
    if (r->version < n->version)
        return err_set(e, SHOAL_E_CONFIG,
                       "the names are of version %" PRIu64 ", this shard has those of version "
                       "%" PRIu64 ": the coordinator's data_dir is older than it was",
                       r->version, n->version);
    if (r->version == n->version && (bytes != n->bytes || memcmp(line, n->line, bytes) != 0))
        return err_set(e, SHOAL_E_CONFIG,
                       "two lists of names of version %" PRIu64
                       ": two coordinators have run on copies of one data_dir",
                       r->version);
    return 0;
}

int place_names(struct shard *s, const struct wire_NAMES_SET *r, const char *line, size_t bytes,
                struct err *e)
{
    int rc = names_check(s, r, line, bytes, e);
    if (rc != 0 || r->version == engine_names(s->engine)->version)
        return rc;
    return engine_names_set(s->engine, r->version, line, (uint32_t)bytes, e);
}

void place_names_held(struct shard *s, peer_t from)
{
    const struct engine_names *n = engine_names(s->engine);
    uint64_t id = s->in.id;
    shard_reply(s, WIRE_TYPE_NAMES_HELD, id)->u.NAMES_HELD_reply.version = n->version;
    struct msg *m = wire_encode(&s->out);
    void *line = msg_add(m, n->bytes);
    if (line == NULL) {
        msg_free(m);
        return; /* out of memory: the coordinator asks again */
    }
    if (n->bytes > 0)
        memcpy(line, n->line, n->bytes);
    shard_send(s, from, m);
}

static int taken_check(const struct shard *s, const struct wire_TAKEN_SET *r, size_t bytes,
                       struct err *e)
{
    const struct engine_place *p = engine_place(s->engine);
    if (s->beat.coordinator != 0 && nowhere(p))
        return err_set(e, SHOAL_E_AGAIN, "it has not been told its number yet; ask again");
    if (s->beat.coordinator != 0 &&
        (r->cluster_high != p->cluster[0] || r->cluster_low != p->cluster[1]))
        return err_set(e, SHOAL_E_CONFIG, "what the tables have learnt is of another cluster");
    if (r->version == 0 || bytes > ENGINE_TAKEN_MAX || r->space >= LIMIT_SPACES)
        return err_set(e, SHOAL_E_MALFORMED,
                       "what the tables of space %u have learnt is of version %" PRIu64
                       ", in %zu bytes",
                       r->space, r->version, bytes);
    uint64_t version = engine_taken_version(s->engine, r->space);
    if (r->version < version)
        return err_set(e, SHOAL_E_CONFIG,
                       "what the tables have learnt is of version %" PRIu64
                       ", this shard has version %" PRIu64
                       ": the coordinator's data_dir is older than it was",
                       r->version, version);
    return 0;
}

int place_taken(struct shard *s, const struct wire_TAKEN_SET *r, const void *bytes, size_t count,
                struct err *e)
{
    int rc = taken_check(s, r, count, e);
    if (rc != 0 || r->version == engine_taken_version(s->engine, r->space))
        return rc;
    return engine_taken_set(s->engine, r->space, r->version, bytes, (uint32_t)count, e);
}

void place_taken_held(struct shard *s, peer_t from)
{
    struct err e = {0};
    uint64_t id = s->in.id;
    uint32_t space = s->in.u.TAKEN_HELD.space, count = 0;
    void *bytes = NULL;
    int rc = SHOAL_E_MALFORMED;
    if (space < LIMIT_SPACES)
        rc = engine_taken_get(s->engine, space, &bytes, &count, &e);
    else
        (void)err_set(&e, rc, "there is no space %u", space);
    if (rc != 0) {
        shard_refuse(s, from, WIRE_TYPE_TAKEN_HELD, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    shard_reply(s, WIRE_TYPE_TAKEN_HELD, id)->u.TAKEN_HELD_reply.version =
        engine_taken_version(s->engine, space);
    struct msg *m = wire_encode(&s->out);
    void *frame = msg_add(m, count);
    if (frame != NULL && count > 0)
        memcpy(frame, bytes, count);
    free(bytes);
    if (frame == NULL)
        msg_free(m); /* out of memory: the coordinator asks again */
    else
        shard_send(s, from, m);
}
