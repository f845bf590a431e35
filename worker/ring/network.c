/* network.c: tables that hold a network, and steps of it. */
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/gradient.h"
#include "proto/job/packed.h"
#include "worker/ring/network_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

/* The weights of the table become those of now, as far as they are kept. */
static void weights_read(struct part *p)
{
    for (uint32_t k = 0; k < p->ranges; k++) {
        const struct range *r = &p->range[k];
        float *rows = p->rows + r->row * p->width;
        table_pull(p->table, p->keys + r->key, r->count, rows);
        for (size_t i = 0; i < r->count; i++)
            memcpy(p->now + (size_t)p->block[r->key + i] * p->width, rows + i * p->width,
                   p->width * sizeof *p->now);
    }
}

/* All keys are one range. */
static void range_whole(struct part *p)
{
    p->ranges = 1;
    p->range[0] = (struct range){.count = (uint32_t)p->count,
                                 .tablets = 1u << table_schema_of(p->table)->tablet_bits};
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
        p->before == NULL ||
        deal_new(schema->tablet_bits, p->block, (uint32_t)count, &p->deal) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a network of %zu floats", floats);
    range_whole(p);
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
    n->sharded = options->sharded;
    n->mean = calloc(LIMIT_WIDTH, sizeof *n->mean);
    if (rc == 0 && n->mean == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a network");
    if (rc == 0 && n->sharded) /* no room for gradients before it is known of which shares */
        rc = network_keep(n, 0, e);
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
        deal_free(&p->deal);
        free(p->rows);
        free(p->now);
        free(p->before);
    }
    if (n->arena != NULL)
        arena_free(n->arena);
    free(n->mean);
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

/* Puts the gradients of a part in the order of its keys. False: a server would refuse them. */
static bool gradient_put(struct part *p, const float *sum, float divisor)
{
    bool good = true;
    for (uint32_t k = 0; k < p->ranges; k++) {
        const struct range *r = &p->range[k];
        float *rows = p->rows + r->row * p->width;
        for (size_t i = 0; i < r->count; i++) {
            const float *from = sum + (size_t)p->deal.place[r->key + i] * p->width;
            for (uint32_t j = 0; j < p->width; j++)
                rows[i * p->width + j] = from[j] / divisor;
        }
        good = gradient_floats_ok(rows, r->count * p->width) && good;
    }
    return good;
}

static int part_push(struct part *p, float lr_scale, uint64_t step)
{
    for (uint32_t k = 0; k < p->ranges; k++) {
        const struct range *r = &p->range[k];
        const struct push_args args = {.lr_scale = lr_scale,
                                       .batch = step,
                                       .step = 1,
                                       .width = PACKED_NOT,
                                       .tablet_first = r->tablet,
                                       .tablet_count = r->tablets};
        int rc =
            table_push(p->table, p->keys + r->key, p->rows + r->row * p->width, r->count, &args);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int network_state_step(struct network *n, struct err *e)
{
    uint64_t step = n->put;
    n->put = 0;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        int rc = 0;
        if (n->part[i].table != NULL)
            rc = part_push(&n->part[i], n->put_lr, step);
        if (rc != 0)
            return err_set(e, rc, "no memory for step %" PRIu64 " of the network", step);
    }
    return 0;
}

int network_put(struct network *n, const float *sum, uint64_t weight, float lr_scale, struct err *e)
{
    struct part *dense = &n->part[NETWORK_DENSE], *stats = &n->part[NETWORK_STATS];
    bool good = gradient_put(dense, sum, (float)weight);
    good = gradient_put(stats, sum + dense->count * dense->width, 1.0f) && good;
    n->put = 0;
    if (!good)
        return err_set(e, SHOAL_E_NOT_FINITE,
                       "the network's gradient of step %" PRIu64 " is not finite or beyond %g",
                       n->step + 1, (double)LIMIT_GRADIENT);
    n->put = n->step + 1;
    n->put_lr = lr_scale;
    return 0;
}

/* The parameters of the shares of others. */
static void others_take(const struct network *n, struct part *p, const float *array)
{
    for (uint32_t k = 0; k < p->deal.starts; k++)
        for (uint32_t u = p->deal.key[k]; (n->steps >> k & 1) == 0 && u < p->deal.key[k + 1]; u++)
            memcpy(p->now + (size_t)p->deal.order[u] * p->width, array + (size_t)u * p->width,
                   p->width * sizeof *p->now);
}

int network_step(struct network *n, const float *sum, uint64_t weight, float lr_scale,
                 uint64_t step, struct err *e)
{
    SHOAL_ASSERT(weight > 0 && step == n->step + 1);
    SHOAL_ASSERT(!n->sharded || (n->steps & ~n->kept) == 0); /* 1 */
    int rc = network_put(n, sum, weight, lr_scale, e);
    if (rc == 0)
        rc = network_state_step(n, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        if (p->table == NULL)
            continue;
        float *before = p->before;
        p->before = p->now;
        p->now = before;
        if (n->sharded)
            others_take(n, p, sum);
        weights_read(p);
        sum += p->count * p->width;
    }
    n->step = step;
    n->skipped = false;
    if (n->sharded)
        network_shares_drop(n, ~n->steps);
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
    n->skipped = true;
}

bool network_skipped(const struct network *n)
{
    return n->skipped;
}

/* ---- images ---------------------------------------------------------------------------------- */

uint32_t network_tablets(const struct network *n, enum network_part part)
{
    if (n->part[part].table == NULL)
        return 0;
    return 1u << table_schema_of(n->part[part].table)->tablet_bits;
}

uint32_t network_share(const struct network *n, enum network_part part, uint32_t tablet)
{
    return deal_share(&n->part[part].deal, tablet);
}

bool network_has(const struct network *n, enum network_part part, uint32_t tablet)
{
    return !n->sharded || (n->kept >> network_share(n, part, tablet) & 1) != 0;
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

/* Weights of a tablet that has come become those of now; its rows stay only where they are kept. */
static void tablet_weights(struct network *n, struct part *p, uint32_t tablet)
{
    uint32_t share = deal_share(&p->deal, tablet), i = p->deal.key[share];
    for (; i < p->deal.key[share + 1]; i++)
        if (key_tablet(key_mix(p->keys[i]), p->deal.bits) == tablet)
            table_pull(p->table, &p->keys[i], 1, p->now + (size_t)p->block[i] * p->width);
    if ((n->steps >> share & 1) == 0)
        table_clear(p->table, tablet);
}

int network_image_take(struct network *n, enum network_part part, uint32_t tablet,
                       const void *image, size_t bytes, struct err *e)
{
    if (tablet >= network_tablets(n, part))
        return err_set(e, SHOAL_E_MALFORMED, "the network has no tablet %u of part %u", tablet,
                       (uint32_t)part);
    struct part *p = &n->part[part];
    int rc = table_image_read(p->table, tablet, image, bytes, e);
    if (rc == 0 && n->sharded)
        tablet_weights(n, p, tablet);
    return rc;
}

void network_settle(struct network *n, uint64_t step, const float *before)
{
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        size_t floats = p->count * p->width;
        if (p->table == NULL)
            continue;
        if (!n->sharded)
            weights_read(p);
        if (before == NULL) {
            memcpy(p->before, p->now, floats * sizeof *p->before);
        } else {
            memcpy(p->before, before, floats * sizeof *p->before);
            before += floats;
        }
    }
    n->step = step;
    n->skipped = false;
    n->kept = n->steps;
}

int network_digest(const struct network *n, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < NETWORK_PARTS && n->sharded; i++)
        *out = hash_bytes(n->part[i].now, network_floats(n, i) * sizeof(float), *out);
    for (uint32_t i = 0; i < NETWORK_PARTS && !n->sharded; i++)
        for (uint32_t tablet = 0; tablet < network_tablets(n, i); tablet++) {
            uint64_t one;
            int rc = table_digest(n->part[i].table, tablet, &one);
            if (rc != 0)
                return rc;
            *out = hash_bytes(&one, sizeof one, *out);
        }
    return 0;
}
