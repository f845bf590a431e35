/* picture.c: the figures of the status page; picture.h. */
#include "server/coord/job/picture.h"

#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- curves ---------------------------------------------------------------------------------- */

/* Returns the examples a second up to point `to`: between it and the last point before it that is
 * PICTURE_RATE_S away. NaN: there is none. */
static double rate_at(const struct coord_curve *c, uint32_t to, uint32_t *from)
{
    const struct coord_point *p = &c->point[to];
    while (*from + 1 < to && c->point[*from + 1].seconds <= p->seconds - PICTURE_RATE_S)
        (*from)++;
    double seconds = p->seconds - c->point[*from].seconds;
    if (seconds < PICTURE_RATE_S || p->seen < c->point[*from].seen)
        return NAN;
    return (double)(p->seen - c->point[*from].seen) / seconds;
}

/* Logloss and rate over the examples trained: every n-th point of the training curve. */
static struct json *curve_json(const struct coord_curve *c)
{
    struct json *curve = json_new_object(), *examples = json_new_array(),
                *logloss = json_new_array(), *rate = json_new_array();
    uint32_t step = MAX((c->count + PICTURE_POINTS - 1) / PICTURE_POINTS, 1);
    uint32_t from = 0; /* the rate begins at this point */
    for (uint32_t i = step - 1; i < c->count; i += step) {
        const struct coord_point *p = &c->point[i];
        json_append_number(examples, (double)p->seen);
        json_append_number(logloss, p->weight > 0 ? p->loss / p->weight : (double)NAN);
        json_append_number(rate, rate_at(c, i, &from));
    }
    json_set(curve, "examples", examples);
    json_set(curve, "logloss", logloss);
    json_set(curve, "rate", rate);
    return curve;
}

/* AUC, or of numbers the RMSE, of examples before they were learnt, window by window. */
static struct json *auc_json(const struct coord_job *j)
{
    struct json *curve = json_new_object(), *examples = json_new_array(), *auc = json_new_array();
    struct metric of[LIMIT_TASKS], mean;
    double seen = 0;
    bool real = false;
    for (uint32_t n = 0; j->parsed && n < COORD_WINDOWS_MAX; n++) {
        if (!coord_progressive_figures(j->windows, n, of))
            continue;
        metric_mean(of, j->spec.model.task_weight, j->windows->labels, &mean);
        seen += (double)metric_most(of, j->windows->labels);
        json_append_number(examples, seen);
        json_append_number(auc, metric_is_real(&mean) ? mean.rmse : mean.auc);
        real |= metric_is_real(&mean);
    }
    json_set(curve, "examples", examples);
    json_set(curve, real ? "rmse" : "auc", auc);
    return curve;
}

/* ---- the map --------------------------------------------------------------------------------- */

/* Keeps the figures of a collection that is complete. */
static void load_take(struct coord_picture *p, const struct coord_fleet *f)
{
    const struct coord_heat *h = &f->heat;
    if (h->of == NULL || h->asked_ns != 0 || !h->complete)
        return;
    if (p->tablets != h->tablets) {
        coord_picture_close(p);
        p->load = calloc(MAX(h->tablets, 1), sizeof *p->load);
        if (p->load == NULL)
            return;
        p->tablets = h->tablets;
    }
    for (uint32_t i = 0; i < h->tablets; i++)
        p->load[i] = h->of[i].load;
}

static void load_ask(struct coord_picture *p, struct coord_fleet *f)
{
    struct err e;
    uint64_t now = env_now_ns(f->env);
    if (f->heat.asked_ns != 0 || (p->asked_ns != 0 && now - p->asked_ns < PICTURE_HEAT_NS) ||
        f->moves.kind != MOVES_NONE || !coord_cluster_ready(&f->cluster) ||
        f->cluster.tables == 0 || coord_fleet_silent(f) != NULL)
        return;
    p->asked_ns = now;
    (void)coord_heat_ask(f, NULL, NULL, &e); /* after a failure it asks again */
}

static uint64_t load_of(const struct coord_picture *p, uint32_t tablet)
{
    if (tablet >= p->tablets)
        return 0;
    return p->load[tablet];
}

/* '0' for none, '9' for more than half of the most, one less for each half. */
static char level_of(uint64_t load, uint64_t most)
{
    char level = '9';
    if (load == 0)
        return '0';
    for (; level > '1' && load <= most / 2; level--)
        most /= 2;
    return level;
}

/* The tablets that one shard leads, while the map is walked. */
struct led {
    char *cells; /* owned; NULL: none yet */
    uint32_t tablets, count, capacity;
    uint64_t load, hottest; /* hottest: of the cell at hand */
};

static void cell_end(struct led *l, uint64_t most)
{
    if (l->count + 1 >= l->capacity) {
        uint32_t capacity = MAX(2 * l->capacity, 32);
        char *more = realloc(l->cells, capacity);
        if (more == NULL)
            return; /* the picture lacks a cell */
        l->cells = more;
        l->capacity = capacity;
    }
    l->cells[l->count++] = level_of(l->hottest, most);
    l->cells[l->count] = 0;
    l->hottest = 0;
}

