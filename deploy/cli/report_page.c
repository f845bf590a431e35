/* report_page.c: writes the template with the values inserted. */
#include "deploy/cli/report_page.h"
#include "deploy/cli/local_inner.h"
#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char place[] = "@VALUES@";

/* Writes JSON in which no text can end its script element or begin another one: in JSON '<' occurs
 * in strings only. */
static void values_write(FILE *out, const char *json)
{
    for (const char *p = json; *p != '\0'; p++)
        if (*p == '<')
            fputs("\\u003c", out);
        else
            fputc(*p, out);
}

int report_page_write(const struct json *values, const char *path, struct err *e)
{
    const char *at = strstr(report_page_template, place);
    char *json = json_text(values, 0), *page = NULL;
    size_t bytes;
    FILE *out = open_memstream(&page, &bytes);
    int rc;

    SHOAL_ASSERT(at != NULL);
    if (json != NULL && out != NULL) {
        fwrite(report_page_template, 1, (size_t)(at - report_page_template), out);
        values_write(out, json);
        fputs(at + sizeof place - 1, out);
    }
    if (json == NULL || out == NULL || fclose(out) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the page %s", path);
    else
        rc = local_file_replace(path, page, e);
    free(json);
    free(page);
    return rc;
}
