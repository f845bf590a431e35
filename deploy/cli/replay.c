/* replay.c: `shoal replay`: trains on a log in order of time by `shoal local`; goes back to a
 * moment of the log; compares two replays. */
#include "deploy/cli/replay.h"
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/run.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/job/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- a replay -------------------------------------------------------------------------------- */

static int set_add(struct string_list *set, const char *key, const char *value, struct err *e)
{
    char item[2 * LIMIT_PATH];
    int n = snprintf(item, sizeof item, "%s=%s", key, value);
    if (n < 0 || (size_t)n >= sizeof item)
        return err_set(e, SHOAL_E_USAGE, "%s: %.60s.. is too long", key, value);
    if (config_list_add(set, item) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "out of memory");
}

static int leave_out_add(struct option_line *o, struct string_list *set, struct err *e)
{
    const struct string_list *out = option_list(o, "leave-out");
    char value[LIMIT_PATH] = "[";
    size_t at = 1;
    for (size_t i = 0; i < out->count; i++) {
        int n = snprintf(value + at, sizeof value - at, "%s%s", text_if(i > 0, ", "), out->item[i]);
        if (n < 0 || (at += (size_t)n) >= sizeof value - 1)
            return err_set(e, SHOAL_E_USAGE, "--leave-out: too much at once");
    }
    value[at] = ']';
    if (out->count == 0)
        return 0;
    return set_add(set, "replay.leave_out", value, e);
}

int replay_set(struct option_line *o, const char *job_path, struct string_list *set, struct err *e)
{
    static const char *const key[][2] = {{"window", "replay.window"},
                                         {"every", "replay.every"},
                                         {"since", "replay.from"},
                                         {"until", "replay.to"}};
    struct job job;
    int rc = 0;
    for (size_t i = 0; i < sizeof key / sizeof key[0] && rc == 0; i++)
        if (option_given(o, key[i][0]))
            rc = set_add(set, key[i][1], option_text(o, key[i][0]), e);
    if (rc == 0)
        rc = leave_out_add(o, set, e);
    if (rc == 0)
        rc = job_load(job_path, set, &job, e);
    if (rc != 0)
        return rc;
    bool on = job.replay.on;
    job_free(&job);
    if (on)
        return 0;
    return set_add(set, "replay.every", "1d", e);
}

/* Finds the run's newest checkpoint that has begun no window from `moment` on. */
static int checkpoint_before(const char *run, const char *folder, uint32_t moment,
                             char out[LIMIT_PATH], struct err *e)
{
    struct file_walk w;
    const char *name;
    int64_t best = 0, first = 0;
    char newest[256] = "";
    if (!file_walk_open(&w, folder))
        return err_set(e, SHOAL_E_NOINPUT, "%s has no checkpoints (%s)", run, folder);
    while ((name = file_walk_next(&w)) != NULL) {
        struct err silent;
        struct json *m = NULL;
        char path[LIMIT_PATH];
        (void)snprintf(path, sizeof path, "%.700s/%.255s", folder, name);
        if (name[0] == '.' || checkpoint_manifest(path, &m, &silent) != 0)
            continue;
        int64_t until = json_get_int(m, "until", 0);
        bool over = strcmp(json_get_string(m, "phase", ""), "digest") == 0;
        json_free(m);
        if (over) /* nothing follows it */
            continue;
        if (until > 0 && (first == 0 || until < first))
            first = until;
        if (until < best || until > moment || (until == best && strcmp(name, newest) < 0))
            continue;
        best = until;
        text_copy(newest, sizeof newest, name);
        text_copy(out, LIMIT_PATH, path);
    }
    file_walk_close(&w);
    if (best != 0)
        return 0;
    if (first == 0)
        return err_set(e, SHOAL_E_NOINPUT, "%s: no checkpoint there is of a replay", folder);
    return err_set(e, SHOAL_E_NOINPUT,
                   "%s: the earliest checkpoint there has learnt up to %" PRId64
                   " (seconds since 1970), which is later: begin the replay anew, and keep "
                   "more of them (checkpoint.keep)",
                   folder, first);
}

int replay_rewind(const struct option_line *o, struct begin *begin, struct err *e)
{
    const char *run = option_text(o, "of"), *text = option_text(o, "rewind");
    char path[LIMIT_PATH], folder[LIMIT_PATH];
    struct job_span at;
    struct job job;
    if (!option_given(o, "rewind") && !option_given(o, "of"))
        return 0;
    if (!option_given(o, "rewind") || !option_given(o, "of"))
        return err_set(e, SHOAL_E_USAGE, "--rewind TIME goes with --of RUN, the replay it is of");
    if (begin->path[0] != 0)
        return err_set(e, SHOAL_E_USAGE,
                       "--rewind takes a checkpoint of %s: take resume and start_from away", run);
    (void)snprintf(path, sizeof path, "%.900s/job.yaml", run);
    int rc = job_load(path, NULL, &job, e);
    if (rc != 0)
        return rc;
    char word[LIMIT_PATH];
    (void)snprintf(word, sizeof word, "%.900s@%.64s", run, text);
    if (option_text(o, "run-dir") != NULL && begin_of_run(option_text(o, "run-dir"), begin) &&
        strcmp(begin->word, word) == 0) {
        job_free(&job);
        return 0;
    }
    *begin = (struct begin){.start = false};
    if (!job_span_parse(text, &job.data.zone, &at))
        rc = err_set(e, SHOAL_E_USAGE,
                     "--rewind: '%s' is none of 2026-03-04, 2026-03-04T05 and seconds since 1970",
                     text);
    if (rc == 0)
        rc = run_path(run, job.checkpoint.dir, folder, e);
    job_free(&job);
    if (rc == 0)
        rc = checkpoint_before(run, folder, at.from, path, e);
    if (rc != 0)
        return rc;
    printf("from %s\n", path);
    rc = begin_find(path, false, begin, e);
    text_copy(begin->word, sizeof begin->word, word);
    return rc;
}

