/* parsed.c: slices of a split, from lines or from event files. */
#include "worker/data/parsed.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>
#include <string.h>

/* One event file of the source. */
struct part {
    struct events events;
    uint32_t first;  /* blocks in the files before it */
    uint32_t *place; /* owned; positions of the features' columns among its own */
};

struct parsed {
    const struct source *source;
    const struct features *features;
    struct columns columns;
    struct slice_layout layout;
    struct slice_maker maker; /* for text */
    struct lines lines;
    bool ended;
    struct part *part; /* owned; (parts): event files */
    uint32_t parts, blocks, next;
    struct events_room room;
    struct slice slice; /* the unpacked slice */
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
    slice_maker_free(&p->maker);
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
    if (part->events.blocks > EVENTS_BLOCKS_MAX - p->blocks)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: with the files before it more than %u blocks",
                       file->name, EVENTS_BLOCKS_MAX);
    part->first = p->blocks;
    p->blocks += part->events.blocks;
    part->place = malloc(sizeof *part->place * p->columns.count);

    if (part->place == NULL)
        return no_memory(e);

    return columns_bind(&p->columns, &part->events.columns, file->name, part->place, e);
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
    if (rc == 0)
        p->layout = slice_layout_of(&p->columns);
    if (rc == 0 && events)
        rc = parts_open(p, e);
    if (rc == 0 && !events) {
        rc = lines_init(&p->lines, e);
        if (rc == 0)
            lines_start(&p->lines, s, features_rows(f), 0, s->bytes, 0);
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

const struct slice_layout *parsed_layout(const struct parsed *p)
{
    return &p->layout;
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
    int rc = 0;
    if (p->ended)
        return SHOAL_E_END;
    slice_begin(&p->maker, &p->layout);
    while (rc == 0 && !slice_is_full(&p->maker) && (rc = lines_next(&p->lines, &line, e)) == 0)
        rc = slice_add(&p->maker, p->features, &line, p->source->file[line.file].name, e);
    p->ended = rc == SHOAL_E_END;
    *b = &p->maker.slice;

    if (rc == 0 || (p->ended && (*b)->rows > 0))
        return slice_end(&p->maker, e);

    return rc;
}

uint32_t parsed_blocks(const struct parsed *p)
{
    return p->blocks;
}

/* The file of a block. */
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

int parsed_read(const struct parsed *p, uint32_t block, struct events_room *r, struct slice *b,
                struct err *e)
{
    const struct part *part = &p->part[part_of(p, block)];
    const struct strips_wanted wanted = {&p->columns, &p->layout, part->place};
    return events_read(&part->events, block - part->first, &wanted, r, b, e);
}

int parsed_next(struct parsed *p, struct slice **b, struct err *e)
{
    if (p->parts == 0)
        return lines_slice(p, b, e);
    *b = &p->slice;

    if (p->next < p->blocks)
        return parsed_read(p, p->next++, &p->room, *b, e);

    return SHOAL_E_END;
}
