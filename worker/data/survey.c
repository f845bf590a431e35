/* survey.c: walks rows of all parts. The columns are those of a job that takes none of them, so
 * every cell is seen as the reader gives it. */
#include "worker/data/survey.h"

#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISTINCT_ALL (1u << 21) /* slots of all columns together: 32 MiB */
#define DISTINCT_MOST (1u << 16)
#define DISTINCT_LEAST (1u << 10)

/* ---- the columns ----------------------------------------------------------------------------- */

/* A job that reads every column and uses one. */
static int job_make(const struct survey *s, struct job *job, struct err *e)
{
    static const char *const spelled[] = {"\t", "\x01"};
    static const char *const words[] = {"tab", "\"\\x01\""};
    const struct layout *l = &s->layout;
    size_t room = 512 + (size_t)l->columns * 40, at = 0;
    char *text = malloc(room), quoted[24];
    const char *delimiter = quoted;
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u columns; free some", l->columns);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", l->delimiter);
    for (size_t i = 0; i < 2; i++)
        if (strcmp(l->delimiter, spelled[i]) == 0)
            delimiter = words[i];
    at += (size_t)snprintf(text, room, "data: {train: x, format: %s", format_name(l->format));
    if (l->format == DATA_CSV) {
        at += (size_t)snprintf(text + at, room - at, ", delimiter: %s, header: %s", delimiter,
                               l->header ? "true" : "false");
    }
    if (l->format == DATA_TFRECORD || (l->format == DATA_CSV && l->header))
        at += (size_t)snprintf(text + at, room - at,
                               ", label: 0, columns: [{name: \"1\"}, {name: \"*\", type: skip}]");
    if (l->format == DATA_CSV && !l->header) {
        at += (size_t)snprintf(text + at, room - at, ", columns: [{name: c0, type: label}");
        for (uint32_t i = 1; i < l->columns; i++)
            at += (size_t)snprintf(text + at, room - at, ", {name: c%u%s}", i,
                                   i > 1 ? ", type: skip" : "");
        at += (size_t)snprintf(text + at, room - at, "]");
    }
    (void)snprintf(text + at, room - at, "}\ntables: [{name: emb}]\nmodel: {kind: lr}\n");
    int rc = job_parse(text, strlen(text), "shoal data", NULL, job, e);
    free(text);
    return rc;
}

int survey_head(const struct format *format, const char *text, size_t bytes, const char **head,
                size_t *head_bytes, struct err *e)
{
    const char *at = text, *end = text + bytes, *stop;
    uint64_t record;
    *head = text;
    *head_bytes = bytes;
    if (format->framing == FRAMING_TFRECORD) {
        if (bytes < RECORD_HEAD_BYTES || !framing_record_head(text, &record) ||
            record > bytes - RECORD_HEAD_BYTES)
            return err_set(e, SHOAL_E_DATA, "the first record is longer than 1 MiB");
        *head = text + RECORD_HEAD_BYTES;
        *head_bytes = (size_t)record;
        return 0;
    }
    if (format->look != NULL) {
        stop = bytes == LAYOUT_BYTES ? memrchr(text, '\n', bytes) : NULL;
        *head_bytes = stop != NULL ? (size_t)(stop + 1 - text) : bytes;
        return 0;
    }
    while (at < end && (*at == '\n' || *at == '\r'))
        at++;
    stop = memchr(at, '\n', (size_t)(end - at));
    if (stop == NULL)
        stop = end;
    if (stop > at && stop[-1] == '\r')
        stop--;
    *head = at;
    *head_bytes = (size_t)(stop - at);
    return 0;
}

static uint64_t lines_before(const char *text, const char *head)
{
    uint64_t lines = 0;
    for (; text < head; text++)
        lines += *text == '\n';
    return lines;
}

static int job_features(struct survey *s, const struct job *job, struct features *out,
                        struct err *e)
{
    char *text = malloc(LAYOUT_BYTES + 1);
    const char *head = NULL, *name = s->front[GUESS_TRAIN].source.file[0].name;
    size_t bytes = 0, head_bytes = 0;
    int rc = 0;
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to look at %s; free some", name);
    if (format_of(s->layout.format)->columns == NULL) {
        rc = front_text(&s->front[GUESS_TRAIN], 0, text, LAYOUT_BYTES, &bytes, e);
        if (rc == 0)
            rc = survey_head(format_of(s->layout.format), text, bytes, &head, &head_bytes, e);
    }
    s->head_line = 1 + (head != NULL ? lines_before(text, head) : 0);
    if (rc == 0)
        rc = features_make(job, name, head, head_bytes, out, e);
    free(text);
    return rc;
}

