/* profile_rows.c: rows over several lines, and features that no record has. */
#include "worker/data/profile_rows.h"

#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "worker/data/feature_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW 100u /* one row in more than so many is likely an accident */

int profile_rows_open(struct profile_rows *r, const struct features *f, struct err *e)
{
    *r = (struct profile_rows){.rows = 0};
    if (!f->format->keyed)
        return 0;
    r->met = calloc(f->columns, sizeof *r->met);
    if (r->met == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to look at %u columns", f->columns);
    return 0;
}

void profile_rows_close(struct profile_rows *r)
{
    free(r->met);
    r->met = NULL;
}

static void over_see(struct profile_rows *r, const struct features *f, const struct cell *cell)
{
    for (uint32_t i = 0; i < f->columns; i++)
        if (cell[i].bytes > 0 && memchr(cell[i].text, '\n', cell[i].bytes) != NULL) {
            r->over++;
            r->where = i;
            return;
        }
}

void profile_rows_see(struct profile_rows *r, const struct features *f, const struct cell *cell)
{
    r->rows++;
    if (f->format->framing == FRAMING_CSV)
        over_see(r, f, cell);
    for (uint32_t i = 0; r->met != NULL && i < f->columns; i++)
        r->met[i] |= cell[i].bytes > 0;
}

/* The name of a column in messages. */
static void name_text(const struct features *f, uint32_t column, char out[LIMIT_NAME])
{
    const struct cell *name = &f->name[column];
    (void)snprintf(out, LIMIT_NAME, "%.*s", (int)MIN(name->bytes, LIMIT_NAME - 1), name->text);
    text_clean(out);
}

/* In a log with texts many rows go over several lines; a few may be joined by stray quotes. */
static void over_note(const struct profile_rows *r, const struct features *f, struct json *notes)
{
    char text[512], name[LIMIT_NAME];
    if (r->over == 0 || r->over >= r->rows / FEW)
        return;
    name_text(f, r->where, name);
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " of %" PRIu64 " rows looked at go over several lines, because a "
                   "quoted cell has line ends, as in column \"%s\": where the log has no such "
                   "texts, two stray quotes have joined lines, and \"\" is a quote within a cell",
                   r->over, r->rows, name);
    json_append_string(notes, text);
}

/* A misspelt name is a column that every record lacks. */
static void unmet_note(const struct profile_rows *r, const struct features *f, uint32_t column,
                       struct json *notes)
{
    char text[512], name[LIMIT_NAME], other[LIMIT_NAME];
    uint32_t near = feature_names_near(f, column, r->met);
    name_text(f, column, name);
    other[0] = '\0';
    if (near != FEATURE_NO_COLUMN)
        name_text(f, near, other);
    (void)snprintf(text, sizeof text,
                   "none of the %" PRIu64 " records looked at has the feature \"%s\", which the "
                   "job names: it is read as empty%s%s%s",
                   r->rows, name, other[0] != '\0' ? "; did you mean \"" : "", other,
                   other[0] != '\0' ? "\"?" : "");
    json_append_string(notes, text);
}

void profile_rows_tell(const struct profile_rows *r, const struct features *f, struct json *out,
                       struct json *notes)
{
    if (f->format->framing == FRAMING_CSV)
        json_set_int(out, "over_lines", (int64_t)r->over);
    over_note(r, f, notes);
    for (uint32_t i = 0; r->met != NULL && r->rows > 0 && i < f->columns; i++)
        if (!r->met[i] && f->keyed.separator[i] != KEYED_SKIP)
            unmet_note(r, f, i, notes);
}
