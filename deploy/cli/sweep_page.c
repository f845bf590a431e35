/* sweep_page.c: a sweep's results, best first: a table for the terminal, sweep.json, the page. */
#include "deploy/cli/cli.h"
#include "deploy/cli/local_inner.h"
#include "deploy/cli/report_page.h"
#include "deploy/cli/sweep.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_MAX = 28 };

/* ---- figures --------------------------------------------------------------------------------- */

bool sweep_of_numbers(const struct sweep *s)
{
    return strcmp(s->metric, "rmse") == 0 || strcmp(s->metric, "mae") == 0;
}

double sweep_figure(const struct sweep *s, const struct sweep_variant *v, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s.%s", text_or(s->split, "valid"), name);
    if (v->report == NULL)
        return (double)NAN;
    return cli_number(v->report, path);
}

/* The standard error of an AUC, given the number of examples (Hanley and McNeil, The Meaning and
 * Use of the Area under a ROC Curve, 1982). All variants are measured on the same examples, so the
 * error of a difference between two of them is smaller. */
static double auc_error(const struct sweep *s, const struct sweep_variant *v)
{
    double a = sweep_figure(s, v, "auc"), n = sweep_figure(s, v, "examples"),
           p = sweep_figure(s, v, "positives"), q = n - p;
    double two = a / (2 - a) - a * a, other = 2 * a * a / (1 + a) - a * a;
    if (p > 0 && q > 0)
        return sqrt((a * (1 - a) + (p - 1) * two + (q - 1) * other) / (p * q));
    return (double)NAN;
}

static double counted(const struct sweep *s, const struct sweep_variant *v)
{
    return sweep_figure(s, v, s->metric);
}

/* for qsort, which passes no context */
static const struct sweep *ordered;

static int better(const void *a, const void *b)
{
    const struct sweep_variant *x = *(const struct sweep_variant *const *)a,
                               *y = *(const struct sweep_variant *const *)b;
    double sign = strcmp(ordered->metric, "auc") == 0 ? -1 : 1, p = sign * counted(ordered, x),
           q = sign * counted(ordered, y);
    if (isnan(p) || isnan(q)) {
        if (isnan(p) != isnan(q))
            return (isnan(p) != 0) - (isnan(q) != 0);
        return (x > y) - (x < y);
    }
    if (p != q)
        return (p > q) - (p < q);
    return (x > y) - (x < y);
}

const struct sweep_variant **sweep_order(const struct sweep *s)
{
    const struct sweep_variant **order = calloc(s->count, sizeof(struct sweep_variant *));
    if (order == NULL)
        return NULL;
    for (size_t i = 0; i < s->count; i++)
        order[i] = &s->variant[i];
    ordered = s;
    qsort(order, s->count, sizeof(struct sweep_variant *), better);
    return order;
}

static const char *value_of(const struct sweep *s, const struct sweep_variant *v, size_t key)
{
    return s->key[key].value.item[v->at[key]];
}

/* ---- for the terminal ------------------------------------------------------------------------ */

static void figures_print(const struct sweep *s, const struct sweep_variant *v, FILE *f)
{
    if (sweep_of_numbers(s))
        fprintf(f, " %10.5g %10.5g", sweep_figure(s, v, "rmse"), sweep_figure(s, v, "mae"));
    else
        fprintf(f, " %8.5f %9.5f %9.6f", sweep_figure(s, v, "auc"), auc_error(s, v),
                sweep_figure(s, v, "logloss"));
}

