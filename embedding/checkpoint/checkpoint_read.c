/* checkpoint_read.c: reads rows of a checkpoint: an engine in memory combines a part's images with
 * the records above them. */
#include "embedding/checkpoint/checkpoint_inner.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int checkpoint_scratch(const struct checkpoint *c, struct arena *arena, struct engine **out,
                       struct err *e)
{
    struct engine *g = NULL;
    int rc = engine_open(&(struct engine_options){.durability = DURABLE_MEMORY}, NULL, &g, e);
    if (rc != 0)
        return rc;
    arena_free(g->arena);
    g->arena = arena;
    for (uint32_t i = 0; i < c->facts.tables && rc == 0; i++)
        rc = engine_table_add(g, checkpoint_table(c, i), e);
    if (rc != 0)
        checkpoint_scratch_free(g);
    else
        *out = g;
    return rc;
}

void checkpoint_scratch_free(struct engine *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        table_free(engine_table_take(g, i));
    g->arena = NULL; /* owned by the caller */
    engine_close(g, false);
}

int checkpoint_base(const struct checkpoint *c, uint64_t *base[LIMIT_TABLES])
{
    memset(base, 0, LIMIT_TABLES * sizeof *base);
    for (uint32_t i = 0; i < c->facts.tables; i++) {
        const struct table_schema *s = checkpoint_table(c, i);
        size_t bytes = sizeof(uint64_t) << s->tablet_bits;
        if ((base[s->table] = malloc(bytes)) == NULL)
            return SHOAL_E_NOMEM;
        memset(base[s->table], 0xff, bytes);
    }
    return 0;
}

void checkpoint_base_free(uint64_t *base[LIMIT_TABLES])
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        free(base[i]);
}

/* Takes in rows that are single pairs in the part's store, aged as of the cut. */
static int thaw_all(struct engine *g, struct store *store, uint64_t *const base[LIMIT_TABLES],
                    struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0; base[i] != NULL && k < g->table[i].scope.tablets && rc == 0; k++)
            if (base[i][k] != UINT64_MAX)
                rc = fetch_whole(g->table[i].table, k, store, e);
    return rc;
}

int checkpoint_part_load(const struct checkpoint *c, uint32_t part, bool verified, struct engine *g,
                         uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e)
{
    SHOAL_ASSERT(part < c->facts.parts);
    const struct part *p = &c->part[part];
    struct cut_source source = {.facts = p->facts};
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s/rows", p->dir);
    int rc;
    if (verified)
        rc = store_rocks_open_verified(path, &source.store, e);
    else
        rc = store_rocks_open_copy(path, &source.store, e);
    source.opened = rc == 0;
    snprintf(path, sizeof path, "%s/journal", p->dir);
    if (rc == 0)
        rc = journal_open_copy(path, &source.journal, e);
    if (rc == 0)
        rc = cut_recover(g, &source, base, runs, e);
    if (rc == 0)
        rc = thaw_all(g, source.store, base, e);
    cut_source_close(&source);

    if (rc == 0)
        return 0;

    return err_wrap(e, rc, "%s", p->dir);
}

/* ---- tables, for tools ---- */

/* Tablets [first, first + count) of one table. */
struct span {
    uint32_t first, count;
};

static struct span whole_of(const struct checkpoint *c, uint32_t i)
{
    return (struct span){0, 1u << checkpoint_table(c, i)->tablet_bits};
}

static bool in_part(const struct checkpoint *c, uint32_t i, uint32_t part, struct span span)
{
    for (uint32_t k = span.first; k < span.first + span.count; k++)
        if (c->owner[i][k] == part)
            return true;
    return false;
}

/* Reads the tablets of the span that the part has. */
static int read_part(const struct checkpoint *c, uint32_t i, uint32_t part, struct span span,
                     struct engine *g, struct err *e)
{
    const struct table_schema *s = checkpoint_table(c, i);
    uint64_t *base[LIMIT_TABLES];
    struct runs runs = {0};
    int rc = checkpoint_base(c, base);
    if (rc != 0)
        err_set(e, rc, "no memory to read %s", c->path);
    for (uint32_t k = span.first; k < span.first + span.count && rc == 0; k++)
        if (c->owner[i][k] == part)
            base[s->table][k] = 0;
    if (rc == 0)
        rc = checkpoint_part_load(c, part, false, g, base, &runs, e);
    runs_free(&runs);
    checkpoint_base_free(base);
    return rc;
}

/* part UINT32_MAX: all parts. */
static int read_span(struct checkpoint *c, uint32_t i, uint32_t part, struct span span,
                     struct arena *arena, struct table **out, struct err *e)
{
    struct engine *g = NULL;
    int rc = checkpoint_scratch(c, arena, &g, e);
    for (uint32_t p = 0; p < c->facts.parts && rc == 0; p++)
        if ((part == UINT32_MAX || part == p) && in_part(c, i, p, span))
            rc = read_part(c, i, p, span, g, e);
    if (rc == 0)
        *out = engine_table_take(g, checkpoint_table(c, i)->table);
    checkpoint_scratch_free(g);
    return rc;
}

int checkpoint_table_read(struct checkpoint *c, uint32_t i, uint32_t part, struct arena *arena,
                          struct table **out, struct err *e)
{
    SHOAL_ASSERT(part == UINT32_MAX || part < c->facts.parts);
    return read_span(c, i, part, whole_of(c, i), arena, out, e);
}

int checkpoint_span_read(struct checkpoint *c, uint32_t i, uint32_t first, uint32_t count,
                         struct arena *arena, struct table **out, struct err *e)
{
    uint32_t tablets = whole_of(c, i).count;
    SHOAL_ASSERT(first < tablets && count <= tablets - first);
    return read_span(c, i, UINT32_MAX, (struct span){first, count}, arena, out, e);
}

size_t checkpoint_row_bytes(const struct table_schema *s)
{
    return (sizeof(uint64_t) + schema_row_floats(s) * sizeof(float) + 7) / 8 * 8;
}

static int part_tablets(const struct table *t,
                        int (*use)(void *context, const struct table *t, uint32_t tablet),
                        void *context)
{
    int rc = 0;
    for (uint32_t k = 0; k < 1u << table_schema_of(t)->tablet_bits && rc == 0; k++)
        if (table_tablet_holds(t, k))
            rc = use(context, t, k);
    return rc;
}

int checkpoint_tablets(struct checkpoint *c, uint32_t i,
                       int (*use)(void *context, const struct table *t, uint32_t tablet),
                       void *context, struct err *e)
{
    int rc = 0;
    for (uint32_t part = 0; part < c->facts.parts && rc == 0; part++) {
        struct arena *arena = NULL;
        struct table *t = NULL;
        if (!in_part(c, i, part, whole_of(c, i)))
            continue;
        if (arena_new(&arena) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory to read %s", c->path);
        rc = checkpoint_table_read(c, i, part, arena, &t, e);
        if (rc == 0 && (rc = part_tablets(t, use, context)) != 0)
            err_set(e, rc, "%s: %s", c->path, err_text(rc));
        table_free(t);
        arena_free(arena);
    }
    return rc;
}
