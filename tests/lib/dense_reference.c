/* dense_reference.c: the models in double. */
#include "tests/lib/dense_reference.h"

#include "dense/act.h"
#include "dense/dropout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool dense_reference_kept(const struct dropout_mask *mask, uint32_t value)
{
    uint32_t x = value + mask->key[0];
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x += mask->key[1];
    x ^= x >> 15;
    x *= 0xd35a2d97u;
    x ^= x >> 15;
    return x >> 8 >= mask->threshold;
}

double dense_reference_act(enum activation act, double x)
{
    return act == ACT_RELU ? (x > 0 ? x : 0) : act == ACT_TANH ? tanh(x) : 1.0 / (1.0 + exp(-x));
}

/* Where the parameters lie, found without the plan: each tensor begins at a multiple of BLOCK_FLOATS. */
static const double *take(const double **at, size_t count)
{
    const double *here = *at;
    *at += (count + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
    return here;
}

static uint32_t act_number(const struct plan *p, uint32_t which)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layer[i].ops == &act_layer && which-- == 0)
            return i;
    abort();
}

static double square_sum(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* x (examples, in): pooled vectors and numerics; logit: bias, first order, numerics. */
static void pool(const struct dense_case *c, uint32_t dim, const double *rows, double *x, double *logit)
{
    const struct model_shape *s = &c->shape;
    uint32_t in = s->fields * dim + s->numerics;
    memset(x, 0, (size_t)c->in.examples * in * sizeof *x);
    for (uint32_t i = 0; i < c->in.examples; i++) {
        for (uint32_t f = 0; f < s->fields; f++) {
            uint32_t slot = i * s->fields + f;
            uint32_t begin = c->in.offset ? c->offset[slot] : slot, end = c->in.offset ? c->offset[slot + 1] : slot + 1;
            double share = s->pooling[f] == POOL_MEAN && end > begin ? 1.0 / (end - begin) : 1.0;
            for (uint32_t v = begin; v < end; v++) {
                const double *row = rows + (size_t)c->index[v] * (dim + 1);
                logit[i] += share * row[0];
                for (uint32_t d = 0; d < dim; d++)
                    x[i * in + f * dim + d] += share * row[1 + d];
            }
        }
        for (uint32_t n = 0; n < s->numerics; n++)
            x[i * in + s->fields * dim + n] = (double)c->numeric[i * s->numerics + n];
    }
}

static void pairs(const struct dense_case *c, uint32_t dim, const double *x, uint32_t in, double *logit)
{
    for (uint32_t i = 0; i < c->in.examples; i++)
        for (uint32_t f = 0; f < c->shape.fields; f++)
            for (uint32_t g = f + 1; g < c->shape.fields; g++)
                for (uint32_t d = 0; d < dim; d++)
                    logit[i] += x[i * in + f * dim + d] * x[i * in + g * dim + d];
}

/* Column j of y (examples, out) is normalised. */
static void norm_column(const struct dense_case *c, bool train, double *y, uint32_t out, uint32_t j, double gamma,
                        double beta, double mean, double variance)
{
    uint32_t n = c->in.examples;
    if (train && n > 1) {
        mean = variance = 0;
        for (uint32_t i = 0; i < n; i++)
            mean += y[i * out + j] / n;
        for (uint32_t i = 0; i < n; i++)
            variance += (y[i * out + j] - mean) * (y[i * out + j] - mean) / n;
    }
    for (uint32_t i = 0; i < n; i++)
        y[i * out + j] = (y[i * out + j] - mean) / sqrt(variance + 1e-5) * gamma + beta;
}

double dense_reference_loss(const struct dense_case *c, const double *rows, const double *dense, bool train,
                            uint64_t seed, uint32_t lane, uint64_t batch, double *scores)
{
    enum model_kind kind = c->job.model.kind;
    bool network = kind == MODEL_WIDE_DEEP || kind == MODEL_DEEPFM, norm = c->job.model.norm == NORM_BATCH;
    uint32_t n = c->in.examples, numerics = c->shape.numerics, dim = kind == MODEL_LR ? 0 : c->table.dim;
    uint32_t in = c->shape.fields * dim + numerics;
    double *x = calloc((size_t)n * 512, sizeof *x), *y = calloc((size_t)n * 512, sizeof *y),
           *logit = calloc(n, sizeof *logit);
    const float *stats = c->stats;
    double loss = 0, penalty = 0;

    const double *bias = take(&dense, 1), *linear = numerics > 0 ? take(&dense, numerics) : NULL;
    pool(c, dim, rows, x, logit);
    for (uint32_t i = 0; i < n; i++) {
        logit[i] += *bias;
        for (uint32_t k = 0; k < numerics; k++)
            logit[i] += linear[k] * (double)c->numeric[i * numerics + k];
    }
    if (numerics > 0)
        penalty += square_sum(linear, numerics);
    if (kind == MODEL_FM || kind == MODEL_DEEPFM)
        pairs(c, dim, x, in, logit);
    for (uint32_t l = 0; network && l < c->job.model.hidden.count; l++) {
        uint32_t out = c->job.model.hidden.at[l];
        const double *w = take(&dense, (size_t)in * out), *a = take(&dense, out), *b = norm ? take(&dense, out) : NULL;
        struct dropout_mask mask =
            dropout_of(train ? c->job.model.dropout : 0, seed, lane, batch, act_number(&c->plan, l));
        penalty += square_sum(w, (size_t)in * out);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < out; j++) {
                double sum = norm ? 0 : a[j];
                for (uint32_t k = 0; k < in; k++)
                    sum += x[i * in + k] * w[j * in + k];
                y[i * out + j] = sum;
            }
        for (uint32_t j = 0; norm && j < out; j++)
            norm_column(c, train, y, out, j, a[j], b[j], (double)stats[j], (double)stats[BLOCK_FLOATS + j]);
        stats += 2 * BLOCK_FLOATS;
        for (uint32_t v = 0; v < n * out; v++)
            x[v] = dense_reference_kept(&mask, v)
                       ? dense_reference_act(c->job.model.activation, y[v]) * (double)mask.scale
                       : 0;
        in = out;
    }
    if (network) {
        const double *w = take(&dense, in);
        penalty += square_sum(w, in);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < in; k++)
                logit[i] += x[i * in + k] * w[k];
    }
    for (uint32_t i = 0; i < n; i++) {
        double score = 1.0 / (1.0 + exp(-logit[i]));
        loss -= (c->label[i] > 0 ? log(score) : log1p(-score)) / n;
        if (scores)
            scores[i] = score;
    }
    free(x);
    free(y);
    free(logit);
    return loss + c->job.model.l2 / 2 * square_sum(rows, (size_t)c->in.row_count * (dim + 1)) +
           c->job.model.l2_dense / 2 * penalty;
}
