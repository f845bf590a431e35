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
/* All jobs that run, where there are several. */
void page_running(const struct json *figures, FILE *out);

/* ---- page_table.c ---- */
/* A section with a table. Numbers stand to the right; texts (text: true) and the first column,
 * which names the row, to the left. Rows after PAGE_SHOWN are folded. */
enum { PAGE_SHOWN = 24 };
struct page_head {
    const char *name;
    bool text;
};
struct page_table {
    FILE *out;
    const char *name, *id; /* the section's name; the id of the part that scrolls */
    const struct page_head *head;
    size_t heads, rows, written;
};
/* about: beside the name, as text; "": nothing. */
void page_table_begin(const struct page_table *t, const char *about);
void page_table_end(const struct page_table *t);
/* Begins one of t->rows rows. */
void page_row(struct page_table *t, bool bad);
/* True when the row at hand is in the fold, where bars would be thousands. */
bool page_folded(const struct page_table *t);
void page_number(FILE *out, const char *text);
void page_text(FILE *out, const char *text);

/* ---- page_copies.c ---- */
void page_copies(const struct json *figures, FILE *out);

/* ---- page_workers.c ---- */
void page_workers(const struct json *figures, FILE *out);

/* ---- page_fleet.c ---- */
void page_map(const struct json *figures, FILE *out);
void page_servers(const struct json *figures, FILE *out);
/* Servers and workers beat more often. */
enum { PAGE_SILENT_MS = 5000 };
bool page_server_ready(const struct json *server); /* NULL: true */

/* ---- page_chart.c ---- */
/* Writes a card with a line over the examples trained, its newest value at the head. x and y: lists
 * of one length; a null in y is a gap. Nothing is written when fewer than two points are known.
 * value: writes a number of y. least: the drawing shows at least so much of y, as finer marks would
 * read alike. colour: a class of page.html, "c1" to "c5". */
struct page_curve {
    const char *name, *colour;
    const struct json *x, *y;
    const char *(*value)(double x, char *text);
    bool from_zero; /* the drawing begins at 0 */
    double least;
};
void page_chart(const struct page_curve *c, FILE *out);
/* Writes a bar of `share` (0 to 1) of its width. */
void page_bar(double share, const char *colour, FILE *out);
/* Writes a bar cut into parts, and under it their names and shares; nothing without any. */
struct page_part {
    const char *name, *colour;
    double value;
};
void page_stack(const struct page_part *part, size_t parts, FILE *out);

#endif