void sweep_table(const struct sweep *s, const struct sweep_variant *const *order, FILE *f)
{
    int width[SWEEP_KEYS_MAX];
    char n[32];
    fprintf(f, "\n%s: %zu variants in %.1f s, best %s of %s first\n\n ", s->job, s->count,
            s->seconds, strcmp(s->metric, "auc") == 0 ? "AUC" : s->metric,
            text_or(s->split, "valid"));
    for (size_t k = 0; k < s->keys; k++) {
        size_t most = strlen(s->key[k].brief);
        for (size_t i = 0; i < s->key[k].value.count; i++)
            most = MAX(strlen(s->key[k].value.item[i]), most);
        width[k] = (int)MIN(most, COLUMN_MAX);
        fprintf(f, " %-*.*s ", width[k], width[k], s->key[k].brief);
    }
    if (sweep_of_numbers(s))
        fprintf(f, " %10s %10s", "RMSE", "MAE");
    else
        fprintf(f, " %8s %9s %9s", "AUC", "+-", "logloss");
    fprintf(f, " %12s %9s\n", "examples/s", "seconds");
    for (size_t i = 0; i < s->count; i++) {
        const struct sweep_variant *v = order[i];
        fputc(' ', f);
        for (size_t k = 0; k < s->keys; k++)
            fprintf(f, " %-*.*s ", width[k], width[k], value_of(s, v, k));
        if (v->error.code != 0) {
            char text[sizeof v->error.text];
            memcpy(text, v->error.text, sizeof text);
            text_clean(text);
            fprintf(f, " failed: %.200s\n", text);
            continue;
        }
        figures_print(s, v, f);
        fprintf(f, " %12s %9.1f\n",
                cli_number_text(cli_number(v->report, "examples_per_second"), n),
                cli_number(v->report, "seconds"));
    }
}

/* ---- sweep.json ------------------------------------------------------------------------------ */

static void member_copy(struct json *to, const char *name, const struct json *from)
{
    struct json *member = json_get(from, name);
    if (!json_absent(member))
        (void)json_set(to, name, json_hold(member));
}

static struct json *variant_json(const struct sweep *s, const struct sweep_variant *v)
{
    static const char *const copied[] = {"valid",   "test",       "train",
                                         "epochs",  "best_epoch", "examples_per_second",
                                         "seconds", "tables"};
    struct json *j = json_new_object(), *set = json_new_object();
    for (size_t k = 0; k < s->keys; k++)
        (void)json_set_string(set, s->key[k].name, value_of(s, v, k));
    (void)json_set_string(j, "run", v->name);
    (void)json_set(j, "set", set);
    (void)json_set_number(j, s->metric, counted(s, v));
    (void)json_set_number(j, "auc_standard_error", auc_error(s, v));
    if (v->error.code != 0)
        (void)json_set_string(j, "failed", v->error.text);
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        member_copy(j, copied[i], v->report);
    return j;
}

static struct json *sweep_json(const struct sweep *s, const struct sweep_variant *const *order)
{
    struct json *j = json_new_object(), *list = json_new_array(), *fixed = json_new_array();
    (void)json_set_string(j, "job", s->job);
    (void)json_set_string(j, "file", s->job_path);
    for (size_t i = 0; i < s->fixed.count; i++)
        (void)json_append_string(fixed, s->fixed.item[i]);
    (void)json_set(j, "set", fixed);
    (void)json_set_string(j, "metric", s->metric);
    (void)json_set_string(j, "split", text_or(s->split, "valid"));
    (void)json_set_number(j, "seconds", s->seconds);
    for (size_t i = 0; i < s->count; i++)
        (void)json_append(list, variant_json(s, order[i]));
    (void)json_set(j, "variants", list);
    return j;
}

int sweep_write(const struct sweep *s, const struct sweep_variant *const *order, struct err *e)
{
    char path[LIMIT_PATH];
    struct json *j = sweep_json(s, order);
    char *text = json_text(j, 2);
    int rc = 0;
    if (text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    (void)snprintf(path, sizeof path, "%.*s/sweep.json", LIMIT_PATH - 32, s->dir);
    if (rc == 0)
        rc = local_file_replace(path, text, e);
    (void)snprintf(path, sizeof path, "%.*s/sweep.html", LIMIT_PATH - 32, s->dir);
    if (rc == 0)
        rc = report_page_write(j, path, e);
    free(text);
    json_free(j);
    return rc;
}
