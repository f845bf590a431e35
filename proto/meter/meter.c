/* meter.c: the table, and sheets of samples. */
#include "proto/meter/meter.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct meter_row meter_rows[METER_ROWS] = {
#define X(id, kind, name_, unit_, labels_, of_, help_)                                             \
    [METER_ID_##id] = {.name = name_,                                                              \
                       .unit = unit_,                                                              \
                       .labels = labels_,                                                          \
                       .of = of_,                                                                  \
                       .help = help_,                                                              \
                       .type = METER_##kind},
    METER_MAP(X)
#undef X
};

double meter_bound(const struct meter_row *row, uint32_t cell)
{
    SHOAL_ASSERT(cell < METER_CELLS);
    if (cell == METER_CELLS - 1)
        return INFINITY;
    if (strcmp(row->unit, "seconds") == 0)
        return ldexp(METER_FIRST_NS * 1e-9, (int)cell);
    if (cell == 0)
        return 0;
    return ldexp(1, (int)cell - 1);
}

uint32_t meter_cell(uint64_t value)
{
    if (value <= 1)
        return (uint32_t)value;
    return MIN(65 - (uint32_t)__builtin_clzll(value - 1), METER_CELLS - 1);
}

const char *meter_reason(uint32_t i)
{
    static const char *const name[METER_REASONS] = {
#define X(name, wire, status, text) [wire] = #name,
        SHOAL_ERR_MAP(X)
#undef X
    };
    SHOAL_ASSERT(i < METER_REASONS);
    return name[i];
}

void meter_clear(struct meter_sheet *s)
{
    s->samples = s->texts = s->numbers = s->series = s->left_out = 0;
}

void meter_free(struct meter_sheet *s)
{
    free(s->sample);
    free(s->text);
    free(s->number);
    *s = (struct meter_sheet){0};
}

/* Room for a sample, its texts and its numbers. */
static bool room(struct meter_sheet *s, uint32_t samples, uint32_t texts, uint32_t numbers)
{
    return (samples <= s->sample_room ||
            array_reserve(&s->sample, samples + samples / 4, &s->sample_room) == 0) &&
           (texts <= s->text_room ||
            array_reserve(&s->text, texts + texts / 4, &s->text_room) == 0) &&
           (numbers <= s->number_room ||
            array_reserve(&s->number, numbers + numbers / 4, &s->number_room) == 0);
}

void meter_copy(struct meter_sheet *to, const struct meter_sheet *from)
{
    meter_clear(to);
    if (!room(to, from->samples, from->texts, from->numbers)) {
        to->left_out = from->left_out + from->series;
        return;
    }
    if (from->samples > 0) {
        memcpy(to->sample, from->sample, from->samples * sizeof *to->sample);
        memcpy(to->number, from->number, from->numbers * sizeof *to->number);
    }
    if (from->texts > 0)
        memcpy(to->text, from->text, from->texts);
    to->samples = from->samples;
    to->texts = from->texts;
    to->numbers = from->numbers;
    to->series = from->series;
    to->left_out = from->left_out;
}

static uint32_t labels_of(const char *labels)
{
    uint32_t count = labels[0] != '\0';
    for (; *labels != '\0'; labels++)
        count += *labels == ',';
    return count;
}

/* Adds a sample and the values of its labels; returns where its numbers go, or NULL. */
static double *add(struct meter_sheet *s, enum meter_id id, uint32_t numbers, va_list labels)
{
    const struct meter_row *row = &meter_rows[id];
    const uint32_t series = numbers == 1 ? 1 : numbers + 1;
    uint32_t count = 0;
    if (s->series + series > METER_SERIES ||
        !room(s, s->samples + 1, s->texts + METER_LABELS * METER_LABEL, s->numbers + numbers)) {
        s->left_out += series;
        return NULL;
    }
    s->sample[s->samples++] = (struct meter_sample){
        .id = (uint16_t)id, .numbers = (uint16_t)numbers, .text = s->texts, .number = s->numbers};
    for (const char *value; (value = va_arg(labels, const char *)) != NULL; count++) {
        size_t bytes = strnlen(value, METER_LABEL - 1);
        SHOAL_ASSERT(count < METER_LABELS);
        memcpy(s->text + s->texts, value, bytes);
        s->texts += (uint32_t)bytes;
        s->text[s->texts++] = '\0';
    }
    SHOAL_ASSERT(count == labels_of(row->labels)); /* the call has a value for each label */
    s->numbers += numbers;
    s->series += series;
    return s->number + s->numbers - numbers;
}

void meter_put_value(struct meter_sheet *s, enum meter_id id, double value, ...)
{
    va_list labels;
    SHOAL_ASSERT(id < METER_ROWS && meter_rows[id].type != METER_HISTOGRAM);
    if (isnan(value))
        return;
    va_start(labels, value);
    double *number = add(s, id, 1, labels);
    va_end(labels);
    if (number != NULL)
        *number = value;
}

void meter_put_cells(struct meter_sheet *s, enum meter_id id, const struct meter_times *t, ...)
{
    va_list labels;
    SHOAL_ASSERT(id < METER_ROWS && meter_rows[id].type == METER_HISTOGRAM);
    va_start(labels, t);
    double *number = add(s, id, METER_CELLS + 1, labels);
    va_end(labels);
    if (number == NULL)
        return;
    for (uint32_t i = 0; i < METER_CELLS; i++)
        number[i] = (double)t->cell[i];
    number[METER_CELLS] = (double)t->sum_ns;
    if (strcmp(meter_rows[id].unit, "seconds") == 0)
        number[METER_CELLS] *= 1e-9;
}
