/* ring_case.h: contributions that are functions of lane and step, and their sum, added up in the
 * order that worker/ring/way.h promises, by code of the tests' own. */
#ifndef TESTS_WORKER_RING_RING_CASE_H
#define TESTS_WORKER_RING_RING_CASE_H

#include "proto/base/rng.h"
#include "worker/ring/exchange.h"

#include <check.h>
#include <stdlib.h>

/* A float in (-1, 1) with all bits of its fraction in use. */
static inline float case_value(uint32_t lane, uint64_t step, uint64_t at)
{
    uint64_t z = rng_mix(rng_mix(step * 1000003 + lane) + at);
    return ((float)(z >> 40) - 8388608.0f) / 8388608.0f * (float)(1u << (z & 7));
}

/* No lane is without examples. */
static bool case_all_weigh;

/* Examples of a lane's batch: none in one of eight. */
static inline uint64_t case_weight(uint32_t lane, uint64_t step)
{
    uint64_t z = rng_mix(step * 7919 + lane);
    return z % 8 == 0 && !case_all_weigh ? 0 : 1 + z % 5000;
}

static inline uint64_t case_weights(uint32_t lanes, uint64_t step)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < lanes; l++)
        sum += case_weight(l, step);
    return sum;
}

/* The contributions of the lanes [first, end) to a step; `floats` has (end - first, weighted +
 * plain). */
static inline void case_parts(uint32_t first, uint32_t end, uint64_t step,
                              const struct way_cut *cut, float *floats, struct exchange_part *out)
{
    for (uint32_t l = first; l < end; l++) {
        uint64_t all = cut->weighted + cut->plain;
        float *to = floats + (l - first) * all;
        for (uint64_t i = 0; i < all; i++)
            to[i] = case_value(l, step, i);
        out[l - first] = (struct exchange_part){to, to + cut->weighted, case_weight(l, step)};
    }
}

/* An even cut, in units of 16 floats. */
static inline void case_cut(uint64_t weighted, uint64_t plain, uint32_t starts, struct way_cut *out)
{
    const struct way_array array = {.floats = {weighted, plain}, .unit = 16};
    ck_assert_int_eq(way_cut(&array, starts, out, NULL), 0);
}

/* Float i of the sum of a step, added up from a lane on. */
static inline float case_float(uint32_t lanes, uint32_t first, uint64_t step, uint64_t i,
                               bool weighted)
{
    float sum = 0;
    bool any = false;
    for (uint32_t k = 0; k < lanes; k++) {
        uint32_t lane = (first + k) % lanes;
        float w = (float)case_weight(lane, step), x = case_value(lane, step, i);
        if (w == 0)
            continue;
        if (weighted)
            x = w * x;
        sum = any ? sum + x : x;
        any = true;
    }
    return sum;
}

/* The sum of a step over all lanes. */
static inline void case_sum(uint32_t lanes, uint32_t starts, uint64_t step,
                            const struct way_cut *cut, float *out)
{
    for (uint32_t c = 0; c < cut->chunks; c++) {
        struct way_place p = way_place(cut, c);
        uint32_t first = c % starts * lanes / starts;
        for (uint64_t i = p.at; i < p.at + p.floats; i++)
            out[i] = case_float(lanes, first, step, i, p.weighted);
    }
}

#endif
