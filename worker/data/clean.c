/* clean.c: rewrites cells in place, before features read them. */
#include "worker/data/clean.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "worker/data/bad_cell.h"
#include "worker/data/feature.h"
#include "worker/data/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static size_t words_bytes(const struct string_list *l)
{
    size_t bytes = 0;
    for (size_t i = 0; i < l->count; i++)
        bytes += strlen(l->item[i]);
    return bytes;
}

static void words_add(struct clean *c, const struct string_list *l, uint32_t *words, char **to)
{
    for (size_t i = 0; i < l->count; i++) {
        uint32_t bytes = (uint32_t)strlen(l->item[i]);
        memcpy(*to, l->item[i], bytes);
        c->word[(*words)++] = (struct cell){*to, bytes};
        c->hash = hash_bytes(*to, bytes, c->hash + 1);
        *to += bytes;
    }
    c->hash += l->count;
}

static int words_make(struct clean *c, const struct job *job)
{
    const struct string_list *missing = &job->data.missing, *positive = &job->data.label_positive,
                             *negative = &job->data.label_negative;
    uint32_t words = 0;
    size_t bytes = words_bytes(missing) + words_bytes(positive) + words_bytes(negative);
    c->missing_count = (uint32_t)missing->count;
    c->positive_count = (uint32_t)positive->count;
    c->negative_count = (uint32_t)negative->count;
    c->word =
        malloc((c->missing_count + c->positive_count + c->negative_count + 1u) * sizeof *c->word);
    char *to = c->text = malloc(bytes + 1);
    if (c->word == NULL || c->text == NULL)
        return SHOAL_E_NOMEM;
    words_add(c, missing, &words, &to);
    words_add(c, positive, &words, &to);
    words_add(c, negative, &words, &to);
    for (uint32_t i = 0; i < c->missing_count; i++)
        c->missing_bytes |= 1ULL << MIN(c->word[i].bytes, 63);
    return 0;
}

/* Lists the columns that are of this kind, behind `count` others. */
static uint32_t columns_list(const struct features *f, const uint8_t *what, enum clean_column kind,
                             uint16_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < f->columns; i++)
        if (what[i] == kind)
            list[count++] = (uint16_t)i;
    return count;
}

