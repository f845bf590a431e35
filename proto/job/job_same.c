/* job_same.c: compares two jobs: the same model over the same input, so that the rows of one mean
 * the same to the other. The keys that decide it are listed as facts. */
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/job.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int differ(const char *key, const char *was, const char *is, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "%s is %.160s, in the checkpoint it was %.160s: rows and layers would mean "
                   "something else; set it to what it was",
                   key, text_unless_empty(is, "empty"), text_unless_empty(was, "empty"));
}

static int same_text(const char *key, const char *was, const char *is, struct err *e)
{
    if (strcmp(was, is) != 0)
        return differ(key, was, is, e);
    return 0;
}

static int same_number(const char *key, uint64_t was, uint64_t is, struct err *e)
{
    char a[24], b[24];
    (void)snprintf(a, sizeof a, "%" PRIu64, was);
    (void)snprintf(b, sizeof b, "%" PRIu64, is);
    return same_text(key, a, b, e);
}

static void list_text(const struct string_list *l, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < l->count && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", text_if(i > 0, ", "), l->item[i]);
}

static bool list_within(const struct string_list *a, const struct string_list *b)
{
    bool within = true;
    for (size_t i = 0; i < a->count; i++) {
        size_t k = 0;
        while (k < b->count && strcmp(a->item[i], b->item[k]) != 0)
            k++;
        within &= k < b->count;
    }
    return within;
}

/* ordered: false: the words may stand in another order. */
static int same_list(const char *key, const struct string_list *was, const struct string_list *is,
                     bool ordered, struct err *e)
{
    bool same = was->count == is->count;
    char a[160], b[160];
    if (!ordered)
        same = list_within(was, is) && list_within(is, was);
    for (size_t i = 0; same && ordered && i < was->count; i++)
        same = strcmp(was->item[i], is->item[i]) == 0;
    list_text(was, a, sizeof a);
    list_text(is, b, sizeof b);
    if (!same)
        return differ(key, a, b, e);
    return 0;
}

static void widths_text(const struct widths *w, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < w->count && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%u", text_if(i > 0, ", "), w->at[i]);
}

/* ---- the input: the parts of a key ---- */

static void column_text(const struct column *c, char *out, size_t bytes)
{
    static const char *const types[] = {"skipped", "label", "category", "multi", "number"};
    char scale[SCALE_TEXT] = "";
    out[0] = 0;
    if (c == NULL)
        return;
    SHOAL_ASSERT((size_t)c->type < sizeof types / sizeof types[0]);
    if (c->type == COLUMN_NUMBER && (c->scaled || c->filled))
        scale_text(&c->scale, scale);
    (void)snprintf(out, bytes, "%s (%s%s%s%s%s%s%s%s, pooling %d, max %u%s%s%s)", c->name,
                   types[c->type], text_if(c->weighted, " weighted"), text_if(c->id, " id"),
                   text_if(c->whole, " whole"), text_if(c->share[0] != 0, ", rows of "), c->share,
                   text_if(c->attend[0] != 0, ", attends "), c->attend, (int)c->pooling, c->max,
                   text_if(scale[0] != 0, ", "), scale, text_if(c->indicator, ", indicator"));
}

static const struct column *column_at(const struct job *j, size_t i)
{
    return i < j->data.column_count ? &j->data.column[i] : NULL;
}

static const struct column *column_rest(const struct job *j)
{
    return j->data.rest_said ? &j->data.rest : NULL;
}

static int same_columns(const struct job *was, const struct job *is, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && (i < was->data.column_count || i < is->data.column_count); i++) {
        char key[64], a[1024], b[1024];
        (void)snprintf(key, sizeof key, "data.columns, number %zu,", i);
        column_text(column_at(was, i), a, sizeof a);
        column_text(column_at(is, i), b, sizeof b);
        rc = same_text(key, a, b, e);
    }
    if (rc != 0)
        return rc;
    char a[1024], b[1024];
    column_text(column_rest(was), a, sizeof a);
    column_text(column_rest(is), b, sizeof b);
    return same_text("data.columns, \"*\",", a, b, e);
}

static void cross_text(const struct job *j, uint32_t i, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (uint32_t k = 0; i < j->features.cross_count && k < j->features.cross[i].columns; k++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", text_if(k > 0, " x "),
                              j->features.cross[i].column[k]);
}

static int same_crosses(const struct job *was, const struct job *is, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && (i < was->features.cross_count || i < is->features.cross_count);
         i++) {
        char key[64], a[256], b[256];
        (void)snprintf(key, sizeof key, "features.crosses[%u]", i);
        cross_text(was, i, a, sizeof a);
        cross_text(is, i, b, sizeof b);
        rc = same_text(key, a, b, e);
    }
    return rc;
}

static int same_transform(enum number_transform was, enum number_transform is, struct err *e)
{
    struct scale a = {.transform = was}, b = {.transform = is};
    char one[SCALE_TEXT], other[SCALE_TEXT];
    scale_text(&a, one);
    scale_text(&b, other);
    return same_text("features.number", one, other, e);
}

