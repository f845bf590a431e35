/* count.c: counts the keys of a log, and estimates those of a longer one. */
#include "worker/data/count.h"

#include "dense/model.h"
#include "proto/base/assert.h"
#include "proto/base/salt.h"
#include "proto/wire/wire.h"
#include "worker/data/dataset.h"
#include "worker/data/feature.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST (1u << 16)

int count_init(struct counter *c)
{
    *c = (struct counter){.slots = SLOTS_FIRST, .salt = salt_draw()};
    c->key = malloc(c->slots * sizeof *c->key);
    c->times = calloc(c->slots, sizeof *c->times);
    c->field = calloc(LIMIT_FIELDS, sizeof *c->field);
    if (c->key != NULL && c->times != NULL && c->field != NULL)
        return 0;
    count_free(c);
    return SHOAL_E_NOMEM;
}

void count_free(struct counter *c)
{
    free(c->key);
    free(c->times);
    free(c->field);
    *c = (struct counter){0};
}

static uint64_t slot_of(const struct counter *c, uint64_t key)
{
    uint64_t at = salt_mix(c->salt, key_mix(key)) & (c->slots - 1);
    while (c->times[at] != 0 && c->key[at] != key)
        at = (at + 1) & (c->slots - 1);
    return at;
}

static int grow(struct counter *c)
{
    struct counter wide = {
        .slots = 2 * c->slots, .salt = c->salt, .keys = c->keys, .field = c->field};
    wide.key = malloc(wide.slots * sizeof *wide.key);
    wide.times = calloc(wide.slots, sizeof *wide.times);
    if (wide.key == NULL || wide.times == NULL) {
        free(wide.key);
        free(wide.times);
        return SHOAL_E_NOMEM;
    }
    for (uint64_t i = 0; i < c->slots; i++) {
        if (c->times[i] == 0)
            continue;
        uint64_t at = slot_of(&wide, c->key[i]);
        wide.key[at] = c->key[i];
        wide.times[at] = c->times[i];
    }
    SHOAL_ASSERT((wide.slots & (wide.slots - 1)) == 0 && wide.keys < wide.slots);
    free(c->key);
    free(c->times);
    *c = wide;
    return 0;
}

int count_add(struct counter *c, uint64_t key, uint32_t times)
{
    if (key_field(key) >= LIMIT_FIELDS)
        return SHOAL_E_TOO_BIG;
    uint64_t at = slot_of(c, key);
    if (c->times[at] == 0) {
        if (c->keys == COUNT_KEYS_MAX)
            return SHOAL_E_TOO_BIG;
        if (c->keys >= c->slots / 4 * 3) {
            int rc = grow(c);
            if (rc != 0)
                return rc;
            at = slot_of(c, key);
        }
        c->key[at] = key;
        c->keys++;
    }
    struct key_count *f = &c->field[key_field(key)];
    uint32_t before = c->times[at],
             after = before > UINT32_MAX - times ? UINT32_MAX : before + times;
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++)
        f->kept[i] += before < count_fit_threshold[i] && after >= count_fit_threshold[i];
    f->appearances += times;
    SHOAL_ASSERT(f->kept[0] <= f->appearances && f->kept[COUNT_THRESHOLDS - 1] <= f->kept[0]);
    c->times[at] = after;
    return 0;
}

/* ---- a job's log ---- */

struct sample {
    const struct job *job;
    struct dataset *data;
    uint64_t rows, bad_lines;
    struct counter counter;
    struct batch batch;
    uint32_t *times; /* owned; (times_room): how often each key of the batch appears */
    size_t times_room;
};

static int batch_count(struct sample *s, struct err *e)
{
    const struct batch *b = &s->batch;
    if (b->key_count > s->times_room) {
        free(s->times);
        s->times_room = b->key_count;
        s->times = malloc(s->times_room * sizeof *s->times);
        if (s->times == NULL) {
            s->times_room = 0;
            return err_set(e, SHOAL_E_NOMEM, "no memory to count a batch of %u keys", b->key_count);
        }
    }
    for (uint32_t i = 0; i < b->key_count; i++)
        s->times[i] = 0;
    for (uint32_t i = 0; i < b->values; i++)
        s->times[b->index[i]]++;
    for (uint32_t i = 0; i < b->key_count; i++) {
        int rc = count_add(&s->counter, b->keys[i], s->times[i]);
        if (rc != 0)
            return err_set(e, rc,
                           "%" PRIu64
                           " distinct keys, and there is no room for more; count a smaller "
                           "share of the log "
                           "(--share)",
                           s->counter.keys);
    }
    return 0;
}

