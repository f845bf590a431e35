/* translate.c: turns rows of one schema into rows of another. Like image.c it uses a table's
 * internals. */
#include "embedding/rows/translate.h"

#include "embedding/rows/admit.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

static const struct optimizer_facts *facts_of(const struct table_schema *s)
{
    return optimizer_facts(s->optimizer.kind);
}

/* The schema with the other's number and place among the tablets of all tables. */
static struct table_schema placed_as(const struct table_schema *s, const struct table_schema *other)
{
    struct table_schema same = *s;
    same.table = other->table;
    same.tablet_first = other->tablet_first;
    return same;
}

bool translate_as_it_is(const struct table_schema *from, const struct table_schema *to)
{
    struct table_schema same = placed_as(from, to);
    return schema_equal(&same, to);
}

/* True when the state of one optimizer means the same to the other. */
static bool state_kept(const struct table_schema *from, const struct table_schema *to)
{
    const struct optimizer_spec *a = &from->optimizer, *b = &to->optimizer;
    if (a->kind != b->kind)
        return false;
    return !facts_of(to)->weights_of_state ||
           (a->lr == b->lr && a->beta == b->beta && a->l1 == b->l1 && a->l2 == b->l2);
}

static void say_optimizer(const struct table_schema *from, const struct table_schema *to,
                          FILE *notes)
{
    const struct optimizer_spec *a = &from->optimizer, *b = &to->optimizer;
    const float x[] = {a->lr, a->beta1, a->beta2, a->eps,  a->initial,
                       a->l1, a->l2,    a->beta,  a->decay};
    const float y[] = {b->lr, b->beta1, b->beta2, b->eps,  b->initial,
                       b->l1, b->l2,    b->beta,  b->decay};
    if (a->kind != b->kind)
        fprintf(notes,
                "table %s: its optimizer was %s and is %s now: weights are kept, the optimizer's "
                "state begins anew\n",
                to->name, facts_of(from)->name, facts_of(to)->name);
    else if (!state_kept(from, to))
        fprintf(notes,
                "table %s: lr, beta, l1 or l2 of %s differ, which its weights are worked out "
                "from: weights are kept, the optimizer's state begins anew\n",
                to->name, facts_of(to)->name);
    else if (memcmp(x, y, sizeof x) != 0 || a->fixed_lr != b->fixed_lr)
        fprintf(notes, "table %s: settings of %s differ (lr was %g, is %g): its state is kept\n",
                to->name, facts_of(to)->name, (double)a->lr, (double)b->lr);
}

/* ---- the parts of a row (schema.h) ---- */

static const char *parts_of(const struct table_schema *s)
{
    if (s->zero_first == 0)
        return "vectors alone";
    if (schema_vector(s) == 0)
        return "first-order weights alone";

    return "first-order weights and vectors";
}

static int parts_check(const struct table_schema *from, const struct table_schema *to,
                       struct err *e)
{
    uint32_t was = schema_vector(from), is = schema_vector(to);
    char what[160];
    if (was > 0 && is > 0 && was != is)
        (void)snprintf(what, sizeof what,
                       "vectors of %u numbers in the checkpoint and of %u in the job: give the "
                       "table dim %u",
                       was, is, was);
    else if (schema_first_part(from, to).floats + schema_vector_part(from, to).floats == 0)
        (void)snprintf(what, sizeof what,
                       "%s in the checkpoint and %s in the job: take a model that has them",
                       parts_of(from), parts_of(to));
    else
        return 0;
    return err_set(e, SHOAL_E_SCHEMA,
                   "table %s: its rows have %s, or let the table begin empty: add \"%s:*\" to "
                   "fresh (fresh: [\"%s:*\"])",
                   to->name, what, to->name, to->name);
}

static void say_parts(const struct table_schema *from, const struct table_schema *to, FILE *notes)
{
    static const char state[] = "with the optimizer's state of them";
    if (from->zero_first > to->zero_first)
        fprintf(notes,
                "table %s: first-order weights are dropped, %s: the model has none; vectors are "
                "kept\n",
                to->name, state);
    if (from->zero_first < to->zero_first)
        fprintf(notes,
                "table %s: first-order weights begin at 0, %s anew: the rows had none; vectors are "
                "kept\n",
                to->name, state);
    if (schema_vector(from) > schema_vector(to))
        fprintf(notes,
                "table %s: vectors are dropped, %s: the model has none; first-order weights are "
                "kept\n",
                to->name, state);
    if (schema_vector(from) < schema_vector(to))
        fprintf(notes,
                "table %s: vectors begin as in new rows, %s too: the rows had none; first-order "
                "weights are kept\n",
                to->name, state);
}

