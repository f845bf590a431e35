/* assign.c: tablets of dense tables, whole: assigned (assign.h), and read (engine_image); rows by
 * key.
 *
 * 1. An image comes from another process: it is checked as a whole before its record is written,
 *    for a record that cannot be applied would end every start. [test: a_wrong_image_is_refused]
 * 2. Only dense tables: their rows are all in memory (table_cold.h), so that an image has all of
 *    them, and nothing of the tablet is left in the store. [test: a_sparse_table_is_not_assigned]
 * 3. The effect depends on the image alone, not on the rows before, so that a replay, which may
 *    meet an older image of the tablet, ends in the same state.
 *    [test: a_killed_engine_has_the_rows, any_history_ends_alike]
 * 4. Rows by key change a tablet that no job trains: a row that was assigned between a worker's
 *    pull and its push would get the gradient of another row.
 *    [test: rows_are_refused_while_a_run_is_open] */
#include "embedding/engine/assign.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"

#include <inttypes.h>

static int check_dense(const struct table_schema *s, struct err *e)
{
    if (s->dense)
        return 0;
    return err_set(e, SHOAL_E_MALFORMED,
                   "table %s is sparse: only a tablet of a dense table is read or assigned whole",
                   s->name);
}

int assign_check(const struct push_record *r, const struct engine_table *t, struct err *e)
{
    const struct table_schema *s = table_schema_of(t->table);
    struct table_image_found found;
    struct err why;
    SHOAL_ASSERT(r->image != NULL && r->tablet_count == 1);
    int rc = check_dense(s, e);
    if (rc != 0)
        return rc;
    rc = table_image_check(t->table, r->tablet_first, r->image, r->image_bytes, &found, &why);
    if (rc == SHOAL_E_SCHEMA || rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "%s", why.text);
    if (rc != 0) /* it is the sender's image, not one of this disk */
        return err_set(e, SHOAL_E_MALFORMED, "%s", why.text);
    if (!found.bare)
        return err_set(e, SHOAL_E_MALFORMED,
                       "image of table %s tablet %u: it has more than the rows of a dense table",
                       s->name, r->tablet_first);
    if (!found.finite)
        return err_set(e, SHOAL_E_NOT_FINITE,
                       "lane %u batch %" PRIu64
                       " assigns table %s tablet %u: a value of row %016" PRIx64 " is not finite",
                       r->lane, r->to, s->name, r->tablet_first, found.bad);
    return 0;
}

int assign_rows(struct engine_table *t, const struct push_record *r, struct err *e)
{
    return table_image_assign(t->table, r->tablet_first, r->image, r->image_bytes, e);
}

/* ---- rows by key ---- */

_Static_assert(RECORD_FLAGS_ROWS == (ASSIGN_STATE | ASSIGN_STATS | ASSIGN_KEEP),
               "parts of rows are flags of their record");

int assign_keys_fit(const struct push_record *r, const struct engine_table *t, struct err *e)
{
    const struct table_schema *s = table_schema_of(t->table);
    const uint32_t floats = table_assign_floats(s, r->parts);
    SHOAL_ASSERT(r->rows != NULL);
    if ((r->parts & ASSIGN_STATS) != 0 && s->rules.stats == 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "rows with statistics are assigned to table %s, which keeps none", s->name);
    if ((r->parts & ~RECORD_FLAGS_ROWS) == 0 && r->row_floats == floats)
        return 0;
    return err_set(e, SHOAL_E_MALFORMED,
                   "rows of %u floats are assigned to table %s, which has %u (parts %x)",
                   r->row_floats, s->name, floats, r->parts);
}

static int check_trains(const struct engine *g, const struct table_schema *s, struct err *e)
{
    for (uint32_t i = 0; i < g->runs.count; i++) { /* 4 */
        const struct run *run = g->runs.run[i];
        if (!run->ghost && table_set_has(&run->tables, s->table))
            return err_set(e, SHOAL_E_OLD_RUN,
                           "run %" PRIu64
                           " trains in table %s: rows are assigned when its job is over",
                           run->id, s->name);
    }
    return 0;
}

int assign_keys_check(const struct engine *g, const struct push_record *r,
                      const struct engine_table *t, struct err *e)
{
    const struct table_schema *s = table_schema_of(t->table);
    const char *why;
    size_t bad;
    int rc = check_trains(g, s, e);
    if (rc == 0)
        rc = assign_keys_fit(r, t, e);
    if (rc != 0)
        return rc;
    if (!table_assign_ok(s, r->parts, r->rows, r->key_count, &bad, &why))
        return err_set(e, SHOAL_E_NOT_FINITE,
                       "table %s: the row of key %016" PRIx64 " cannot be assigned: %s", s->name,
                       r->keys[bad], why);
    return 0;
}

int assign_keys(struct engine_table *t, const struct push_record *r, struct push_plan *plan,
                struct err *e)
{
    const struct assign_args args = {.parts = r->parts,
                                     .tablet_first = r->tablet_first,
                                     .tablet_count = r->tablet_count,
                                     .take = plan->take};
    plan->assigned = (struct assign_counts){0};
    if (table_assign(t->table, r->keys, r->rows, r->key_count, &args, &plan->assigned) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOMEM,
                   "no memory for rows of table %s; the shard restarts and "
                   "recovers",
                   table_schema_of(t->table)->name);
}

/* ---- reading ---- */

int engine_image(const struct engine *g, const struct engine_image_of *of, struct engine_image *out,
                 struct err *e)
{
    const struct engine_table *t = NULL;
    const struct run *run = runs_find(&g->runs, of->run);
    if (of->table < LIMIT_TABLES && g->table[of->table].table != NULL)
        t = &g->table[of->table];
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", of->table);
    SHOAL_ASSERT(engine_back(g) && g->pending == 0);
    const struct table_schema *s = table_schema_of(t->table);
    int rc = check_dense(s, e);
    if (rc != 0)
        return rc;
    if (of->tablet >= t->scope.tablets || (run != NULL && of->lane >= run->lanes))
        return err_set(e, SHOAL_E_MALFORMED, "table %s has no tablet %u, or the run no lane %u",
                       s->name, of->tablet, of->lane);
    *out = (struct engine_image){.from = t->table,
                                 .bytes = table_image_bytes(t->table, of->tablet),
                                 .rows = table_tablet_rows(t->table, of->tablet),
                                 .sequence = t->changed[of->tablet]};
    if (g->journal == NULL) /* without a journal `changed` is not kept */
        out->sequence = g->sequence;
    if (run != NULL)
        out->mark = marks_get(run->marks, of->lane, of->table, of->tablet);
    if (out->bytes > TABLE_IMAGE_MOST)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "tablet %u of table %s has %zu bytes, a message takes %u: give the table "
                       "more tablets",
                       of->tablet, s->name, out->bytes, TABLE_IMAGE_MOST);
    return 0;
}