static int sample_read(struct sample *s, struct err *e)
{
    const uint32_t batch = s->job->train.batch;
    bool quarter = false, half = false;
    int rc = 0;
    SHOAL_ASSERT(s->rows > 0 && s->rows <= dataset_rows(s->data));
    for (uint64_t at = 0; at < s->rows && rc == 0;) {
        uint32_t rows = batch;
        if (s->rows - at < batch)
            rows = (uint32_t)(s->rows - at);
        rc = batch_read(s->data, s->job->train.seed, 1, at, rows, &s->batch, e);
        if (rc == 0)
            rc = batch_count(s, e);
        s->bad_lines += s->batch.bad_lines;
        at += rows;
        for (uint32_t i = 0; i < LIMIT_FIELDS; i++) {
            struct key_count *f = &s->counter.field[i];
            if (!quarter && at >= s->rows / 4)
                f->quarter = f->kept[0];
            if (!half && at >= s->rows / 2)
                f->half = f->kept[0];
        }
        quarter |= at >= s->rows / 4;
        half |= at >= s->rows / 2;
    }
    return rc;
}

static struct json *field_json(const struct key_count *f, double factor, const char *name,
                               uint32_t number, const char *table)
{
    struct json *j = json_new_object(), *kept = json_new_object(), *whole = json_new_object();
    struct count_curve curve = {.quarter = (double)f->quarter, .half = (double)f->half};
    double all[COUNT_THRESHOLDS];
    char threshold[16];
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++)
        curve.now[i] = (double)f->kept[i];
    count_fit_extrapolate(&curve, factor, all);
    json_set_string(j, "name", name);
    json_set_int(j, "field", number);
    json_set_string(j, "table", table);
    json_set_int(j, "appearances", (int64_t)f->appearances);
    json_set_int(j, "keys", (int64_t)f->kept[0]);
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++) {
        snprintf(threshold, sizeof threshold, "%u", count_fit_threshold[i]);
        json_set_int(kept, threshold, (int64_t)f->kept[i]);
        json_set_int(whole, threshold, (int64_t)(all[i] + 0.5));
    }
    json_set(j, "kept", kept);
    json_set(j, "whole", whole);
    return j;
}

static struct json *tables_json(const struct job *job, const uint32_t *row_floats)
{
    struct json *list = json_new_array();
    for (size_t t = 0; t < job->table_count; t++) {
        struct json *j = json_new_object();
        json_set_string(j, "name", job->table[t].name);
        json_set_int(j, "row_floats", row_floats[t]);
        json_append(list, j);
    }
    return list;
}

/* row_floats: (tables). */
static struct json *sample_json(const struct sample *s, const struct features *f,
                                const uint32_t *row_floats)
{
    struct json *j = json_new_object(), *fields = json_new_array();
    uint64_t all = dataset_rows(s->data);
    double factor = (double)all / (double)s->rows;
    char name[LIMIT_NAME];
    json_set_int(j, "rows", (int64_t)all);
    json_set_int(j, "sampled", (int64_t)s->rows);
    json_set_int(j, "bad_lines", (int64_t)s->bad_lines);
    json_set(j, "tables", tables_json(s->job, row_floats));
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        uint32_t number = f->shape.number[i];
        if (f->field[i].key_field != number)
            continue; /* its keys bear another field's number */
        feature_field_name(f, i, name);
        json_append(fields, field_json(&s->counter.field[number], factor, name, number,
                                       s->job->table[f->shape.table[i]].name));
    }
    json_set(j, "fields", fields);
    return j;
}

