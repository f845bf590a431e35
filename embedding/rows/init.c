/* init.c: initial weights from integers and exact conversions, so that every machine gets the same
 * bits. */
#include "embedding/rows/init.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"

#include <string.h>

static struct init_spec spec_of(const struct table_schema *s, uint64_t key)
{
    const struct field_rule *f = NULL;
    if (s->field_rule_count > 0)
        f = schema_field_rule(s, key_field(key));
    if (f != NULL && (f->has & FIELD_HAS_INIT) != 0)
        return (struct init_spec){(enum init_kind)f->kind, f->scale};
    return s->init;
}

/* An odd 25-bit integer minus its middle: symmetric, never at an end, exact in a float. */
static float uniform_of(uint64_t draw)
{
    int32_t odd = (int32_t)(draw >> 40) * 2 + 1 - (1 << 24);
    return (float)odd * 0x1p-24f;
}

/* Twelve 16-bit uniforms, each at the middle of its step, minus six: variance 1 (to 2^-32), within
 * (-6, 6), exact in a float. */
static float normal_of(const uint64_t draws[3])
{
    int32_t sum = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 64; j += 16)
            sum += (int32_t)((draws[i] >> j) & 0xffff);
    return (float)(2 * sum + 12 - 12 * 65536) * 0x1p-17f;
}

static uint64_t draw_at(struct rng start, uint64_t index)
{
    struct rng r = {start.state + index * 0x9e3779b97f4a7c15ULL};
    return rng_next(&r);
}

void init_weights(const struct table_schema *s, uint64_t key, float *weights)
{
    struct init_spec spec = spec_of(s, key);
    SHOAL_ASSERT((unsigned)spec.kind <= INIT_CONSTANT); /* schema_check refuses all others */
    uint32_t zeros = MIN(s->zero_first, s->width);
    memset(weights, 0, zeros * sizeof *weights);
    struct rng r = rng_of(s->seed, key, 0);
    for (uint32_t i = zeros; i < s->width; i++) {
        switch (spec.kind) {
        case INIT_ZERO:
            weights[i] = 0;
            break;
        case INIT_UNIFORM:
            weights[i] = uniform_of(draw_at(r, i)) * spec.scale;
            break;
        case INIT_NORMAL:
            weights[i] =
                spec.scale * normal_of((uint64_t[3]){draw_at(r, 3ULL * i), draw_at(r, 3ULL * i + 1),
                                                     draw_at(r, 3ULL * i + 2)});
            break;
        case INIT_CONSTANT:
            weights[i] = spec.scale;
            break;
        }
    }
}
