/* column_form.c: counts forms of cells. */
#include "worker/data/column_form.h"

#include "proto/base/minmax.h"

#include <stdio.h>
#include <string.h>

/* ---- words and times ------------------------------------------------------------------------- */

static const char *const missing[FORM_MISSING] = {"NA",  "NaN", "nan",  "NULL", "null", "None",
                                                  "N/A", "n/a", "<NA>", "\\N",  "-",    "?"};

/* A number is counted in its unit since 1970; other forms are dates. */
static const struct {
    struct time_form form;
    const char *unit, *format, *called;
    bool iso, plain;
} times[FORM_TIMES] = {
    {{.unit = TIME_SECONDS}, "", "", "a date", true, false},
    {{.unit = TIME_SECONDS}, "", "", "seconds since 1970", false, false},
    {{.unit = TIME_MILLISECONDS}, "ms", "", "milliseconds since 1970", false, false},
    {{.unit = TIME_MICROSECONDS}, "us", "", "microseconds since 1970", false, false},
    {{.format = "%Y%m%d", .bytes = 8}, "", "yyyymmdd", "YYYYMMDD", false, true},
    {{.format = "%y%m%d%H", .bytes = 8}, "", "yymmddhh", "YYMMDDHH", false, true},
    {{.format = "%Y%m%d%H", .bytes = 10}, "", "yyyymmddhh", "YYYYMMDDHH", false, true},
    {{.format = "%d/%m/%Y"}, "", "%d/%m/%Y", "DD/MM/YYYY", false, false},
    {{.format = "%m/%d/%Y"}, "", "%m/%d/%Y", "MM/DD/YYYY", false, false},
    {{.format = "%d/%m/%Y %H:%M"}, "", "%d/%m/%Y %H:%M", "DD/MM/YYYY HH:MM", false, false},
    {{.format = "%m/%d/%Y %H:%M"}, "", "%m/%d/%Y %H:%M", "MM/DD/YYYY HH:MM", false, false},
    {{.format = "%d.%m.%Y"}, "", "%d.%m.%Y", "DD.MM.YYYY", false, false},
    {{.format = "%d.%m.%Y %H:%M"}, "", "%d.%m.%Y %H:%M", "DD.MM.YYYY HH:MM", false, false},
    {{.format = "%Y/%m/%d"}, "", "%Y/%m/%d", "YYYY/MM/DD", false, false},
};

const char *column_form_missing(uint32_t i)
{
    return missing[i];
}

const char *column_form_unit(uint32_t i)
{
    return times[i].unit;
}

const char *column_form_format(uint32_t i)
{
    return times[i].format;
}

const char *column_form_called(uint32_t i)
{
    return times[i].called;
}

bool column_form_plain_time(uint32_t i)
{
    return times[i].plain;
}

/* Times of other years are numbers that mean something else. */
#define TIME_EARLIEST 788918400u /* 1995 */
#define TIME_LATEST 2208988800u  /* 2040 */

static bool is_time(uint32_t i, const struct cell *cell, uint32_t *out)
{
    static const struct zone utc = {.name = "UTC"};
    bool dashes = cell->bytes >= 8 && cell->text[4] == '-';
    if (times[i].form.format[0] == '\0' && times[i].iso != dashes)
        return false;
    return feature_time(cell, &times[i].form, &utc, out) && *out >= TIME_EARLIEST &&
           *out < TIME_LATEST;
}

/* A form that many cells do not have is not tried any more. */
static void times_take(struct column_form *f, const struct cell *cell)
{
    for (uint32_t i = 0; i < FORM_TIMES; i++) {
        struct form_time *t = &f->time[i];
        uint32_t at;
        if (t->bad > 4 + t->good / 64)
            continue;
        if (!is_time(i, cell, &at)) {
            t->bad++;
            continue;
        }
        if (t->good++ == 0)
            t->least = t->most = at;
        t->least = MIN(t->least, at);
        t->most = at > t->most ? at : t->most;
        t->back += at < t->last;
        t->last = at;
    }
}