static int same_input(const struct job *was, const struct job *is, struct err *e)
{
    int rc = same_number("data.format's number", was->data.format, is->data.format, e);
    if (rc == 0)
        rc = same_number("the count of data.label", was->data.label_count, is->data.label_count, e);
    if (rc == 0 && was->data.libsvm != LIBSVM_AUTO && is->data.libsvm != LIBSVM_AUTO)
        rc = same_number("data.libsvm's number", was->data.libsvm, is->data.libsvm, e);
    for (uint32_t i = 0; rc == 0 && i < was->data.label_count; i++)
        rc = same_text("data.label", was->data.label[i], is->data.label[i], e);
    if (rc == 0)
        rc = same_list("data.label_positive", &was->data.label_positive, &is->data.label_positive,
                       false, e);
    if (rc == 0)
        rc = same_list("data.label_negative", &was->data.label_negative, &is->data.label_negative,
                       false, e);
    if (rc == 0)
        rc = same_list("data.missing", &was->data.missing, &is->data.missing, false, e);
    if (rc == 0)
        rc = same_columns(was, is, e);
    if (rc == 0)
        rc = same_number("features.fields auto", was->features.fields_auto,
                         is->features.fields_auto, e);
    if (rc == 0)
        rc = same_list("features.fields", &was->features.fields, &is->features.fields, true, e);
    if (rc != 0)
        return rc;
    rc = same_transform(was->features.number, is->features.number, e);
    if (rc != 0)
        return rc;
    return same_crosses(was, is, e);
}

/* ---- the tables: the place of a key's row ---- */

int job_same_tables(const struct job *was, const struct job *is, struct err *e)
{
    int rc = same_number("the count of tables", was->table_count, is->table_count, e);
    for (size_t t = 0; rc == 0 && t < was->table_count; t++) {
        const struct job_table *a = &was->table[t], *b = &is->table[t];
        char key[48];
        (void)snprintf(key, sizeof key, "tables[%zu].name", t);
        rc = same_text(key, a->name, b->name, e);
        (void)snprintf(key, sizeof key, "tables[%zu].dim", t);
        if (rc == 0)
            rc = same_number(key, a->dim, b->dim, e);
    }
    return rc;
}

static int same_table_fields(const struct job *was, const struct job *is, struct err *e)
{
    int rc = 0;
    for (size_t t = 0; rc == 0 && t < was->table_count; t++) {
        char key[48];
        (void)snprintf(key, sizeof key, "tables[%zu].fields", t);
        rc = same_list(key, &was->table[t].fields, &is->table[t].fields, true, e);
    }
    return rc;
}

/* ---- the network: the parts of a dense block ---- */

#define WIDTHS(X) X(hidden) X(hidden2) X(bottom) X(cin) X(tower) X(attention_hidden) X(gate_hidden)
#define COUNTS(X)                                                                                  \
    X(cross_layers)                                                                                \
    X(heads)                                                                                       \
    X(attention_layers) X(attention_dim) X(interaction) X(experts) X(own_experts) X(levels) X(norm)

/* mse and huber predict the same number. */
static const char *loss_text(enum loss_kind loss)
{
    return loss == LOSS_LOGLOSS ? "logloss" : "mse or huber";
}

int job_same_losses(const struct job *was, const struct job *is, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < was->data.label_count && i < is->data.label_count; i++)
        rc =
            same_text("model.loss", loss_text(was->model.loss[i]), loss_text(is->model.loss[i]), e);
    return rc;
}

static int same_network(const struct job *was, const struct job *is, struct err *e)
{
    int rc =
        same_text("model.kind", job_model_name(was->model.kind), job_model_name(is->model.kind), e);
    char a[160], b[160];
#define X(name)                                                                                    \
    widths_text(&was->model.name, a, sizeof a);                                                    \
    widths_text(&is->model.name, b, sizeof b);                                                     \
    if (rc == 0)                                                                                   \
        rc = same_text("model." #name, a, b, e);
    WIDTHS(X)
#undef X
#define X(name)                                                                                    \
    if (rc == 0)                                                                                   \
        rc = same_number("model." #name, (uint64_t)was->model.name, (uint64_t)is->model.name, e);
    COUNTS(X)
#undef X
    if (rc == 0)
        rc = job_same_losses(was, is, e);
    for (uint32_t i = 0; rc == 0 && i < 2; i++)
        rc = same_text("model.gate_fields", was->model.gate_field[i], is->model.gate_field[i], e);
    return rc;
}

int job_same_model(const struct job *was, const struct job *is, struct err *e)
{
    int rc = same_input(was, is, e);
    if (rc == 0)
        rc = job_same_tables(was, is, e);
    if (rc == 0)
        rc = same_table_fields(was, is, e);
    if (rc != 0)
        return rc;
    return same_network(was, is, e);
}