static void say_rest(const struct table_schema *from, const struct table_schema *to, FILE *notes)
{
    if (from->rules.stats == 0 && to->rules.stats != 0)
        fprintf(notes,
                "table %s: statistics are new: rows begin without shows, clicks and time; those "
                "with a vector keep it\n",
                to->name);
    if (from->rules.stats != 0 && to->rules.stats == 0)
        fprintf(notes, "table %s: statistics of rows are dropped\n", to->name);
    if (from->values != to->values)
        fprintf(notes, "table %s: its values were %s and are %s now: %s\n", to->name,
                schema_values_name(from), schema_values_name(to),
                to->values == VALUES_FP32
                    ? "weights are kept, to the bit"
                    : "weights are rounded to the nearest, the optimizer's state is kept");
    if (from->tablet_bits != to->tablet_bits)
        fprintf(notes,
                "table %s: %u tablets become %u; of tablets that are joined the highest marks "
                "count, so that no batch is "
                "applied twice\n",
                to->name, 1u << from->tablet_bits, 1u << to->tablet_bits);
    struct table_schema same = placed_as(to, from);
    same.optimizer = from->optimizer;
    same.tablet_bits = from->tablet_bits;
    same.rules.stats = from->rules.stats;
    same.values = from->values;
    same.width = from->width;
    same.zero_first = from->zero_first;
    if (!schema_equal(&same, from))
        fprintf(notes,
                "table %s: initial values, seed or rules of rows differ: they count from now on, "
                "rows stay as they are\n",
                to->name);
}

int translate_check(const struct table_schema *from, const struct table_schema *to, FILE *notes,
                    struct err *e)
{
    if (from->dense != to->dense)
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s is %s in the checkpoint and %s in the job; give it another name",
                       to->name, from->dense ? "dense" : "sparse", to->dense ? "dense" : "sparse");
    int rc = parts_check(from, to, e);
    if (rc != 0)
        return rc;
    if (notes != NULL && !translate_as_it_is(from, to)) {
        say_parts(from, to, notes);
        say_optimizer(from, to, notes);
        say_rest(from, to, notes);
    }
    return 0;
}

void translate_tablets(uint32_t bits, uint32_t other_bits, uint32_t tablet, uint32_t *first,
                       uint32_t *count)
{
    SHOAL_ASSERT(tablet >> bits == 0);
    if (other_bits >= bits)
        *first = tablet << (other_bits - bits);
    else
        *first = tablet >> (bits - other_bits);

    *count = 1;
    if (other_bits >= bits)
        *count = 1u << (other_bits - bits);
}

void translate_move(struct table *from, struct table *to, uint32_t tablet, uint64_t from_run,
                    uint64_t to_run)
{
    SHOAL_ASSERT(tablet < from->tablet_count && from->tablet_count == to->tablet_count);
    struct tablet *t = &to->tablets[tablet];
    SHOAL_ASSERT(from->shape.arena == to->shape.arena && from->shape.floats == to->shape.floats);
    table_clear(to, tablet);
    *t = from->tablets[tablet];
    tablet_init(&from->tablets[tablet]);
    SHOAL_ASSERT(from->rows >= t->row_count && from->cold >= table_cold_tablet(to, tablet));
    from->rows -= t->row_count;
    to->rows += t->row_count;
    from->cold -= table_cold_tablet(to, tablet);
    to->cold += table_cold_tablet(to, tablet);
    const uint64_t taken = tablet_taken(t, &to->shape);
    SHOAL_ASSERT(from->taken >= taken); /* tablet.h, 1 */
    from->taken -= taken;
    to->taken += taken;
    if (t->undo == NULL || t->undo->count == 0)
        return;
    /* A name is the mixed run plus the clock (table_undo_clock); the name of another run becomes a
     * clock that is never reached. */
    t->undo->clock = table_undo_clock(to_run, t->undo->clock - key_mix(from_run));
}

static void part_copy(const float *row, float *out, struct schema_part p)
{
    memcpy(out + p.to, row + p.from, p.floats * sizeof *out);
}

