/* page_chart.c: lines and bars as SVG. Their numbers are attributes of shapes: the policy of the
 * page allows no style in an element. */
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>

/* The drawing's own units. */
enum { WIDTH = 360, TOP = 8, BOTTOM = 104, HEIGHT = 124, RIGHT = 300 };
enum { LEVELS = 3 }; /* steps of an axis, about */

/* Values from low to high, with a mark at each multiple of step. */
struct axis {
    double low, high, step;
    size_t points;
};

static bool point_at(const struct page_curve *c, size_t i, double *x, double *y)
{
    *x = json_as_number(json_array_at(c->x, i), (double)NAN);
    *y = json_as_number(json_array_at(c->y, i), (double)NAN);
    return isfinite(*x) && isfinite(*y) && fabs(*x) < 1e30 && fabs(*y) < 1e30;
}

/* 1, 2 or 5 times a power of ten, so that `span` has about LEVELS steps. */
static double step_of(double span)
{
    static const double round[] = {1, 2, 5};
    double power = pow(10, floor(log10(span / LEVELS)));
    for (size_t i = 0; i < sizeof round / sizeof round[0]; i++)
        if (span <= LEVELS * round[i] * power)
            return round[i] * power;
    return 10 * power;
}

static struct axis axis_of(const struct page_curve *c, bool of_x)
{
    struct axis a = {.points = 0};
    double x, y, least = c->least;
    for (size_t i = 0; i < json_count(c->y); i++) {
        if (!point_at(c, i, &x, &y))
            continue;
        double v = y;
        if (of_x)
            v = x;
        if (a.points == 0 || v < a.low)
            a.low = v;
        if (a.points == 0 || v > a.high)
            a.high = v;
        a.points++;
    }
    if (of_x || c->from_zero)
        a.low = fmin(a.low, 0);
    if (of_x)
        least = 1;
    /* neither finer than what its texts can show, nor than what a double can tell apart */
    least = fmax(least, 1e-9 * fmax(fabs(a.low), fabs(a.high)));
    a.step = step_of(fmax(a.high - a.low, least));
    if (of_x) /* the line goes to the right edge */
        a.high = fmax(a.high, a.low + least);
    else {
        a.low = floor(a.low / a.step) * a.step;
        a.high = fmax(ceil(a.high / a.step) * a.step, a.low + a.step);
    }
    return a;
}

static double place(double v, struct axis a, double from, double to)
{
    return from + (v - a.low) / (a.high - a.low) * (to - from);
}

static void line_write(const struct page_curve *c, struct axis xs, struct axis ys, FILE *out)
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

/* A figure has as many digits as its axis has steps between. */
static const char *mark_text(const struct page_curve *c, double v, double step, char *text)
{
    int digits = (int)fmax(0, -floor(log10(step) + 1e-9));
    if (c->value == number_figure && digits < 9)
        (void)snprintf(text, NUMBER_TEXT, "%.*f", digits, v + 0.0);
    else
        (void)c->value(v, text);
    return text;
}

static void marks_write(const struct page_curve *c, struct axis xs, struct axis ys, FILE *out)
{
    char text[NUMBER_TEXT];
    for (int i = 0; i <= 2 * LEVELS && ys.low + i * ys.step <= ys.high + ys.step / 2; i++) {
        double v = ys.low + i * ys.step, at = place(v, ys, BOTTOM, TOP);
        if (fabs(v) < ys.step / 2)
            v = 0;
        fprintf(out, "<path class=\"grid\" d=\"M0 %.1fH%d\"/><text x=\"%d\" y=\"%.1f\">%s</text>",
                at, RIGHT, RIGHT + 6, at + 4, mark_text(c, v, ys.step, text));
    }
    for (int i = 0; i <= 2 * LEVELS && i * xs.step <= xs.high; i++) {
        double at = place(i * xs.step, xs, 0, RIGHT);
        const char *anchor = "middle";
        if (i == 0)
            anchor = "start";
        else if (at > RIGHT - 20)
            anchor = "end"; /* the unit stands right of it */
        fprintf(out,
                "<path class=\"axis\" d=\"M%.1f %dv4\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"%s\">%s</text>",
                at, BOTTOM, at, HEIGHT - 4, anchor, number_short(i * xs.step, text));
    }
}

/* Describes the curve in words, which a screen reader speaks. */
static void words_write(const struct page_curve *c, FILE *out)
{
    double x, y, least = NAN, most = NAN, last = NAN, trained = NAN;
    char text[NUMBER_TEXT];
    for (size_t i = 0; i < json_count(c->y); i++) {
        if (!point_at(c, i, &x, &y))
            continue;
        least = fmin(least, y);
        most = fmax(most, y);
        last = y;
        trained = x;
    }
    html_text(out, c->name);
    fprintf(out, " by examples trained: %s", c->value(last, text));
    fprintf(out, " at %s examples", number_short(trained, text));
    fprintf(out, ", least %s", c->value(least, text));
    fprintf(out, ", most %s", c->value(most, text));
}

void page_chart(const struct page_curve *c, FILE *out)
{
    struct axis xs = axis_of(c, true), ys = axis_of(c, false);
    double x = NAN, y = NAN;
    char text[NUMBER_TEXT];
    if (ys.points < 2)
        return;
    for (size_t i = json_count(c->y); i > 0 && !point_at(c, i - 1, &x, &y); i--)
        continue;
    fputs("<div class=\"card\"><h3>", out);
    html_text(out, c->name);
    fputs(" <small>last point</small> <b>", out);
    html_text(out, c->value(y, text));
    fprintf(out, "</b></h3><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    words_write(c, out);
    fputs("\">", out);
    marks_write(c, xs, ys, out);
    line_write(c, xs, ys, out);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">examples</text></svg></div>", WIDTH,
            HEIGHT - 4);
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

void page_stack(const struct page_part *part, size_t parts, FILE *out)
{
    double sum = 0, at = 0;
    for (size_t i = 0; i < parts; i++)
        if (part[i].value > 0)
            sum += part[i].value;
    if (!(sum > 0) || !isfinite(sum))
        return;
    fputs("<svg class=\"stack\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" "
          "aria-hidden=\"true\">",
          out);
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
