/* report_main.c: `shoal report`: a report.json, or the report of a job on a cluster, as a page. */
#include "deploy/cli/cli.h"
#include "deploy/cli/report_page.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (32u << 20)
enum { QUESTION_MS = 10000 };

int cli_json_file(const char *path, struct json **out, struct err *e)
{
    FILE *f = fopen(path, "rbe");
    char *text = malloc(FILE_BYTES_MAX + 1);
    int rc;
    *out = NULL;
    if (f == NULL) {
        free(text);
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    }
    size_t bytes = 0;
    if (text != NULL)
        bytes = fread(text, 1, FILE_BYTES_MAX + 1, f);
    if (text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (ferror(f) != 0 || bytes > FILE_BYTES_MAX)
        rc = err_set(e, SHOAL_E_DATA, "%s is no report: it cannot be read, or is over %u MiB", path,
                     FILE_BYTES_MAX >> 20);
    else
        rc = json_parse(text, bytes, out, e);
    fclose(f);
    free(text);
    return rc;
}

/* REPORT.json -> REPORT.html */
static const char *page_name(const char *report, char out[LIMIT_PATH])
{
    size_t stem = strlen(report);
    if (stem > 5 && strcmp(report + stem - 5, ".json") == 0)
        stem -= 5;
    (void)snprintf(out, LIMIT_PATH, "%.*s.html", (int)MIN(stem, LIMIT_PATH - 6), report);
    return out;
}

/* True: the word is a job's number, which *number gets; else it names a file. */
static bool number_take(const char *word, uint64_t *number)
{
    size_t digits = strspn(word, "0123456789");
    errno = 0;
    *number = strtoull(word, NULL, 10);
    return digits > 0 && word[digits] == 0 && errno == 0;
}

/* Asks a coordinator for the report of an ended job; number 0: the newest job. */
static int job_report(const struct option_line *o, uint64_t number, struct json **out,
                      struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_REPORT, .u.REPORT.run = number}, reply;
    int rc = cli_coordinator_ask(o, &w, QUESTION_MS, 0, &reply, out, e);
    if (rc == 0 && reply.u.REPORT_reply.state != WIRE_JOB_DONE &&
        reply.u.REPORT_reply.state != WIRE_JOB_FAILED)
        rc = err_set(e, SHOAL_E_AGAIN,
                     "the job has not ended, and has no report yet: `shoal status` shows it");
    return rc;
}

/* named: the line names the path. */
static int page_write(const struct json *report, const char *path, bool named, struct err *e)
{
    int rc = report_page_write(report, path, e);
    if (rc != 0 && !named) {
        struct err was = *e;
        rc = err_set(e, rc, "%.400s; name a file elsewhere: --html FILE", was.text);
    }
    if (rc == 0)
        printf("%s\n", path);
    return rc;
}

int cli_report(struct option_line *o, struct err *e)
{
    char beside[LIMIT_PATH];
    struct json *report = NULL;
    uint64_t number = 0;
    const char *path = option_text(o, "html");
    bool job = o->words == 0 && option_given(o, "coordinator");
    if (o->words == 1)
        job = number_take(o->word[0], &number);
    if (!job && (o->words != 1 || option_given(o, "coordinator")))
        return err_set(e, SHOAL_E_USAGE,
                       "name one report: shoal report RUN_DIR/report.json, or shoal report "
                       "--coordinator EP NUMBER of a job that `shoal jobs` lists");
    int rc;
    if (job)
        rc = job_report(o, number, &report, e);
    else
        rc = cli_json_file(o->word[0], &report, e);
    if (rc == 0 && json_absent(json_get(report, "epochs")))
        rc = err_set(e, SHOAL_E_DATA, "%s is no report of a job: it has no epochs",
                     text_or(o->word[0], "the answer"));
    if (rc == 0 && option_given(o, "json"))
        cli_json_print(report);
    if (rc == 0 && !job && path == NULL && !option_given(o, "json"))
        path = page_name(o->word[0], beside);
    if (rc == 0 && path != NULL)
        rc = page_write(report, path, option_given(o, "html"), e);
    else if (rc == 0 && job && !option_given(o, "json"))
        cli_report_print(report, NULL, NULL);
    json_free(report);
    return rc;
}
