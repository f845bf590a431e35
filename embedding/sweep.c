/* sweep.c: pairs of one tablet read in portions, in order of their keys.
 *
 *  1. As with a fetch, what was read for a key is believed only if its tablet is of the same epoch and no row of it has left memory since
 *     (tier.c, 2). Else the tablet's turn is over and comes again.
 */
#include "embedding/sweep.h"

#include "embedding/cold.h"
#include "embedding/stored.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_ROWS 4096u
#define SWEEP_LOOKS 256u /* tablets looked at in one step, for one that is due */

struct sweep_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    uint32_t table, tablet, epoch, drops, clock, count;
    size_t bytes;    /* of a pair's value */
    uint64_t from;   /* the first key */
    uint64_t *key;   /* owned; (SWEEP_ROWS) */
    char *value;     /* owned; (SWEEP_ROWS, bytes) */
    int status;
    struct err err;
};

static int take_pair(void *context, const void *key, size_t key_bytes, const void *value, size_t value_bytes, struct err *e)
{
    struct sweep_work *w = context;
    uint32_t table, tablet, epoch;
    (void)e;
    if (w->count == SWEEP_ROWS)
        return SHOAL_E_END;
    if (value_bytes != w->bytes || !stored_is_row(key, key_bytes, &table, &tablet, &epoch, &w->key[w->count]))
        return 0; /* whoever needs the row says what is wrong */
    memcpy(w->value + w->count++ * w->bytes, value, w->bytes);
    return 0;
}

static void sweep_run(struct work *work)
{
    struct sweep_work *w = (struct sweep_work *)work;
    struct store_item from, below;
    stored_row_range(w->table, w->tablet, w->epoch, &from, &below);
    stored_row_key(w->table, w->tablet, w->epoch, w->from, &from);
    w->status = store_range(w->g->store, &from, &below, take_pair, w, &w->err);
}

static void sweep_done(struct work *work)
{
    struct sweep_work *w = (struct sweep_work *)work;
    struct engine *g = w->g;
    struct table *t = g->table[w->table].table;
    bool more = w->status == SHOAL_E_END;
    g->tier.sweeping = false;
    if (!work->cancelled && w->status != 0 && !more)
        engine_fail(g, &w->err);
    bool believed = !work->cancelled && !g->broken && t != NULL && !(g->loading >> w->table & 1) &&
                    table_cold_epoch(t, w->tablet) == w->epoch && table_cold_drops(t, w->tablet) == w->drops; /* 1. */
    int rc = 0;
    for (uint32_t i = 0; believed && rc == 0 && i < w->count; i++)
        rc = table_cold_end(t, w->key[i], w->value + i * w->bytes, w->bytes);
    if (rc != 0)
        engine_fail(g, &(struct err){.code = rc, .text = "no memory to note rows that have aged away; the shard restarts and recovers"});
    if (believed && more)
        g->tier.sweep_key = w->key[w->count - 1] + 1;
    free(w->key);
    free(w->value);
    if (believed && more)
        return;
    if (believed)
        table_cold_looked(t, w->tablet, w->clock);
    g->tier.sweep_key = 0;
    g->tier.sweep_tablet++;
}

/* The next tablet that is due, from where the last one was. */
static bool next_due(struct engine *g)
{
    struct tier *tier = &g->tier;
    for (uint32_t looks = 0; looks < SWEEP_LOOKS; looks++) {
        const struct engine_table *t = &g->table[tier->sweep_table];
        if (t->table == NULL || table_cold_rows(t->table) == 0 || tier->sweep_tablet >= t->scope.tablets ||
            (g->loading >> tier->sweep_table & 1)) {
            tier->sweep_table = (tier->sweep_table + 1) % LIMIT_TABLES;
            tier->sweep_tablet = 0;
            tier->sweep_key = 0;
            continue;
        }
        if (table_cold_due(t->table, tier->sweep_tablet))
            return true;
        tier->sweep_tablet++;
        tier->sweep_key = 0;
    }
    return false;
}

void sweep_step(struct engine *g)
{
    struct tier *tier = &g->tier;
    if (tier->sweeping || g->store == NULL || g->broken || !next_due(g))
        return;
    const struct table *t = g->table[tier->sweep_table].table;
    struct sweep_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return;
    w->g = g;
    w->table = tier->sweep_table;
    w->tablet = tier->sweep_tablet;
    w->epoch = table_cold_epoch(t, w->tablet);
    w->drops = table_cold_drops(t, w->tablet);
    w->clock = table_cold_clock(t, w->tablet);
    w->bytes = table_cold_bytes(t);
    w->from = tier->sweep_key;
    w->key = malloc(SWEEP_ROWS * sizeof *w->key);
    w->value = malloc(SWEEP_ROWS * w->bytes);
    if (w->key == NULL || w->value == NULL) {
        free(w->key);
        free(w->value);
        free(w);
        return; /* the next step tries again */
    }
    w->work.run = sweep_run;
    w->work.done = sweep_done;
    tier->sweeping = true;
    work_start(&g->works, g->env, &w->work);
}
