/* step.c: contributions of lanes, sums, and the steps that they become. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/step_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {[STEP_OUT] = "out",
                                    [STEP_GATHERS] = "gathers",
                                    [STEP_READS] = "reads",
                                    [STEP_OPEN] = "open",
                                    [STEP_STOPS] = "stops"};
static const uint32_t moves[] = {
    [STEP_OUT] = SM_TO(STEP_GATHERS),
    [STEP_GATHERS] = SM_TO(STEP_READS) | SM_TO(STEP_OPEN) | SM_TO(STEP_STOPS) | SM_TO(STEP_OUT),
    [STEP_READS] = SM_TO(STEP_OPEN) | SM_TO(STEP_STOPS) | SM_TO(STEP_OUT),
    [STEP_OPEN] = SM_TO(STEP_STOPS) | SM_TO(STEP_OUT),
    [STEP_STOPS] = SM_TO(STEP_GATHERS) | SM_TO(STEP_OUT)};
const struct sm step_moves = SM("a worker's part in a ring", names, moves);

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct step_slot *slot_of(struct steps *s, uint32_t lane)
{
    if (lane >= s->options.lanes)
        return NULL;
    return &s->slot[lane];
}

static bool lane_inside(const struct steps *s, uint32_t lane)
{
    return lane >= s->first && lane < s->end;
}

void step_lane_begin(struct steps *s, const struct step_lane *lane)
{
    struct step_slot *slot = slot_of(s, lane->lane);
    if (slot == NULL)
        return;
    slot->runs = true;
    slot->lane = *lane;
}

bool step_lane_known(const struct steps *s, uint32_t lane, uint64_t generation)
{
    return lane < s->options.lanes && s->slot[lane].lane.run == s->run &&
           s->slot[lane].lane.generation == generation;
}

/* The slot of a lane that has this generation; NULL: there is none. */
static struct step_slot *slot_held(struct steps *s, const struct step_lane *lane)
{
    struct step_slot *slot = slot_of(s, lane->lane);
    if (slot == NULL || !slot->runs || slot->lane.run != lane->run ||
        slot->lane.generation != lane->generation)
        return NULL;
    return slot;
}

void step_lane_acknowledged(struct steps *s, const struct step_lane *lane)
{
    struct step_slot *slot = slot_held(s, lane);
    if (slot == NULL || lane->mark <= slot->lane.mark)
        return;
    slot->lane.mark = lane->mark;
    if (s->told.rest_at != 0)
        step_soon(s); /* it may have settled */
}

void step_lane_end(struct steps *s, const struct step_lane *lane)
{
    struct step_slot *slot = slot_held(s, lane);
    if (slot == NULL)
        return;
    slot->runs = false;
    if (s->told.rest_at != 0)
        step_soon(s);
}

/* In a rest no lane begins a step beyond the last one. */
static bool step_held(const struct steps *s, uint64_t batch)
{
    uint64_t last = s->told.rest_at;
    if (last == 0)
        last = s->begun;
    return s->told.rest != 0 && batch > last;
}

static enum step_turn turn_of(const struct steps *s, const struct step_slot *slot, uint64_t batch)
{
    bool waits = s->state != STEP_OPEN || s->work.runs || s->work.sum || slot->busy ||
                 slot->lane.run != s->run || !lane_inside(s, slot->lane.lane);
    /* given: an earlier grant of the lane has contributed to the next step */
    if (waits || batch > s->at + 1 || slot->given > s->at)
        return STEP_WAITS;
    if (batch == s->at + 1 && !step_held(s, batch))
        return STEP_GIVES;
    if (batch == s->at + 1)
        return STEP_WAITS;
    if (batch == s->at && s->before)
        return STEP_ROWS;
    return STEP_LATE;
}

