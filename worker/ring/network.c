/* network.c: tables that hold a network, and steps of it. */
#include "worker/ring/network.h"

#include "embedding/table.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/gradient.h"
#include "proto/job/packed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct part {
    struct table *table; /* owned; NULL: the model has no such part, and all else is 0 */
    uint64_t *keys;      /* owned (count), sorted by key_mix */
    uint32_t *block;     /* owned (count) */
    size_t count;
    uint32_t width;
    float *rows;   /* owned (count, width): gradients or weights, by key */
    float *now;    /* owned (count, width): weights, by block */
    float *before; /* owned: the same before the last step */
};

struct network {
    struct arena *arena;
    struct part part[NETWORK_PARTS];
    uint64_t step;
};

/* ---- life ------------------------------------------------------------------------------------ */

/* The weights of the table become those of now. */
static void weights_read(struct part *p)
{
    table_pull(p->table, p->keys, p->count, p->rows);
    for (size_t i = 0; i < p->count; i++)
        memcpy(p->now + (size_t)p->block[i] * p->width, p->rows + i * p->width,
               p->width * sizeof *p->now);
}

static void *copied(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    if (to != NULL)
        memcpy(to, from, bytes);
    return to;
}

/* Tablets travel whole, with the state of the optimizer. */
static int part_fits(const struct part *p, struct err *e)
{
    const struct table_schema *s = table_schema_of(p->table);
    uint64_t row = sizeof(uint64_t) + table_row_bytes(p->table), most = 0;
    for (size_t i = 0, first = 0; i < p->count; i++) {
        uint32_t tablet = key_tablet(key_mix(p->keys[i]), s->tablet_bits);
        if (tablet != key_tablet(key_mix(p->keys[first]), s->tablet_bits))
            first = i;
        most = MAX(most, table_image_bytes(p->table, tablet) + (i - first + 1) * row);
    }
    if (most > TABLE_IMAGE_MOST)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "a tablet of table %s will have %" PRIu64 " bytes, and a message carries "
                       "%u: the network is too large for train.dense: allreduce, use train.dense: "
                       "servers",
                       s->name, most, TABLE_IMAGE_MOST);
    return 0;
}

