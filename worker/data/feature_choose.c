/* feature_choose.c: chooses the columns that a job uses, and adds each as a field or a number. */
#include "worker/data/feature_inner.h"
#include "worker/data/numbers.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"

#include <stdlib.h>
#include <string.h>

static void padding_take(const struct column *c, struct feature_padding *out)
{
    out->bytes = (uint8_t)strlen(c->padding);
    memcpy(out->text, c->padding, sizeof out->text);
}

/* How the values of a MULTI are written. */
static enum multi_form form_of(const struct features *f, const struct column *c)
{
    static const enum multi_form of_entries[] = {[ENTRIES_ONE] = MULTI_ENTRIES,
                                                 [ENTRIES_INDEXES] = MULTI_OF_INDEX,
                                                 [ENTRIES_FIELDS] = MULTI_OF_FIELD};
    if (f->entries != ENTRIES_PLACES)
        return of_entries[f->entries];
    return c != NULL && c->weighted ? MULTI_WEIGHTED : MULTI_PLAIN;
}

/* The last values of a MULTI that count. */
static uint32_t last_of(const struct column *c)
{
    if (c != NULL && c->max > 0)
        return c->max;
    if (c != NULL && c->pooling == POOL_ATTENTION)
        return FEATURE_SEQUENCE_MAX;
    return UINT32_MAX;
}

static int multi_take(const struct column *c, struct features *f, struct feature_use *use,
                      struct err *e)
{
    uint32_t field = f->shape.fields;
    f->multi = true;
    f->multi_form[field] = (uint8_t)form_of(f, c);
    f->weighted |= f->multi_form[field] != MULTI_PLAIN;
    use->last = last_of(c);
    if (c == NULL)
        return 0;
    if (c->pooling == POOL_ATTENTION && f->multi_form[field] != MULTI_PLAIN)
        return err_set(e, SHOAL_E_CONFIG,
                       "column \"%s\": pooling attention weighs the values itself, and these have "
                       "weights: take sum or mean",
                       c->name);
    padding_take(c, &f->padding[field]);
    f->shape.most[field] = c->max;
    return 0;
}

/* Adds a number of the network's input. */
static int number_use(const struct feature_plan *p, struct features *f, struct feature_use *use,
                      struct err *e)
{
    if (f->shape.numerics == LIMIT_NUMERIC)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: more than %u numeric columns; choose some in features.fields", p->file,
                       LIMIT_NUMERIC);
    if (use->at != FEATURE_PLAIN)
        f->apart[f->shape.numerics / NUMBERS_GROUP] |=
            (uint8_t)(1u << f->shape.numerics % NUMBERS_GROUP);
    f->numeric[f->shape.numerics++] = *use;
    return 0;
}

static int field_room(const struct feature_plan *p, const struct features *f, struct err *e)
{
    if (f->shape.fields < LIMIT_FIELDS)
        return 0;
    return err_set(e, SHOAL_E_CONFIG, "%s: more than %u fields; choose some in features.fields%s",
                   p->file, LIMIT_FIELDS,
                   f->entries == ENTRIES_INDEXES ? ", or say data.libsvm: one" : "");
}

static int use_column(struct feature_plan *p, struct features *f, uint32_t column, struct err *e)
{
    const struct column *c = p->column[column];
    struct feature_use use = {.column = (uint16_t)column, .type = p->type[column]};
    bool number = use.type == COLUMN_NUMBER;
    int rc = 0;
    SHOAL_ASSERT(use.type != COLUMN_LABEL && use.type != COLUMN_SKIP);
    use.at = FEATURE_PLAIN;
    if (number)
        rc = feature_scale_add(p, f, column, &use.at, e);
    use.transform = (uint8_t)(number ? feature_transform(p, column) : NUMBER_NONE);
    if (rc == 0 && ((number && use.transform != NUMBER_BUCKET) || use.type == COLUMN_MISSING))
        return number_use(p, f, &use, e);
    if (rc == 0)
        rc = field_room(p, f, e);
    if (rc != 0)
        return rc;
    use.id = c != NULL && c->id;
    use.separator = '|';
    if (c != NULL && c->separator != '\0')
        use.separator = c->separator;

    use.key_field = (uint16_t)f->shape.fields;
    f->shape.pooling[f->shape.fields] = (uint8_t)(c != NULL ? c->pooling : POOL_SUM);
    if (use.type == COLUMN_MULTI)
        rc = multi_take(c, f, &use, e);
    if (use.type == COLUMN_CROSS && c != NULL)
        f->crossed[f->shape.fields] = c->cross;
    p->field[column] = f->shape.fields;
    f->field[f->shape.fields++] = use;
    return rc;
}

