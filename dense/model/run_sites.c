/* run_sites.c: dense parameters and their gradients in a run of several sites (plan_sites.h): from
 * the flat arrays of the host to the sites' pieces, and back. */
#include "dense/model/run.h"

#include "proto/base/assert.h"

#include <string.h>

static const struct site_pieces *pieces_of(const struct model_run *r)
{
    return &r->model->plan.pieces;
}

bool run_sites_allocate(struct model_run *r)
{
    const struct backend_ops *k = r->model->k;
    size_t stats = r->model->plan.stats.floats * sizeof(float);
    bool made = true;
    for (uint32_t i = 0; i < r->model->plan.sites; i++) {
        struct run_site *site = &r->site[i];
        size_t dense = pieces_of(r)->floats[i] * sizeof(float);
        if (dense > 0) {
            site->dense = k->alloc(site->stream, dense);
            site->dense_gradients = k->alloc(site->stream, dense);
            made = made && site->dense != NULL && site->dense_gradients != NULL;
        }
        if (stats > 0) {
            site->stats = k->alloc(site->stream, stats);
            site->stats_gradients = k->alloc(site->stream, stats);
            made = made && site->stats != NULL && site->stats_gradients != NULL;
        }
    }
    return made;
}

static void pieces_upload(struct model_run *r, const struct model_input *host)
{
    const struct site_pieces *all = pieces_of(r);
    for (uint32_t i = 0; i < all->count; i++) {
        const struct piece *piece = &all->piece[i];
        struct run_site *site = &r->site[piece->site];
        const struct strip m = {.rows = piece->rows,
                                .width = (uint32_t)piece->width,
                                .to = site->dense + piece->at,
                                .from = host->dense + piece->from,
                                .ld_to = piece->width,
                                .ld_from = piece->ld};
        r->model->k->upload_strip(site->stream, &m);
    }
    size_t stats = r->model->plan.stats.floats * sizeof(float);
    for (uint32_t i = 0; i < r->model->plan.sites && stats > 0; i++)
        r->model->k->upload(r->site[i].stream, r->site[i].stats, host->stats, stats);
}

void run_sites_begin(struct model_run *r, const struct model_input *host,
                     const struct model_input *in, const struct model_output *out, struct pass *p)
{
    pieces_upload(r, host);
    for (uint32_t i = 0; i < r->model->plan.sites; i++) {
        struct run_site *site = &r->site[i];
        site->in = *in;
        site->in.dense = site->dense;
        site->in.stats = site->stats;
        site->out = *out;
        site->out.dense_gradients = site->dense_gradients;
        site->out.stats_gradients = site->stats_gradients;
        r->pass[i] = (struct pass_site){
            .s = site->stream, .in = &site->in, .out = &site->out, .step = site->step};
        if (p->live != NULL)
            r->pass[i].live = &site->step->examples;
        const struct pool_args none = {.examples = 0};
        r->model->k->pool_begin(site->stream, &none, false); /* resets its scratch */
    }
    p->site = r->pass;
}

void run_sites_gradients_begin(struct model_run *r, bool empty)
{
    const struct model *m = r->model;
    const struct site_pieces *all = pieces_of(r);
    for (uint32_t i = 0; i < m->plan.sites; i++) {
        struct run_site *site = &r->site[i];
        if (all->floats[i] > 0)
            m->k->zero(site->stream, site->dense_gradients, all->floats[i] * sizeof(float));
        if (m->plan.stats.floats > 0)
            m->k->zero(site->stream, site->stats_gradients, m->plan.stats.floats * sizeof(float));
    }
    for (uint32_t i = 0; i < all->count && m->l2_dense > 0 && !empty; i++) {
        const struct piece *piece = &all->piece[i];
        struct run_site *site = &r->site[piece->site];
        if (piece->decay)
            m->k->scale(site->stream, piece->rows * piece->width, (float)(m->l2_dense * r->scale),
                        site->dense + piece->at, site->dense_gradients + piece->at);
    }
}

/* Each site adds its squares to the sum of the site before; the last one's is everybody's. */
static void squares_sum(struct model_run *r)
{
    const struct backend_ops *k = r->model->k;
    uint32_t sites = r->model->plan.sites;
    struct strip m = {.rows = 1, .width = sizeof(double) / sizeof(float)};
    for (uint32_t i = 0; i < sites; i++) {
        struct run_site *site = &r->site[i];
        m.to = (float *)(void *)&site->result->dense_square;
        if (i > 0) {
            m.from = (const float *)(const void *)&r->site[i - 1].result->dense_square;
            k->after(site->stream, r->site[i - 1].stream);
            k->fetch(site->stream, r->site[i - 1].stream, &m);
        }
        k->square_sum(site->stream, pieces_of(r)->floats[i], site->dense_gradients,
                      &site->result->dense_square);
    }
    m.from = (const float *)(const void *)&r->site[sites - 1].result->dense_square;
    for (uint32_t i = 0; i + 1 < sites; i++) {
        m.to = (float *)(void *)&r->site[i].result->dense_square;
        k->after(r->site[i].stream, r->site[sites - 1].stream);
        k->fetch(r->site[i].stream, r->site[sites - 1].stream, &m);
    }
}

void run_sites_gradients_end(struct model_run *r, bool measured)
{
    const struct model *m = r->model;
    for (uint32_t i = 0; i < m->plan.sites && m->scaled; i++)
        m->k->scale_by(r->site[i].stream, pieces_of(r)->floats[i], &r->site[i].step->unscale,
                       r->site[i].dense_gradients);
    if (measured)
        squares_sum(r);
    for (uint32_t i = 0; i < m->plan.sites && m->clip_dense > 0; i++)
        m->k->clip(r->site[i].stream, pieces_of(r)->floats[i], m->clip_dense,
                   &r->site[i].result->dense_square, r->site[i].dense_gradients);
}

void run_sites_download(struct model_run *r, struct model_output *out)
{
    const struct plan *plan = &r->model->plan;
    const struct site_pieces *all = pieces_of(r);
    for (uint32_t t = 0; t < plan->dense.tensor_count; t++) { /* behind a tensor's end: zeros */
        size_t end = plan->dense.tensor[t].first + plan->dense.tensor[t].count;
        size_t blocks = (end + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
        memset(out->dense_gradients + end, 0, (blocks - end) * sizeof(float));
    }
    for (uint32_t i = 0; i < all->count; i++) {
        const struct piece *piece = &all->piece[i];
        const struct strip m = {.rows = piece->rows,
                                .width = (uint32_t)piece->width,
                                .to = out->dense_gradients + piece->from,
                                .from = r->site[piece->site].dense_gradients + piece->at,
                                .ld_to = piece->ld,
                                .ld_from = piece->width};
        r->model->k->download_strip(r->site[piece->site].stream, &m);
    }
    if (plan->stats.floats > 0)
        memset(out->stats_gradients, 0, plan->stats.floats * sizeof(float));
    for (uint32_t i = 0; i < all->stats_count; i++)
        r->model->k->download(r->site[all->stats[i].site].stream,
                              out->stats_gradients + all->stats[i].from,
                              r->site[all->stats[i].site].stats_gradients + all->stats[i].from,
                              all->stats[i].count * sizeof(float));
}
