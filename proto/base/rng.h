/* rng.h: a small deterministic generator (splitmix64, Steele, Lea, Flood 2014). The state is the
 * caller's. */
#ifndef PROTO_BASE_RNG_H
#define PROTO_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
static inline uint64_t rng_next(struct rng *r)
{
    return rng_mix(r->state += 0x9e3779b97f4a7c15ULL);
}
/* A generator for (seed, a, b): unrelated streams for unrelated triples. */
static inline struct rng rng_of(uint64_t seed, uint64_t a, uint64_t b)
{
    return (struct rng){
        rng_mix(rng_mix(rng_mix(seed + 0x9e3779b97f4a7c15ULL) ^ (a + 0x632be59bd9b4e019ULL)) ^
                (b + 0xd1b54a32d192ed03ULL))};
}
/* Uniform in [0, n), n > 0, by multiplication (bias below 2^-32 for n < 2^32). */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_next(r) * n) >> 64);
}
/* Uniform in [0, 1), 24 bits. */
static inline float rng_float(struct rng *r)
{
    return (float)(rng_next(r) >> 40) * 0x1p-24f;
}
static inline double rng_double(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

#endif
