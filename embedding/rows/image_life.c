/* image_life.c: the part of an image for a tablet's life: its clock, waiting keys, named keys.
 * Invariants: image.c. */
#include "embedding/rows/admit.h"
#include "embedding/rows/image.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void image_life_counts(const struct tablet_life *l, struct image_header *h)
{
    if (l == NULL)
        return;
    h->clock = l->clock;
    h->young_count = l->waiting.young.count;
    h->old_count = l->waiting.old.count;
    h->sketch_cells = 0;
    if (l->sketch.cell != NULL)
        h->sketch_cells = SKETCH_ROWS * l->sketch.columns;

    h->sketch_keys[0] = l->sketch.keys[0];
    h->sketch_keys[1] = l->sketch.keys[1];
    h->name_count = l->named.count;
}

static size_t sketch_part(const struct image_header *h)
{
    return 2 * (size_t)h->sketch_cells * sizeof(uint16_t);
}

/* No overflow: each count has 32 bits. */
size_t image_life_bytes(const struct image_header *h)
{
    return ((size_t)h->young_count + h->old_count) * sizeof(struct waiting_key) + sketch_part(h) +
           h->name_count * sizeof(struct named_key);
}

char *image_life_write(const struct tablet_life *l, const struct image_header *h, char *at)
{
    if (l == NULL)
        return at;
    waiting_write(&l->waiting.young, at);
    at += h->young_count * sizeof(struct waiting_key);
    waiting_write(&l->waiting.old, at);
    at += h->old_count * sizeof(struct waiting_key);
    SHOAL_ASSERT(sketch_part(h) == sketch_bytes(&l->sketch));
    if (h->sketch_cells > 0)
        memcpy(at, l->sketch.cell, sketch_part(h));
    at += sketch_part(h);
    if (h->name_count > 0)
        memcpy(at, l->named.list, h->name_count * sizeof(struct named_key));
    return at + h->name_count * sizeof(struct named_key);
}

bool image_life_ok(const struct table *t, const struct image_header *h, bool older)
{
    uint32_t half = 0, cells = h->sketch_cells;
    if (t->ruled)
        half = waiting_half_limit(admit_waiting_limit(&t->schema));
    /* releases before generations turned at a change (change.c) allowed one key more */
    bool few = h->young_count <= half && h->old_count <= half + (half > 0);
    bool of_schema =
        (t->ages || h->clock == 0) && few && (cells == 0 || cells == t->schema.rules.admit_sketch);
    bool of_some = cells % SKETCH_ROWS == 0 && (cells & (cells - 1)) == 0;
    return (older ? of_some : of_schema) && h->name_count <= NAMED_READ_MAX &&
           (cells > 0 || (h->sketch_keys[0] == 0 && h->sketch_keys[1] == 0));
}

static int refuse(const struct table *t, uint32_t tablet, uint64_t key, const char *what,
                  struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "image of table %s tablet %u: key %016" PRIx64 " %s",
                   t->schema.name, tablet, key, what);
}

static int waiting_read(const struct table *t, uint32_t tablet, uint32_t count, const char *at,
                        bool young, struct tablet *into, struct err *e)
{
    struct waiting *w = &into->life->waiting;
    for (uint32_t i = 0; i < count; i++) {
        struct waiting_key k;
        memcpy(&k, at + i * sizeof k, sizeof k);
        bool sums = k.show >= 0 && k.click >= 0 && k.show + k.click > 0 && k.show + k.click < 1e38f;
        bool here = key_tablet(key_mix(k.key), t->shape.tablet_bits) == tablet;
        if (!sums || !here || tablet_find(into, &t->shape, k.key) != NULL ||
            waiting_find(w, k.key).show > 0 || waiting_find(w, k.key).click > 0)
            return refuse(t, tablet, k.key, "cannot wait for a row here", e);
        if (waiting_put(young ? &w->young : &w->old, &k) != 0)
            return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for keys that wait",
                           t->schema.name, tablet);
    }
    return 0;
}

static int names_read(const struct table *t, uint32_t tablet, uint32_t count, const char *at,
                      struct tablet *into, struct err *e)
{
    struct named *n = &into->life->named;
    uint64_t before = 0;
    if (count == 0)
        return 0;
    n->list = malloc(count * sizeof *n->list);
    if (n->list == NULL)
        return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for %u names",
                       t->schema.name, tablet, count);
    memcpy(n->list, at, count * sizeof *n->list);
    n->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct named_key *k = &n->list[i];
        uint64_t mixed = key_mix(k->key);
        bool legal = k->kind >= NAME_ERASED && k->kind <= NAME_ALLOWED && k->zero == 0;
        if (!legal || key_tablet(mixed, t->shape.tablet_bits) != tablet ||
            (i > 0 && mixed <= before) ||
            (k->kind == NAME_ERASED && tablet_find(into, &t->shape, k->key) != NULL))
            return refuse(t, tablet, k->key, "cannot be named so here", e);
        before = mixed;
    }
    return 0;
}

int image_life_read(const struct table *t, uint32_t tablet, const struct image_header *h,
                    const char *at, struct tablet *into, struct err *e)
{
    if (h->clock == 0 && image_life_bytes(h) == 0)
        return 0;
    into->life = life_new();
    if (into->life == NULL)
        return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory", t->schema.name, tablet);
    into->life->clock = h->clock;
    int rc = waiting_read(t, tablet, h->young_count, at, true, into, e);
    at += h->young_count * sizeof(struct waiting_key);
    if (rc == 0)
        rc = waiting_read(t, tablet, h->old_count, at, false, into, e);
    at += h->old_count * sizeof(struct waiting_key);
    SHOAL_ASSERT(rc != 0 || into->life->waiting.old.count == h->old_count);
    if (rc == 0 && h->sketch_cells > 0) {
        struct sketch *s = &into->life->sketch;
        if (sketch_take(s, h->sketch_cells) != 0)
            return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its sketch",
                           t->schema.name, tablet);
        memcpy(s->cell, at, sketch_part(h));
        s->keys[0] = h->sketch_keys[0];
        s->keys[1] = h->sketch_keys[1];
    }
    at += sketch_part(h);

    if (rc != 0)
        return rc;

    return names_read(t, tablet, h->name_count, at, into, e);
}
