/* sim_copies.c: looks into the engines of all copies, and into the coordinator's lists. */
#include "tests/lib/sim_copies.h"
#include "embedding/engine/engine_state.h"
#include "embedding/rows/image.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint32_t all_copies(const struct cluster *c)
{
    return c->options.servers * c->options.shards;
}

/* ---- the copies that are there --------------------------------------------------------------- */

static const struct shard *shard_of(const struct cluster *c, const struct coord_shard *s)
{
    for (uint32_t i = 0; i < all_copies(c); i++)
        if (c->server[i].node != NULL && strcmp(c->server[i].name, s->server) == 0 &&
            i % c->options.shards == s->index)
            return c->server[i].shard;
    return NULL;
}

static bool known(const struct cluster *c, const struct coord_shard *s)
{
    const struct shard *is = shard_of(c, s);
    return is != NULL && engine_back(is->engine) && s->seen && s->ready &&
           s->incarnation == is->beat.incarnation;
}

bool sim_copies_in_sync(const struct cluster *c)
{
    if (c->coord == NULL || !coord_cluster_ready(&c->coord->fleet.cluster))
        return false;
    const struct coord_fleet *f = &c->coord->fleet;
    for (uint32_t s = 0; s < f->members.shards; s++) {
        const struct coord_copies_of *of = &f->copies.of[s];
        if (of->in_sync != (1u << c->options.replicas) - 1 || of->suspect != 0)
            return false;
        for (uint32_t p = 0; p < of->count; p++)
            if (!known(c, coord_copies_any(f, s, p)))
                return false;
    }
    return true;
}

bool sim_copies_even(const struct cluster *c)
{
    for (uint32_t i = 0; i < all_copies(c); i++)
        for (uint32_t k = i + 1; k < all_copies(c); k++) {
            const struct shard *a = c->server[i].shard, *b = c->server[k].shard;
            if (a == NULL || b == NULL ||
                (a->lead.self == b->lead.self && a->engine->sequence != b->engine->sequence))
                return false;
        }
    return true;
}

uint32_t sim_copies_leader(const struct cluster *c, uint32_t shard)
{
    for (uint32_t i = 0; i < all_copies(c); i++) {
        const struct shard *s = c->server[i].shard;
        if (s != NULL && s->lead.self == shard && copies_leased(s))
            return i;
    }
    return SIM_NO_COPY;
}

uint32_t sim_copies_follower(const struct cluster *c, uint32_t shard, uint32_t n)
{
    for (uint32_t i = 0; i < all_copies(c); i++) {
        const struct shard *s = c->server[i].shard;
        if (s != NULL && s->lead.self == shard && s->copies.role == COPIES_FOLLOWS && n-- == 0)
            return i;
    }
    return SIM_NO_COPY;
}

/* ---- what they have -------------------------------------------------------------------------- */

/* A sum over the words of an image, whose rows lie in the order of the index. */
static uint64_t words(const char *image, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t at = sizeof(struct image_header); at + 4 <= bytes - sizeof(uint64_t); at += 4) {
        uint32_t word;
        memcpy(&word, image + at, sizeof word);
        sum += rng_mix(word);
    }
    return sum;
}

/* [0]: rows; [1]: marks; [2]: all else of the image. */
static void tablet_state(struct engine *g, uint32_t table, uint32_t tablet, uint64_t out[3])
{
    const struct table *t = engine_table(g, table);
    size_t bytes = stored_tablet_bytes(t, &g->runs, tablet),
           column = bytes - table_image_bytes(t, tablet);
    char *value = malloc(bytes);
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(table_digest(t, tablet, &out[0]), 0);
    stored_tablet_write(t, &g->runs, tablet, 1, value);
    out[1] = hash_bytes(value, column, 0);
    out[2] = words(value + column, bytes - column);
    free(value);
}

/* Tables, runs with their lanes, and terms. */
static uint64_t control_state(struct engine *g)
{
    struct table *list[LIMIT_TABLES];
    void *value;
    size_t bytes;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        list[t] = engine_table(g, t);
    const struct stored_as_of as_of = {g->sequence, 0, g->terms};
    ck_assert_int_eq(stored_control_write(list, &g->runs, as_of, &value, &bytes), 0);
    uint64_t sum = hash_bytes(value, bytes, 0);
    free(value);
    return sum;
}

static void pair_equal(const struct shard *a, const struct shard *b, const char *who)
{
    struct engine *x = a->engine, *y = b->engine;
    static const char *const what[3] = {"rows", "marks", "admission"};
    ck_assert_msg(x->sequence == y->sequence,
                  "%s: shard %u: %s has %" PRIu64 " records, %s has %" PRIu64, who, a->lead.self,
                  a->name, x->sequence, b->name, y->sequence);
    ck_assert_msg(control_state(x) == control_state(y),
                  "%s: shard %u: %s and %s have other tables, runs or terms", who, a->lead.self,
                  a->name, b->name);
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *of = engine_table(x, t);
        uint32_t tablets = of == NULL ? 0 : 1u << table_schema_of(of)->tablet_bits;
        for (uint32_t k = 0; k < tablets; k++) {
            uint64_t here[3], there[3];
            tablet_state(x, t, k, here);
            tablet_state(y, t, k, there);
            for (uint32_t i = 0; i < 3; i++)
                ck_assert_msg(here[i] == there[i],
                              "%s: shard %u: tablet %u of table %u: %s and %s have other %s", who,
                              a->lead.self, k, t, a->name, b->name, what[i]);
        }
    }
}

void sim_copies_equal(const struct cluster *c, const char *who)
{
    for (uint32_t i = 0; i < all_copies(c); i++)
        for (uint32_t k = i + 1; k < all_copies(c); k++)
            if (c->server[i].shard->lead.self == c->server[k].shard->lead.self)
                pair_equal(c->server[i].shard, c->server[k].shard, who);
}