static int features_open(struct survey *s, struct err *e)
{
    struct job job;
    int rc = job_make(s, &job, e);
    if (rc != 0)
        return rc;
    rc = job_features(s, &job, &s->features, e);
    job_free(&job);
    if (rc == 0 && s->features.format->keyed) /* every column may have several values */
        memset(s->features.keyed.separator, KEYED_ANY, s->features.columns);
    return rc;
}

int survey_try(struct survey *s, const struct job *job, struct err *e)
{
    struct features *f = calloc(1, sizeof *f);
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to try the proposed job; free some");
    int rc = job_features(s, job, f, e);
    if (rc == 0)
        features_free(f);
    free(f);
    return rc;
}

static uint32_t distinct_of(uint32_t columns)
{
    uint32_t most = DISTINCT_MOST;
    while (most > DISTINCT_LEAST && (uint64_t)most * columns > DISTINCT_ALL)
        most /= 2;
    return most;
}

static const char *name_shown(const struct cell *name, char out[LIMIT_NAME])
{
    (void)snprintf(out, LIMIT_NAME, "%.*s", (int)MIN(name->bytes, LIMIT_NAME - 1), name->text);
    return text_clean(out);
}

/* A job takes the first of two columns of one name, and would learn from the other one. */
static int names_check(const struct survey *s, const char *where, struct err *e)
{
    for (uint32_t i = 0; i < s->columns; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(s->column[i].name, s->column[k].name) == 0) {
                char shown[LIMIT_NAME];
                text_copy(shown, sizeof shown, s->column[i].name);
                return err_set(e, SHOAL_E_CONFIG,
                               "columns %u and %u are both called \"%s\", and a job knows a column "
                               "by its name: give one of them another name in %s",
                               k, i, text_clean(shown), where);
            }
    return 0;
}

