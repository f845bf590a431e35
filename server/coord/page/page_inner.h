/* page_inner.h: shared by the files of the page (page.h). */
#ifndef SERVER_COORD_PAGE_PAGE_INNER_H
#define SERVER_COORD_PAGE_PAGE_INNER_H

#include "proto/base/json.h"

#include <stdbool.h>
#include <stdio.h>

/* page.html, with its hashes, where it is built (page.cmake). */
extern const char page_template[];

/* ---- page_job.c: figures is the whole of picture.h ---- */
void page_job(const struct json *figures, FILE *out);
void page_jobs(const struct json *figures, FILE *out);

/* ---- page_fleet.c ---- */
void page_map(const struct json *figures, FILE *out);
void page_servers(const struct json *figures, FILE *out);
void page_workers(const struct json *figures, FILE *out);

/* ---- page_chart.c ---- */
/* Writes a card with a line over the examples trained, its newest value at the head. x and y: lists
 * of one length; a null in y is a gap. Nothing is written when fewer than two points are known.
 * value: writes a number of y. colour: a class of page.html, "c1" to "c5". */
struct page_curve {
    const char *name, *colour;
    const struct json *x, *y;
    const char *(*value)(double x, char *text);
    bool from_zero; /* the drawing begins at 0 */
};
void page_chart(const struct page_curve *c, FILE *out);
/* Writes a bar of `share` (0 to 1) of its width. */
void page_bar(double share, const char *colour, FILE *out);
/* Writes a bar cut into parts, and their legend; nothing without any. */
struct page_part {
    const char *name, *colour;
    double value;
};
void page_stack(const char *name, const struct page_part *part, size_t parts, FILE *out);

#endif
