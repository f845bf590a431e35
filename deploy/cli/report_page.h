/* report_page.h: the page that report_html.c writes, and the parts of it that have files of their
 * own. */
#ifndef DEPLOY_CLI_REPORT_PAGE_H
#define DEPLOY_CLI_REPORT_PAGE_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdint.h>
#include <stdio.h>

/* Writes a report (as report.json has it) to path as a page of HTML, whole or not at all.
 * CANTCREATE, IO. */
int report_page_html(const struct json *report, const char *path, struct err *e);

/* The best possible AUC on a split ("valid" or "test"), where the log's teacher is known; NaN: not
 * known. report.c. */
double report_page_teacher(const struct json *r, const char *split);
/* The number at a path; NaN where there is none. */
double report_page_number(const struct json *r, const char *path);
/* An array's elements' numbers at a path, (count); NaN where there is none. The caller frees; NULL
 * when out of memory.
 */
double *report_page_column(const struct json *list, const char *path);
/* Means of x over neighbours of the same epoch: a task's figures jump about, what is learnt shows
 * in the mean. list is the training curve, x (count). The caller frees; NULL when out of memory. */
double *report_page_smooth(const struct json *list, const double *x);
/* A day's or window's `from`, "2026-10-25T02:00:00+01:00", or with a Z, in seconds since 1970.
 * report_days.c. */
int64_t report_page_time(const char *label);
/* Which job it is, when and where it ran: report_job.c. */
void report_page_head(FILE *out, const struct json *report);
/* Calibration curves, labels, values of fields: report_quality.c. */
void report_page_quality(FILE *out, const struct json *report);
/* Fields of the input, and their values without a row: report_input.c. */
void report_page_input(FILE *out, const struct json *report);
/* A replay's days: report_days.c. */
void report_page_days(FILE *out, const struct json *report);
/* Where the time went, speed, staleness, norms: report_speed.c. */
void report_page_speed(FILE *out, const struct json *report);

#endif
