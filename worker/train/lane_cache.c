/* lane_cache.c: a lane's cache of rows: planning a batch's pull on a thread, answers noted for the
 * next plan. */
#include "proto/base/array.h"
#include "proto/base/container_of.h"
#include "worker/train/lane_inner.h"

#include <stdlib.h>
#include <string.h>

static struct lane *lane_of_plan(struct env_work *w)
{
    return container_of(w, struct lane, cache.work);
}

static void plan_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane *l = lane_of_plan(w);
    struct lane_cache *c = &l->cache;
    struct lane_batch *b = c->planning;
    if (c->clear)
        row_cache_clear(c->index);
    for (uint32_t i = 0; i < c->takens; i++) {
        const struct cache_answer *a = &c->taken[i];
        row_cache_answered(c->index, a->batch, a->keys, a->count, a->clock, a->low);
    }
    c->status = rows_plan(b->rows, c->index, b->number, &b->error);
}

/* A row served counts in the staleness as a pull of that age would. */
static void plan_count(struct lane *l, const struct rows *r)
{
    uint32_t hits = r->batch.key_count - r->plan.fresh_count;
    l->base->stats->cache_hits += hits;
    l->base->stats->cache_misses += r->plan.fresh_count;
    if (hits > 0)
        l->result.staleness[r->plan.staleness < STALENESS_CELLS ? r->plan.staleness
                                                                : STALENESS_CELLS - 1]++;
}

static void plan_done(struct env_work *w)
{
    struct lane *l = lane_of_plan(w);
    struct lane_batch *b = l->cache.planning;
    SHOAL_ASSERT(b != NULL && b->state == PLANNING);
    l->cache.planning = NULL;
    if (l->dropping || l->cache.status != 0) {
        lane_batch_move(b, DRAINING);
        if (!l->dropping) {
            lane_fail(l, l->cache.status, b->error.text);
            return;
        }
    } else {
        plan_count(l, b->rows);
        lane_ask(l, b);
    }
    lane_tick(l);
}

void lane_cache_plan(struct lane *l, struct lane_batch *b)
{
    struct lane_cache *c = &l->cache;
    struct cache_answer *spare = c->taken;
    uint32_t spare_capacity = c->taken_capacity;
    SHOAL_ASSERT(c->planning == NULL);
    c->taken = c->answer;
    c->taken_capacity = c->answer_capacity;
    c->takens = c->stale ? 0 : c->answers;
    c->answer = spare;
    c->answer_capacity = spare_capacity;
    c->answers = 0;
    c->clear = c->stale;
    c->stale = false;
    c->planning = b;
    lane_batch_move(b, PLANNING);
    env_work_start(l->base->env, &c->work);
}

void lane_cache_answered(struct lane *l, const struct lane_batch *b, const struct part *p,
                         uint64_t clock, uint64_t low)
{
    struct lane_cache *c = &l->cache;
    if (array_room(&c->answer, c->answers, &c->answer_capacity, 64) != 0) {
        lane_cache_drop(l); /* a slot whose answer is lost would wait for it for ever */
        return;
    }
    c->answer[c->answers++] = (struct cache_answer){
        b->number, clock, low, b->rows->table[p->table].pull_keys + p->key_first, p->key_count};
}

void lane_cache_drop(struct lane *l)
{
    l->cache.stale = true;
    l->cache.answers = 0;
}

int lane_cache_init(struct lane *l, struct err *e)
{
    const struct job *job = l->base->job;
    struct row_cache_rule rule = {.bounded = job->train.mode != WIRE_ASYNC,
                                  .most = job->train.staleness};
    l->cache.work = (struct env_work){.run = plan_run, .done = plan_done};
    if (l->base->cache_rows == 0)
        return 0;
    if (!rule.bounded)
        rule.most = job->train.cache.batches;
    return row_cache_new(l->base->cache_rows, &rule, &l->cache.index, e);
}

void lane_cache_close(struct lane *l)
{
    row_cache_free(l->cache.index);
    free(l->cache.answer);
    free(l->cache.taken);
}
