/* feature_plan.c: decides from job and columns which column is which field or number. */
#include "worker/data/feature.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "worker/data/feature_inner.h"
#include "worker/data/numbers.h"

#include <stdio.h>
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

/* What the job uses, in its order: columns, then indicators, then crosses. */
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

/* The number of a name in the tables; LEGEND_NONE: the tables do not know it. */
static uint32_t number_named(const struct feature_plan *p, bool numeric, const char *name)
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
    return number_named(p, numeric, name);
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

static int use_chosen(struct feature_plan *p, struct features *f, struct err *e)
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

/* ---- fields that refer to other fields ---- */

/* Finds the field that `key` (share, attend) of field i names. */
static int other_field(const struct feature_plan *p, const struct features *f, uint32_t i,
                       const char *key, const char *name, uint32_t *out, struct err *e)
{
    const struct feature_columns columns = {p->file, p->field};
    char path[LIMIT_NAME + 32];
    snprintf(path, sizeof path, "%s of column \"%s\"", key, p->column[f->field[i].column]->name);
    int rc = feature_table_named(f, &columns, path, name, out, e);
    if (rc == 0 && *out == i)
        return err_set(e, SHOAL_E_CONFIG, "%s names the column itself; name another", path);
    return rc;
}

static int share_make(const struct feature_plan *p, struct features *f, uint32_t i,
                      const struct column *c, struct err *e)
{
    uint32_t other;
    int rc = other_field(p, f, i, "share", c->share, &other, e);
    if (rc != 0)
        return rc;
    const struct column *of = p->column[f->field[other].column];
    if (of != NULL && of->share[0] != '\0')
        return err_set(
            e, SHOAL_E_CONFIG,
            "share of column \"%s\" names \"%s\", which shares with \"%s\": name that one", c->name,
            c->share, of->share);
    f->field[i].key_field = (uint16_t)other;
    return 0;
}

static int attend_make(const struct feature_plan *p, struct features *f, uint32_t i,
                       const struct column *c, struct err *e)
{
    uint32_t target;
    if (f->field[i].type != COLUMN_MULTI)
        return err_set(
            e, SHOAL_E_CONFIG,
            "column \"%s\" has pooling attention and is not of type multi; give it type: multi",
            c->name);
    int rc = other_field(p, f, i, "attend", c->attend, &target, e);
    if (rc == 0 && f->field[target].type == COLUMN_MULTI)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "attend of column \"%s\" names \"%s\", which has several values: name a "
                     "column with one",
                     c->name, c->attend);
    if (rc == 0)
        f->shape.attend[i] = (uint16_t)target;
    return rc;
}

static int links_make(const struct feature_plan *p, struct features *f, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++) {
        const struct column *c = p->column[f->field[i].column];
        if (f->field[i].type == COLUMN_CROSS)
            continue;
        if (c != NULL && c->share[0] != '\0')
            rc = share_make(p, f, i, c, e);
        if (rc == 0 && c != NULL && c->pooling == POOL_ATTENTION)
            rc = attend_make(p, f, i, c, e);
    }
    return rc;
}

/* Finds the fields of the gates (model.gate_fields). */
static int gates_make(const struct feature_plan *p, struct features *f, struct err *e)
{
    const struct feature_columns columns = {p->file, p->field};
    int rc = 0;
    if (p->job->model.gate_field[0][0] == '\0')
        return 0;
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        uint32_t field = 0;
        rc = feature_table_named(f, &columns, "model.gate_fields", p->job->model.gate_field[i],
                                 &field, e);
        f->shape.gate_field[i] = (uint16_t)field;
    }
    f->shape.gate_fields = 2;
    return rc;
}

static int evaluate_columns(const struct feature_plan *p, struct features *f, struct err *e)
{
    const char *group = p->job->evaluate.group;
    const struct string_list *by = &p->job->evaluate.by;
    if (group[0] != '\0') {
        f->group = feature_names_find(f, group);
        if (f->group == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "evaluate.group", group, e);
    }
    if (by->count > LIMIT_BY)
        return err_set(e, SHOAL_E_CONFIG,
                       "evaluate.by names %zu columns, at most %u are told apart; take some out",
                       by->count, LIMIT_BY);
    for (size_t i = 0; i < by->count; i++) {
        f->by[i] = feature_names_find(f, by->item[i]);
        if (f->by[i] == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "evaluate.by", by->item[i], e);
    }
    f->by_count = (uint32_t)by->count;
    return 0;
}

