/* ring_fleet.h: workers of a ring in the simulator. Each keeps tensors, T(0) = 0 and T(t) = T(t-1)
 * less the mean of step t, and so does the test, from all lanes, without a ring.
 *
 * fleet_form stands for the coordinator: the live workers stop, the newest complete step that one
 * of them has is the ring's, a worker with older tensors copies them from it, and lanes are divided
 * anew. */
#ifndef TESTS_WORKER_RING_RING_FLEET_H
#define TESTS_WORKER_RING_RING_FLEET_H

#include "tests/sim/sim.h"
#include "tests/worker/ring/ring_case.h"
#include "worker/ring/ring.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define FLEET_MS UINT64_C(1000000)

struct fleet_worker {
    struct fleet *fleet;
    struct sim_node *node;
    struct ring *ring;
    bool alive, frozen; /* frozen: the others have given it up */
    uint32_t number;
    uint32_t first, end; /* its lanes in its ring */
    uint64_t step;       /* of its tensors */
    float *tensor;       /* (floats) */
    float *given;        /* (lanes, floats) */
    struct exchange_part part[128];
    uint32_t stale;
};

struct fleet {
    struct sim *sim;
    struct way_cut cut;
    uint32_t lanes, starts;
    uint64_t last; /* steps to make */
    uint64_t ring; /* number of the newest ring */
    enum value_kind values;
    struct fleet_worker worker[WIRE_RING_MEMBERS + 1];
    uint32_t workers;
    const char *key; /* that the worker before shows; NULL: none */
    struct way_shape shape;
    uint32_t member[WIRE_RING_MEMBERS]; /* numbers of its workers, in order */
    uint64_t made;                      /* steps that workers have made, in all */
    uint64_t refused;                   /* chunks of older rings */
    struct ring_figures figures;        /* of rings that are closed */
};

static inline uint64_t fleet_floats(const struct fleet *f)
{
    return f->cut.weighted + f->cut.plain;
}

/* T(t) from T(t-1). */
static inline void fleet_apply(const struct way_cut *cut, float *tensor, const float *sum,
                               uint64_t weight)
{
    for (uint64_t i = 0; i < cut->weighted + cut->plain && weight > 0; i++)
        if (i < cut->weighted)
            tensor[i] -= sum[i] / (float)weight;
        else
            tensor[i] -= sum[i];
}

static inline void fleet_reduce(struct fleet_worker *w)
{
    case_parts(w->first, w->end, w->step + 1, &w->fleet->cut, w->given, w->part);
    ring_reduce(w->ring, w->part);
}

static inline void fleet_done(void *owner)
{
    struct fleet_worker *w = owner;
    uint64_t weight;
    const float *sum = ring_sum(w->ring, &weight);
    ck_assert_uint_eq(ring_step(w->ring), w->step + 1);
    fleet_apply(&w->fleet->cut, w->tensor, sum, weight);
    w->step++;
    w->fleet->made++;
    if (w->step < w->fleet->last)
        fleet_reduce(w);
}

static inline void fleet_stale(void *owner, uint64_t number)
{
    struct fleet_worker *w = owner;
    ck_assert_uint_gt(number, 0);
    w->stale++;
}

static inline void fleet_message(void *core, peer_t from, struct msg *m)
{
    struct fleet_worker *w = core;
    struct wire in;
    struct err e = {0};
    ck_assert_msg(wire_decode(m, &in, &e) == 0, "%s", e.text);
    if (w->ring != NULL)
        ck_assert(ring_message(w->ring, from, &in, m) || in.reply);
    if (in.reply && in.status == SHOAL_E_OLD_RUN)
        w->fleet->refused++;
    msg_free(m);
}

static inline void fleet_drained(void *core)
{
    (void)core; /* no message waits for a commit */
}

static inline void fleet_worker_add(struct fleet *f)
{
    static const struct env_handler handler = {.on_message = fleet_message,
                                               .on_drained = fleet_drained};
    struct fleet_worker *w = &f->worker[f->workers];
    char name[32], endpoint[40];
    (void)snprintf(name, sizeof name, "w%u", f->workers);
    (void)snprintf(endpoint, sizeof endpoint, "sim://%s", name);
    *w = (struct fleet_worker){.fleet = f, .alive = true, .number = f->workers++};
    w->node = sim_node_new(f->sim, name, &handler, w);
    w->tensor = calloc(fleet_floats(f), sizeof(float));
    w->given = calloc(f->lanes * fleet_floats(f), sizeof(float));
    sim_listen(w->node, endpoint);
}