enum step_turn step_admit(struct steps *s, uint32_t lane, uint64_t batch, struct step_arrays *out)
{
    struct step_slot *slot = slot_of(s, lane);
    enum step_turn turn = STEP_LATE;
    if (slot != NULL)
        turn = turn_of(s, slot, batch);
    if (turn != STEP_GIVES && turn != STEP_ROWS)
        return turn;
    slot->busy = true;
    s->busy++;
    *out = (struct step_arrays){.dense = network_weights(s->network, NETWORK_DENSE),
                                .stats = network_weights(s->network, NETWORK_STATS),
                                .dense_gradients = slot->floats,
                                .stats_gradients = slot->floats + s->dense_floats,
                                .dense_floats = s->dense_floats,
                                .stats_floats = s->stats_floats};
    if (turn == STEP_GIVES) {
        s->begun = MAX(s->begun, batch);
    } else {
        out->dense = network_before(s->network, NETWORK_DENSE);
        out->stats = network_before(s->network, NETWORK_STATS);
    }
    return turn;
}

void step_back(struct steps *s, uint32_t lane)
{
    struct step_slot *slot = slot_of(s, lane);
    SHOAL_ASSERT(slot != NULL && slot->busy && s->busy > 0);
    slot->busy = false;
    s->busy--;
    step_work_start(s);
    if (s->state != STEP_OPEN) /* the network may be read now */
        step_soon(s);
}

void step_give(struct steps *s, uint32_t lane, uint64_t batch, uint64_t weight, float lr_scale)
{
    struct step_slot *slot = slot_of(s, lane);
    SHOAL_ASSERT(slot != NULL && !slot->busy);
    if (batch != s->at + 1 || slot->given >= batch) /* another worker has had the lane since */
        return;
    slot->given = batch;
    slot->weight = weight;
    slot->lr_scale = lr_scale;
    step_go(s);
}

bool step_has(const struct steps *s, uint64_t batch)
{
    return s->has && batch <= s->at;
}

static void soon_fire(struct env_timer *t)
{
    struct steps *s = container_of(t, struct steps, soon);
    step_turn(s);
    s->options.moved(s->options.context);
}