/* Copies the optimizer's state without the count of batches and the statistics. Element-wise state
 * of new parts is there already. */
static void state_copy(const struct table_schema *from, const struct table_schema *to,
                       const float *row, float *out)
{
    const struct optimizer_facts *facts = facts_of(to);
    struct schema_part part[] = {schema_first_part(from, to), schema_vector_part(from, to)};
    for (uint32_t block = 1; block <= facts->per_element; block++)
        for (int p = 0; p < 2; p++)
            part_copy(row + block * from->width, out + block * to->width, part[p]);
    uint32_t behind = 1 + facts->per_element;
    for (uint32_t i = 0; i < facts->per_row; i++)
        if (!facts->by_part || part[i].floats > 0)
            out[behind * to->width + i] = row[behind * from->width + i];
}

/* Copies the row's statistics; those of a new row if it has no vector. */
static void stats_copy(const struct table *from, const float *row, const struct table *to,
                       float *out)
{
    struct row_stats s = {.flags = ROW_HAS_VECTOR}, begun;
    memcpy(&begun, out + to->wide_stats_at, sizeof begun);
    if (from->schema.rules.stats != 0)
        memcpy(&s, row + from->wide_stats_at, sizeof s);
    if (schema_vector_part(&from->schema, &to->schema).floats == 0)
        s.flags = (s.flags & ~ROW_HAS_VECTOR) | (begun.flags & ROW_HAS_VECTOR);
    memcpy(out + to->wide_stats_at, &s, sizeof s);
}

/* Both rows are in stored form, the target freshly initialized. Weights that the other table cannot
 * store are rounded to the nearest. */
static void fill_row(const struct table *from, const struct tablet *own, float *stored,
                     struct table *to, float *target, const struct tablet *into)
{
    const float *row = table_open(from, stored);
    float *out = table_open(to, target);
    part_copy(row, out, schema_first_part(&from->schema, &to->schema));
    part_copy(row, out, schema_vector_part(&from->schema, &to->schema));
    half_nearest((enum value_kind)to->schema.values, out, to->schema.width);
    if (state_kept(&from->schema, &to->schema))
        state_copy(&from->schema, &to->schema, row, out);
    else
        to->optimizer.start(out, &to->schema);
    if (schema_has_last(&to->schema)) {
        out[to->last_at] = LAST_NEVER;
        /* the same number of batches ago */
        if (schema_has_last(&from->schema) && row[from->last_at] != LAST_NEVER)
            out[to->last_at] = row[from->last_at] + ((float)into->batches - (float)own->batches);
    }
    if (to->schema.rules.stats != 0)
        stats_copy(from, row, to, out);
    table_close_new(to, target);
}

/* ---- a tablet's other state ----
 *
 * Names are the operator's and stay; the clock continues; counts of waiting keys count as far as
 * the other table counts. A sketch keeps the counts of omitted fields mixed with the others'. */

static uint32_t target_of(const struct table *to, uint64_t key)
{
    return key_tablet(key_mix(key), to->shape.tablet_bits);
}

/* Names are sorted by mixed key, so those of one tablet are adjacent; one kind at a time. */
static int take_names(const struct named *names, struct table *to, const uint8_t *wanted,
                      enum name_kind kind, uint64_t *keys)
{
    uint32_t count = 0;
    uint64_t changed;
    int rc = 0;
    for (uint32_t i = 0; i <= names->count && rc == 0; i++) {
        bool end = i == names->count ||
                   (count > 0 && target_of(to, names->list[i].key) != target_of(to, keys[0]));
        if (end && count > 0) {
            struct tablet_life *life = table_life(to, target_of(to, keys[0]));
            if (life == NULL)
                rc = SHOAL_E_NOMEM;
            else if (life->named.count + count > NAMED_READ_MAX) /* they were there before */
                rc = SHOAL_E_TOO_BIG;
            else
                rc = named_set(&life->named, keys, count, kind, &changed);
            count = 0;
        }
        if (i < names->count && names->list[i].kind == (uint32_t)kind &&
            wanted[target_of(to, names->list[i].key)])
            keys[count++] = names->list[i].key;
    }
    return rc;
}

