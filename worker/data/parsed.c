/* parsed.c: slices of a split, from lines or from event files. */
#include "worker/data/parsed.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>
#include <string.h>

/* An event file of the source. */
struct part {
    struct events events;
    uint32_t *place; /* owned: where the features' columns are among its own */
};

struct parsed {
    const struct source *source;
    const struct features *features;
    struct columns columns;
    struct slice slice, seen; /* seen: of an event file, its columns in the features' order */
    struct lines lines;       /* of text */
    bool ended;
    struct part *part; /* owned: (parts): of event files */
    uint32_t parts, at, next;
    struct events_room room;
};

void parsed_close(struct parsed *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->parts; i++) {
        events_close(&p->part[i].events);
        free(p->part[i].place);
    }
    free(p->part);
    free(p->seen.column);
    slice_free(&p->slice);
    events_room_free(&p->room);
    lines_free(&p->lines);
    columns_free(&p->columns);
    free(p);
}

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for parsed rows; free some");
}

static int part_open(struct parsed *p, uint32_t i, struct err *e)
{
    const struct source_file *file = &p->source->file[i];
    struct part *part = &p->part[i];
    int rc = events_open(file->fd, file->name, &part->events, e);
    if (rc != 0)
        return rc;
    part->place = malloc(sizeof *part->place * p->columns.count);
    return part->place == NULL
               ? no_memory(e)
               : columns_bind(&p->columns, &part->events.columns, file->name, part->place, e);
}

static int parts_open(struct parsed *p, struct err *e)
{
    int rc = 0;
    p->part = calloc(p->source->count, sizeof *p->part);
    p->seen.column = calloc(p->columns.count, sizeof *p->seen.column);
    if (p->part == NULL || p->seen.column == NULL)
        return no_memory(e);
    p->seen.columns = p->columns.count;
    p->parts = p->source->count;
    for (uint32_t i = 0; i < p->parts && rc == 0; i++)
        rc = part_open(p, i, e);
    return rc;
}

int parsed_open(const struct source *s, const struct features *f, bool events, struct parsed **out,
                struct err *e)
{
    struct parsed *p = calloc(1, sizeof *p);
    if (p == NULL)
        return no_memory(e);
    p->source = s;
    p->features = f;
    int rc = columns_of(f, &p->columns, e);
    if (rc == 0 && events)
        rc = parts_open(p, e);
    if (rc == 0 && !events) {
        rc = lines_init(&p->lines, e);
        if (rc == 0)
            lines_start(&p->lines, s, f->header, 0, s->bytes, 0);
    }
    if (rc != 0)
        parsed_close(p);
    else
        *out = p;
    return rc;
}

const struct columns *parsed_columns(const struct parsed *p)
{
    return &p->columns;
}

uint64_t parsed_rows(const struct parsed *p)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < p->parts; i++)
        rows += p->part[i].events.rows;
    return rows;
}

uint64_t parsed_digest(const struct parsed *p)
{
    uint64_t digest = rng_mix(p->parts);
    for (uint32_t i = 0; i < p->parts; i++)
        digest = rng_mix(digest ^ p->part[i].events.digest) + 1;
    return digest;
}

static int lines_slice(struct parsed *p, struct slice **b, struct err *e)
{
    struct line line;
    int rc = slice_begin(&p->slice, &p->columns, e);
    if (p->ended)
        return SHOAL_E_END;
    while (rc == 0 && !slice_is_full(&p->slice) && (rc = lines_next(&p->lines, &line, e)) == 0)
        rc = slice_add(&p->slice, p->features, &line, p->source->file[line.file].name, e);
    p->ended = rc == SHOAL_E_END;
    if (p->ended && p->slice.rows > 0)
        rc = 0;
    *b = &p->slice;
    return rc;
}

static int events_slice(struct parsed *p, struct slice **b, struct err *e)
{
    while (p->at < p->parts && p->next == p->part[p->at].events.blocks) {
        p->at++;
        p->next = 0;
        slice_free(&p->slice); /* another file may have other columns */
    }
    if (p->at == p->parts)
        return SHOAL_E_END;
    const struct part *part = &p->part[p->at];
    int rc = events_read(&part->events, p->next++, &p->room, &p->slice, e);
    if (rc != 0)
        return rc;
    p->seen.rows = p->slice.rows;
    p->seen.bad = p->slice.bad;
    p->seen.bad_rows = p->slice.bad_rows;
    for (uint32_t i = 0; i < p->columns.count; i++)
        p->seen.column[i] = p->slice.column[part->place[i]];
    *b = &p->seen;
    return 0;
}

int parsed_next(void *context, struct slice **b, struct err *e)
{
    struct parsed *p = context;
    return p->parts > 0 ? events_slice(p, b, e) : lines_slice(p, b, e);
}
