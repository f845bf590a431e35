/* engine_state.c: the tables of an engine and what is led of them; failing. Calls nothing of the
 * room: the rest stands on it. */
#include "embedding/engine/engine_state.h"

#include <stdlib.h>

/* ---- tables ---- */

struct engine_table *engine_slot(struct engine *g, uint32_t table)
{
    return table < LIMIT_TABLES && g->table[table].table != NULL ? &g->table[table] : NULL;
}

static void table_release(struct engine_table *t)
{
    table_free(t->table);
    free(t->scope.led);
    free(t->scope.led_before);
    free(t->changed);
    free(t->written);
    free(t->durable);
    *t = (struct engine_table){0};
}

struct table *engine_table_take(struct engine *g, uint32_t table)
{
    struct table *t = g->table[table].table;
    g->table[table].table = NULL;
    table_release(&g->table[table]);
    return t;
}

/* What of a table is led, out of the whole map. */
static void scope_fill(const struct engine *g, struct engine_table *t)
{
    uint32_t first = table_schema_of(t->table)->tablet_first, before = 0;
    for (uint32_t i = 0; i < t->scope.tablets; i++) {
        t->scope.led[i] = first + i < g->led_count && g->led[first + i];
        t->scope.led_before[i] = before;
        before += t->scope.led[i];
    }
    t->scope.led_before[t->scope.tablets] = before;
    t->scope.led_count = before;
}

void engine_refresh_marks(struct engine *g)
{
    for (uint32_t i = 0; i < g->runs.count; i++)
        for (uint32_t table = 0; table < LIMIT_TABLES; table++)
            if (g->table[table].table != NULL)
                run_refresh(g->runs.run[i], table, &g->table[table].scope);
}

int engine_table_add(struct engine *g, const struct table_schema *s, struct err *e)
{
    uint32_t tablets = 1u << s->tablet_bits;
    struct engine_table t = {.scope.tablets = tablets};
    int rc = table_new(s, g->arena, &t.table, e);
    if (rc != 0)
        return rc;
    t.scope.led = calloc(tablets, sizeof *t.scope.led);
    t.scope.led_before = calloc(tablets + 1, sizeof *t.scope.led_before);
    t.changed = calloc(tablets, sizeof *t.changed);
    t.written = calloc(tablets, sizeof *t.written);
    t.durable = calloc(tablets, sizeof *t.durable);
    if (t.scope.led == NULL || t.scope.led_before == NULL || t.changed == NULL ||
        t.written == NULL || t.durable == NULL) {
        table_release(&t);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the %u tablets of table %s", tablets,
                       s->name);
    }
    scope_fill(g, &t);
    g->table[s->table] = t;
    engine_refresh_marks(g);
    return 0;
}

int engine_lead(struct engine *g, const uint16_t *shard_of, uint32_t count, uint16_t self)
{
    if (count > LIMIT_TABLES * LIMIT_TABLETS)
        return SHOAL_E_TOO_BIG;
    uint8_t *led = calloc(count + 1, 1);
    if (led == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        led[i] = shard_of[i] == self;
    free(g->led);
    g->led = led;
    g->led_count = count;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            scope_fill(g, &g->table[i]);
    engine_refresh_marks(g);
    return 0;
}

void engine_touch(struct engine_table *t, uint32_t first, uint32_t count, const uint8_t *take,
                  uint64_t sequence)
{
    uint64_t *changed = t->changed, *durable = t->durable, *written = t->written;
    for (uint32_t i = first; i < first + count; i++) {
        if (take != NULL && !take[i])
            continue;
        if (changed[i] <= durable[i])
            /* it was clean: no record in between was its own */
            durable[i] = written[i] = sequence - 1;
        changed[i] = sequence;
    }
}

bool engine_back(const struct engine *g)
{
    return g->job[JOB_RELOAD] == NULL;
}

void engine_whole_free(struct engine *g)
{
    if (g->whole_arena == NULL)
        return;
    table_free(g->whole);
    arena_free(g->whole_arena);
    g->whole = NULL;
    g->whole_arena = NULL;
}

/* ---- failing ---- */

int engine_fail(struct engine *g, const struct err *e)
{
    if (!g->broken) {
        g->broken = true;
        if (g->options.on_fatal != NULL)
            g->options.on_fatal(g->options.context, e);
    }
    return e->code;
}
