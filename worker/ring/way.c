/* way.c: chunks, and their way through a ring. */
#include "worker/ring/way.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <inttypes.h>

int way_shape_check(const struct way_shape *s, struct err *e)
{
    if (s->members == 0 || s->members > WIRE_RING_MEMBERS || s->members > s->lanes)
        return err_set(e, SHOAL_E_USAGE,
                       "a ring of %u workers over %u lanes: 1 to %u workers, each with a lane",
                       s->members, s->lanes, WIRE_RING_MEMBERS);
    if (s->starts == 0 || s->starts > s->lanes || s->starts > WIRE_RING_MEMBERS)
        return err_set(e, SHOAL_E_USAGE, "a ring with %u starts over %u lanes", s->starts,
                       s->lanes);
    bool good = s->first[0] == 0 && s->first[s->members] == s->lanes;
    for (uint32_t i = 0; i < s->members; i++)
        good = good && s->first[i] < s->first[i + 1];
    if (!good)
        return err_set(e, SHOAL_E_USAGE,
                       "the workers of a ring do not divide its %u lanes into stretches", s->lanes);
    return 0;
}

int way_shape_even(uint32_t lanes, uint32_t starts, uint32_t members, struct way_shape *out,
                   struct err *e)
{
    *out = (struct way_shape){.lanes = lanes, .starts = starts, .members = members};
    if (members <= WIRE_RING_MEMBERS)
        for (uint32_t i = 1; i <= members; i++)
            out->first[i] = (uint32_t)((uint64_t)i * lanes / members);
    return way_shape_check(out, e);
}

/* Writes where the shares of a part begin; returns the units of the largest one. */
static uint64_t shares_place(const struct way_array *a, uint32_t part, uint32_t starts,
                             uint64_t *first)
{
    uint64_t units = (a->floats[part] + a->unit - 1) / a->unit, most = 0;
    for (uint32_t k = 0; k < starts; k++) {
        first[k + 1] = (k + 1) * units / starts;
        if (a->share[part] != NULL)
            first[k + 1] = first[k] + a->share[part][k];
        most = MAX(most, first[k + 1] - first[k]);
    }
    SHOAL_ASSERT(first[starts] == units);
    return most;
}

int way_cut(const struct way_array *array, uint32_t starts, struct way_cut *out, struct err *e)
{
    SHOAL_ASSERT(starts > 0 && starts <= WIRE_RING_MEMBERS);
    SHOAL_ASSERT(array->unit > 0 && array->unit <= WAY_CHUNK_MOST);
    uint64_t all = array->floats[WAY_WEIGHTED] + array->floats[WAY_PLAIN], chunks = 0;
    uint64_t floats = MIN(MAX(all / (UINT64_C(4) * starts), WAY_CHUNK_LEAST), WAY_CHUNK_MOST);
    uint64_t units = MAX(floats / array->unit, 1); /* units of a chunk */
    *out = (struct way_cut){.weighted = array->floats[WAY_WEIGHTED],
                            .plain = array->floats[WAY_PLAIN],
                            .unit = array->unit,
                            .starts = starts,
                            .floats = (uint32_t)(units * array->unit)};
    for (uint32_t part = 0; part < WAY_PARTS; part++) {
        uint64_t most = shares_place(array, part, starts, out->first[part]);
        chunks += (most + units - 1) / units * starts;
        if (chunks > WIRE_RING_CHUNKS)
            return err_set(e, SHOAL_E_TOO_BIG,
                           "a network of %" PRIu64 " floats has more than %u chunks of %u floats",
                           all, WIRE_RING_CHUNKS, out->floats);
        if (part == WAY_WEIGHTED)
            out->weighted_chunks = (uint32_t)chunks;
    }
    out->chunks = (uint32_t)chunks;
    return 0;
}

struct way_place way_place(const struct way_cut *cut, uint32_t chunk)
{
    SHOAL_ASSERT(chunk < cut->chunks);
    bool weighted = chunk < cut->weighted_chunks;
    const uint64_t *first = cut->first[WAY_WEIGHTED];
    uint64_t begins = 0, floats = cut->weighted, of = cut->weighted_chunks / cut->starts;
    if (!weighted) {
        first = cut->first[WAY_PLAIN];
        begins = cut->weighted;
        floats = cut->plain;
        of = (cut->chunks - cut->weighted_chunks) / cut->starts;
        chunk -= cut->weighted_chunks;
    }
    uint32_t share = chunk % cut->starts, at = chunk / cut->starts; /* chunk `at` of its share */
    uint64_t units = first[share + 1] - first[share];
    uint64_t from = MIN((first[share] + at * units / of) * cut->unit, floats),
             to = MIN((first[share] + (at + 1) * units / of) * cut->unit, floats);
    return (struct way_place){begins + from, (uint32_t)(to - from), weighted};
}

static uint32_t start_of(const struct way_shape *s, uint32_t chunk)
{
    return (uint32_t)((uint64_t)(chunk % s->starts) * s->lanes / s->starts);
}

static uint32_t holder_of(const struct way_shape *s, uint32_t lane)
{
    uint32_t i = 0;
    while (s->first[i + 1] <= lane)
        i++;
    return i;
}

static uint32_t last_of(const struct way_shape *s, uint32_t holder, uint32_t start)
{
    if (s->first[holder] == start)
        return s->members - 1;
    return s->members;
}

void way_of(const struct way_shape *s, uint32_t member, uint32_t chunk, struct way *out)
{
    SHOAL_ASSERT(member < s->members);
    uint32_t n = s->members, start = start_of(s, chunk), holder = holder_of(s, start);
    uint32_t distance = (member + n - holder) % n, last = last_of(s, holder, start);
    *out = (struct way){.last = last,
                        .distance = distance,
                        .part_hop = WAY_NO_HOP,
                        .sum_hop = WAY_NO_HOP,
                        .lane = s->first[member],
                        .lane_end = s->first[member + 1],
                        .begins = distance == 0};
    if (distance > 0)
        out->part_hop = distance - 1;
    if (distance == 0) {
        out->lane = start;
        out->rest = s->first[member];
        out->rest_end = start;
        if (last == n && n > 1)
            out->part_hop = n - 1;
    }
    if (distance != last % n)
        out->sum_hop = n + distance - 1;
}

uint64_t way_owned(const struct way_shape *s, uint32_t member)
{
    uint64_t shares = 0;
    for (uint32_t k = 0; k < s->starts; k++) {
        struct way w;
        way_of(s, member, k, &w);
        shares |= (uint64_t)(w.sum_hop == WAY_NO_HOP) << k;
    }
    return shares;
}

uint64_t way_kept(const struct way_shape *s, uint32_t member)
{
    return way_owned(s, member) | way_owned(s, (member + s->members - 1) % s->members);
}

uint32_t way_messages(const struct way_shape *s, uint32_t chunk)
{
    uint32_t start = start_of(s, chunk);
    if (s->members == 1)
        return 0;
    return last_of(s, holder_of(s, start), start) + s->members - 1;
}