static inline void fleet_close(struct fleet_worker *w)
{
    if (w->ring == NULL)
        return;
    struct ring_figures g = ring_figures(w->ring);
    w->fleet->figures.chunks += g.chunks;
    w->fleet->figures.bytes += g.bytes;
    w->fleet->figures.again += g.again;
    ring_close(w->ring);
    w->ring = NULL;
}

static inline void fleet_open(struct fleet *f, uint32_t i)
{
    struct fleet_worker *w = &f->worker[f->member[i]];
    char next[40];
    (void)snprintf(next, sizeof next, "sim://w%u", f->member[(i + 1) % f->shape.members]);
    struct ring_options o = {.env = sim_node_env(w->node),
                             .run = 1,
                             .ring = f->ring,
                             .sum = {.shape = f->shape,
                                     .member = i,
                                     .step = w->step,
                                     .cut = f->cut,
                                     .values = f->values},
                             .next_endpoint = next,
                             .next_key = "",
                             .before_key = f->key == NULL ? "" : f->key,
                             .resend_ms = 20,
                             .done = fleet_done,
                             .stale = fleet_stale,
                             .owner = w};
    struct err e = {0};
    w->first = f->shape.first[i];
    w->end = f->shape.first[i + 1];
    ck_assert_msg(ring_open(&o, &w->ring, &e) == 0, "%s", e.text);
}

/* A ring of the live workers that are not frozen. */
static inline void fleet_form(struct fleet *f)
{
    uint32_t count = 0, source = 0;
    for (uint32_t i = 0; i < f->workers; i++) {
        struct fleet_worker *w = &f->worker[i];
        if (!w->alive || w->frozen)
            continue;
        fleet_close(w);
        if (count == 0 || w->step > f->worker[source].step)
            source = i;
        f->member[count++] = i;
    }
    f->ring++;
    ck_assert_int_eq(way_shape_even(f->lanes, f->starts, count, &f->shape, NULL), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct fleet_worker *w = &f->worker[f->member[i]], *of = &f->worker[source];
        if (w != of)
            memcpy(w->tensor, of->tensor, fleet_floats(f) * sizeof(float));
        w->step = of->step;
        fleet_open(f, i);
    }
    for (uint32_t i = 0; i < count; i++)
        if (f->worker[f->member[i]].step < f->last)
            fleet_reduce(&f->worker[f->member[i]]);
}

static inline void fleet_start(struct fleet *f, const struct sim_options *sim, uint32_t workers)
{
    f->sim = sim_new(sim);
    for (uint32_t i = 0; i < workers; i++)
        fleet_worker_add(f);
    fleet_form(f);
}

static inline void fleet_kill(struct fleet *f, uint32_t number)
{
    struct fleet_worker *w = &f->worker[number];
    fleet_close(w);
    sim_kill(w->node);
    w->alive = false;
}

static inline bool fleet_over(void *context)
{
    const struct fleet *f = context;
    for (uint32_t i = 0; i < f->workers; i++)
        if (f->worker[i].alive && !f->worker[i].frozen && f->worker[i].step < f->last)
            return false;
    return true;
}

static inline bool fleet_run(struct fleet *f)
{
    return sim_run(f->sim, sim_now_ns(f->sim) + 600000 * FLEET_MS, fleet_over, f);
}

/* Every live worker has the tensors of the last step, bit for bit. */
static inline void fleet_check(const struct fleet *f)
{
    float *tensor = calloc(fleet_floats(f), sizeof *tensor);
    float *sum = calloc(fleet_floats(f), sizeof *sum);
    for (uint64_t step = 1; step <= f->last; step++) {
        case_sum(f->lanes, f->starts, step, &f->cut, sum);
        fleet_apply(&f->cut, tensor, sum, case_weights(f->lanes, step));
    }
    for (uint32_t i = 0; i < f->workers; i++)
        if (f->worker[i].alive && !f->worker[i].frozen) {
            ck_assert_uint_eq(f->worker[i].step, f->last);
            ck_assert_mem_eq(f->worker[i].tensor, tensor, fleet_floats(f) * sizeof *tensor);
        }
    free(tensor);
    free(sum);
}

static inline void fleet_free(struct fleet *f)
{
    for (uint32_t i = 0; i < f->workers; i++) {
        fleet_close(&f->worker[i]);
        free(f->worker[i].tensor);
        free(f->worker[i].given);
    }
    sim_free(f->sim);
}

#endif