void step_soon(struct steps *s)
{
    if (s->state != STEP_OUT)
        env_timer_start(s->options.env, &s->soon, 0);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* All lanes of this worker have contributed to the next step, at one factor of the rates. */
static bool all_given(struct steps *s)
{
    const struct step_slot *first = &s->slot[s->first];
    for (uint32_t lane = s->first; lane < s->end; lane++)
        if (s->slot[lane].given != s->at + 1)
            return false;
    for (uint32_t lane = s->first; lane < s->end; lane++) {
        char text[ERR_TEXT_MAX];
        if (s->slot[lane].lr_scale == first->lr_scale)
            continue;
        (void)snprintf(text, sizeof text,
                       "lane %u has a factor of %g on its learning rates at batch %" PRIu64
                       ", and lane %u one of %g: the coordinator deals tasks that do not go "
                       "together",
                       s->first, (double)first->lr_scale, s->at + 1, lane,
                       (double)s->slot[lane].lr_scale);
        s->options.failed(s->options.context, SHOAL_E_INTERNAL, text);
        return false;
    }
    return true;
}

void step_go(struct steps *s)
{
    if (s->state != STEP_OPEN || s->summing || s->work.sum || s->work.runs || !all_given(s))
        return;
    for (uint32_t lane = s->first; lane < s->end; lane++)
        s->part[lane - s->first] =
            (struct exchange_part){.weighted = s->slot[lane].floats,
                                   .plain = s->slot[lane].floats + s->dense_floats,
                                   .weight = s->slot[lane].weight};
    s->summing = true;
    ring_reduce(s->ring, s->part);
}

/* Every lane of the job has contributed. */
static void sum_done(void *owner)
{
    struct steps *s = owner;
    SHOAL_ASSERT(s->state == STEP_OPEN && s->summing && !s->work.runs && !s->work.sum);
    s->summing = false;
    s->work.sum = true;
    s->work.floats = ring_sum(s->ring, &s->work.weight);
    s->work.lr_scale = s->slot[s->first].lr_scale;
    step_work_start(s);
}

static void ring_stale(void *owner, uint64_t number)
{
    struct steps *s = owner;
    if (number <= MAX(s->known, s->stale) || !request_active(&s->request))
        return;
    s->stale = number;
    client_again(s->options.client, &s->request);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void work_run(struct env_work *w) /* on a thread of the pool */
{
    struct steps *s = container_of(w, struct steps, work.work);
    struct step_work *k = &s->work;
    uint64_t step = s->at + 1;
    k->status = 0;
    k->refused = false;
    k->digest = 0;
    if (k->sum && k->weight > 0)
        k->status = network_step(s->network, k->floats, k->weight, k->lr_scale, step, &k->error);
    k->refused = k->status == SHOAL_E_NOT_FINITE;
    if (k->refused)
        k->status = 0;
    if (k->sum && (k->weight == 0 || k->refused))
        network_skip(s->network, step);
    if (k->status == 0 && k->copies)
        k->status = step_publish_copy(s, &k->error);
    if (k->status == 0 && k->sum && step % STEP_DIGEST_EVERY == 0)
        (void)network_digest(s->network, &k->digest); /* NOMEM: none is told */
}

static void step_made(struct steps *s)
{
    struct step_work *k = &s->work;
    k->sum = false;
    s->at++;
    s->before = true;
    s->figures.steps++;
    s->figures.refused += k->refused;
    if (k->digest != 0) {
        s->digest = k->digest;
        s->digest_step = s->at;
    }
    if (k->refused && s->figures.refused == 1)
        log_event(GRADIENT_REFUSED, "the network",
                  "the network stays as it is, at every worker: %s", k->error.text);
}

static void ring_shut(struct steps *s)
{
    if (s->ring != NULL)
        s->figures.bytes += ring_figures(s->ring).bytes;
    ring_close(s->ring);
    s->ring = NULL;
    s->summing = false;
}

static void work_done(struct env_work *w)
{
    struct steps *s = container_of(w, struct steps, work.work);
    struct step_work *k = &s->work;
    k->runs = false;
    if (k->status == 0 && k->sum)
        step_made(s);
    if (k->status == 0 && k->copies)
        step_publish_copied(s);
    s->has = s->has && k->status == 0;
    k->sum = k->copies = false;
    if (s->state == STEP_OUT)
        ring_shut(s);
    else if (k->status == SHOAL_E_NOMEM)
        s->options.unable(s->options.context, k->status, k->error.text);
    else if (k->status != 0)
        s->options.failed(s->options.context, k->status, k->error.text);
    step_turn(s);
    s->options.moved(s->options.context);
}

void step_work_start(struct steps *s)
{
    struct step_work *k = &s->work;
    if (k->runs || s->busy > 0 || !(k->sum || k->copies))
        return;
    SHOAL_ASSERT(s->has && s->busy == 0); /* step.h, 5 */
    k->copies = k->copies || step_publish_due(s);
    k->runs = true;
    env_work_start(s->options.env, &k->work);
}

/* ---- the ring -------------------------------------------------------------------------------- */

bool step_stopped(struct steps *s)
{
    if (s->work.runs || s->work.sum)
        return false;
    ring_shut(s);
    return true;
}

void step_stop(struct steps *s)
{
    handover_stop(s->handover);
    s->handover = NULL;
    step_reading_stop(s);
    s->work.copies = s->work.copies && s->work.runs;
    (void)step_stopped(s);
}

void step_from(struct steps *s, uint64_t step)
{
    s->at = s->begun = step;
    for (uint32_t i = 0; i < s->options.lanes; i++)
        s->slot[i].given = s->slot[i].weight = 0;
}

void step_whole(struct steps *s, uint64_t step, bool before)
{
    s->has = true;
    s->before = before;
    step_from(s, step);
}

void step_forget(struct steps *s)
{
    s->has = s->before = false;
    s->of = s->digest = s->digest_step = 0;
    step_publish_stop(s);
    step_from(s, 0);
}

/* Makes room for the gradients of this worker's lanes, and frees that of others. */
static int slots_take(struct steps *s, struct err *e)
{
    size_t bytes = (s->dense_floats + s->stats_floats) * sizeof(float);
    for (uint32_t lane = 0; lane < s->options.lanes; lane++) {
        struct step_slot *slot = &s->slot[lane];
        bool inside = lane_inside(s, lane);
        if (!inside && !slot->busy) {
            backend_host_free(s->options.backend, slot->floats);
            slot->floats = NULL;
        }
        if (!inside)
            slot->given = slot->weight = 0;
        if (inside && slot->floats == NULL)
            slot->floats = backend_host_alloc(s->options.backend, bytes);
        if (inside && slot->floats == NULL)
            return err_set(e, SHOAL_E_NOMEM,
                           "no memory for the gradients of %u lanes, of %zu bytes each",
                           s->end - s->first, bytes);
    }
    return 0;
}

int step_open(struct steps *s, struct err *e)
{
    const struct wire_RING_reply *t = &s->told;
    struct ring_options o = {
        .env = s->options.env,
        .run = s->run,
        .ring = s->known,
        .sum = {.member = t->member, .step = s->at, .values = s->options.job->net.dense},
        .next_endpoint = s->member[(t->member + 1) % t->members].endpoint,
        .next_key = s->key[(t->member + 1) % t->members],
        .before_key = s->key[(t->member + t->members - 1) % t->members],
        .done = sum_done,
        .stale = ring_stale,
        .owner = s};
    o.sum.shape = (struct way_shape){.lanes = t->lanes, .starts = t->starts, .members = t->members};
    for (uint32_t i = 0; i < t->members; i++)
        o.sum.shape.first[i] = s->member[i].first;
    o.sum.shape.first[t->members] = t->lanes;
    int rc = way_cut(s->dense_floats, s->stats_floats, t->starts, &o.sum.cut, e);
    if (rc == 0)
        rc = slots_take(s, e);
    if (rc == 0)
        rc = ring_open(&o, &s->ring, e);
    if (rc != 0)
        return rc;
    s->of = s->known;
    sm_move(&step_moves, &s->state, STEP_OPEN);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int network_make(struct steps *s, struct err *e)
{
    struct network_options o = {0};
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        if (s->tables + i >= s->options.table_count)
            continue;
        o.part[i].schema = &s->options.schema[s->tables + i];
        model_blocks(s->options.model, i == NETWORK_STATS, &o.part[i].keys, &o.part[i].block,
                     &o.part[i].count);
    }
    return network_new(&o, &s->network, e);
}

int step_new(const struct step_options *options, struct steps **out, struct err *e)
{
    struct steps *s = calloc(1, sizeof *s);
    SHOAL_ASSERT(options->lanes > 0 && options->lanes <= LIMIT_LANES);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the network");
    s->options = *options;
    s->tables = model_tables(options->model);
    s->dense_floats = model_dense_floats(options->model);
    s->stats_floats = model_stats_floats(options->model);
    s->slot = calloc(options->lanes, sizeof *s->slot);
    s->part = calloc(options->lanes, sizeof *s->part);
    s->work.work = (struct env_work){.run = work_run, .done = work_done};
    s->soon.fire = soon_fire;
    step_ring_init(s);
    int rc = 0;
    if (s->slot == NULL || s->part == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for %u lanes of a network", options->lanes);
    if (rc == 0)
        rc = network_make(s, e);
    if (rc == 0)
        rc = step_publish_new(s, e);
    if (rc != 0) {
        step_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void step_free(struct steps *s)
{
    if (s == NULL)
        return;
    SHOAL_ASSERT(s->state == STEP_OUT && step_idle(s));
    ring_shut(s);
    step_publish_free(s);
    network_free(s->network);
    for (uint32_t i = 0; s->slot != NULL && i < s->options.lanes; i++)
        backend_host_free(s->options.backend, s->slot[i].floats);
    free(s->slot);
    free(s->part);
    free(s);
}

bool step_idle(const struct steps *s)
{
    return !s->work.runs && s->busy == 0;
}

void step_remap(struct steps *s)
{
    step_reading_remap(s);
    step_publish_remap(s);
}

struct step_figures step_figures(const struct steps *s)
{
    struct step_figures f = s->figures;
    if (s->ring != NULL)
        f.bytes += ring_figures(s->ring).bytes;
    return f;
}
