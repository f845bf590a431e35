/* translate_life.c: what a tablet keeps beside its rows, taken along into a table of another
 * schema: names are the operator's and stay, the clock goes on, counts of keys that wait count as
 * far as the other table counts. */
#include "embedding/rows/translate.h"
#include "proto/base/key.h"

#include "embedding/rows/admit.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"

#include <stdlib.h>

static uint32_t target_of(const struct table *to, uint64_t key)
{
    return key_tablet(key_mix(key), to->shape.tablet_bits);
}

/* Names lie sorted by mixed key, so those of one tablet lie together; one kind at a time. */
static int take_names(const struct named *names, struct table *to, const uint8_t *wanted,
                      enum name_kind kind, uint64_t *keys)
{
    uint32_t count = 0;
    uint64_t changed;
    int rc = 0;
    for (uint32_t i = 0; i <= names->count && rc == 0; i++) {
        bool end = i == names->count ||
                   (count > 0 && target_of(to, names->list[i].key) != target_of(to, keys[0]));
        if (end && count > 0) {
            struct tablet_life *life = table_life(to, target_of(to, keys[0]));
            if (life == NULL)
                rc = SHOAL_E_NOMEM;
            else if (life->named.count + count > NAMED_MAX)
                rc = SHOAL_E_TOO_BIG;
            else
                rc = named_set(&life->named, keys, count, kind, &changed);
            count = 0;
        }
        if (i < names->count && names->list[i].kind == (uint32_t)kind &&
            wanted[target_of(to, names->list[i].key)])
            keys[count++] = names->list[i].key;
    }
    return rc;
}

/* Past what a generation may have, keys begin again. */
static int take_waiting(const struct waiting_half *from, bool young, struct table *to,
                        const uint8_t *wanted)
{
    uint32_t most = waiting_half_limit(admit_waiting_limit(&to->schema));
    struct waiting_key *list = malloc((from->count + 1ULL) * sizeof *list);
    int rc = list == NULL ? SHOAL_E_NOMEM : 0;
    if (rc == 0)
        waiting_write(from, list);
    for (uint32_t i = 0; i < from->count && rc == 0; i++) {
        uint32_t target = target_of(to, list[i].key);
        struct tablet_life *life = wanted[target] ? table_life(to, target) : NULL;
        if (!wanted[target])
            continue;
        if (life == NULL)
            rc = SHOAL_E_NOMEM;
        /* a full young one would have turned */
        else if (young ? life->waiting.young.count + 1 < most : life->waiting.old.count < most)
            rc = waiting_put(young ? &life->waiting.young : &life->waiting.old, &list[i]);
    }
    free(list);
    return rc;
}

/* The higher count of a cell is never too low for a key of either sketch. */
static int take_sketch(const struct sketch *from, struct sketch *into, uint32_t cells)
{
    if (into->cell == NULL && sketch_take(into, cells) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(into->columns == from->columns);
    for (size_t i = 0; i < sketch_bytes(from) / sizeof *from->cell; i++)
        if (into->cell[i] < from->cell[i])
            into->cell[i] = from->cell[i];
    for (int i = 0; i < 2; i++)
        if (into->keys[i] < from->keys[i])
            into->keys[i] = from->keys[i];
    return 0;
}

int translate_life(const struct table *from, uint32_t tablet, struct table *to,
                   const uint8_t *wanted)
{
    const struct tablet_life *own = from->tablets[tablet].life;
    uint32_t first, count, cells = to->schema.rules.admit_sketch;
    if (own == NULL)
        return 0;
    translate_tablets(from->shape.tablet_bits, to->shape.tablet_bits, tablet, &first, &count);
    bool sketched =
        cells > 0 && own->sketch.cell != NULL && own->sketch.columns * SKETCH_ROWS == cells;
    int rc = 0;
    for (uint32_t i = first; i < first + count && rc == 0; i++) {
        struct tablet_life *life = wanted[i] && (to->ages || sketched) ? table_life(to, i) : NULL;
        if (!wanted[i] || !(to->ages || sketched))
            continue;
        if (life == NULL)
            return SHOAL_E_NOMEM;
        if (to->ages && life->clock < own->clock)
            life->clock = own->clock;
        if (sketched)
            rc = take_sketch(&own->sketch, &life->sketch, cells);
    }
    if (rc == 0 && to->ruled) {
        rc = take_waiting(&own->waiting.young, true, to, wanted);
        rc = rc == 0 ? take_waiting(&own->waiting.old, false, to, wanted) : rc;
    }
    uint64_t *keys = malloc((own->named.count + 1ULL) * sizeof *keys);
    if (keys == NULL)
        rc = SHOAL_E_NOMEM;
    for (int kind = NAME_ERASED; kind <= NAME_ALLOWED && rc == 0; kind++)
        rc = take_names(&own->named, to, wanted, (enum name_kind)kind, keys);
    free(keys);
    return rc;
}
