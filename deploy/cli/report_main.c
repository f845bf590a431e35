/* cli_report.c: `shoal report`: a report.json, of whatever run, as a page. */
#include "deploy/cli/cli.h"
#include "deploy/cli/report_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (32u << 20)

static const char help[] =
    "usage: shoal report REPORT.json [--html FILE]\n\n"
    "Writes the report as one page of HTML: learning curves, calibration, where the time went, "
    "tables. It opens from disk and needs no\n"
    "network. `shoal local` leaves one beside its report.json.\n\n"
    "  --html FILE      where to write it (default: beside REPORT.json, with .html at the end)\n"
    "  --help           this text\n";

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
    size_t bytes = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, f);
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
static void page_name(const char *report, char out[LIMIT_PATH])
{
    size_t length = strlen(report),
           stem = length > 5 && strcmp(report + length - 5, ".json") == 0 ? length - 5 : length;
    (void)snprintf(out, LIMIT_PATH, "%.*s.html",
                   (int)(stem > LIMIT_PATH - 6 ? LIMIT_PATH - 6 : stem), report);
}

int cli_report(int argc, char **argv)
{
    struct cli_option options[] = {
        {"--html", false, NULL, NULL}, {"--help", true, NULL, NULL}, {NULL, false, NULL, NULL}};
    char path[LIMIT_PATH];
    struct json *report = NULL;
    struct err e = {0};
    const char *words[1];
    int word_count;
    int rc = cli_parse(argc, argv, options, words, 1, &word_count, &e);
    if (rc == 0 && options[1].value != NULL) {
        fputs(help, stdout);
        return 0;
    }
    if (rc == 0 && word_count != 1)
        rc = err_set(&e, SHOAL_E_USAGE, "name one report: shoal report RUN_DIR/report.json");
    if (rc == 0)
        rc = cli_json_file(words[0], &report, &e);
    if (rc == 0 && json_absent(json_get(report, "epochs")))
        rc = err_set(&e, SHOAL_E_DATA, "%s is no report of a job: it has no epochs", words[0]);
    if (rc == 0) {
        page_name(words[0], path);
        rc = report_page_html(report, options[0].value == NULL ? path : options[0].value, &e);
    }
    if (rc == 0)
        printf("%s\n", options[0].value == NULL ? path : options[0].value);
    json_free(report);
    return rc == 0 ? 0 : cli_fail("report", &e);
}
