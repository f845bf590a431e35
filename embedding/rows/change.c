/* change.c: gives a table another schema (table_change).
 *
 * 1. Rows keep their bytes: their shape is the same. [assert: table_change]
 * 2. The result for a tablet is a function of the tablet and the new schema, and a repeated change
 *    does nothing. An image of the old schema that is read later therefore equals the tablet that
 *    changed in memory. [test: a_changed_tablet_is_what_its_older_image_becomes] */
#include "embedding/rows/admit.h"
#include "embedding/rows/image.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"

const struct table_past *table_past(const struct table *t)
{
    return &t->past;
}

void table_past_set(struct table *t, const struct table_past *past)
{
    t->past = *past;
}

/* A generation that is too long for the new schema is dropped as a whole, because no record says
 * which of its keys would stay. One that is exactly full turns now: one more key would make it too
 * long. */
static void change_waiting(const struct table *t, struct waiting *w)
{
    uint32_t most = 0;
    if (t->ruled)
        most = waiting_half_limit(admit_waiting_limit(&t->schema));
    if (w->young.count > most || w->old.count > most)
        waiting_clear(w);
    else if (w->young.count == most && most > 0)
        waiting_turn(w);
}

void table_change_tablet(const struct table *t, struct tablet *own)
{
    struct tablet_life *life = own->life;
    undo_free(own->undo);
    own->undo = NULL;
    if (life == NULL)
        return;
    if (!t->ages)
        life->clock = 0;
    change_waiting(t, &life->waiting);
    if (life->sketch.cell != NULL &&
        SKETCH_ROWS * life->sketch.columns != t->schema.rules.admit_sketch)
        sketch_clear(&life->sketch);
}

void table_change(struct table *t, const struct table_schema *schema, uint64_t sequence)
{
    SHOAL_ASSERT(schema_row_floats(schema) == t->shape.floats &&
                 schema_state_floats(schema) == t->state_floats &&
                 schema_push_floats(schema) == t->push_floats &&
                 schema_has_last(schema) == (t->pulled_back != NULL)); /* 1 */
    t->past = (struct table_past){sequence, image_schema_digest(&t->schema)};
    t->schema = *schema;
    table_derive(t);
    for (uint32_t i = 0; i < t->tablet_count; i++)
        table_change_tablet(t, &t->tablets[i]);
    t->undo_went = 0;
    SHOAL_ASSERT(table_cold_may(t) || t->cold == 0);
}
