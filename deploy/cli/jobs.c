/* jobs.c: `shoal jobs`: the jobs that ran on a cluster, one a line. */
#include "deploy/cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUESTION_MS = 10000 };

static const char *text(const struct json *line, const char *key)
{
    return json_get_string(line, key, "-");
}

/* The newest figures of the split that tells most about the tables. */
static void figures_print(const struct json *line)
{
    static const char *const split[] = {"test", "valid", "train"};
    static const char *const figure[][2] = {
        {"auc", "AUC"}, {"logloss", "logloss"}, {"rmse", "RMSE"}, {"mae", "MAE"}};
    bool told = false;
    for (size_t i = 0; i < sizeof split / sizeof split[0] && !told; i++)
        for (size_t k = 0; k < sizeof figure / sizeof figure[0]; k++) {
            char key[32];
            (void)snprintf(key, sizeof key, "%s_%s", split[i], figure[k][0]);
            double x = json_get_number(line, key, (double)NAN);
            if (isnan(x))
                continue;
            printf("%s%s %s %.4f", told ? "" : "  ", told ? "" : split[i], figure[k][1], x);
            told = true;
        }
}

static void line_print(const struct json *line)
{
    const char *reason = json_get_string(line, "reason", "");
    printf("%-16" PRId64 " %-9s %-20s %-20s  %s (%s)", json_get_int(line, "number", 0),
           text(line, "state"), text(line, "began"), text(line, "ended"), text(line, "job"),
           text(line, "model"));
    if (strcmp(text(line, "space"), text(line, "job")) != 0)
        printf("  space %s", text(line, "space"));
    if (!json_absent(json_get(line, "examples")))
        printf("  epoch %.0f, %.0f examples", json_get_number(line, "epoch", 0),
               json_get_number(line, "examples", 0));
    figures_print(line);
    putchar('\n');
    if (reason[0] != 0)
        printf("    %s\n", reason);
}

static void jobs_print(const struct json *list)
{
    struct json *l = json_printable(list);
    if (json_count(l) == 0)
        puts("no job has been submitted yet");
    else
        printf("%-16s %-9s %-20s %-20s  %s\n", "number", "state", "began", "ended", "job (model)");
    for (size_t i = 0; i < json_count(l); i++)
        line_print(json_array_at(l, i));
    json_free(l);
}

int cli_jobs(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOBS}, reply;
    struct json *list;
    int rc = cli_coordinator_ask(o, &w, QUESTION_MS, 0, &reply, &list, e);
    if (rc != 0)
        return rc;
    if (option_given(o, "json"))
        cli_json_print(list);
    else
        jobs_print(list);
    json_free(list);
    return 0;
}
