/* cli_report.c: `shoal report`: a report.json, of whatever run, as a page. */
#include "deploy/cli/cli.h"
#include "deploy/cli/report_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (32u << 20)

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
    struct option_line o;
    char beside[LIMIT_PATH];
    struct json *report = NULL;
    struct err e = {0};
    int rc = cli_options("shoal report", argc, argv, &o, &e);
    if (rc == 0 && o.words != 1)
        rc = err_set(&e, SHOAL_E_USAGE, "name one report: shoal report RUN_DIR/report.json");
    if (rc == 0)
        rc = cli_json_file(o.word[0], &report, &e);
    if (rc == 0 && json_absent(json_get(report, "epochs")))
        rc = err_set(&e, SHOAL_E_DATA, "%s is no report of a job: it has no epochs", o.word[0]);
    if (rc == 0) {
        const char *path = option_text(&o, "html");
        page_name(o.word[0], beside);
        rc = report_page_html(report, path == NULL ? beside : path, &e);
        if (rc != 0 && path == NULL) {
            struct err was = e;
            rc = err_set(&e, rc, "%.400s; name a file elsewhere: --html FILE", was.text);
        }
        if (rc == 0)
            printf("%s\n", path == NULL ? beside : path);
    }
    json_free(report);
    return cli_end(rc, &o, &e);
}
