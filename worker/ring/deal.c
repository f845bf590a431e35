/* deal.c: blocks go to shares by the tablets of their keys. */
#include "worker/ring/deal.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

int deal_new(uint32_t bits, const uint32_t *block, uint32_t count, struct deal *out)
{
    *out = (struct deal){.bits = bits, .count = count};
    out->order = calloc(count + 1ul, sizeof *out->order);
    out->place = calloc(count + 1ul, sizeof *out->place);
    out->key_of = calloc(count + 1ul, sizeof *out->key_of);
    if (out->order == NULL || out->place == NULL || out->key_of == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        out->order[i] = i;
    memcpy(out->place, block, count * sizeof *block);
    return 0;
}

void deal_free(struct deal *d)
{
    free(d->order);
    free(d->place);
    free(d->key_of);
}

uint32_t deal_share(const struct deal *d, uint32_t tablet)
{
    return (uint32_t)((uint64_t)tablet * d->starts >> d->bits);
}

uint32_t deal_tablet(const struct deal *d, uint32_t share)
{
    return (uint32_t)((((uint64_t)share << d->bits) + d->starts - 1) / d->starts);
}

static int by_number(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

void deal_out(struct deal *d, uint32_t starts, const uint64_t *keys, const uint32_t *block)
{
    SHOAL_ASSERT(starts > 0 && starts <= WIRE_RING_MEMBERS);
    d->starts = starts;
    for (uint32_t k = 0, at = 0; k < starts; k++) {
        d->key[k] = at;
        while (at < d->count && deal_share(d, key_tablet(key_mix(keys[at]), d->bits)) == k) {
            d->order[at] = block[at];
            at++;
        }
        d->key[k + 1] = at;
        d->share[k] = at - d->key[k];
        qsort(d->order + d->key[k], d->share[k], sizeof *d->order, by_number);
    }
    SHOAL_ASSERT(d->key[starts] == d->count);

    for (uint32_t k = 0; k < starts; k++)
        for (uint32_t i = d->key[k]; i < d->key[k + 1]; i++) {
            const uint32_t *unit =
                bsearch(&block[i], d->order + d->key[k], d->share[k], sizeof *unit, by_number);
            SHOAL_ASSERT(unit != NULL);
            d->place[i] = (uint32_t)(unit - d->order);
            d->key_of[d->place[i]] = i;
        }
}
