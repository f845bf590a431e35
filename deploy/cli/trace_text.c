/* trace_text.c: traces of batches for people: a line for each batch, or one as lines of time. */
#include "deploy/cli/cli.h"
#include "deploy/cli/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 48 };

static const char *word(const struct json *j, const char *path)
{
    return json_get_string(j, path, "?");
}

/* ---- the list -------------------------------------------------------------------------------- */

static void line_print(const struct json *t)
{
    const struct json *list = json_get(t, "stages");
    printf("%6.0f %10.0f %8.0f %10.3f", cli_count(t, "lane"), cli_count(t, "batch"),
           cli_count(t, "worker"), cli_count(t, "wall_ms"));
    for (size_t i = 0; i < json_count(list); i++)
        printf(" %9.3f", cli_count(json_array_at(list, i), "ms"));
    putchar('\n');
}

void trace_list_print(const struct json *told)
{
    const struct json *list = json_get(told, "traces"), *slowest = json_array_at(list, 0);
    const struct json *stages = json_get(slowest, "stages");
    printf("run %.0f, milliseconds of each stage:\n%6s %10s %8s %10s", cli_count(told, "run"),
           "lane", "batch", "worker", "in all");
    for (size_t i = 0; i < json_count(stages); i++)
        printf(" %9s", word(json_array_at(stages, i), "stage"));
    putchar('\n');
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *t = json_array_at(list, i);
        line_print(t);
        if (cli_count(t, "wall_ms") > cli_count(slowest, "wall_ms"))
            slowest = t;
    }
    printf("the slowest: shoal trace %.0f %.0f %.0f\n", cli_count(told, "run"),
           cli_count(slowest, "lane"), cli_count(slowest, "batch"));
    if (cli_count(told, "every") > 0)
        printf("one batch in %.0f is traced; `shoal trace --every 0` ends it\n",
               cli_count(told, "every"));
    else
        printf("no batch is traced now\n");
}

/* ---- one batch ------------------------------------------------------------------------------- */

/* Explains a stage whose name does not say what it is. */
static void meaning_print(const struct json *s)
{
    static const char *const stage[][2] = {
        {"place", "waits for memory or a place among 1 + train.prefetch"},
        {"plan", "keys are divided between its pull and the pushes before it"},
        {"turn", "its rows are there; earlier batches are computed"},
        {"order", "its gradients are there; an earlier push goes first"},
    };
    const char *name = word(s, "stage");
    for (size_t i = 0; i < sizeof stage / sizeof stage[0]; i++)
        if (strcmp(stage[i][0], name) == 0)
            printf("  %s", stage[i][1]);
    if (json_get(s, "file_ms") != NULL)
        printf("  files %.3f, parsing %.3f", cli_count(s, "file_ms"), cli_count(s, "parse_ms"));
    if (json_get(s, "thread_ms") != NULL)
        printf("  on a thread %.3f", cli_count(s, "thread_ms"));
    if (json_get(s, "parts") != NULL)
        printf("  requests: %.0f", cli_count(s, "parts"));
}

/* The stage from `from` to `to`, as shares of the whole. */
static void bar_print(double from, double to)
{
    int begin = (int)fmin(fmax(from * BAR, 0), BAR), end = (int)fmin(fmax(to * BAR + 0.5, 0), BAR);
    putchar('|');
    for (int i = 0; i < BAR; i++)
        putchar(i >= begin && (i < end || (i == begin && to > from)) ? '=' : ' ');
    putchar('|');
}

/* Where the time of a part went: the kinds that took some. */
static void part_print(const struct json *p)
{
    const struct json *at = json_get(p, "shard_ms");
    double tries = cli_count(p, "tries");
    printf("  %17.3f  shard %.0f, %s, %.0f keys", cli_count(p, "ms"), cli_count(p, "shard"),
           word(p, "table"), cli_count(p, "keys"));
    if (tries > 1)
        printf(", sent %.0f times", tries);
    if (json_absent(at)) {
        printf(": the shard no longer has its share\n");
        return;
    }
    printf(": on the way %.3f", cli_count(p, "way_ms"));
    for (size_t i = 0; i < json_members(at); i++) {
        double ms = json_as_number(json_member_at(at, i), 0);
        if (ms >= 0.0005)
            printf(", %s %.3f", json_member_name(at, i), ms);
    }
    putchar('\n');
}

static void parts_print(const struct json *s)
{
    const struct json *list = json_get(s, "slowest");
    double left = cli_count(s, "parts") - (double)json_count(list);
    for (size_t i = 0; i < json_count(list); i++)
        part_print(json_array_at(list, i));
    if (left > 0)
        printf("  %17s  %.0f more were answered earlier\n", "", left);
}

static void batch_print(const struct json *told, const struct json *t)
{
    char examples[32], keys[32];
    printf("run %.0f, lane %.0f, batch %.0f: worker %.0f, epoch %.0f; %s examples, %s keys\n",
           cli_count(told, "run"), cli_count(t, "lane"), cli_count(t, "batch"),
           cli_count(t, "worker"), cli_count(t, "epoch"),
           cli_number_text(cli_count(t, "examples"), examples),
           cli_number_text(cli_count(t, "keys"), keys));
}

static void stages_print(const struct json *t)
{
    const struct json *list = json_get(t, "stages");
    double wall = cli_count(t, "wall_ms"), at = 0, beside = 0;
    printf("%-8s %10s %10s\n", "stage", "ms", "beside");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *s = json_array_at(list, i);
        double ms = cli_count(s, "ms");
        if (ms >= 0.0005) {
            printf("%-8s %10.3f %10.3f  ", word(s, "stage"), ms, cli_count(s, "beside_ms"));
            bar_print(at / wall, (at + ms) / wall);
            meaning_print(s);
            putchar('\n');
            parts_print(s);
        }
        at += ms;
        beside += cli_count(s, "beside_ms");
    }
    printf("%-8s %10.3f %10.3f  from the start of its read to the last acknowledgement: %.3f\n",
           "sum", at, beside, wall);
}

void trace_one_print(const struct json *told)
{
    struct json *shown = json_printable(told);
    const struct json *t = json_array_at(json_get(shown, "traces"), 0),
                      *silent = json_get(shown, "silent");
    batch_print(shown, t);
    stages_print(t);
    for (size_t i = 0; i < json_count(silent); i++)
        printf("shard %.0f does not answer: %s\n", cli_count(json_array_at(silent, i), "shard"),
               word(json_array_at(silent, i), "why"));
    json_free(shown);
}
