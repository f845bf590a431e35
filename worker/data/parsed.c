/* parsed.c: slices of a split, from lines or from event files. */
#include "worker/data/parsed.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>
#include <string.h>

/* An event file of the source. */
struct part {
    struct events events;
    uint32_t first;  /* blocks of the files before it */
    uint32_t *place; /* owned: where the features' columns are among its own */
};

struct parsed {
    const struct source *source;
    const struct features *features;
    struct columns columns;
    struct slice slice; /* of text */
    struct lines lines;
    bool ended;
    struct part *part; /* owned: (parts): of event files */
    uint32_t parts, blocks, next;
    struct parsed_room room;
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
    slice_free(&p->slice);
    parsed_room_free(&p->room);
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
    if (part->events.blocks > EVENTS_BLOCKS_MAX - p->blocks)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: with the files before it more than %u blocks",
                       file->name, EVENTS_BLOCKS_MAX);
    part->first = p->blocks;
    p->blocks += part->events.blocks;
    part->place = malloc(sizeof *part->place * p->columns.count);
    return part->place == NULL
               ? no_memory(e)
               : columns_bind(&p->columns, &part->events.columns, file->name, part->place, e);
}

static int parts_open(struct parsed *p, struct err *e)
{
    int rc = 0;
    p->part = calloc(p->source->count, sizeof *p->part);
    if (p->part == NULL)
        return no_memory(e);
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

uint32_t parsed_blocks(const struct parsed *p)
{
    return p->blocks;
}

/* The file that has the block. */
static uint32_t part_of(const struct parsed *p, uint32_t block)
{
    uint32_t low = 0, high = p->parts;
    SHOAL_ASSERT(block < p->blocks);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->part[middle].first <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const struct events_entry *parsed_entry(const struct parsed *p, uint32_t block)
{
    const struct part *part = &p->part[part_of(p, block)];
    return &part->events.block[block - part->first];
}

void parsed_room_free(struct parsed_room *r)
{
    free(r->seen.column);
    slice_free(&r->slice);
    events_room_free(&r->file);
    *r = (struct parsed_room){0};
}

int parsed_read(const struct parsed *p, uint32_t block, struct parsed_room *r, struct slice **b,
                struct err *e)
{
    uint32_t number = part_of(p, block);
    const struct part *part = &p->part[number];
    if (r->seen.column == NULL)
        r->seen.column = calloc(p->columns.count, sizeof *r->seen.column);
    if (r->seen.column == NULL)
        return no_memory(e);
    if (r->part != number)
        slice_free(&r->slice); /* another file may have other columns */
    r->part = number;
    int rc = events_read(&part->events, block - part->first, &r->file, &r->slice, e);
    if (rc != 0)
        return rc;
    r->seen.rows = r->slice.rows;
    r->seen.columns = p->columns.count;
    r->seen.bad = r->slice.bad;
    r->seen.bad_rows = r->slice.bad_rows;
    for (uint32_t i = 0; i < p->columns.count; i++)
        r->seen.column[i] = r->slice.column[part->place[i]];
    *b = &r->seen;
    return 0;
}

int parsed_next(void *context, struct slice **b, struct err *e)
{
    struct parsed *p = context;
    if (p->parts == 0)
        return lines_slice(p, b, e);
    return p->next < p->blocks ? parsed_read(p, p->next++, &p->room, b, e) : SHOAL_E_END;
}