int clean_make(struct features *f, const struct job *job, const uint8_t *what, struct err *e)
{
    struct clean *c = &f->clean;
    *c = (struct clean){.comma = job->data.decimal_comma};
    c->whole = malloc((f->columns + 1) * sizeof *c->whole);
    c->number = malloc((f->columns + 1) * sizeof *c->number);
    if (c->whole == NULL || c->number == NULL || words_make(c, job) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the words of data.missing; free some");
    c->whole_count = columns_list(f, what, CLEAN_ID, c->whole, 0);
    c->whole_count = columns_list(f, what, CLEAN_WHOLE, c->whole, c->whole_count);
    c->number_count = columns_list(f, what, CLEAN_NUMBER, c->number, 0);
    c->any = c->missing_count + c->positive_count + c->whole_count > 0 || c->comma;
    if (c->comma)
        c->hash = hash_bytes("comma", 5, c->hash);
    for (uint32_t i = 0; i < f->columns; i++)
        if (what[i] == CLEAN_WHOLE)
            c->hash = hash_bytes(f->name[i].text, f->name[i].bytes, c->hash + 2);
    return 0;
}

void clean_free(struct clean *c)
{
    free(c->word);
    free(c->text);
    free(c->whole);
    free(c->number);
    *c = (struct clean){.any = false};
}

/* ---- cleaning ---- */

static bool is_word(const struct cell *word, uint32_t count, const struct cell *cell)
{
    for (uint32_t i = 0; i < count; i++)
        if (word[i].bytes == cell->bytes && memcmp(word[i].text, cell->text, cell->bytes) == 0)
            return true;
    return false;
}

static void missing_empty(const struct features *f, struct cell *cell)
{
    const struct clean *c = &f->clean;
    uint32_t cells = f->columns; /* with the empty labels of a line that lacks them */
    if (f->unlabelled && !f->header)
        cells += f->shape.tasks;
    for (uint32_t i = 0; i < cells; i++)
        if ((c->missing_bytes >> MIN(cell[i].bytes, 63) & 1) != 0 &&
            is_word(c->word, c->missing_count, &cell[i]))
            cell[i].bytes = 0;
}

/* Takes the fraction off a whole number, as "123.0" has one: digits, a point, zeros. */
static void whole_take(struct cell *cell)
{
    const char *p = cell->text, *end = p + cell->bytes;
    if (cell->bytes < 3 || end[-1] != '0')
        return;
    p += *p == '-';
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    const char *point = p;
    if (point == digits || p == end || *p++ != '.')
        return;
    while (p < end && *p == '0')
        p++;
    if (p == end)
        cell->bytes = (uint32_t)(point - cell->text);
}

/* Writes a point for the comma of a number. The cell lies in the line, which may change. */
static int comma_take(const struct features *f, uint32_t column, struct cell *cell, char *reason)
{
    const char *comma = memchr(cell[column].text, ',', cell[column].bytes);
    if (memchr(cell[column].text, '.', cell[column].bytes) != NULL)
        return bad_cell(f, "a point in a number, beside data.decimal: comma", column, &cell[column],
                        "take points between thousands out", reason);
    if (comma != NULL)
        *(char *)(uintptr_t)comma = '.';
    return 0;
}

/* Writes points for the commas of the weights in a cell, which stand behind the last colon of a
 * value. The separator is no comma (job_data.c). */
static int weights_take(const struct features *f, const struct feature_use *use, struct cell *cell,
                        char *reason)
{
    struct cell *all = &cell[use->column];
    char *p = (char *)(uintptr_t)all->text, *end = p + all->bytes, *stop;
    for (; p < end; p = stop + 1) {
        stop = memchr(p, use->separator, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        char *weight = memrchr(p, ':', (size_t)(stop - p));
        if (weight == NULL)
            continue;
        if (memchr(weight, '.', (size_t)(stop - weight)) != NULL)
            return bad_cell(f, "a point in a weight, beside data.decimal: comma", use->column, all,
                            "", reason);
        char *comma = memchr(weight, ',', (size_t)(stop - weight));
        if (comma != NULL)
            *comma = '.';
    }
    return 0;
}

static int commas_take(const struct features *f, struct cell *cell, char *reason)
{
    const struct clean *c = &f->clean;
    int rc = 0;
    for (uint32_t i = 0; i < c->number_count && rc == 0; i++)
        rc = comma_take(f, c->number[i], cell, reason);
    if (rc == 0 && f->weight != FEATURE_NO_COLUMN)
        rc = comma_take(f, f->weight, cell, reason);
    for (uint32_t t = 0; t < f->shape.tasks && rc == 0 && !f->predict; t++)
        if ((f->real >> t & 1) != 0)
            rc = comma_take(f, f->label[t], cell, reason);
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++)
        if (f->multi_form[i] == MULTI_WEIGHTED)
            rc = weights_take(f, &f->field[i], cell, reason);
    return rc;
}

/* Turns the words of labels into numbers. An empty label stays empty. */
static int labels_take(const struct features *f, struct cell *cell, char *reason)
{
    const struct clean *c = &f->clean;
    const struct cell *positive = c->word + c->missing_count,
                      *negative = positive + c->positive_count;
    for (uint32_t t = 0; t < f->shape.tasks; t++) {
        struct cell *label = &cell[f->label[t]];
        if (label->bytes == 0 || (f->real >> t & 1) != 0)
            continue;
        if (is_word(positive, c->positive_count, label))
            *label = (struct cell){"1", 1};
        else if (c->negative_count == 0 || is_word(negative, c->negative_count, label))
            *label = (struct cell){"0", 1};
        else
            return bad_cell(f, "no word of data.label_positive or data.label_negative", f->label[t],
                            label, "", reason);
    }
    return 0;
}

static int clean_cells(const struct features *f, struct cell *cell, char *reason)
{
    const struct clean *c = &f->clean;
    int rc = 0;
    if (!c->any)
        return 0;
    if (c->missing_count > 0)
        missing_empty(f, cell);
    for (uint32_t i = 0; i < c->whole_count; i++)
        whole_take(&cell[c->whole[i]]);
    if (c->comma)
        rc = commas_take(f, cell, reason);
    if (rc == 0 && c->positive_count > 0 && !f->predict)
        rc = labels_take(f, cell, reason);
    return rc;
}

void clean_mark(struct line *line)
{
    if (line->bytes >= 3 && memcmp(line->text, "\xef\xbb\xbf", 3) == 0) {
        line->text += 3;
        line->bytes -= 3;
    }
}

int clean_line(const struct features *f, const struct line *given, struct cell *cell, char *reason)
{
    struct line line = *given;
    if (line.fault != NULL) {
        snprintf(reason, REASON_BYTES, "%s", line.fault);
        return SHOAL_E_DATA;
    }
    if (line.number == 1 && f->format->framing != FRAMING_TFRECORD)
        clean_mark(&line);
    int rc = f->format->line(f, line.text, line.bytes, cell, reason);
    if (rc == 0 && f->unlabelled && !f->header)
        features_unlabelled(f, cell);
    if (rc != 0)
        return rc;

    return clean_cells(f, cell, reason);
}