static int columns_open(struct survey *s, struct err *e)
{
    const struct features *f = &s->features;
    const char *where = s->front[GUESS_TRAIN].source.file[0].name;
    char shown[LIMIT_NAME];
    s->columns = f->columns;
    s->column = calloc(f->columns, sizeof *s->column);
    if (s->column == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u columns; free some", f->columns);
    for (uint32_t i = 0; i < f->columns; i++) {
        struct survey_column *c = &s->column[i];
        const struct cell *name = &f->name[i];
        if (name->bytes >= LIMIT_NAME)
            return err_set(
                e, SHOAL_E_CONFIG,
                "column %u, \"%.40s..\": its name has %u bytes, and a job takes names of "
                "at most %u; give it a shorter one in %s",
                i, name_shown(name, shown), name->bytes, LIMIT_NAME - 1, where);
        c->unnamed = name->bytes == 0;
        if (c->unnamed)
            (void)snprintf(c->name, sizeof c->name, "%u", i);
        else
            (void)snprintf(c->name, sizeof c->name, "%.*s", (int)MIN(name->bytes, LIMIT_NAME - 1),
                           name->text);
    }
    return names_check(s, where, e);
}

/* ---- the rows -------------------------------------------------------------------------------- */

struct walk {
    struct survey *survey;
    const struct survey_label *label;
    struct survey_part *part;
    bool forms; /* rows of this part make the forms of the columns */
    struct lines lines;
    struct cell *cell; /* owned; (CELLS_MAX) */
};

static bool is_positive(const struct survey_label *l, const struct cell *cell)
{
    double x;
    if (l->column == FEATURE_NO_COLUMN || l->real)
        return false;
    const struct cell *c = &cell[l->column];
    if (l->words)
        return strlen(l->positive) == c->bytes && memcmp(l->positive, c->text, c->bytes) == 0;
    return feature_label(c, &x) && x > l->above;
}

static int row_see(struct walk *w, struct err *e)
{
    struct survey *s = w->survey;
    bool positive = is_positive(w->label, w->cell);
    int rc = 0;
    w->part->rows++;
    w->part->positives += positive;
    for (uint32_t i = 0; i < s->columns && w->forms && rc == 0; i++)
        rc = column_form_add(&s->column[i].form, &w->cell[i], positive);
    return rc == 0 ? 0 : err_set(e, rc, "no memory for the values of a column; free some");
}

static void bad_note(struct walk *w, const struct line *line, const char *reason)
{
    struct survey_part *p = w->part;
    const struct source_file *file = &w->lines.source->file[line->file];
    if (p->bad++ == 0)
        (void)snprintf(p->bad_first, sizeof p->bad_first, "%s:%" PRIu64 ": %s", file->name,
                       line->number, reason);
}

/* Walks up to `most` rows of a file; *read: bytes of text that they take. */
static int file_walk(struct walk *w, const struct front *front, uint32_t file, uint64_t most,
                     uint64_t *read, struct err *e)
{
    const struct source_file *of = &front->source.file[file];
    struct line line;
    char reason[REASON_BYTES];
    int rc = 0;
    lines_start(&w->lines, &front->source, features_rows(&w->survey->features), of->base,
                of->base + of->bytes, 0);
    for (uint64_t i = 0; rc == 0; i++) {
        if (most > 0 && i == most) {
            w->part->whole = false;
            break;
        }
        rc = lines_next(&w->lines, &line, e);
        if (rc != 0)
            break;
        w->survey->breaks |= w->survey->features.format == &format_csv &&
                             memchr(line.text, '\n', line.bytes) != NULL;
        if (clean_line(&w->survey->features, &line, w->cell, reason) == 0)
            rc = row_see(w, e);
        else
            bad_note(w, &line, reason);
    }
    *read += lines_position(&w->lines) - of->base;
    return rc == SHOAL_E_END ? 0 : rc;
}

static int part_walk(struct walk *w, const struct front *front, struct err *e)
{
    struct survey *s = w->survey;
    uint64_t most = 0, read = 0;
    int rc = 0;
    w->part->rows = w->part->bad = w->part->positives = 0;
    w->part->whole = front->whole;
    if (s->rows_most > 0)
        most = MAX(s->rows_most / front->source.count, 1);
    for (uint32_t i = 0; i < front->source.count && rc == 0; i++) {
        for (uint32_t k = 0; k < s->columns; k++)
            column_form_file(&s->column[k].form);
        if (front->source.file[i].bytes > 0)
            rc = file_walk(w, front, i, most, &read, e);
    }
    double rows = (double)(w->part->rows + w->part->bad);
    w->part->all = w->part->whole ? rows : 0;
    if (!w->part->whole && read > 0)
        w->part->all = rows * front->bytes_on_disk / ((double)read * front->packing);
    return rc;
}

int survey_walk(struct survey *s, const struct survey_label *label, struct err *e)
{
    struct walk w = {.survey = s, .label = label};
    int rc = 0;
    if (s->column == NULL) {
        rc = features_open(s, e);
        if (rc == 0)
            rc = columns_open(s, e);
        if (rc != 0)
            return rc;
    }
    for (uint32_t i = 0; i < s->columns; i++) {
        column_form_free(&s->column[i].form);
        column_form_init(&s->column[i].form, distinct_of(s->columns));
    }
    rc = lines_init(&w.lines, e);
    w.cell = malloc(sizeof *w.cell * CELLS_MAX);
    if (rc == 0 && w.cell == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line");
    for (uint32_t i = 0; i < GUESS_ROLES && rc == 0; i++) {
        w.part = &s->part[i];
        w.forms = i == GUESS_TRAIN;
        if (s->part[i].names.count > 0)
            rc = part_walk(&w, &s->front[i], e);
    }
    free(w.cell);
    lines_free(&w.lines);
    return rc;
}

void survey_free(struct survey *s)
{
    for (uint32_t i = 0; i < s->columns && s->column != NULL; i++)
        column_form_free(&s->column[i].form);
    if (s->column != NULL)
        features_free(&s->features);
    free(s->column);
    for (uint32_t i = 0; i < GUESS_ROLES; i++) {
        config_list_free(&s->part[i].names);
        front_close(&s->front[i]);
    }
    config_list_free(&s->left);
    *s = (struct survey){.columns = 0};
}