static struct json *shards_json(struct led *led, const struct coord_members *m, double all)
{
    struct json *list = json_new_array();
    COORD_EACH_SHARD (m, s) {
        struct json *item = json_new_object();
        json_set_int(item, "shard", s);
        json_set_int(item, "tablets", led[s].tablets);
        json_set_number(item, "load", all > 0 ? (double)led[s].load / all : 0);
        json_set_string(item, "cells", text_or(led[s].cells, ""));
        json_append(list, item);
    }
    return list;
}

static struct json *hottest_json(const struct coord_picture *p, const struct coord_cluster *cl,
                                 double all)
{
    uint32_t at = 0;
    struct json *hottest = json_new_object();
    for (uint32_t i = 0; i < cl->tablets; i++)
        if (load_of(p, i) > load_of(p, at))
            at = i;
    json_set_int(hottest, "shard", cl->shard_of[at]);
    json_set_number(hottest, "share", (double)load_of(p, at) / all);
    return hottest;
}

static struct json *map_json(const struct coord_picture *p, const struct coord_fleet *f)
{
    const struct coord_cluster *cl = &f->cluster;
    uint32_t cell = MAX((cl->tablets + PICTURE_CELLS - 1) / PICTURE_CELLS, 1),
             shards = f->members.shards;
    struct led *led = calloc(MAX(shards, 1), sizeof *led);
    struct json *map = json_new_object();
    uint64_t most = 0;
    double all = 0;
    for (uint32_t i = 0; i < cl->tablets; i++)
        most = MAX(most, load_of(p, i));
    for (uint32_t i = 0; led != NULL && i < cl->tablets; i++) {
        if (cl->shard_of[i] >= shards)
            continue;
        struct led *l = &led[cl->shard_of[i]];
        l->hottest = MAX(l->hottest, load_of(p, i));
        l->load += load_of(p, i);
        all += (double)load_of(p, i);
        if (++l->tablets % cell == 0)
            cell_end(l, most);
    }
    for (uint32_t s = 0; led != NULL && s < shards; s++)
        if (led[s].tablets % cell != 0)
            cell_end(&led[s], most);
    json_set_int(map, "tablets", cl->tablets);
    json_set_int(map, "cell", cell);
    if (led != NULL)
        json_set(map, "shards", shards_json(led, &f->members, all));
    if (all > 0)
        json_set(map, "hottest", hottest_json(p, cl, all));
    for (uint32_t s = 0; led != NULL && s < shards; s++)
        free(led[s].cells);
    free(led);
    return map;
}

/* ---- all ------------------------------------------------------------------------------------- */

static struct json *jobs_json(const struct coord *c)
{
    struct json *all = coord_jobs_list(c->slot, c->slots), *last = json_new_array();
    size_t count = json_count(all);
    for (size_t i = SAT_SUB(count, PICTURE_JOBS); i < count; i++)
        json_append(last, json_hold(json_array_at(all, i)));
    json_free(all);
    return last;
}

/* A job that runs, in short. */
static struct json *running_json(struct coord_job *j)
{
    char waits[ERR_TEXT_MAX];
    struct json *item = json_new_object();
    json_set_int(item, "number", (int64_t)j->at.number);
    json_set_string(item, "job", j->spec.name);
    json_set_string(item, "space", j->spec.space);
    json_set_string(item, "state", coord_phase_name(j));
    json_set_int(item, "epoch", j->at.epoch);
    json_set_int(item, "examples", (int64_t)coord_trace_trained(j));
    json_set_number(item, "rate", coord_status_rate(j));
    json_set_int(item, "workers", j->workers.count);
    json_set_int(item, "workers_wanted", j->at.workers_wanted);
    if (coord_status_waits(j, waits, sizeof waits))
        json_set_string(item, "waiting", waits);
    return item;
}

struct json *coord_picture_status(struct coord *c, struct coord_job *j)
{
    struct json *s = coord_status_json(j), *running = json_new_array();
    COORD_EACH_JOB (c, each)
        if (coord_phase_running(each))
            json_append(running, running_json(each));
    json_set(s, "running", running);
    json_set_int(s, "queued", c->fleet.queue->count);
    return s;
}

char *coord_picture_text(struct coord *c)
{
    struct coord_job *j = coord_slot_newest(c);
    struct json *s = json_new_object();
    load_take(&c->picture, &c->fleet);
    load_ask(&c->picture, &c->fleet);
    json_set(s, "status", coord_picture_status(c, j));
    json_set_int(s, "now", (int64_t)env_wall_s(c->fleet.env));
    json_set_string(s, "version", text_or(c->fleet.options.version, ""));
    json_set(s, "curve", curve_json(&j->trace->curve));
    json_set(s, "auc", auc_json(j));
    json_set(s, "map", map_json(&c->picture, &c->fleet));
    json_set(s, "jobs", jobs_json(c));
    char *text = json_text(s, 0);
    json_free(s);
    return text;
}

void coord_picture_close(struct coord_picture *p)
{
    free(p->load);
    *p = (struct coord_picture){.asked_ns = p->asked_ns};
}