/* Floats of a row of each sparse table. */
static int tables_of(const struct job *job, const struct model_shape *shape,
                     uint32_t row_floats[LIMIT_JOB_TABLES], struct err *e)
{
    struct table_schema *schema = calloc(MODEL_TABLES_MAX, sizeof *schema);
    uint32_t count;
    if (schema == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the tables of job %s", job->name);
    int rc = model_schemas(job, shape, schema, &count, e);
    for (size_t t = 0; t < job->table_count && rc == 0; t++)
        row_floats[t] = schema_row_floats(&schema[t]);
    free(schema);
    return rc;
}

int count_job(struct job *job, double share, struct json **out, struct err *e)
{
    job->data.shuffle_within = 0; /* the first window would be the beginning of the log */
    struct sample s = {.job = job};
    struct features f = {0};
    uint32_t row_floats[LIMIT_JOB_TABLES] = {0};
    batch_init(&s.batch);
    int rc = dataset_features(job, &f, e);
    if (rc == 0)
        rc = tables_of(job, &f.shape, row_floats, e);
    if (rc == 0)
        rc = dataset_open(job, WIRE_TRAIN, &s.data, e);
    if (rc == 0 && count_init(&s.counter) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to count keys");
    if (rc == 0) {
        uint64_t all = dataset_rows(s.data), rows = (uint64_t)((double)all * share);
        if (rows < 1)
            s.rows = 1;
        else if (rows > all)
            s.rows = all;
        else
            s.rows = rows;

        rc = sample_read(&s, e);
    }
    if (rc == 0)
        *out = sample_json(&s, &f, row_floats);
    count_free(&s.counter);
    free(s.times);
    batch_free(&s.batch);
    dataset_close(s.data);
    features_free(&f);
    return rc;
}

/* ---- from the sample to the whole log: a grid, then halving steps around its best point ------ */

const uint32_t count_fit_threshold[COUNT_THRESHOLDS] = {1, 2, 3, 5, 10};

/* The weight of each figure in the fit: a long extrapolation depends on the rare keys. */
static const double weight[COUNT_THRESHOLDS] = {0, 4, 2, 1, 0.5};
#define WEIGHT_HALF 4.0
#define WEIGHT_QUARTER 2.0

#define GRID 46
#define HALVINGS 14
#define SHAPE_LEAST (-4.0) /* both parameters are fitted as logarithms: of a + 1, and of c */
#define SHAPE_MOST 7.0
#define SCALE_LEAST (-9.0)
#define SCALE_MOST 14.0

/* Expected keys with at least as many appearances as each threshold, after t samples, in units of C
 * gamma(a + 1). */
static void curve(double a, double c, double t, double out[COUNT_THRESHOLDS])
{
    double q = 1 + c * t, p = c * t / q, power = exp(-a * log(q));
    double left = fabs(a) < 1e-9 ? log(q) : (1 - power) / a, f = p * power;
    uint32_t i = 0;
    SHOAL_ASSERT(a > -1 && c > 0);
    for (uint32_t x = 1; i < COUNT_THRESHOLDS; x++) {
        if (x == count_fit_threshold[i])
            out[i++] = left;
        left -= f;
        f *= (x + a) / (x + 1) * p;
    }
}

static double squared(double x)
{
    return x * x;
}

/* Sum of squared differences of logarithms; each figure is relative to the distinct keys. */
static double distance(const struct count_curve *o, double shape, double scale)
{
    double a = exp(shape) - 1, c = exp(scale), now[COUNT_THRESHOLDS], part[COUNT_THRESHOLDS],
           sum = 0;
    double least = 1 / o->now[0]; /* the weight of one key, which keeps the logarithm of 0 finite */
    curve(a, c, 1, now);
    for (uint32_t i = 1; i < COUNT_THRESHOLDS; i++) {
        double model = 0;
        if (now[i] > 0)
            model = now[i] / now[0];
        sum += weight[i] * squared(log(model + least) - log(o->now[i] / o->now[0] + least));
    }
    curve(a, c, 0.5, part);
    sum += WEIGHT_HALF * squared(log(part[0] / now[0]) - log(o->half / o->now[0]));
    curve(a, c, 0.25, part);
    return sum + WEIGHT_QUARTER * squared(log(part[0] / now[0]) - log(o->quarter / o->now[0]));
}

struct point {
    double shape, scale, distance;
};

static void try_point(const struct count_curve *o, double shape, double scale, struct point *best)
{
    double d = distance(o, shape, scale);
    if (d < best->distance)
        *best = (struct point){shape, scale, d};
}

static struct point nearest(const struct count_curve *o)
{
    double shape_step = (SHAPE_MOST - SHAPE_LEAST) / (GRID - 1),
           scale_step = (SCALE_MOST - SCALE_LEAST) / (GRID - 1);
    struct point best = {0, 0, INFINITY};
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++)
            try_point(o, SHAPE_LEAST + i * shape_step, SCALE_LEAST + j * scale_step, &best);
    for (int n = 0; n < HALVINGS; n++) {
        struct point at = best;
        shape_step /= 2;
        scale_step /= 2;
        for (int i = -1; i <= 1; i++)
            for (int j = -1; j <= 1; j++)
                try_point(o, at.shape + i * shape_step, at.scale + j * scale_step, &best);
    }
    return best;
}

void count_fit_extrapolate(const struct count_curve *c, double factor, double out[COUNT_THRESHOLDS])
{
    bool usable = c->quarter > 0 && c->half > 0 && factor > 1;
    struct point p = {0};
    double now[COUNT_THRESHOLDS], then[COUNT_THRESHOLDS];
    if (usable) {
        p = nearest(c);
        curve(exp(p.shape) - 1, exp(p.scale), 1, now);
        curve(exp(p.shape) - 1, exp(p.scale), factor, then);
        usable = p.distance < INFINITY;
    }
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++) {
        double grown;
        if (usable)
            grown = c->now[0] * then[i] / now[0];
        else
            grown = c->now[i];
        if (grown > c->now[i])
            out[i] = grown;
        else
            out[i] = c->now[i];
    }
}