static int part_make(struct network *n, struct part *p, const struct network_options *o,
                     enum network_part which, struct err *e)
{
    const struct table_schema *schema = o->part[which].schema;
    size_t count = o->part[which].count, floats = count * schema->width;
    int rc = table_new(schema, n->arena, &p->table, e);
    if (rc != 0)
        return rc;
    p->count = count;
    p->width = schema->width;
    p->keys = copied(o->part[which].keys, count * sizeof *p->keys);
    p->block = copied(o->part[which].block, count * sizeof *p->block);
    p->rows = calloc(floats, sizeof *p->rows);
    p->now = calloc(floats, sizeof *p->now);
    p->before = calloc(floats, sizeof *p->before);
    if (p->keys == NULL || p->block == NULL || p->rows == NULL || p->now == NULL ||
        p->before == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a network of %zu floats", floats);
    weights_read(p);
    memcpy(p->before, p->now, floats * sizeof *p->before);
    return part_fits(p, e);
}

int network_new(const struct network_options *options, struct network **out, struct err *e)
{
    struct network *n = calloc(1, sizeof *n);
    if (n == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a network");
    int rc = arena_new(&n->arena);
    if (rc != 0)
        (void)err_set(e, rc, "no memory for a network");
    for (enum network_part i = 0; i < NETWORK_PARTS && rc == 0; i++)
        if (options->part[i].schema != NULL)
            rc = part_make(n, &n->part[i], options, i, e);
    if (rc != 0) {
        network_free(n);
        return rc;
    }
    *out = n;
    return 0;
}

void network_free(struct network *n)
{
    if (n == NULL)
        return;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        if (p->table != NULL)
            table_free(p->table);
        free(p->keys);
        free(p->block);
        free(p->rows);
        free(p->now);
        free(p->before);
    }
    if (n->arena != NULL)
        arena_free(n->arena);
    free(n);
}

uint64_t network_floats(const struct network *n, enum network_part part)
{
    return n->part[part].count * n->part[part].width;
}

uint64_t network_at(const struct network *n)
{
    return n->step;
}

const float *network_weights(const struct network *n, enum network_part part)
{
    return n->part[part].now;
}

const float *network_before(const struct network *n, enum network_part part)
{
    return n->part[part].before;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Puts the gradient of a part in the order of its keys. False: a server would refuse it. */
static bool gradient_put(struct part *p, const float *sum, float divisor)
{
    for (size_t i = 0; i < p->count; i++) {
        const float *from = sum + (size_t)p->block[i] * p->width;
        for (uint32_t j = 0; j < p->width; j++)
            p->rows[i * p->width + j] = from[j] / divisor;
    }
    return gradient_floats_ok(p->rows, p->count * p->width);
}

static int part_step(struct part *p, float lr_scale, uint64_t step)
{
    const struct push_args args = {.lr_scale = lr_scale,
                                   .batch = step,
                                   .step = 1,
                                   .width = PACKED_NOT,
                                   .tablet_count = 1u << table_schema_of(p->table)->tablet_bits};
    int rc = table_push(p->table, p->keys, p->rows, p->count, &args);
    if (rc != 0)
        return rc;
    float *before = p->before;
    p->before = p->now;
    p->now = before;
    weights_read(p);
    return 0;
}

int network_step(struct network *n, const float *sum, uint64_t weight, float lr_scale,
                 uint64_t step, struct err *e)
{
    SHOAL_ASSERT(weight > 0 && step == n->step + 1);
    struct part *dense = &n->part[NETWORK_DENSE], *stats = &n->part[NETWORK_STATS];
    bool good = gradient_put(dense, sum, (float)weight);
    good = gradient_put(stats, sum + dense->count * dense->width, 1.0f) && good;
    if (!good)
        return err_set(e, SHOAL_E_NOT_FINITE,
                       "the network's gradient of step %" PRIu64 " is not finite or beyond %g",
                       step, (double)LIMIT_GRADIENT);

    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        int rc = 0;
        if (n->part[i].table != NULL)
            rc = part_step(&n->part[i], lr_scale, step);
        if (rc != 0)
            return err_set(e, rc, "no memory for step %" PRIu64 " of the network", step);
    }
    n->step = step;
    return 0;
}

void network_skip(struct network *n, uint64_t step)
{
    SHOAL_ASSERT(step == n->step + 1);
    for (uint32_t i = 0; i < NETWORK_PARTS; i++)
        if (n->part[i].table != NULL)
            memcpy(n->part[i].before, n->part[i].now,
                   n->part[i].count * n->part[i].width * sizeof(float));
    n->step = step;
}

/* ---- images ---------------------------------------------------------------------------------- */

uint32_t network_tablets(const struct network *n, enum network_part part)
{
    if (n->part[part].table == NULL)
        return 0;
    return 1u << table_schema_of(n->part[part].table)->tablet_bits;
}

size_t network_image_bytes(const struct network *n, enum network_part part, uint32_t tablet)
{
    return table_image_bytes(n->part[part].table, tablet);
}

void network_image_write(const struct network *n, enum network_part part, uint32_t tablet,
                         void *out)
{
    table_image_write(n->part[part].table, tablet, out);
}

int network_image_take(struct network *n, enum network_part part, uint32_t tablet,
                       const void *image, size_t bytes, struct err *e)
{
    if (tablet >= network_tablets(n, part))
        return err_set(e, SHOAL_E_MALFORMED, "the network has no tablet %u of part %u", tablet,
                       (uint32_t)part);
    return table_image_read(n->part[part].table, tablet, image, bytes, e);
}

void network_settle(struct network *n, uint64_t step, const float *before)
{
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        size_t floats = p->count * p->width;
        if (p->table == NULL)
            continue;
        weights_read(p);
        if (before == NULL) {
            memcpy(p->before, p->now, floats * sizeof *p->before);
        } else {
            memcpy(p->before, before, floats * sizeof *p->before);
            before += floats;
        }
    }
    n->step = step;
}

int network_digest(const struct network *n, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++)
        for (uint32_t tablet = 0; tablet < network_tablets(n, i); tablet++) {
            uint64_t one;
            int rc = table_digest(n->part[i].table, tablet, &one);
            if (rc != 0)
                return rc;
            *out = hash_bytes(&one, sizeof one, *out);
        }
    return 0;
}