static int sample_column(const struct feature_plan *p, struct features *f, struct err *e)
{
    const char *name = p->job->data.sample_by;
    if (name[0] == '\0' || f->predict)
        return 0;
    f->sample = feature_names_find(f, name);
    if (f->sample == FEATURE_NO_COLUMN)
        return feature_names_missing(f, p->file, "data.sample_by", name, e);
    for (uint32_t i = 0; i < f->shape.tasks; i++)
        if (f->label[i] == f->sample)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.sample_by names column \"%s\", which is a label: its values would "
                           "be learnt whole or not at all; name another",
                           name);
    return 0;
}

/* Gives keys and rules the final field numbers; up to here fields are known by their places. */
static int numbers_take(const struct feature_plan *p, struct features *f, struct err *e)
{
    uint16_t number[LIMIT_FIELDS];
    uint32_t left = legend_numbers(&p->job->legend, LEGEND_FIELDS, number), given = 0;
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        char name[LEGEND_NAME];
        feature_use_name(f, &f->field[i], name);
        uint32_t known = number_named(p, false, name);
        if (known == LEGEND_NONE && given++ < left)
            known = number[given - 1];
        f->shape.number[i] = (uint16_t)known;
    }
    if (given > left)
        return legend_full(LEGEND_FIELDS, LIMIT_FIELDS - left + given, e);
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        f->field[i].key_field = f->shape.number[f->field[i].key_field];
        f->table_of[f->shape.number[i]] = f->shape.table[i];
    }
    for (uint32_t i = 0; i < f->rules; i++)
        f->shape.rule_field[i] = f->shape.number[f->shape.rule_field[i]];
    return 0;
}

/* Notes what is to be cleaned in a column that is read. */
static void clean_mark_column(const struct feature_plan *p, uint32_t column, uint8_t *what)
{
    const struct column *c = p->column[column];
    uint8_t type = p->type[column];
    if (type == COLUMN_NUMBER)
        what[column] = CLEAN_NUMBER;
    else if (type == COLUMN_CATEGORY && c != NULL && c->id)
        what[column] = CLEAN_ID;
    else if (type == COLUMN_CATEGORY && c != NULL && c->whole)
        what[column] = CLEAN_WHOLE;
}

/* Finds the columns whose cells are to be cleaned, and makes what cleans them. */
static int clean_take(const struct feature_plan *p, struct features *f, struct err *e)
{
    uint8_t *what = calloc(f->columns, sizeof *what);
    if (what == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", p->file);
    for (uint32_t i = 0; i < f->shape.fields; i++)
        clean_mark_column(p, f->field[i].column, what);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        clean_mark_column(p, f->numeric[i].column, what);
    for (uint32_t i = 0; i < f->crosses; i++)
        for (uint32_t k = 0; k < f->cross[i].parts; k++)
            clean_mark_column(p, f->cross[i].part[k].column, what);
    int rc = clean_make(f, p->job, what, e);
    free(what);
    return rc;
}

/* How many values a feature of a record may have, and how they are put together. */
static void separators_take(struct features *f)
{
    char *separator = f->keyed.separator;
    if (separator == NULL)
        return;
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        separator[f->numeric[i].column] = KEYED_ONE;
    for (uint32_t i = 0; i < f->shape.fields; i++)
        separator[f->field[i].column] =
            f->field[i].type == COLUMN_MULTI ? f->field[i].separator : KEYED_ONE;
    for (uint32_t i = 0; i < f->crosses; i++)
        for (uint32_t k = 0; k < f->cross[i].parts; k++)
            separator[f->cross[i].part[k].column] = KEYED_ONE;
    for (uint32_t i = 0; i < f->shape.tasks; i++)
        if (f->label[i] != FEATURE_NO_COLUMN)
            separator[f->label[i]] = KEYED_ONE;
    if (f->weight != FEATURE_NO_COLUMN)
        separator[f->weight] = KEYED_ONE;
    if (f->time != FEATURE_NO_COLUMN)
        separator[f->time] = KEYED_ONE;
}

static int plan_make(struct feature_plan *p, struct features *f, struct err *e)
{
    const struct job *job = p->job;
    const struct feature_columns columns = {p->file, p->field};
    int rc = feature_types_make(p, f, e);
    if (rc == 0)
        rc = feature_crosses_make(p, f, e);
    if (rc == 0)
        rc = use_chosen(p, f, e);
    if (rc == 0 && f->shape.fields + f->shape.numerics == 0)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: no column is left as a feature; look at data.columns and features.fields",
                     p->file);
    if (rc == 0)
        rc = links_make(p, f, e);
    if (rc == 0)
        rc = feature_tables_make(job, f, &columns, e);
    if (rc == 0)
        rc = gates_make(p, f, e);
    if (rc == 0)
        rc = evaluate_columns(p, f, e);
    if (rc == 0)
        rc = sample_column(p, f, e);
    if (rc == 0)
        rc = clean_take(p, f, e);
    if (rc != 0)
        return rc;

    separators_take(f);
    return numbers_take(p, f, e);
}