/* Keys beyond the limit of a generation start again. */
static int take_waiting(const struct waiting_half *from, bool young, struct table *to,
                        const uint8_t *wanted, const uint64_t *without)
{
    uint32_t most = waiting_half_limit(admit_waiting_limit(&to->schema));
    struct waiting_key *list = malloc((from->count + 1ULL) * sizeof *list);
    int rc = 0;
    if (list == NULL)
        return SHOAL_E_NOMEM;
    waiting_write(from, list);
    for (uint32_t i = 0; i < from->count && rc == 0; i++) {
        uint32_t target = target_of(to, list[i].key);
        struct tablet_life *life = NULL;
        if (wanted[target])
            life = table_life(to, target);

        if (!wanted[target] || table_fields_have(without, list[i].key))
            continue;
        if (life == NULL)
            rc = SHOAL_E_NOMEM;
        /* a full young generation would have turned */
        else if (young ? life->waiting.young.count + 1 < most : life->waiting.old.count < most)
            rc = waiting_put(young ? &life->waiting.young : &life->waiting.old, &list[i]);
    }
    free(list);
    return rc;
}

/* The higher count of a cell is never too low for a key of either sketch. */
static int take_sketch(const struct sketch *from, struct sketch *into, uint32_t cells)
{
    if (into->cell == NULL && sketch_take(into, cells) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(into->columns == from->columns);
    for (size_t i = 0; i < sketch_bytes(from) / sizeof *from->cell; i++)
        if (into->cell[i] < from->cell[i])
            into->cell[i] = from->cell[i];
    for (int i = 0; i < 2; i++)
        if (into->keys[i] < from->keys[i])
            into->keys[i] = from->keys[i];
    return 0;
}

static int take_life(const struct table *from, uint32_t tablet, struct table *to,
                     const uint8_t *wanted, const uint64_t *without)
{
    const struct tablet_life *own = from->tablets[tablet].life;
    uint32_t first, count, cells = to->schema.rules.admit_sketch;
    if (own == NULL)
        return 0;
    translate_tablets(from->shape.tablet_bits, to->shape.tablet_bits, tablet, &first, &count);
    bool sketched =
        cells > 0 && own->sketch.cell != NULL && own->sketch.columns * SKETCH_ROWS == cells;
    int rc = 0;
    for (uint32_t i = first; i < first + count && rc == 0; i++) {
        struct tablet_life *life = NULL;
        if (wanted[i] && (to->ages || sketched))
            life = table_life(to, i);

        if (!wanted[i] || !(to->ages || sketched))
            continue;
        if (life == NULL)
            return SHOAL_E_NOMEM;
        if (to->ages && life->clock < own->clock)
            life->clock = own->clock;
        if (sketched)
            rc = take_sketch(&own->sketch, &life->sketch, cells);
    }
    if (rc == 0 && to->ruled) {
        rc = take_waiting(&own->waiting.young, true, to, wanted, without);
        if (rc == 0)
            rc = take_waiting(&own->waiting.old, false, to, wanted, without);
    }
    uint64_t *keys = malloc((own->named.count + 1ULL) * sizeof *keys);
    if (keys == NULL)
        rc = SHOAL_E_NOMEM;
    for (int kind = NAME_ERASED; kind <= NAME_ALLOWED && rc == 0; kind++)
        rc = take_names(&own->named, to, wanted, (enum name_kind)kind, keys);
    free(keys);
    return rc;
}

/* ---- rows ---- */

int translate_rows(const struct table *from, uint32_t tablet, struct table *to,
                   const uint8_t *wanted, const uint64_t *without)
{
    SHOAL_ASSERT(from->schema.dense == to->schema.dense);
    const struct tablet *own = &from->tablets[tablet];
    uint32_t first, count;
    translate_tablets(from->shape.tablet_bits, to->shape.tablet_bits, tablet, &first, &count);
    for (uint32_t i = first; i < first + count; i++)
        if (to->tablets[i].batches < own->batches)
            to->tablets[i].batches = own->batches;
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++) {
            uint64_t key = own->buckets[b].key[i];
            uint32_t target = target_of(to, key);
            SHOAL_ASSERT(target - first < count);
            if (!wanted[target] || table_fields_have(without, key))
                continue;
            SHOAL_ASSERT(parts_check(&from->schema, &to->schema, NULL) == 0);
            float *row = table_insert(to, target, key);
            if (row == NULL)
                return SHOAL_E_NOMEM;
            fill_row(from, own, row_at(&from->shape, own->buckets[b].row[i]), to, row,
                     &to->tablets[target]);
        }
    return take_life(from, tablet, to, wanted, without);
}
