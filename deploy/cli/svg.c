/* svg.c: axes with round numbers, lines, dots, bars. */
#include "deploy/cli/svg.h"
#include "deploy/cli/html.h"

#include <math.h>
#include <string.h>

/* The box, and the rectangle in it that values are drawn in. */
enum {
    WIDTH = 520,
    HEIGHT = 260,
    LEFT = 52,
    RIGHT = 508,
    TOP = 12,
    BOTTOM = 218,
    TICKS = 5,
    TICKS_MAX = 20,
    BAR_HEIGHT = 34
};
#define VALUE_MAX 1e300 /* larger ones are not drawn: spans and means of them must stay finite */

struct frame {
    double x_min, x_max, y_min, y_max;
};

static double frame_x(const struct frame *f, double x)
{
    return LEFT + (x - f->x_min) / (f->x_max - f->x_min) * (RIGHT - LEFT);
}

static double frame_y(const struct frame *f, double y)
{
    double at = BOTTOM - (y - f->y_min) / (f->y_max - f->y_min) * (BOTTOM - TOP);
    return at < TOP - 400      ? TOP - 400
           : at > BOTTOM + 400 ? BOTTOM + 400
                               : at; /* the clip cuts it; renderers like small numbers */
}

/* ---- scales ---------------------------------------------------------------------------------- */

static bool drawable(double x, double y)
{
    return fabs(x) <= VALUE_MAX && fabs(y) <= VALUE_MAX; /* false for NaN */
}

static void widen(double value, double *min, double *max)
{
    if (!drawable(value, 0))
        return;
    *min = value < *min ? value : *min;
    *max = value > *max ? value : *max;
}

/* A range that has an inside, with `air` of it on both sides. One that is too narrow for its
 * numbers is widened: between 1e17 and 1e17 + 16 there is no number to count on by, and a step of
 * 1e-18 is lost beside 1. */
static void settle(double *min, double *max, double air)
{
    if (*min > *max) /* nothing was seen */
        *min = 0, *max = 1;
    double size = fmax(fabs(*min), fabs(*max)), span = *max - *min, low = *min, high = *max;
    if (span < 1e-9 * fmax(size, 1e-9)) {
        span = size > 1e-9 ? size * 0.02 : 1;
        low -= span / 2;
        high += span / 2;
    }
    low -= air * span;
    high += air * span;
    *min = *min >= 0 && low < 0 ? 0 : low;
    *max = high;
}

static struct frame frame_of(const struct svg_chart *c)
{
    struct frame f = {.x_min = INFINITY, .x_max = -INFINITY, .y_min = INFINITY, .y_max = -INFINITY};
    for (size_t s = 0; s < c->series_count; s++)
        for (size_t i = 0; i < c->series[s].count; i++) {
            if (!drawable(c->series[s].x[i], c->series[s].y[i]))
                continue;
            widen(c->series[s].x[i], &f.x_min, &f.x_max);
            if (!c->series[s].faint)
                widen(c->series[s].y[i], &f.y_min, &f.y_max);
        }
    settle(&f.x_min, &f.x_max, 0.0);
    settle(&f.y_min, &f.y_max, 0.08);
    if (c->x_min < c->x_max && drawable(c->x_min, c->x_max))
        f.x_min = c->x_min, f.x_max = c->x_max;
    if (c->y_min < c->y_max && drawable(c->y_min, c->y_max))
        f.y_min = c->y_min, f.y_max = c->y_max;
    return f;
}

/* 1, 2 or 5 times a power of ten, so that a span has about TICKS of them; never less than
 * `least`. */
static double tick_step(double span, double least)
{
    double raw = span / TICKS, power = pow(10, floor(log10(raw))), rest = raw / power;
    double step = (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10) * power;
    return step < least ? least : step;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The n-th tick's value, from the first one within the range on; false: there is none. However the
 * range came about, an axis has an end: what is read may be anybody's report. */
static bool tick_at(double min, double max, double step, int n, double *value)
{
    *value = (ceil(min / step - 1e-9) + n) * step;
    return n < TICKS_MAX && *value <= max + 1e-9 * step;
}

static void axes(FILE *out, const struct svg_chart *c, const struct frame *f)
{
    char text[32];
    bool whole = c->x_name != NULL && strcmp(c->x_name, "epoch") == 0;
    double x_step = tick_step(f->x_max - f->x_min, whole ? 1 : 0),
           y_step = tick_step(f->y_max - f->y_min, 0);
    double at;
    for (int k = 0; tick_at(f->y_min, f->y_max, y_step, k, &at); k++) {
        double y = frame_y(f, at);
        fprintf(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT, y,
                RIGHT, y);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 4,
                html_short(at, text));
    }
    for (int k = 0; tick_at(f->x_min, f->x_max, x_step, k, &at); k++)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", frame_x(f, at),
                BOTTOM + 17, html_short(at, text));
    for (size_t i = 0; i < c->mark_count; i++)
        if (c->mark[i] > f->x_min && c->mark[i] < f->x_max)
            fprintf(out, "<line class=\"mark\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
                    frame_x(f, c->mark[i]), TOP, frame_x(f, c->mark[i]), BOTTOM);
    fprintf(out, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT, BOTTOM,
            RIGHT, BOTTOM);
    fprintf(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", RIGHT, HEIGHT - 6);
    html_text(out, c->x_name);
    fputs("</text>\n", out);
}

