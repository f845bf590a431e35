/* page_chart.c: lines and bars as SVG. Their numbers are attributes of shapes: the policy of the
 * page allows no style in an element. */
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>

/* The drawing's own units. */
enum { WIDTH = 360, TOP = 8, BOTTOM = 104, HEIGHT = 124, RIGHT = 314 };

struct range {
    double low, high;
    size_t points;
};

static bool point_at(const struct page_curve *c, size_t i, double *x, double *y)
{
    *x = json_as_number(json_array_at(c->x, i), (double)NAN);
    *y = json_as_number(json_array_at(c->y, i), (double)NAN);
    return isfinite(*x) && isfinite(*y) && fabs(*x) < 1e30 && fabs(*y) < 1e30;
}

static struct range range_of(const struct page_curve *c, bool of_x)
{
    struct range r = {.points = 0};
    double x, y;
    for (size_t i = 0; i < json_count(c->y); i++) {
        if (!point_at(c, i, &x, &y))
            continue;
        double v = y;
        if (of_x)
            v = x;
        if (r.points == 0 || v < r.low)
            r.low = v;
        if (r.points == 0 || v > r.high)
            r.high = v;
        r.points++;
    }
    if (!of_x && c->from_zero)
        r.low = fmin(r.low, 0);
    if (r.high - r.low < 1e-9 * fmax(fabs(r.high), 1e-9)) { /* it has no inside */
        double half = fmax(fabs(r.high) * 0.01, 1e-9);
        r.low -= half;
        r.high += half;
    }
    return r;
}

static double place(double v, struct range r, double from, double to)
{
    return from + (v - r.low) / (r.high - r.low) * (to - from);
}

static void line_write(const struct page_curve *c, struct range xs, struct range ys, FILE *out)
{
    double x, y;
    char command = 'M';
    fprintf(out, "<path class=\"%s\" d=\"", c->colour);
    for (size_t i = 0; i < json_count(c->y); i++) {
        if (!point_at(c, i, &x, &y)) {
            command = 'M';
            continue;
        }
        fprintf(out, "%c%.1f %.1f", command, place(x, xs, 0, RIGHT), place(y, ys, BOTTOM, TOP));
        command = 'L';
    }
    fputs("\"/>", out);
}

static void level_write(double y, struct range ys, const struct page_curve *c, FILE *out)
{
    char text[NUMBER_TEXT];
    double at = place(y, ys, BOTTOM, TOP);
    fprintf(out,
            "<line class=\"grid\" x1=\"0\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
            "<text x=\"%d\" y=\"%.1f\">",
            at, RIGHT, at, RIGHT + 6, at + 4);
    html_text(out, c->value(y, text));
    fputs("</text>", out);
}

void page_chart(const struct page_curve *c, FILE *out)
{
    struct range xs = range_of(c, true), ys = range_of(c, false);
    double x = NAN, y = NAN;
    char text[NUMBER_TEXT];
    if (ys.points < 2)
        return;
    for (size_t i = json_count(c->y); i > 0 && !point_at(c, i - 1, &x, &y); i--)
        continue;
    fputs("<div class=\"card\"><h3>", out);
    html_text(out, c->name);
    fputs(" <b>", out);
    html_text(out, c->value(y, text));
    fprintf(out, "</b></h3><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    html_text(out, c->name);
    fputs("\">", out);
    level_write(ys.high, ys, c, out);
    level_write((ys.low + ys.high) / 2, ys, c, out);
    level_write(ys.low, ys, c, out);
    line_write(c, xs, ys, out);
    fprintf(out, "<text x=\"0\" y=\"%d\">", HEIGHT - 4);
    html_text(out, number_short(xs.low, text));
    fprintf(out, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", RIGHT, HEIGHT - 4);
    html_text(out, number_short(xs.high, text));
    fputs(" examples</text></svg></div>", out);
}

void page_bar(double share, const char *colour, FILE *out)
{
    double width = fmin(fmax(share, 0), 1) * 100;
    if (!isfinite(share))
        return;
    fprintf(out,
            "<svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" "
            "aria-hidden=\"true\"><rect class=\"%s\" width=\"%.1f\" height=\"8\"/></svg>",
            colour, width);
}

void page_stack(const char *name, const struct page_part *part, size_t parts, FILE *out)
{
    double sum = 0, at = 0;
    for (size_t i = 0; i < parts; i++)
        if (part[i].value > 0)
            sum += part[i].value;
    if (!(sum > 0) || !isfinite(sum))
        return;
    fputs("<svg class=\"stack\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" "
          "aria-label=\"",
          out);
    html_text(out, name);
    fputs("\">", out);
    for (size_t i = 0; i < parts; i++) {
        double width = fmax(part[i].value, 0) / sum * 1000;
        if (!(width > 0))
            continue;
        fprintf(out, "<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"10\"/>", part[i].colour,
                at, fmax(width - 2, 0.5));
        at += width;
    }
    fputs("</svg><p class=\"legend\">", out);
    for (size_t i = 0; i < parts; i++) {
        if (!isfinite(part[i].value))
            continue;
        fprintf(out, "<span><i class=\"%s\"></i>", part[i].colour);
        html_text(out, part[i].name);
        fprintf(out, " <b>%.0f %%</b></span>", fmax(part[i].value, 0) / sum * 100);
    }
    fputs("</p>", out);
}
