/* report_page.h: report.html and sweep.html. A page is the template (report_page.html) with the
 * values of report.json or sweep.json in it; the template's script draws them. */
#ifndef DEPLOY_CLI_REPORT_PAGE_H
#define DEPLOY_CLI_REPORT_PAGE_H

#include "proto/base/err.h"
#include "proto/base/json.h"

/* Made of report_page.html by proto/base/page.cmake. */
extern const char report_page_template[];

/* Writes the page of a report (as report.json has it) or of a sweep to path, whole or not at all.
 * CANTCREATE, IO, NOMEM. */
int report_page_write(const struct json *values, const char *path, struct err *e);

#endif
