/* change.c: the conditions for a change of a schema.
 *
 * 1. When a table changes, durable images include every record that its tablets have taken. No
 *    record is therefore replayed under another schema than its own, whichever of them the control
 *    state has by then. [test: test_change, test_tier_random]
 * 2. The record marks all tablets as changed. At the next change, by 1, no image is older than the
 *    schema before it: an image's schema is the table's or that of table_past.
 *    [test: killed_at_any_step_it_comes_back_as_if_it_had_not_been]
 * 3. A cut has the schemas of its instant: it can be restored only into tables that have not
 *    changed since. [test: a_cut_of_before_the_change_is_refused]
 * 4. A row in the store ages when it comes in, by the schema of that time, and no record says when
 *    that is. Rules of ageing therefore do not change in a table that has had rows in the store.
 *    [test: rules_of_ageing_stay_while_rows_are_in_the_store] */
#include "embedding/engine/change.h"

#include "embedding/engine/cut_copy.h"
#include "embedding/engine/flush.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <inttypes.h>
#include <stdlib.h>

struct change {
    struct engine_job job;
    uint32_t table;
};

static struct change *change_of(const struct engine *g)
{
    return container_of(g->job[JOB_CHANGE], struct change, job);
}

static bool is_durable(const struct engine_table *t)
{
    for (uint32_t i = 0; i < t->scope.tablets; i++)
        if (t->changed[i] > t->durable[i])
            return false;
    return true;
}

static bool is_urgent(const struct engine *g)
{
    const struct engine_table *t = &g->table[change_of(g)->table];
    return t->table != NULL && !is_durable(t);
}

static void change_free(struct engine *g)
{
    struct change *c = change_of(g);
    engine_job_end(g, JOB_CHANGE);
    free(c);
}

/* The client asks again, or has given up. */
static void change_step(struct engine *g)
{
    if (!is_urgent(g))
        change_free(g);
}

static int write_first(struct engine *g, uint32_t table, struct err *e)
{
    static const struct engine_job_ops ops = {change_step, is_urgent, NULL, change_free};
    struct change *c;
    if (g->job[JOB_CHANGE] != NULL)
        c = change_of(g);
    else
        c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to change a table");
    c->table = table;
    if (g->job[JOB_CHANGE] == NULL)
        engine_job_begin(g, JOB_CHANGE, &c->job, &ops);
    engine_flush_step(g);
    return err_set(e, SHOAL_E_AGAIN,
                   "the rows of table %s are written to the disk before it changes%s",
                   table_schema_of(g->table[table].table)->name,
                   g->space.stopped ? ", which has no room for them: free some" : "");
}

static int refuse(const struct table_schema *is, const char *what, const char *why, struct err *e)
{
    return err_set(
        e, SHOAL_E_SCHEMA,
        "table %u exists here as %s with another schema: %s%s; `shoal checkpoint create` "
        "it, then submit with --start-from that checkpoint and \"all\" added to fresh, which "
        "drops what the servers hold and translates the checkpoint's rows",
        is->table, is->name, what, why);
}

int change_ready(struct engine *g, const struct table_schema *is, struct err *e)
{
    struct engine_table *t = &g->table[is->table];
    char what[SCHEMA_DIFFERENCE_MAX];
    SHOAL_ASSERT(t->table != NULL && engine_back(g));
    enum schema_change change = schema_change(table_schema_of(t->table), is, what);
    if (change == SCHEMA_STAYS)
        return refuse(table_schema_of(t->table), what, "", e);
    if (change == SCHEMA_AGES && table_cold_was(t->table))
        return refuse(table_schema_of(t->table), what, ", and rows in the store age by what it was",
                      e);
    if (g->job[JOB_LOAD] != NULL || g->job[JOB_UNLOAD] != NULL || table_set_any(g->loading))
        return err_set(e, SHOAL_E_BUSY, "a checkpoint is being loaded; ask again");
    if (g->pending > 0 || g->holding || g->cut_busy)
        return err_set(e, SHOAL_E_AGAIN, "pushes or a cut are under way; ask again");
    if (g->journal != NULL && !is_durable(t))
        return write_first(g, is->table, e);
    SHOAL_ASSERT(g->committed == g->sequence);
    return 0;
}

static int refuse_cut(const struct table *t, const struct cut_facts *facts, struct err *e)
{
    return err_set(e, SHOAL_E_SCHEMA,
                   "cut %" PRIu64 " is of before table %s got the schema that it has: go on from a "
                   "checkpoint of that time",
                   facts->cut, table_schema_of(t)->name);
}

int change_check_cut(const struct engine *g, const struct cut_facts *facts, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct table *t = g->table[i].table;
        if (t != NULL && table_set_has(&facts->existing, i) && table_set_has(&facts->tables, i) &&
            g->journal != NULL && table_past(t)->sequence > facts->sequence)
            return refuse_cut(t, facts, e);
    }
    return 0;
}

int change_check_then(const struct engine *g, const struct table_schema *then,
                      const struct cut_facts *facts, struct err *e)
{
    const struct table *t = g->table[then->table].table;
    if (schema_equal(then, table_schema_of(t)) ||
        (g->journal != NULL && table_past(t)->sequence > 0))
        return 0;
    return refuse_cut(t, facts, e);
}