uint32_t column_form_time(const struct column_form *f)
{
    uint64_t values = column_form_values(f);
    for (uint32_t i = 0; i < FORM_TIMES; i++)
        if (values > 0 && f->time[i].good == values)
            return i;
    return FORM_TIMES;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_number(const char *text, size_t bytes)
{
    struct cell c = {text, (uint32_t)bytes};
    double x;
    return feature_number(&c, &x);
}

/* "3:0.5": a value and its weight. */
static bool has_weight(const char *p, const char *end)
{
    const char *colon = memrchr(p, ':', (size_t)(end - p));
    return colon != NULL && colon > p && is_number(colon + 1, (size_t)(end - colon - 1));
}

static int piece_take(struct column_form *f, const char *p, const char *end)
{
    struct cell value = {p, (uint32_t)(end - p)};
    const char *colon = has_weight(p, end) ? memrchr(p, ':', value.bytes) : NULL;
    f->weighted += colon != NULL;
    if (colon != NULL)
        value.bytes = (uint32_t)(colon - p);
    f->pieces++;
    f->plain += memchr(value.text, ' ', value.bytes) == NULL;
    return column_seen_add(&f->piece, &value, false);
}

/* A list of one value has no separator, and counts as a list if others do. */
static int list_take(struct column_form *f, const struct cell *cell)
{
    static const char used[] = {'\n', '|', '^', ';', ',', ' '};
    const char *p = cell->text, *end = p + cell->bytes;
    uint64_t before = f->pieces;
    int rc = 0;
    for (size_t i = 0; f->separator == '\0' && i < sizeof used; i++)
        if (memchr(p, used[i], cell->bytes) != NULL)
            f->separator = used[i];
    if (f->separator == '\0') {
        f->pieces++;
        f->weighted += has_weight(p, end);
        f->plain++;
        return 0;
    }
    f->listed += memchr(p, f->separator, cell->bytes) != NULL;
    while (p < end && rc == 0) {
        const char *stop = memchr(p, f->separator, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        if (stop > p)
            rc = piece_take(f, p, stop);
        p = stop + 1;
    }
    if (f->pieces - before > f->pieces_most)
        f->pieces_most = f->pieces - before;
    return rc;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void few_take(struct column_form *f, const struct cell *cell, bool positive)
{
    if (f->few_count > FORM_FEW)
        return;
    uint32_t bytes = MIN(cell->bytes, (uint32_t)COLUMN_SEEN_TEXT);
    for (uint32_t i = 0; i < f->few_count; i++)
        if (f->few[i].bytes == bytes &&
            memcmp(f->few[i].text, cell->text, MIN(bytes, COLUMN_SEEN_TEXT - 1)) == 0) {
            f->few[i].rows++;
            f->few[i].positives += positive;
            return;
        }
    if (f->few_count++ >= FORM_FEW)
        return;
    struct form_value *v = &f->few[f->few_count - 1];
    *v = (struct form_value){.bytes = (uint8_t)bytes, .rows = 1, .positives = positive};
    memcpy(v->text, cell->text, MIN(bytes, COLUMN_SEEN_TEXT - 1));
}

/* "1,5" */
static bool is_decimal(const struct cell *cell)
{
    const char *comma = memchr(cell->text, ',', cell->bytes);
    if (comma == NULL || comma == cell->text || comma + 1 == cell->text + cell->bytes)
        return false;
    char text[32];
    if (cell->bytes >= sizeof text || memchr(cell->text, '.', cell->bytes) != NULL)
        return false;
    memcpy(text, cell->text, cell->bytes);
    text[comma - cell->text] = '.';
    return is_number(text, cell->bytes);
}

static uint32_t digits_of(const char *p, const char *end)
{
    uint32_t n = 0;
    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

/* "1,234", "-12,345,678.9": one to three digits, then groups of three. */
static bool is_thousands(const struct cell *cell)
{
    const char *p = cell->text, *end = p + cell->bytes;
    p += p < end && (*p == '-' || *p == '+');
    uint32_t first = digits_of(p, end), groups = 0;
    if (first == 0 || first > 3 || *p == '0')
        return false;
    for (p += first; p < end && *p == ','; p += 4, groups++)
        if (digits_of(p + 1, end) < 3)
            return false;
    if (p < end && *p == '.')
        p += 1 + digits_of(p + 1, end);
    return groups > 0 && p == end;
}

/* Returns true for a number with commas. */
static bool comma_take(struct column_form *f, const struct cell *cell)
{
    bool decimal = is_decimal(cell), thousands = is_thousands(cell);
    f->commas += decimal && !thousands;
    f->thousands += thousands && !decimal;
    f->either += decimal && thousands;
    return decimal || thousands;
}

static void number_take(struct column_form *f, const struct cell *cell, double x)
{
    uint32_t sign = cell->text[0] == '-';
    bool digits = cell->bytes > sign;
    for (uint32_t i = sign; i < cell->bytes && digits; i++)
        digits = cell->text[i] >= '0' && cell->text[i] <= '9';
    f->sum += x;
    f->wholes += digits;
    f->padded += digits && cell->bytes > sign + 1 && cell->text[sign] == '0';
    f->negatives += x < 0;
    f->zeros += x == 0;
}

void column_form_init(struct column_form *f, uint32_t distinct_most)
{
    *f = (struct column_form){.cells = 0};
    column_seen_limit(&f->seen, distinct_most);
    column_seen_limit(&f->piece, distinct_most);
}

void column_form_free(struct column_form *f)
{
    column_seen_free(&f->seen);
    column_seen_free(&f->piece);
}

void column_form_file(struct column_form *f)
{
    for (uint32_t i = 0; i < FORM_TIMES; i++)
        f->time[i].last = 0;
}

int column_form_add(struct column_form *f, const struct cell *cell, bool positive)
{
    double x;
    f->cells++;
    if (cell->bytes == 0) {
        f->empty++;
        return column_seen_add(&f->seen, cell, positive);
    }
    for (uint32_t i = 0; i < FORM_MISSING && cell->bytes <= 4; i++)
        if (strlen(missing[i]) == cell->bytes && memcmp(missing[i], cell->text, cell->bytes) == 0) {
            f->missing[i]++;
            return column_seen_add(&f->seen, cell, positive);
        }
    bool comma = false, number = feature_number(cell, &x);
    few_take(f, cell, positive);
    times_take(f, cell);
    if (number)
        number_take(f, cell, x);
    else
        comma = comma_take(f, cell);
    f->quoted += cell->bytes > 1 && cell->text[0] == '\'' && cell->text[cell->bytes - 1] == '\'';
    f->brackets += cell->bytes > 1 && cell->text[0] == '[' && cell->text[cell->bytes - 1] == ']';
    int rc = 0;
    if (!number && !comma)
        rc = list_take(f, cell);
    else
        f->pieces++;
    if (rc != 0)
        return rc;
    return column_seen_add(&f->seen, cell, positive);
}

uint64_t column_form_values(const struct column_form *f)
{
    uint64_t none = f->empty;
    for (uint32_t i = 0; i < FORM_MISSING; i++)
        none += f->missing[i];
    return f->cells - none;
}

bool column_form_numbers(const struct column_form *f)
{
    uint64_t values = column_form_values(f);
    return values > 0 && f->seen.numbers + f->commas + f->thousands + f->either == values;
}

bool column_form_decimal(const struct column_form *f)
{
    return column_form_numbers(f) && f->commas > 0 && f->thousands == 0;
}
