/* top_lines.c: the lines of `shoal top`, from the status of a coordinator. */
#include "deploy/cli/top.h"

#include "proto/base/array.h"
#include "proto/base/minmax.h"
#include "proto/base/number.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOBS = 5,         /* the last jobs */
    WRAPS = 3,        /* lines of one sentence */
    SILENT_MS = 5000, /* servers and workers beat more often */
    TOLD_MS = 2000    /* a silence that is worth telling of one that is not ready */
};

/* The text that is being made. */
struct make {
    struct top_lines *l;
    const struct top_view *v;
    bool failed; /* out of memory */
};

/* ---- lines ----------------------------------------------------------------------------------- */

static struct top_line *line_add(struct make *m, enum top_kind kind)
{
    if (m->failed || array_room(&m->l->line, m->l->count, &m->l->capacity, 64) != 0) {
        m->failed = true;
        return NULL;
    }
    struct top_line *line = &m->l->line[m->l->count++];
    line->text[0] = 0;
    line->kind = kind;
    return line;
}

/* Appends to a line. Cuts it at the width of the view, never inside a character. */
__attribute__((format(printf, 3, 4))) static void put(struct make *m, struct top_line *line,
                                                      const char *form, ...)
{
    char text[2 * TOP_WIDTH_MAX];
    va_list values;
    if (line == NULL)
        return;
    va_start(values, form);
    (void)vsnprintf(text, sizeof text, form, values);
    va_end(values);
    size_t at = strlen(line->text), room = SAT_SUB(m->v->width, at), bytes = strlen(text);
    if (bytes > room) {
        bytes = room;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    memcpy(line->text + at, text, bytes);
    line->text[at + bytes] = 0;
}

__attribute__((format(printf, 3, 4))) static void say(struct make *m, enum top_kind kind,
                                                      const char *form, ...)
{
    char text[2 * ERR_TEXT_MAX];
    const char *from = text;
    va_list values;
    va_start(values, form);
    (void)vsnprintf(text, sizeof text, form, values);
    va_end(values);
    for (int i = 0; i < WRAPS && *from != 0; i++) { /* at blanks, if there are any */
        size_t bytes = strlen(from), most = m->v->width;
        if (i > 0 && most > TOP_WIDTH_MIN)
            most -= 2;
        if (bytes > most) {
            bytes = most;
            while (bytes > 0 && from[bytes] != ' ')
                bytes--;
            if (bytes == 0)
                bytes = most;
        }
        put(m, line_add(m, kind), "%s%.*s", text_if(i > 0, "  "), (int)bytes, from);
        from += bytes;
        from += *from == ' ';
    }
}

static double number(const struct json *of, const char *path)
{
    return json_get_number(of, path, (double)NAN);
}

static const char *word(const struct json *of, const char *path)
{
    return json_get_string(of, path, "");
}

/* ---- order ----------------------------------------------------------------------------------- */

/* A row of a table: its values are computed once, for sorting. */
struct row {
    const struct json *of;
    const char *name; /* borrowed */
    double load, memory, rows;
    bool bad;
};

static int compare_numbers(double a, double b)
{
    return (a < b) - (a > b); /* the greatest first */
}

static enum top_sort sorted_by; /* for qsort; this program has one thread */

static int compare(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = (int)b->bad - (int)a->bad;
    if (order == 0 && sorted_by == TOP_LOAD)
        order = compare_numbers(a->load, b->load);
    if (order == 0 && sorted_by == TOP_MEMORY)
        order = compare_numbers(a->memory, b->memory);
    if (order == 0 && sorted_by == TOP_ROWS)
        order = compare_numbers(a->rows, b->rows);
    if (order == 0)
        order = strverscmp(a->name, b->name);
    return order;
}

static double positive(double x)
{
    return isfinite(x) && x > 0 ? x : 0;
}

static void row_of(const struct json *of, struct row *r)
{
    double silent_ms = number(of, "silent_ms");
    const struct json *ready = json_get(of, "ready");
    r->of = of;
    r->name = word(of, "name");
    r->load = positive(number(of, "pull_rate")) + positive(number(of, "push_rate")) +
              positive(number(of, "rate"));
    r->memory = positive(number(of, "rss_bytes"));
    r->rows = positive(number(of, "rows")) + positive(number(of, "examples"));
    r->bad = !(silent_ms >= 0 && silent_ms < SILENT_MS) || positive(number(of, "stalls")) > 0 ||
             (ready != NULL && !json_as_bool(ready, false));
}

/* The rows of a list in order; the caller frees them. NULL: no memory, or no rows. */
static struct row *rows_of(struct make *m, const struct json *list)
{
    size_t count = json_count(list);
    struct row *r = calloc(MAX(count, 1), sizeof *r);
    m->failed = m->failed || r == NULL;
    for (size_t i = 0; r != NULL && i < count; i++)
        row_of(json_array_at(list, i), &r[i]);
    sorted_by = m->v->sort;
    if (r != NULL)
        qsort(r, count, sizeof *r, compare);
    return r;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void job_say(struct make *m, const struct json *s)
{
    char count[NUMBER_TEXT], text[NUMBER_TEXT];
    const struct json *epochs = json_get(s, "epochs");
    struct top_line *line;
    if (word(s, "job")[0] == 0) {
        say(m, TOP_PLAIN, "no job has been submitted yet");
        return;
    }
    line = line_add(m, TOP_HEAD);
    put(m, line, "job %s: %s, epoch %.0f", word(s, "job"), word(s, "state"), number(s, "epoch"));
    if (!json_absent(epochs))
        put(m, line, " of %.0f", json_as_number(epochs, 0));
    line = line_add(m, TOP_PLAIN);
    put(m, line, "%s examples", number_count(number(s, "examples"), count));
    if (isfinite(number(s, "rate")))
        put(m, line, ", %s/s", number_short(number(s, "rate"), text));
    if (isfinite(number(s, "eta_seconds")))
        put(m, line, ", about %s left", number_seconds(number(s, "eta_seconds"), text));
    line = line_add(m, TOP_PLAIN);
    static const char *const figure[][2] = {{"train_auc", "AUC"},
                                            {"train_rmse", "RMSE"},
                                            {"valid_auc", "valid AUC"},
                                            {"valid_rmse", "valid RMSE"}};
    put(m, line, "%s %s", json_as_string(json_get(s, "loss_name"), "logloss"),
        number_figure(number(s, "loss"), text));
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        if (isfinite(number(s, figure[i][0])))
            put(m, line, "  %s %s", figure[i][1], number_figure(number(s, figure[i][0]), text));
    put(m, line, "  staleness p50 %.0f p99 %.0f", number(s, "staleness.p50"),
        number(s, "staleness.p99"));
    if (!json_absent(json_get(s, "checkpoint.age_seconds")))
        put(m, line, "  checkpoint %s old",
            number_seconds(number(s, "checkpoint.age_seconds"), text));
}

/* "time: read 5 %  pull 24 %" */
static void time_say(struct make *m, const struct json *s)
{
    static const char *const stage[] = {"read", "pull", "compute", "ring", "push", "wait"};
    double value[sizeof stage / sizeof stage[0]], sum = 0;
    char path[32];
    for (size_t i = 0; i < sizeof stage / sizeof stage[0]; i++) {
        (void)snprintf(path, sizeof path, "time.%s", stage[i]);
        value[i] = positive(number(s, path));
        sum += value[i];
    }
    if (!(sum > 0))
        return;
    struct top_line *line = line_add(m, TOP_PLAIN);
    put(m, line, "time:");
    for (size_t i = 0; i < sizeof stage / sizeof stage[0]; i++)
        if (strcmp(stage[i], "ring") != 0 || value[i] > 0)
            put(m, line, " %s %.0f%%", stage[i], value[i] / sum * 100);
}

static void trouble_say(struct make *m, const char *text, double since_s)
{
    char since[NUMBER_TEXT];
    if (since_s >= 1)
        say(m, TOP_BAD, "! %s (found for %s)", text, number_seconds(since_s, since));
    else
        say(m, TOP_BAD, "! %s", text);
}

static void troubles_say(struct make *m, const struct json *s)
{
    const struct json *problems = json_get(s, "problems");
    char since[NUMBER_TEXT];
    bool waits = !json_absent(json_get(s, "waiting"));
    bool failed = strcmp(word(s, "state"), "failed") == 0;
    if (m->v->failed != NULL)
        say(m, TOP_BAD, "! what is below is %s old: %s", number_seconds(m->v->failed_s, since),
            m->v->failed);
    if (waits)
        trouble_say(m, word(s, "waiting"), number(s, "waiting_seconds"));
    for (size_t i = 0; i < json_count(problems); i++)
        trouble_say(m, json_as_string(json_array_at(problems, i), "?"),
                    json_as_number(json_array_at(json_get(s, "problem_seconds"), i), 0));
    if (!json_absent(json_get(s, "error")))
        say(m, failed ? TOP_BAD : TOP_PLAIN, "! the job ended: %s", word(s, "error"));
    if (!json_absent(json_get(s, "warning")))
        say(m, TOP_BAD, "! %s", word(s, "warning"));
    for (size_t i = 0; i < json_count(json_get(s, "notes")); i++)
        say(m, TOP_PLAIN, "note: %s", json_as_string(json_array_at(json_get(s, "notes"), i), "?"));
    if (m->v->failed == NULL && !waits && !failed && json_count(problems) == 0)
        say(m, TOP_GOOD, "nothing is wrong");
}

static const char *state_text(const struct row *r, const char *good, char out[32])
{
    double silent_ms = number(r->of, "silent_ms");
    if (!r->bad)
        return good;
    if (silent_ms < 0)
        return "not seen";
    if (silent_ms < TOLD_MS && json_get(r->of, "ready") != NULL)
        return "not ready";
    if (silent_ms < TOLD_MS)
        return "stalled";
    (void)snprintf(out, 32, "silent %.0f s", silent_ms / 1000);
    return out;
}

static const char *number_plain(double x, char text[NUMBER_TEXT])
{
    (void)snprintf(text, NUMBER_TEXT, "%.0f", x);
    return text;
}

/* A column of a list: what of an object it has, and how a number is written; NULL: it is a word. */
struct column {
    const char *head;
    int width;
    const char *key;
    const char *(*as)(double x, char text[NUMBER_TEXT]);
};

/* A column is left out where the line has no room for it. */
static void column(struct make *m, struct top_line *line, int width, const char *text)
{
    if (line != NULL && strlen(line->text) + (size_t)width + 1 <= m->v->width)
        put(m, line, " %*.*s", width, width, text);
}

static int name_width(const struct make *m)
{
    return m->v->width < 60 ? 14 : 22;
}

/* The head of a list. columns: up to one without a width. */
static void list_begin(struct make *m, const char *name, const struct column *columns)
{
    struct top_line *line = line_add(m, TOP_HEAD);
    put(m, line, "%-*s %-11s", name_width(m), name, "state");
    for (; columns->width > 0; columns++)
        column(m, line, columns->width, columns->head);
}

static void list_line(struct make *m, bool bad, const char *name, const char *state,
                      const struct json *of, const struct column *columns)
{
    char text[NUMBER_TEXT];
    int wide = name_width(m);
    struct top_line *line = line_add(m, bad ? TOP_BAD : TOP_PLAIN);
    put(m, line, "%-*.*s %-11s", wide, wide, name, state);
    for (; columns->width > 0; columns++)
        if (columns->as == NULL)
            column(m, line, columns->width, word(of, columns->key));
        else
            column(m, line, columns->width, columns->as(number(of, columns->key), text));
}

static void servers_say(struct make *m, const struct json *s)
{
    static const struct column columns[] = {{"pull/s", 9, "pull_rate", number_short},
                                            {"push/s", 9, "push_rate", number_short},
                                            {"rows", 13, "rows", number_count},
                                            {"memory", 8, "rss_bytes", number_bytes},
                                            {"journal", 8, "journal_bytes", number_bytes},
                                            {"disk", 8, "disk_bytes", number_bytes},
                                            {"waiting", 7, "parked", number_short},
                                            {.width = 0}};
    const struct json *list = json_get(s, "servers");
    struct row *r = rows_of(m, list);
    char state[32], name[80];
    list_begin(m, "SERVER", columns);
    for (size_t i = 0; r != NULL && i < json_count(list); i++) {
        (void)snprintf(name, sizeof name, "%3d %.60s", (int)number(r[i].of, "shard"), r[i].name);
        list_line(m, r[i].bad, name, state_text(&r[i], "ready", state), r[i].of, columns);
    }
    free(r);
}

static void workers_say(struct make *m, const struct json *s)
{
    static const struct column columns[] = {{"ex/s", 9, "rate", number_short},
                                            {"examples", 13, "examples", number_count},
                                            {"lanes", 5, "lanes", number_count},
                                            {"computes on", 24, "backend", NULL},
                                            {.width = 0}};
    const struct json *list = json_get(s, "workers"), *idle = json_get(s, "idle");
    struct row *r = rows_of(m, list);
    char state[32];
    int wide = name_width(m);
    list_begin(m, "WORKER", columns);
    for (size_t i = 0; r != NULL && i < json_count(list); i++)
        list_line(m, r[i].bad, r[i].name, state_text(&r[i], "beats", state), r[i].of, columns);
    for (size_t i = 0; i < json_count(idle); i++) {
        const char *why = word(json_array_at(idle, i), "why");
        struct top_line *line = line_add(m, why[0] != 0 ? TOP_BAD : TOP_PLAIN);
        put(m, line, "%-*.*s %s%s", wide, wide, word(json_array_at(idle, i), "name"),
            text_if(why[0] != 0, "refused: "), text_unless_empty(why, "waits for a job"));
    }
    free(r);
}

static void jobs_say(struct make *m)
{
    static const struct column columns[] = {{"examples", 14, "examples", number_count},
                                            {"began", 21, "began", NULL},
                                            {"ended", 21, "ended", NULL},
                                            {.width = 0}};
    size_t count = json_count(m->v->jobs);
    if (count == 0)
        return;
    list_begin(m, "JOB", columns);
    for (size_t i = count; i > SAT_SUB(count, JOBS); i--) {
        const struct json *v = json_array_at(m->v->jobs, i - 1);
        bool failed = strcmp(word(v, "state"), "failed") == 0;
        list_line(m, failed, word(v, "job"), word(v, "state"), v, columns);
    }
}

/* All jobs that run, where there are several, and how many wait for their turn. */
static void running_say(struct make *m, const struct json *s)
{
    static const struct column columns[] = {{"ex/s", 9, "rate", number_short},
                                            {"examples", 13, "examples", number_count},
                                            {"workers", 7, "workers", number_count},
                                            {"wanted", 6, "workers_wanted", number_count},
                                            {"space", 16, "space", NULL},
                                            {"number", 16, "number", number_plain},
                                            {.width = 0}};
    const struct json *list = json_get(s, "running");
    if (positive(number(s, "queued")) > 0)
        say(m, TOP_PLAIN, "note: jobs that wait for their turn: %.0f", number(s, "queued"));
    if (json_count(list) < 2)
        return;
    (void)line_add(m, TOP_PLAIN);
    list_begin(m, "RUNS", columns);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *v = json_array_at(list, i);
        bool waits = !json_absent(json_get(v, "waiting"));
        list_line(m, waits, word(v, "job"), word(v, "state"), v, columns);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

int top_lines_make(struct top_lines *l, const struct top_view *v, struct err *e)
{
    struct top_view view = *v;
    struct make m = {.l = l, .v = &view};
    const struct json *s = v->status;
    view.width = MAX(MIN(v->width, TOP_WIDTH_MAX), TOP_WIDTH_MIN);
    l->count = 0;
    troubles_say(&m, s);
    job_say(&m, s);
    time_say(&m, s);
    running_say(&m, s);
    (void)line_add(&m, TOP_PLAIN);
    servers_say(&m, s);
    (void)line_add(&m, TOP_PLAIN);
    workers_say(&m, s);
    (void)line_add(&m, TOP_PLAIN);
    jobs_say(&m);
    return m.failed ? err_set(e, SHOAL_E_NOMEM, "no memory for the lines of the screen") : 0;
}

void top_lines_free(struct top_lines *l)
{
    free(l->line);
    *l = (struct top_lines){.line = NULL};
}