static void bars(FILE *out, const struct svg_chart *c, const struct frame *f)
{
    double most = 0, room = (double)(RIGHT - LEFT) / (double)(c->bar_count + 1);
    char text[32];
    for (size_t i = 0; i < c->bar_count; i++)
        most = drawable(c->bar[i], 0) ? fmax(most, c->bar[i]) : most;
    fputs("<g class=\"bars\">", out);
    for (size_t i = 0; i < c->bar_count && most > 0; i++) {
        if (!drawable(c->series[0].x[i], c->bar[i]))
            continue;
        double width = fmin(fmax(room * 0.5, 3), 14), height = c->bar[i] / most * BAR_HEIGHT;
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"1.5\"><title>%s "
                "examples</title></rect>",
                frame_x(f, c->series[0].x[i]) - width / 2, BOTTOM - height, width, height,
                html_number(c->bar[i], 0, text));
    }
    fputs("</g>\n", out);
}

static void line(FILE *out, const struct svg_series *s, const struct frame *f)
{
    const char *command = "M";
    fprintf(out, "<path class=\"%s%s\" d=\"", s->colour, s->faint ? " faint" : "");
    for (size_t i = 0; i < s->count; i++) {
        if (!drawable(s->x[i], s->y[i])) {
            command = "M";
            continue;
        }
        fprintf(out, "%s%.1f %.1f", command, frame_x(f, s->x[i]), frame_y(f, s->y[i]));
        command = "L";
    }
    fputs("\"/>\n", out);
}

static void dots(FILE *out, const struct svg_chart *c, const struct svg_series *s,
                 const struct frame *f)
{
    char x[32], y[32];
    for (size_t i = 0; i < s->count; i++) {
        if (!drawable(s->x[i], s->y[i]))
            continue;
        fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\"><title>", s->colour,
                frame_x(f, s->x[i]), frame_y(f, s->y[i]));
        if (s->note != NULL)
            fprintf(out, "%s %zu: ", s->note, i + 1);
        html_text(out, c->x_name);
        fprintf(out, " %s, ", html_short(s->x[i], x));
        html_text(out, s->name != NULL ? s->name : c->y_name);
        fprintf(out, " %s</title></circle>\n", html_number(s->y[i], 6, y));
    }
}

static void legend(FILE *out, const struct svg_chart *c)
{
    fputs("<div class=\"legend\">", out);
    for (size_t i = 0; i < c->series_count; i++) {
        if (c->series[i].name == NULL)
            continue;
        fprintf(out, "<span><i class=\"%s\"></i>", c->series[i].colour);
        html_text(out, c->series[i].name);
        fputs("</span>", out);
    }
    fputs("</div>\n", out);
}

/* ---- whole ----------------------------------------------------------------------------------- */

