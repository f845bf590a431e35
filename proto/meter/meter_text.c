/* meter_text.c: the text of sheets. A metric's samples stand together, and a histogram's cells in
 * rising order: both are required. */
#include "proto/meter/meter_text.h"

#include "proto/base/assert.h"

#include <inttypes.h>
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
};

const char *meter_text_type(enum meter_format format)
{
    if (format == METER_OPEN)
        return METER_OPEN_TYPE "; version=1.0.0; charset=utf-8";
    return "text/plain; version=0.0.4; charset=utf-8";
}

static void number_write(FILE *f, double value)
{
    if (isinf(value))
        fputs(value > 0 ? "+Inf" : "-Inf", f);
    else if (value == floor(value) && fabs(value) < 9e15)
        fprintf(f, "%" PRId64, (int64_t)value);
    else
        fprintf(f, "%.12g", value);
}

static void escaped_write(FILE *f, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\n')
            fputs("\\n", f);
        else if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else
            putc(*text, f);
}

/* What the names of its samples have behind the name of the metric. */
static const char *suffix(enum meter_type type)
{
    if (type == METER_COUNTER)
        return "_total";
    if (type == METER_INFO)
        return "_info";
    return "";
}

/* The older format has no type info, and names the samples in HELP and TYPE. */
static void head_write(const struct out *o, const struct meter_row *row)
{
    const char *type = type_text[row->type], *behind = "";
    if (o->format == METER_PLAIN)
        behind = suffix(row->type);
    if (o->format == METER_PLAIN && row->type == METER_INFO)
        type = type_text[METER_GAUGE];
    fprintf(o->f, "# HELP %s%s %s\n# TYPE %s%s %s\n", row->name, behind, row->help, row->name,
            behind, type);
    if (o->format == METER_OPEN && row->unit[0] != '\0')
        fprintf(o->f, "# UNIT %s %s\n", row->name, row->unit);
}

/* {shard="s1/0",op="pull",le="0.1"}. bound NAN: without le. */
static void labels_write(FILE *f, const struct meter_row *row, const char *value, double bound)
{
    const char *comma = "";
    if (row->labels[0] == '\0' && isnan(bound))
        return;
    putc('{', f);
    for (const char *name = row->labels; *name != '\0';) {
        size_t bytes = strcspn(name, ",");
        fprintf(f, "%s%.*s=\"", comma, (int)bytes, name);
        escaped_write(f, value);
        putc('"', f);
        value += strlen(value) + 1;
        name += bytes;
        name += *name == ',';
        comma = ",";
    }
    if (!isnan(bound)) {
        fprintf(f, "%sle=\"", comma);
        number_write(f, bound);
        putc('"', f);
    }
    putc('}', f);
}

static void line_write(FILE *f, const struct meter_row *row, const char *behind, const char *labels,
                       double bound, double value)
{
    fprintf(f, "%s%s", row->name, behind);
    labels_write(f, row, labels, bound);
    putc(' ', f);
    number_write(f, value);
    putc('\n', f);
}

static void histogram_write(FILE *f, const struct meter_row *row, const char *labels,
                            const double *number)
{
    double count = 0;
    for (uint32_t i = 0; i < METER_CELLS; i++) {
        count += number[i];
        line_write(f, row, "_bucket", labels, meter_bound(row, i), count);
    }
    line_write(f, row, "_sum", labels, NAN, number[METER_CELLS]);
    line_write(f, row, "_count", labels, NAN, count);
}

static void sample_write(const struct out *o, const struct meter_sheet *s,
                         const struct meter_sample *sample)
{
    const struct meter_row *row = &meter_rows[sample->id];
    const char *labels = s->text + sample->text;
    if (row->type == METER_HISTOGRAM)
        histogram_write(o->f, row, labels, s->number + sample->number);
    else
        line_write(o->f, row, suffix(row->type), labels, NAN, s->number[sample->number]);
}

static void row_write(struct out *o, uint32_t id, const struct meter_sheet *sheet, uint32_t sheets)
{
    bool headed = false;
    for (uint32_t s = 0; s < sheets; s++)
        for (uint32_t i = 0; i < sheet[s].samples; i++) {
            const struct meter_sample *sample = &sheet[s].sample[i];
            if (sample->id != id)
                continue;
            uint32_t series = sample->numbers == 1 ? 1 : sample->numbers + 1;
            if (o->series + series > METER_SERIES) {
                o->left_out += series;
                continue;
            }
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
    struct out o = {.f = f, .format = format, .series = 1};
    for (uint32_t s = 0; s < sheets; s++)
        o.left_out += sheet[s].left_out;
    for (uint32_t id = 0; id < METER_ROWS; id++)
        if (id != METER_ID_LEFT_OUT)
            row_write(&o, id, sheet, sheets);
    head_write(&o, last);
    line_write(f, last, "", "", NAN, o.left_out);
    if (format == METER_OPEN)
        fputs("# EOF\n", f);
}
