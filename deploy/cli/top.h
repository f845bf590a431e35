/* top.h: `shoal top`: what it shows, as lines, and the screen that shows them. */
#ifndef DEPLOY_CLI_TOP_H
#define DEPLOY_CLI_TOP_H

#include "proto/base/err.h"
#include "proto/base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* The values of --sort. */
enum top_sort { TOP_LOAD, TOP_NAME, TOP_MEMORY, TOP_ROWS };

enum { TOP_WIDTH_MAX = 512, TOP_WIDTH_MIN = 20 };

struct top_line {
    char text[TOP_WIDTH_MAX + 1];
    enum top_kind { TOP_PLAIN, TOP_HEAD, TOP_BAD, TOP_GOOD } kind;
};

struct top_lines {
    struct top_line *line; /* owned, (capacity) */
    size_t count, capacity;
};

/* ---- top_lines.c ---- */

/* The figures to show; status and jobs (NULL: not known) are borrowed. */
struct top_view {
    const struct json *status, *jobs;
    const char *failed; /* why `status` is not of now; NULL: it is */
    double failed_s;    /* since when */
    enum top_sort sort;
    size_t width; /* columns; columns of tables that have no room are left out */
};
/* Makes the lines anew, in the memory of the last ones. NOMEM. */
int top_lines_make(struct top_lines *l, const struct top_view *v, struct err *e);
void top_lines_free(struct top_lines *l);

/* ---- top_screen.c: the only file that knows ncurses ---- */
struct top_screen;
enum top_key { TOP_NONE, TOP_QUIT, TOP_RESIZED, TOP_SORT };
/* CONFIG: TERM names no terminal that ncurses knows. */
int top_screen_open(struct top_screen **out, struct err *e);
void top_screen_close(struct top_screen *s); /* the terminal is as it was; NULL: nothing */
size_t top_screen_width(const struct top_screen *s);
/* Shows the lines from the first one that the reader has scrolled to; the last row is for help. */
void top_screen_show(struct top_screen *s, const struct top_lines *l);
/* Waits for a key. Scrolling is done here and shown at once. SORT: *sort is the new order. */
enum top_key top_screen_wait(struct top_screen *s, const struct top_lines *l, int wait_ms,
                             enum top_sort *sort);

#endif
