/* meter_text.c: the text of sheets. A metric's samples stand together, and a histogram's cells in
 * rising order: both are required. */
#include "proto/meter/meter_text.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <string.h>

static const char *const type_text[] = {[METER_COUNTER] = "counter",
                                        [METER_GAUGE] = "gauge",
                                        [METER_HISTOGRAM] = "histogram",
                                        [METER_INFO] = "info"};

struct out {
    FILE *f;
    enum meter_format format;
    uint32_t series, left_out;
    uint32_t tables_room; /* for more series of metrics by table */
    size_t bytes;
    char text
        [4096]; /* (bytes), not yet in f: a call of stdio for each word costs most of the time */
};

const char *meter_text_type(enum meter_format format)
{
    if (format == METER_OPEN)
        return METER_OPEN_TYPE "; version=1.0.0; charset=utf-8";
    return "text/plain; version=0.0.4; charset=utf-8";
}

static void flush(struct out *o)
{
    (void)fwrite(o->text, 1, o->bytes, o->f);
    o->bytes = 0;
}

static void add_char(struct out *o, char c)
{
    if (o->bytes == sizeof o->text)
        flush(o);
    o->text[o->bytes++] = c;
}

static void add_bytes(struct out *o, const char *text, size_t bytes)
{
    while (bytes > 0) {
        if (o->bytes == sizeof o->text)
            flush(o);
        size_t now = MIN(bytes, sizeof o->text - o->bytes);
        memcpy(o->text + o->bytes, text, now);
        o->bytes += now;
        text += now;
        bytes -= now;
    }
}

static void add(struct out *o, const char *text)
{
    add_bytes(o, text, strlen(text));
}

static void add_whole(struct out *o, int64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t left = (uint64_t)value;
    if (value < 0)
        left = -left;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        *--at = '-';
    add_bytes(o, at, (size_t)(digits + sizeof digits - at));
}

static void add_number(struct out *o, double value)
{
    char text[32];
    if (isinf(value)) {
        add(o, value > 0 ? "+Inf" : "-Inf");
    } else if (fabs(value) < 9e15 && value == (double)(int64_t)value) {
        add_whole(o, (int64_t)value);
    } else {
        (void)snprintf(text, sizeof text, "%.12g", value);
        add(o, text);
    }
}

static void add_escaped(struct out *o, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '"' || *text == '\\')
            add_char(o, '\\');
        add_char(o, *text == '\n' ? 'n' : *text);
    }
}

/* The ending that the names of its samples have behind the name of the metric. */
static const char *suffix(enum meter_type type)
{
    if (type == METER_COUNTER)
        return "_total";
    if (type == METER_INFO)
        return "_info";
    return "";
}

/* The older format has no type info, and names the samples in HELP and TYPE. */
static void head_write(struct out *o, const struct meter_row *row)
{
    const char *type = type_text[row->type], *behind = "";
    if (o->format == METER_PLAIN)
        behind = suffix(row->type);
    if (o->format == METER_PLAIN && row->type == METER_INFO)
        type = type_text[METER_GAUGE];
    const char *const help[] = {"# HELP ", row->name, behind, " ", row->help, "\n"},
                      *const kind[] = {"# TYPE ", row->name, behind, " ", type, "\n"},
                      *const unit[] = {"# UNIT ", row->name, " ", row->unit, "\n"};
    for (size_t i = 0; i < sizeof help / sizeof help[0]; i++)
        add(o, help[i]);
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        add(o, kind[i]);
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (o->format == METER_OPEN && row->unit[0] != '\0')
            add(o, unit[i]);
}

/* {shard="s1/0",op="pull",le="0.1"}. bound NAN: without le. */
static void labels_write(struct out *o, const struct meter_row *row, const char *value,
                         double bound)
{
    char before = '{';
    if (row->labels[0] == '\0' && isnan(bound))
        return;
    for (const char *name = row->labels; *name != '\0';) {
        size_t bytes = strcspn(name, ",");
        add_char(o, before);
        add_bytes(o, name, bytes);
        add(o, "=\"");
        add_escaped(o, value);
        add_char(o, '"');
        value += strlen(value) + 1;
        name += bytes;
        name += *name == ',';
        before = ',';
    }
    if (!isnan(bound)) {
        add_char(o, before);
        add(o, "le=\"");
        add_number(o, bound);
        add_char(o, '"');
    }
    add_char(o, '}');
}