/* Adds the number that says where a column has none. */
static int use_missing(const struct feature_plan *p, struct features *f, uint32_t column,
                       struct err *e)
{
    struct feature_use use = {.column = (uint16_t)column, .type = COLUMN_MISSING};
    use.at = 0;
    return number_use(p, f, &use, e);
}

static int use_cross(const struct feature_plan *p, struct features *f, uint32_t at, struct err *e)
{
    struct feature_use use = {.column = f->cross[at].part[0].column,
                              .key_field = (uint16_t)f->shape.fields,
                              .type = COLUMN_CROSS};
    int rc = field_room(p, f, e);
    if (rc != 0)
        return rc;
    use.at = at;
    f->cross[at].field = f->shape.fields;
    f->field[f->shape.fields++] = use;
    return 0;
}

/* The features that the job uses, in its order: columns, then indicators, then crosses. */
struct pick {
    enum { PICK_COLUMN, PICK_MISSING, PICK_CROSS } what;
    uint32_t at;     /* the column, or the cross */
    uint32_t number; /* in the tables */
};
struct chosen {
    struct pick *pick; /* (2 columns + crosses); owned by the caller */
    uint32_t count;
};

static void pick_add(struct chosen *out, struct pick pick)
{
    out->pick[out->count++] = pick;
}

/* True when a column of an event file is the indicator or the cross that the job asks for. */
static bool there_already(const struct feature_plan *p, const struct features *f,
                          const struct chosen *out, enum column_type type, const char *name,
                          uint32_t *column)
{
    *column = feature_names_find(f, name);
    bool is = *column != FEATURE_NO_COLUMN && p->type[*column] == type;
    for (uint32_t i = 0; is && i < out->count; i++)
        if (out->pick[i].what == PICK_COLUMN && out->pick[i].at == *column)
            *column = FEATURE_NO_COLUMN; /* chosen before */
    return is;
}

/* Chooses what the job makes under this name, or the column that an event file has of it. */
static void made_choose(const struct feature_plan *p, const struct features *f, struct chosen *out,
                        enum column_type type, const char *name, struct pick pick)
{
    uint32_t column;
    if (!there_already(p, f, out, type, name, &column))
        pick_add(out, pick);
    else if (column != FEATURE_NO_COLUMN)
        pick_add(out, (struct pick){.what = PICK_COLUMN, .at = column});
}

static void indicators_choose(const struct feature_plan *p, const struct features *f,
                              struct chosen *out)
{
    uint32_t columns = out->count;
    for (uint32_t i = 0; i < columns; i++) {
        uint32_t column = out->pick[i].at;
        struct feature_use use = {.column = (uint16_t)column, .type = COLUMN_MISSING};
        char name[FEATURE_SHOWN];
        const struct column *c = p->column[column];
        if (p->type[column] != COLUMN_NUMBER || c == NULL || !c->indicator)
            continue;
        use.at = 0;
        feature_use_shown(f, &use, name);
        made_choose(p, f, out, COLUMN_MISSING, name,
                    (struct pick){.what = PICK_MISSING, .at = column});
    }
}

static void crosses_choose(const struct feature_plan *p, const struct features *f,
                           struct chosen *out)
{
    for (uint32_t i = 0; i < f->crosses; i++)
        made_choose(p, f, out, COLUMN_CROSS, f->cross[i].name,
                    (struct pick){.what = PICK_CROSS, .at = i});
}

/* The use of a column that is no field, and the setting that says so. */
static const char *other_use(const struct feature_plan *p, const struct features *f,
                             uint32_t column, const char **setting)
{
    *setting = "data.columns";
    if (column == f->weight) {
        *setting = "data.weight";
        return "the weight";
    }
    if (column == f->time) {
        *setting = "data.time";
        return "the time";
    }
    if (p->type[column] == COLUMN_LABEL)
        return "the label";
    return "skipped";
}

static int choose_listed(struct feature_plan *p, struct features *f, struct chosen *out,
                         struct err *e)
{
    const struct string_list *list = &p->job->features.fields;
    for (size_t i = 0; i < list->count; i++) {
        uint32_t column = feature_names_find(f, list->item[i]);
        if (column == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "features.fields", list->item[i], e);
        const char *setting, *use = other_use(p, f, column, &setting);
        if (p->type[column] == COLUMN_LABEL || p->type[column] == COLUMN_SKIP)
            return err_set(
                e, SHOAL_E_CONFIG,
                "features.fields names column \"%s\", which is %s; take it out or change %s",
                list->item[i], use, setting);
        for (uint32_t j = 0; j < out->count; j++)
            if (out->pick[j].at == column)
                return err_set(e, SHOAL_E_CONFIG,
                               "features.fields names column \"%s\" twice; take one out",
                               list->item[i]);
        SHOAL_ASSERT(out->count < f->columns);
        pick_add(out, (struct pick){.what = PICK_COLUMN, .at = column});
    }
    return 0;
}