/* ---- two replays ----------------------------------------------------------------------------- */

enum { SHOWN = 10 };

static int days_read(const char *run, struct json **report, const struct json **days, struct err *e)
{
    char path[LIMIT_PATH];
    char *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%.900s/report.json", run);
    if (file_read_whole(path, 256u << 20, &text, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: name a run that has ended", path);
    struct json *read = NULL;
    int rc = json_parse(text, bytes, &read, e);
    free(text);
    if (rc != 0)
        return err_wrap(e, rc, "%s", path);
    *report = json_printable(read);
    json_free(read);
    *days = json_get(*report, "replay.days");
    if (*days != NULL)
        return 0;
    json_free(*report);
    *report = NULL;
    return err_set(e, SHOAL_E_DATA, "%s: it is of no replay", path);
}

/* The item of the list whose `from` is that time, or NULL. */
static const struct json *item_of(const struct json *list, const char *from)
{
    for (size_t i = 0; i < json_count(list); i++)
        if (strcmp(json_get_string(json_array_at(list, i), "from", ""), from) == 0)
            return json_array_at(list, i);
    return NULL;
}

/* The two figures of a day: of numbers, RMSE and MAE. */
enum { FIRST, SECOND };
static double figure(const struct json *item, int which)
{
    static const char *const name[][2] = {{"auc", "logloss"}, {"rmse", "mae"}};
    const struct json *of = json_get(item, "figures");
    bool real = json_get(of, "rmse") != NULL;
    return json_get_number(of, name[real][which], (double)NAN);
}

/* Two missing figures are equal: a window without positives has no AUC, say. */
static bool equal(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static void number_print(double x)
{
    if (isfinite(x))
        printf("%10.5f", x);
    else
        printf("%10s", "-");
}

static void line_print(const char *from, const struct json *a, const struct json *b)
{
    printf("%-20s", from);
    for (int i = FIRST; i <= SECOND; i++) {
        double x = figure(a, i), y = figure(b, i);
        number_print(x);
        number_print(y);
        number_print(y - x);
    }
    printf("  %9" PRId64 "%9" PRId64 "\n", json_get_int(a, "examples", 0),
           json_get_int(b, "examples", 0));
}

/* The seconds since 1970 of a day's or window's `from`: "2026-10-25T02:00:00+01:00", or with a
 * Z. */
static int64_t moment_of(const char *label)
{
    struct tm t = {0};
    int hours = 0, minutes = 0;
    const char *zone = strptime(label, "%Y-%m-%dT%H:%M:%S", &t);
    if (zone != NULL && *zone != 'Z')
        (void)sscanf(zone + 1, "%2d:%2d", &hours, &minutes);
    int64_t ahead = hours * 3600 + minutes * 60;
    return timegm(&t) - (zone != NULL && *zone == '-' ? -ahead : ahead);
}

static int moments_compare(const char *a, const char *b)
{
    int64_t x = moment_of(a), y = moment_of(b);
    return (x > y) - (x < y);
}

/* Prints the days of both in order of time, with hours where the two differ. */
static bool days_print(const struct json *a, const struct json *b, bool hours)
{
    bool same = true;
    size_t i = 0, k = 0;
    while (i < json_count(a) || k < json_count(b)) {
        const struct json *x = json_array_at(a, i), *y = json_array_at(b, k);
        const char *of_x = json_get_string(x, "from", "~"), *of_y = json_get_string(y, "from", "~");
        int order = 0;
        if (x != NULL && y != NULL)
            order = moments_compare(of_x, of_y);
        if (order > 0)
            x = NULL;
        if (order < 0)
            y = NULL;
        line_print(x != NULL ? of_x : of_y, x, y);
        bool alike = x != NULL && y != NULL && equal(figure(x, SECOND), figure(y, SECOND)) &&
                     equal(figure(x, FIRST), figure(y, FIRST)) &&
                     json_get_int(x, "examples", 0) == json_get_int(y, "examples", 0);
        same &= alike;
        if (hours && !alike && x != NULL && y != NULL)
            (void)days_print(json_get(x, "hours"), json_get(y, "hours"), false);
        i += x != NULL;
        k += y != NULL;
    }
    return same;
}

struct value_moved {
    const char *field, *value, *day; /* borrowed */
    double was, is;                  /* logloss, or RMSE */
    int64_t examples;
};

static int by_distance(const void *a, const void *b)
{
    const struct value_moved *x = a, *y = b;
    double dx = fabs(x->is - x->was) * sqrt((double)x->examples),
           dy = fabs(y->is - y->was) * sqrt((double)y->examples);
    return (dx < dy) - (dx > dy);
}

static double value_figure(const struct json *value)
{
    double rmse = json_get_number(value, "rmse", (double)NAN);
    return json_get_number(value, "logloss", rmse);
}

/* Collects the values of one field of one day that both have. *found has room for all of `a`. */
static size_t values_take(const char *field, const char *day, const struct json *a,
                          const struct json *b, struct value_moved *found)
{
    size_t count = 0;
    for (size_t i = 0; i < json_count(a); i++) {
        const struct json *x = json_array_at(a, i);
        const char *key = json_get_string(x, "key", "");
        for (size_t k = 0; k < json_count(b); k++) {
            const struct json *y = json_array_at(b, k);
            if (strcmp(json_get_string(y, "key", "-"), key) != 0)
                continue;
            found[count++] = (struct value_moved){
                field,           json_get_string(x, "value", key), day, value_figure(x),
                value_figure(y), json_get_int(x, "examples", 0)};
            count -= !isfinite(found[count - 1].was) || !isfinite(found[count - 1].is) ||
                     found[count - 1].was == found[count - 1].is;
            break;
        }
    }
    return count;
}

/* Prints the values of evaluate.by whose logloss (of numbers, RMSE) differs most, weighted by their
 * examples. */
static void values_print(const struct json *a, const struct json *b)
{
    struct value_moved *all = NULL;
    size_t count = 0;
    for (size_t i = 0; i < json_count(a); i++) {
        const struct json *x = json_array_at(a, i);
        const char *from = json_get_string(x, "from", "");
        const struct json *by = json_get(x, "figures.by"),
                          *other = json_get(item_of(b, from), "figures.by");
        for (size_t f = 0; f < json_members(by); f++) {
            const char *field = json_member_name(by, f);
            const struct json *mine = json_member_at(by, f);
            struct value_moved *more = realloc(all, (count + json_count(mine) + 1) * sizeof *all);
            if (more == NULL)
                continue;
            all = more;
            count += values_take(field, from, mine, json_get(other, field), all + count);
        }
    }
    if (count > 0) {
        qsort(all, count, sizeof *all, by_distance);
        printf("\n%-20s%-16s%-24s%10s%10s%10s\n", "values that differ", "field", "value", "A", "B",
               "examples");
    }
    for (size_t i = 0; i < count && i < SHOWN; i++)
        printf("%-20s%-16.15s%-24.23s%10.5f%10.5f%10" PRId64 "\n", all[i].day, all[i].field,
               all[i].value, all[i].was, all[i].is, all[i].examples);
    free(all);
}

/* Prints for each table at the end of both runs whether its bits are the same. */
static void tables_print(const struct json *a, const struct json *b)
{
    const struct json *x = json_get(a, "tables"), *y = json_get(b, "tables");
    putchar('\n');
    for (size_t i = 0; i < json_count(x) && i < json_count(y); i++) {
        const struct json *was = json_array_at(x, i), *is = json_array_at(y, i);
        const char *digest = json_get_string(was, "digest", "");
        bool same = strcmp(digest, json_get_string(is, "digest", "-")) == 0;
        printf("table %-14.14s%s, %" PRId64 " and %" PRId64 " rows\n",
               json_get_string(was, "name", ""), same ? "the same" : "differs",
               json_get_int(was, "rows", 0), json_get_int(is, "rows", 0));
    }
}

int replay_diff_main(struct option_line *o, struct err *e)
{
    struct json *a = NULL, *b = NULL;
    const struct json *days_a, *days_b;
    if (o->words != 2)
        return err_set(e, SHOAL_E_USAGE, "name two runs: shoal replay diff RUN_A RUN_B");
    int rc = days_read(o->word[0], &a, &days_a, e);
    if (rc == 0)
        rc = days_read(o->word[1], &b, &days_b, e);
    if (rc == 0) {
        bool real = json_get(json_array_at(days_a, 0), "figures.rmse") != NULL;
        printf("%-20s%10s%10s%10s%10s%10s%10s  %9s%9s\n", "before they were learnt",
               real ? "RMSE A" : "AUC A", "B", "B - A", real ? "MAE A" : "logloss A", "B", "B - A",
               "examples", "B");
        if (days_print(days_a, days_b, true))
            printf("all days are the same\n");
        values_print(days_a, days_b);
        tables_print(a, b);
        printf("rows that moved: shoal checkpoint diff %s/checkpoints/N %s/checkpoints/N\n",
               o->word[0], o->word[1]);
    }
    json_free(a);
    json_free(b);
    return rc;
}
