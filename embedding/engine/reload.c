/* reload.c: brings tablets back, in steps.
 *
 * 1. A tablet comes back before the first record that may change it is replayed. One that is still
 *    away at the journal's end therefore equals its image. [assert: flush_put_image]
 * 2. A tablet brings marks of runs that were dropped since: these runs are ghosts again and end
 *    once all tablets are back. [test: test_reload]
 * 3. If memory is short rows leave again with their pairs alone (spill.h), but only from tablets
 *    that equal their images. This thread writes the pairs while requests wait: nothing else may
 *    write to the store then. [test: test_reload, test_tier_random] */
#include "embedding/engine/reload.h"

#include "embedding/engine/flush.h"
#include "embedding/engine/space.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK_MOST 256u /* most tablets that are read at once */

static void step_cb(struct env_timer *timer);
static const struct engine_job_ops reload_job = {NULL, NULL, NULL, reload_free};

int reload_begin(struct engine *g, const struct recover *r, struct err *e)
{
    struct reload *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to recover %s", g->dir);
    bool good = true;
    SHOAL_ASSERT(!r->to.of_cut && g->sequence == 0); /* before the first record */
    engine_job_begin(g, JOB_RELOAD, &l->job, &reload_job);
    g->reload_timer.fire = step_cb;
    for (uint32_t i = 0; good && i < LIMIT_TABLES; i++) {
        uint32_t tablets = 0;
        if (g->table[i].table != NULL)
            tablets = g->table[i].scope.tablets;
        if (tablets == 0)
            continue;
        good = (l->place[i] = malloc(tablets)) != NULL;
        for (uint32_t k = 0; good && k < tablets; k++)
            l->place[i][k] = PLACE_AWAY;
        l->left += tablets;
        l->awaited = l->left;
    }
    if (!good || (l->asked = malloc((l->left + 1) * sizeof *l->asked)) == NULL) {
        reload_free(g);
        return err_set(e, SHOAL_E_NOMEM, "no memory to recover %s", g->dir);
    }
    l->replay = *r;
    spill_init(&l->spill, g->store, g->options.memory);
    l->spill.on_flush = flush_save_read;
    l->spill.context = g;
    l->replay.spill = &l->spill;
    l->replay.clean = true; /* 3. */
    l->chunk = 1;
    return 0;
}

void reload_free(struct engine *g)
{
    struct reload *l = reload_of(g);
    if (l == NULL)
        return;
    engine_job_end(g, JOB_RELOAD);
    if (g->reload_timer.due_ns != 0)
        env_timer_stop(g->env, &g->reload_timer);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        free(l->place[i]);
    spill_free(&l->spill);
    free(l->asked);
    free(l);
}

/* ---- back ---- */

/* Brings tablets [first, below) back; all of them are away. */
static int bring(struct engine *g, uint32_t table, uint32_t first, uint32_t below, struct err *e)
{
    struct reload *l = reload_of(g);
    struct engine_table *t = &g->table[table];
    SHOAL_ASSERT(first < below && below <= t->scope.tablets && below - first <= l->left);
    int rc = recover_tablets(&l->replay, l->replay.store, table, first, below, e);
    if (rc != 0)
        return rc;
    for (uint32_t k = first; k < below; k++) {
        /* a tablet that is back is not overwritten */
        SHOAL_ASSERT(l->place[table][k] != PLACE_BACK);
        t->changed[k] = t->written[k] = t->durable[k];
        l->place[table][k] = PLACE_BACK;
    }
    l->left -= below - first;
    return 0;
}

/* The next adjacent tablets that are away, from *first on. False: there are none. */
static bool away_next(const struct reload *l, uint32_t table, uint32_t *first, uint32_t end,
                      uint32_t *below)
{
    const uint8_t *place = l->place[table];
    while (*first < end && place[*first] == PLACE_BACK)
        (*first)++;
    for (*below = *first; *below < end && place[*below] != PLACE_BACK;)
        (*below)++;
    return *below > *first;
}

int reload_bring(struct engine *g, uint32_t table, uint32_t first, uint32_t count, struct err *e)
{
    uint32_t below;
    int rc = 0;
    if (reload_of(g) == NULL || reload_of(g)->place[table] == NULL)
        return 0;
    SHOAL_ASSERT(first + count <= g->table[table].scope.tablets);
    for (uint32_t end = first + count;
         rc == 0 && away_next(reload_of(g), table, &first, end, &below); first = below)
        rc = bring(g, table, first, below, e);
    return rc;
}

int reload_bring_all(struct engine *g, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        if (g->table[i].table != NULL)
            rc = reload_bring(g, i, 0, g->table[i].scope.tablets, e);
    SHOAL_ASSERT(rc != 0 || reload_left(g) == 0);
    return rc;
}