uint32_t feature_number_named(const struct feature_plan *p, bool numeric, const char *name)
{
    const struct legend *n = &p->job->legend;
    enum legend_list list = numeric ? LEGEND_NUMBERS : LEGEND_FIELDS;
    uint32_t at = legend_find(n, list, name);

    if (at == LEGEND_NONE)
        return LEGEND_NONE;

    return n->name[list][at].number;
}

static uint32_t known_number(const struct feature_plan *p, const struct features *f,
                             const struct pick *pick)
{
    struct feature_use use = {.column = (uint16_t)pick->at, .type = COLUMN_CATEGORY};
    uint8_t type = pick->what == PICK_CROSS ? COLUMN_CROSS : p->type[pick->at];
    bool numeric = pick->what == PICK_MISSING || type == COLUMN_MISSING ||
                   (type == COLUMN_NUMBER && feature_transform(p, pick->at) != NUMBER_BUCKET);
    use.at = FEATURE_PLAIN;
    if (pick->what == PICK_MISSING)
        use = (struct feature_use){.column = (uint16_t)pick->at, .type = COLUMN_MISSING};
    if (pick->what == PICK_CROSS)
        use = (struct feature_use){.at = pick->at, .type = COLUMN_CROSS};

    char name[LEGEND_NAME];
    feature_use_name(f, &use, name);
    return feature_number_named(p, numeric, name);
}

/* pandas writes its index as a column without a name. As a field, it would get one row for each
 * example. */
static int unnamed_refuse(const struct feature_plan *p, uint32_t column, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "%s: the header's column %u has no name, and would be learnt as a category: "
                   "data.columns: [{name: \"%u\", type: skip}] leaves it out, as an index should "
                   "be; type: category takes it",
                   p->file, column, column);
}

static int choose_all(const struct feature_plan *p, const struct features *f, struct chosen *out,
                      struct err *e)
{
    for (uint32_t i = 0; i < f->columns; i++) {
        if (p->type[i] == COLUMN_LABEL || p->type[i] == COLUMN_SKIP)
            continue;
        const struct pick pick = {.what = PICK_COLUMN, .at = i};
        bool said = p->column[i] != NULL || f->predict || known_number(p, f, &pick) != LEGEND_NONE;
        if (f->header && f->name[i].bytes == 0 && !said)
            return unnamed_refuse(p, i, e);
        pick_add(out, pick);
    }
    return 0;
}

/* Orders columns by their numbers in the tables, new ones last, so that the network reads the same
 * columns in the same places, however job and files order them. */
static void order_by_number(const struct feature_plan *p, const struct features *f,
                            struct chosen *out)
{
    if (!legend_known(&p->job->legend))
        return;
    for (uint32_t i = 0; i < out->count; i++) {
        struct pick pick = out->pick[i];
        uint32_t at = i;
        pick.number = known_number(p, f, &pick);
        for (; at > 0 && out->pick[at - 1].number > pick.number; at--)
            out->pick[at] = out->pick[at - 1];
        out->pick[at] = pick;
    }
}

static int use_pick(struct feature_plan *p, struct features *f, const struct pick *pick,
                    struct err *e)
{
    if (pick->what == PICK_MISSING)
        return use_missing(p, f, pick->at, e);
    if (pick->what == PICK_CROSS)
        return use_cross(p, f, pick->at, e);
    return use_column(p, f, pick->at, e);
}

int feature_choose(struct feature_plan *p, struct features *f, struct err *e)
{
    const struct job *job = p->job;
    struct chosen chosen = {
        .pick = calloc(2 * (size_t)f->columns + f->crosses + 1, sizeof *chosen.pick)};
    int rc = 0;
    if (chosen.pick == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", p->file);
    if (job->features.fields_auto || job->features.fields.count == 0)
        rc = choose_all(p, f, &chosen, e);
    else
        rc = choose_listed(p, f, &chosen, e);
    if (rc != 0)
        goto out;
    indicators_choose(p, f, &chosen);
    crosses_choose(p, f, &chosen);
    order_by_number(p, f, &chosen);
    for (uint32_t i = 0; i < chosen.count && rc == 0; i++)
        rc = use_pick(p, f, &chosen.pick[i], e);

out:
    free(chosen.pick);
    return rc;
}
