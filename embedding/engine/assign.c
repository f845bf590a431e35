/* assign.c: tablets of dense tables, whole: assigned (assign.h), and read (engine_image).
 *
 * 1. An image comes from another process: it is checked as a whole before its record is written,
 *    for a record that cannot be applied would end every start. [test: a_wrong_image_is_refused]
 * 2. Only dense tables: their rows are all in memory (table_cold.h), so that an image has all of
 *    them, and nothing of the tablet is left in the store. [test: a_sparse_table_is_not_assigned]
 * 3. The effect depends on the image alone, not on the rows before, so that a replay, which may
 *    meet an older image of the tablet, ends in the same state.
 *    [test: a_killed_engine_has_the_rows, any_history_ends_alike] */
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
    if (g->journal == NULL) /* what no image needs is not noted */
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