/* ---- steps ---- */

/* The next tablets of the round. There are some. */
static void round_next(struct reload *l, uint32_t *table, uint32_t *first, uint32_t *below)
{
    SHOAL_ASSERT(l->left > 0);
    for (;; l->table++, l->tablet = 0, l->chunk = 1) {
        SHOAL_ASSERT(l->table < LIMIT_TABLES);
        uint32_t end = 0;
        if (l->place[l->table] != NULL)
            end = l->replay.to.g->table[l->table].scope.tablets;
        if (l->tablet < end && away_next(l, l->table, &l->tablet, end, below))
            break;
    }
    *table = l->table;
    *first = l->tablet;
    if (*below - *first > l->chunk)
        *below = *first + l->chunk;
    l->tablet = *below;
}

/* The next tablets that were asked for: adjacent ones together, as many as a step of the round
 * would bring. False: none is away. */
static bool asked_next(struct reload *l, uint32_t *table, uint32_t *first, uint32_t *below)
{
    while (l->asked_first < l->asked_count) {
        struct tier_tablet t = l->asked[l->asked_first++];
        const uint8_t *place = l->place[t.table];
        uint32_t end = l->replay.to.g->table[t.table].scope.tablets,
                 most = t.table == l->table ? l->chunk : 1;
        SHOAL_ASSERT(t.tablet < end);
        if (place[t.tablet] == PLACE_BACK)
            continue; /* it came with a neighbour, or for a caller that could not wait */
        *table = t.table;
        *first = *below = t.tablet;
        while (*below < end && *below - *first < most && place[*below] == PLACE_ASKED)
            (*below)++;
        return true;
    }
    return false;
}

uint32_t reload_chunk(uint32_t chunk, uint64_t rows, uint32_t step_rows)
{
    if (rows > step_rows / 2 && chunk > 1)
        return chunk / 2;

    if (rows < step_rows / 8 && chunk < CHUNK_MOST)
        return 2 * chunk;

    return chunk;
}

/* Reads tablets that were asked for, or else the next ones, about reload_rows rows. *asked: waiting
 * requests can retry. */
static int step(struct engine *g, bool *asked, struct err *e)
{
    struct reload *l = reload_of(g);
    uint64_t come = 0;
    int rc = 0;
    *asked = l->asked_first < l->asked_count;
    for (uint32_t go = 0; go < RELOAD_STEP_GOES && rc == 0 && l->left > 0 && come < g->reload_rows;
         go++) {
        uint32_t table, first, below;
        if (!asked_next(l, &table, &first, &below))
            round_next(l, &table, &first, &below);
        uint64_t before = table_rows(g->table[table].table);
        rc = bring(g, table, first, below, e);
        uint64_t rows = table_rows(g->table[table].table) - before;
        come += rows;
        SHOAL_ASSERT(l->chunk > 0 && l->chunk <= CHUNK_MOST);
        if (table == l->table)
            l->chunk = reload_chunk(l->chunk, rows, g->reload_rows);
    }
    return rc;
}

/* All tablets are back. */
static int finish(struct engine *g, struct err *e)
{
    SHOAL_ASSERT(reload_left(g) == 0 && g->pending == 0);
    g->recovered_ns = env_now_ns(g->env) - reload_of(g)->began_ns;
    reload_free(g);
    if (apply_ghosts_end(&g->runs, g->sequence) != 0) /* 2. */
        return err_set(e, SHOAL_E_NOMEM, "no memory for the runs in %s", g->dir);
    engine_refresh_marks(g);
    space_back(g);
    return 0;
}

static void step_cb(struct env_timer *timer)
{
    struct engine *g = container_of(timer, struct engine, reload_timer);
    struct err e = {0};
    bool asked;
    int rc = step(g, &asked, &e);
    bool all = rc == 0 && reload_of(g)->left == 0;
    if (all)
        rc = finish(g, &e);
    else if (rc == 0)
        env_timer_start(g->env, timer, 0);
    if (rc != 0) {
        err_wrap(&e, rc, "recovering %s", g->dir);
        (void)engine_fail(g, &e);
        return;
    }
    if (asked && g->options.on_fetched != NULL)
        g->options.on_fetched(g->options.context);
    if (all)
        g->options.on_recovered(g->options.context);
}

void reload_start(struct engine *g, uint64_t began_ns)
{
    SHOAL_ASSERT(reload_left(g) > 0);
    reload_of(g)->began_ns = began_ns;
    env_timer_start(g->env, &g->reload_timer, 0);
}
