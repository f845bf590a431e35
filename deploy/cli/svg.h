/* svg.h: charts as inline SVG, for a page without scripts. Colours are classes of the page's style
 * sheet (html.c), so that a chart follows light and dark; every point and bar tells its figures
 * when the pointer rests on it (<title>).
 *
 * Drawn in a box of 520 units by 260 that scales with the page. Values that are not finite, or
 * beyond 1e300, are left out. */
#ifndef DEPLOY_CLI_SVG_H
#define DEPLOY_CLI_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct svg_series {
    const char *name;   /* in the legend, escaped here; NULL: not in it */
    const char *colour; /* a class of the style sheet: "c1" .. "c5" */
    const double *x, *y;
    size_t count;
    bool faint; /* a line behind the others: raw values under their mean */
    bool dots;  /* a dot at every point, and a line between them unless `apart` */
    bool apart;
    const char *note; /* what a dot is, before its figures: "epoch"; NULL: nothing */
};

struct svg_chart {
    const char *label; /* what it shows, for readers that do not see it */
    const char *x_name, *y_name;
    const struct svg_series *series;
    size_t series_count;
    double x_min, x_max, y_min,
        y_max; /* where both are equal: taken from the series that are not faint, with some air */
    bool diagonal;      /* the line y = x, dashed: where predictions are right */
    const double *mark; /* (mark_count): vertical hairlines; may be NULL */
    size_t mark_count;
    /* (bar_count): heights, at the x of the first series, low in the chart; may be NULL */
    const double *bar;
    size_t bar_count;
};

void svg_chart(FILE *out, const struct svg_chart *c);

/* Names in order, a dot and its error at the value of each, best first: whoever lies in the first
 * one's error, shaded, is not told from it. A NaN value has no dot. */
struct svg_rank {
    const char *name;    /* escaped here */
    double value, error; /* error: on both sides; NaN or 0: none is drawn */
};
void svg_ranks(FILE *out, const char *label, const char *x_name, const struct svg_rank *rank,
               size_t count);

/* A bar cut into parts, with its legend. parts: (count) of name, value and text. */
struct svg_part {
    const char *name, *colour;
    double value;
    const char *text; /* the value, with its unit */
};
void svg_stack(FILE *out, const char *label, const struct svg_part *part, size_t count);

#endif
