/* number.c: numbers as people read them; number.h. */
#include "proto/base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* True for what no unit can show; it is written as a dash. */
static bool is_none(double x, char text[NUMBER_TEXT])
{
    if (isfinite(x) && fabs(x) < 1e30)
        return false;
    (void)snprintf(text, NUMBER_TEXT, "-");
    return true;
}

const char *number_count(double x, char text[NUMBER_TEXT])
{
    char digits[NUMBER_TEXT], *to = text;
    if (is_none(x, text))
        return text;
    (void)snprintf(digits, sizeof digits, "%.0f", x);
    size_t left = strlen(digits);
    if (left > 24)
        return number_short(x, text);
    for (const char *from = digits; *from != 0; from++, left--) {
        *to++ = *from;
        if (left > 1 && left % 3 == 1 && *from != '-')
            *to++ = ',';
    }
    *to = 0;
    return text;
}

/* Three digits and a unit; units go up in thousands. */
static const char *scaled(double x, const char *const *unit, size_t units, char text[NUMBER_TEXT])
{
    size_t at = 0;
    int behind = 2;
    while (at + 1 < units && fabs(x) >= 999.5) {
        x /= 1000;
        at++;
    }
    if (at == 0 && x == floor(x))
        behind = 0;
    else if (fabs(x) >= 99.95)
        behind = 0;
    else if (fabs(x) >= 9.995)
        behind = 1;
    (void)snprintf(text, NUMBER_TEXT, "%.*f%s", behind, x, unit[at]);
    return text;
}

const char *number_short(double x, char text[NUMBER_TEXT])
{
    static const char *const unit[] = {"", " k", " M", " G", " T"};
    if (is_none(x, text))
        return text;
    if (x != 0 && fabs(x) < 1) {
        (void)snprintf(text, NUMBER_TEXT, "%.3g", x);
        return text;
    }
    return scaled(x, unit, sizeof unit / sizeof unit[0], text);
}

const char *number_bytes(double x, char text[NUMBER_TEXT])
{
    static const char *const unit[] = {" B", " kB", " MB", " GB", " TB"};
    if (is_none(x, text))
        return text;
    return scaled(x, unit, sizeof unit / sizeof unit[0], text);
}

const char *number_seconds(double x, char text[NUMBER_TEXT])
{
    static const struct {
        double seconds;
        const char *name, *part;
    } unit[] = {{86400, "d", "h"}, {3600, "h", "min"}, {60, "min", "s"}};
    static const double part[] = {3600, 60, 1};
    if (is_none(x, text))
        return text;
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++) {
        if (x < unit[i].seconds)
            continue;
        double whole = floor(x / unit[i].seconds);
        (void)snprintf(text, NUMBER_TEXT, "%.0f %s %.0f %s", whole, unit[i].name,
                       floor((x - whole * unit[i].seconds) / part[i]), unit[i].part);
        return text;
    }
    (void)snprintf(text, NUMBER_TEXT, "%.0f s", x);
    return text;
}

const char *number_figure(double x, char text[NUMBER_TEXT])
{
    if (!is_none(x, text))
        (void)snprintf(text, NUMBER_TEXT, "%.4f", x);
    return text;
}