static void line_write(struct out *o, const struct meter_row *row, const char *behind,
                       const char *labels, double bound, double value)
{
    add(o, row->name);
    add(o, behind);
    labels_write(o, row, labels, bound);
    add_char(o, ' ');
    add_number(o, value);
    add_char(o, '\n');
}

static void histogram_write(struct out *o, const struct meter_row *row, const char *labels,
                            const double *number)
{
    double count = 0;
    for (uint32_t i = 0; i < METER_CELLS; i++) {
        count += number[i];
        line_write(o, row, "_bucket", labels, meter_bound(row, i), count);
    }
    line_write(o, row, "_sum", labels, NAN, number[METER_CELLS]);
    line_write(o, row, "_count", labels, NAN, count);
}

static void sample_write(struct out *o, const struct meter_sheet *s,
                         const struct meter_sample *sample)
{
    const struct meter_row *row = &meter_rows[sample->id];
    const char *labels = s->text + sample->text;
    if (row->type == METER_HISTOGRAM)
        histogram_write(o, row, labels, s->number + sample->number);
    else
        line_write(o, row, suffix(row->type), labels, NAN, s->number[sample->number]);
}

/* True for a metric of single tables, of which a fleet of many spaces has thousands of series. */
static bool by_table(const struct meter_row *row)
{
    return strstr(row->labels, "table") != NULL;
}

static uint32_t series_of(const struct meter_sample *sample)
{
    return sample->numbers == 1 ? 1 : sample->numbers + 1;
}

/* Series for tables, beside those of all other metrics. */
static uint32_t tables_room(const struct meter_sheet *sheet, uint32_t sheets)
{
    uint32_t others = 1;
    for (uint32_t s = 0; s < sheets; s++)
        for (uint32_t i = 0; i < sheet[s].samples; i++)
            if (!by_table(&meter_rows[sheet[s].sample[i].id]))
                others += series_of(&sheet[s].sample[i]);
    return SAT_SUB(METER_SERIES, others);
}

static void row_write(struct out *o, uint32_t id, const struct meter_sheet *sheet, uint32_t sheets)
{
    const bool tables = by_table(&meter_rows[id]);
    bool headed = false;
    for (uint32_t s = 0; s < sheets; s++)
        for (uint32_t i = 0; i < sheet[s].samples; i++) {
            const struct meter_sample *sample = &sheet[s].sample[i];
            if (sample->id != id)
                continue;
            uint32_t series = series_of(sample);
            if (o->series + series > METER_SERIES || (tables && series > o->tables_room)) {
                o->left_out += series;
                continue;
            }
            if (tables)
                o->tables_room -= series;
            if (!headed)
                head_write(o, &meter_rows[id]);
            headed = true;
            o->series += series;
            sample_write(o, &sheet[s], sample);
        }
}

void meter_text_write(FILE *f, enum meter_format format, const struct meter_sheet *sheet,
                      uint32_t sheets)
{
    const struct meter_row *last = &meter_rows[METER_ID_LEFT_OUT];
    struct out o = {
        .f = f, .format = format, .series = 1, .tables_room = tables_room(sheet, sheets)};
    for (uint32_t s = 0; s < sheets; s++)
        o.left_out += sheet[s].left_out;
    for (uint32_t id = 0; id < METER_ROWS; id++)
        if (id != METER_ID_LEFT_OUT)
            row_write(&o, id, sheet, sheets);
    head_write(&o, last);
    line_write(&o, last, "", "", NAN, o.left_out);
    if (format == METER_OPEN)
        add(&o, "# EOF\n");
    flush(&o);
}
