/* network_shares.c: the shares of a network whose optimizer state is sharded. */
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/job/gradient.h"
#include "worker/ring/network_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- shares ---------------------------------------------------------------------------------- */

void network_shares_drop(struct network *n, uint64_t shares)
{
    for (enum network_part i = 0; i < NETWORK_PARTS; i++)
        for (uint32_t t = 0; t < network_tablets(n, i); t++)
            if ((shares >> network_share(n, i, t) & 1) != 0 &&
                table_tablet_holds(n->part[i].table, t))
                table_clear(n->part[i].table, t);
    n->kept &= ~shares;
}

void network_drop(struct network *n)
{
    for (enum network_part i = 0; i < NETWORK_PARTS; i++)
        for (uint32_t t = 0; t < network_tablets(n, i); t++)
            table_clear(n->part[i].table, t);
    n->kept = n->put = 0;
}

void network_deal(struct network *n, uint32_t starts)
{
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        if (p->table == NULL || p->deal.starts == starts)
            continue;
        if (n->sharded)
            network_drop(n);
        deal_out(&p->deal, starts, p->keys, p->block);
    }
}

void network_array(const struct network *n, struct way_array *out)
{
    const struct part *dense = &n->part[NETWORK_DENSE], *stats = &n->part[NETWORK_STATS];
    SHOAL_ASSERT(stats->width == 0 || dense->width == 0 || stats->width == dense->width);
    *out = (struct way_array){
        .floats = {network_floats(n, NETWORK_DENSE), network_floats(n, NETWORK_STATS)},
        .unit = MAX(dense->width, stats->width)};
    for (uint32_t i = 0; i < NETWORK_PARTS; i++)
        if (n->part[i].table != NULL)
            out->share[i] = n->part[i].deal.share;
}

const uint32_t *network_order(const struct network *n, enum network_part part)
{
    return n->part[part].deal.order;
}

uint64_t network_state_bytes(const struct network *n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++)
        if (n->part[i].table != NULL)
            bytes += table_rows(n->part[i].table) *
                     schema_state_floats(table_schema_of(n->part[i].table)) * sizeof(float);
    return bytes;
}

uint64_t network_keeps(const struct network *n)
{
    return n->kept;
}

/* The keys of shares become ranges; returns their number. */
static size_t ranges_make(struct part *p, uint64_t shares)
{
    size_t rows = 0;
    p->ranges = 0;
    for (uint32_t k = 0; k < p->deal.starts; k++) {
        uint32_t first = deal_tablet(&p->deal, k), keys = p->deal.share[k];
        if ((shares >> k & 1) == 0)
            continue;
        p->range[p->ranges++] = (struct range){.key = p->deal.key[k],
                                               .count = keys,
                                               .tablet = first,
                                               .tablets = deal_tablet(&p->deal, k + 1) - first,
                                               .row = rows};
        rows += keys;
    }
    return rows;
}

int network_keep(struct network *n, uint64_t shares, struct err *e)
{
    n->steps = shares;
    n->put = 0;
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        if (p->table == NULL)
            continue;
        size_t floats = ranges_make(p, shares) * p->width;
        free(p->rows);
        p->rows = calloc(floats + 1, sizeof *p->rows);
        if (p->rows == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for %zu gradients of a network", floats);
    }
    return 0;
}

void network_taken(struct network *n, uint64_t shares)
{
    n->kept |= shares & n->steps;
}

bool network_make(struct network *n, const struct way_place *place, const float *sum,
                  uint64_t weight, float lr_scale, float *out)
{
    struct part *p = &n->part[NETWORK_DENSE];
    float divisor = (float)weight;
    uint64_t at = place->at;
    if (!place->weighted) {
        at -= network_floats(n, NETWORK_DENSE);
        p = &n->part[NETWORK_STATS];
        divisor = 1.0f;
    }
    for (uint32_t i = 0; i < place->floats; i += p->width) {
        for (uint32_t j = 0; j < p->width; j++)
            n->mean[j] = sum[i + j] / divisor;
        if (!gradient_floats_ok(n->mean, p->width))
            return false;
        table_preview(p->table, p->keys[p->deal.key_of[(at + i) / p->width]], n->mean, lr_scale,
                      out + i);
    }
    return true;
}

static void weights_set(struct network *n, const float *now, const float *before)
{
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        struct part *p = &n->part[i];
        size_t floats = p->count * p->width;
        if (p->table == NULL)
            continue;
        memcpy(p->now, now, floats * sizeof *now);
        memcpy(p->before, before, floats * sizeof *before);
        now += floats;
        before += floats;
    }
}

int network_weights_take(struct network *n, uint64_t step, bool skipped, bool counts,
                         const float *now, const float *before, struct err *e)
{
    bool next = step == n->step + 1, put = next && !skipped && n->put == step;
    int rc = 0;
    if (!counts || (step != n->step && !(next && skipped) && !put))
        network_drop(n);
    else if (put)
        rc = network_state_step(n, e);
    if (rc != 0)
        return rc;
    if (put)
        network_shares_drop(n, ~n->steps);
    weights_set(n, now, before);
    n->step = step;
    n->put = 0;
    n->skipped = skipped;
    return 0;
}