static int plan_run(const struct job *job, const char *name, struct features *f, struct err *e)
{
    struct feature_plan p = {.job = job, .file = name, .type = calloc(f->columns, 1)};
    int rc = SHOAL_E_NOMEM;
    p.column = calloc(f->columns, sizeof p.column[0]);
    p.field = malloc(f->columns * sizeof p.field[0]);
    if (p.type != NULL && p.column != NULL && p.field != NULL) {
        for (uint32_t i = 0; i < f->columns; i++)
            p.field[i] = FEATURE_NO_FIELD;
        rc = plan_make(&p, f, e);
    } else {
        err_set(e, rc, "%s: no memory for its columns; free some", name);
    }
    free(p.type);
    free(p.column);
    free(p.field);
    return rc;
}

int features_make(const struct job *job, const char *name, const char *head, size_t bytes,
                  struct features *out, struct err *e)
{
    *out = (struct features){.format = format_of(job->data.format),
                             .real = job_real_labels(job),
                             .label_above = job->data.label_above,
                             .label_parted = job->data.label_parted,
                             .weight = FEATURE_NO_COLUMN,
                             .time = FEATURE_NO_COLUMN,
                             .time_form = job->data.time_form,
                             .zone = job->data.zone,
                             .group = FEATURE_NO_COLUMN,
                             .sample = FEATURE_NO_COLUMN,
                             .predict = job->predict.on,
                             .wide = numbers_wide()};
    for (uint32_t i = 0; i < LIMIT_TASKS; i++)
        out->label[i] = FEATURE_NO_COLUMN;
    out->shape.tasks = 1;
    if (job->data.label_count > 1)
        out->shape.tasks = job->data.label_count;

    text_copy(out->delimiter, sizeof out->delimiter, ",");
    if (job->data.delimiter[0] != '\0')
        text_copy(out->delimiter, sizeof out->delimiter, job->data.delimiter);

    out->header = out->format->named && !out->format->keyed && job->data.header;
    for (uint32_t i = 0; i < FEATURE_LOG1P_TABLE; i++)
        out->log1p[i] = feature_log1p(i);
    int rc = feature_names_make(out, job, name, head, bytes, e);
    if (rc == 0)
        rc = plan_run(job, name, out, e);
    if (rc != 0)
        features_free(out);
    return rc;
}

void features_free(struct features *f)
{
    free(f->name);
    free(f->text);
    free(f->span);
    clean_free(&f->clean);
    keyed_free(&f->keyed);
    free(f->scale);
    free(f->scaled);
    free(f->cross);
    f->name = NULL;
    f->text = NULL;
    f->span = NULL;
    f->scale = NULL;
    f->scaled = NULL;
    f->cross = NULL;
}