void svg_chart(FILE *out, const struct svg_chart *c)
{
    static unsigned number; /* of the page: names of clips must differ */
    struct frame f = frame_of(c);
    bool named = false;
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    html_text(out, c->label);
    fprintf(out,
            "\">\n<clipPath id=\"clip%u\"><rect x=\"%d\" y=\"%d\" width=\"%d\" "
            "height=\"%d\"/></clipPath>\n",
            ++number, LEFT, TOP - 6, RIGHT - LEFT, BOTTOM - TOP + 6);
    axes(out, c, &f);
    if (c->bar_count > 0)
        bars(out, c, &f);
    fprintf(out, "<g clip-path=\"url(#clip%u)\">\n", number);
    if (c->diagonal) {
        double low = fmax(f.x_min, f.y_min), high = fmin(f.x_max, f.y_max);
        fprintf(out, "<line class=\"diag\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                frame_x(&f, low), frame_y(&f, low), frame_x(&f, high), frame_y(&f, high));
    }
    for (size_t i = 0; i < c->series_count; i++) {
        named |= c->series[i].name != NULL;
        if (!c->series[i].apart)
            line(out, &c->series[i], &f);
    }
    fputs("</g>\n", out);
    for (size_t i = 0; i < c->series_count; i++)
        if (c->series[i].dots)
            dots(out, c, &c->series[i], &f);
    fputs("</svg>\n", out);
    if (named)
        legend(out, c);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* The name stands above its line: beside it there is no room for both on a narrow page. */
enum { RANK_ROW = 40, RANK_LEFT = 12, RANK_BYTES = 56 };

static double rank_x(const struct frame *f, double value)
{
    return RANK_LEFT + (value - f->x_min) / (f->x_max - f->x_min) * (RIGHT - RANK_LEFT);
}

static void rank_draw(FILE *out, const struct svg_rank *r, const struct frame *f, double top,
                      bool first, const char *x_name)
{
    char text[32];
    double x, y = top + 29;
    fprintf(out, "<text x=\"0\" y=\"%.1f\"%s>", top + 17, first ? " class=\"name\"" : "");
    if (strlen(r->name) > RANK_BYTES) { /* its end tells it from its neighbours, too */
        char cut[RANK_BYTES + 8];
        (void)snprintf(cut, sizeof cut, "%.*s..%s", RANK_BYTES / 2 - 1, r->name,
                       r->name + strlen(r->name) - (RANK_BYTES / 2 - 1));
        html_text(out, cut);
    } else {
        html_text(out, r->name);
    }
    fputs("</text>\n", out);
    if (!drawable(r->value, 0))
        return;
    x = rank_x(f, r->value);
    if (drawable(r->error, 0) && r->error > 0)
        fprintf(out, "<line class=\"whisker\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                rank_x(f, r->value - r->error), y, rank_x(f, r->value + r->error), y);
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>",
            first ? "c1" : "c2", x, y);
    html_text(out, r->name);
    fputs(": ", out);
    html_text(out, x_name);
    fprintf(out, " %s</title></circle>\n", html_number(r->value, 6, text));
}

static void rank_ticks(FILE *out, const struct frame *f, int bottom)
{
    double at, step = tick_step(f->x_max - f->x_min, 0);
    char text[32];
    for (int k = 0; tick_at(f->x_min, f->x_max, step, k, &at); k++) {
        double x = rank_x(f, at);
        fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", x, TOP,
                x, bottom);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, bottom + 18,
                html_short(at, text));
    }
}

void svg_ranks(FILE *out, const char *label, const char *x_name, const struct svg_rank *rank,
               size_t count)
{
    struct frame f = {.x_min = INFINITY, .x_max = -INFINITY};
    int bottom = TOP + RANK_ROW * (int)count;
    for (size_t i = 0; i < count; i++) {
        double error = drawable(rank[i].error, 0) ? rank[i].error : 0;
        widen(rank[i].value - error, &f.x_min, &f.x_max);
        widen(rank[i].value + error, &f.x_min, &f.x_max);
    }
    settle(&f.x_min, &f.x_max, 0.04);
    fprintf(out, "<svg class=\"ranks\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
            bottom + 42);
    html_text(out, label);
    fputs("\">\n", out);
    if (count > 0 && drawable(rank[0].value, rank[0].error) && rank[0].error > 0)
        fprintf(out, "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
                rank_x(&f, rank[0].value - rank[0].error), TOP,
                rank_x(&f, rank[0].value + rank[0].error) -
                    rank_x(&f, rank[0].value - rank[0].error),
                bottom - TOP);
    rank_ticks(out, &f, bottom);
    for (size_t i = 0; i < count; i++)
        rank_draw(out, &rank[i], &f, TOP + RANK_ROW * (double)i, i == 0, x_name);
    fprintf(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", RIGHT, bottom + 38);
    html_text(out, x_name);
    fputs("</text>\n</svg>\n", out);
}

void svg_stack(FILE *out, const char *label, const struct svg_part *part, size_t count)
{
    double sum = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        sum += part[i].value > 0 ? part[i].value : 0;
    if (sum <= 0)
        return;
    fprintf(out, "<svg viewBox=\"0 0 1040 34\" role=\"img\" aria-label=\"");
    html_text(out, label);
    fputs("\">\n", out);
    for (size_t i = 0; i < count; i++) {
        double width = part[i].value > 0 ? part[i].value / sum * 1040 : 0;
        if (width > 0)
            fprintf(out,
                    "<rect class=\"%s\" x=\"%.2f\" y=\"2\" width=\"%.2f\" height=\"30\" "
                    "rx=\"%.1f\"><title>%s: "
                    "%s</title></rect>\n",
                    part[i].colour, at, fmax(width - 2, 0.5), width > 12 ? 5.0 : 0.0, part[i].name,
                    part[i].text);
        at += width;
    }
    fputs("</svg>\n<div class=\"legend\">", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "<span><i class=\"%s\"></i><b>%s</b> %s, %.0f %%</span>", part[i].colour,
                part[i].name, part[i].text, (part[i].value > 0 ? part[i].value : 0) / sum * 100);
    fputs("</div>\n", out);
}
