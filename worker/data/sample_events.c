/* sample_events.c: chooses blocks of files and reads them. */
#include "worker/data/sample_events.h"

#include "worker/data/events.h"

struct walk {
    const struct columns *wanted;
    struct slice_layout layout;
    bool whole;
    uint32_t rows; /* rows of a block, unless all of it is read */
    sample_events_see see;
    void *context;
    struct events_room room;
    struct slice block;
};

static int block_walk(struct walk *w, const struct events *v, uint32_t n, const uint32_t *place,
                      struct err *e)
{
    const struct strips_wanted wanted = {w->wanted, &w->layout, place};
    int rc = events_read(v, n, &wanted, &w->room, &w->block, e);
    uint32_t rows = w->rows;
    if (w->whole || w->block.rows < w->rows)
        rows = w->block.rows;

    if (rc != 0)
        return rc;

    return w->see(w->context, &w->block, rows);
}

/* Walks `blocks` blocks of a file, each in the middle of an equal part. */
static int file_walk(struct walk *w, const struct source_file *f, uint32_t blocks, struct err *e)
{
    uint32_t place[COLUMNS_MAX], last = UINT32_MAX;
    struct events v;
    int rc = events_open(f->fd, f->name, &v, e);
    if (rc != 0)
        return rc;
    rc = columns_bind(w->wanted, &v.columns, f->name, place, e);
    if (w->whole || blocks > v.blocks)
        blocks = v.blocks;
    for (uint32_t i = 0; i < blocks && rc == 0; i++) {
        uint32_t n = (uint32_t)((2ull * i + 1) * v.blocks / (2ull * blocks));
        if (n != last)
            rc = block_walk(w, &v, n, place, e);
        last = n;
    }
    events_close(&v);
    return rc;
}

int sample_events_walk(const struct source *s, const struct columns *wanted, uint64_t rows,
                       uint64_t most, sample_events_see see, void *context, struct err *e)
{
    struct walk w = {.wanted = wanted,
                     .layout = slice_layout_of(wanted),
                     .whole = rows <= most,
                     .rows = (uint32_t)(most / SAMPLE_EVENTS_BLOCKS),
                     .see = see,
                     .context = context};
    uint32_t count = SAMPLE_EVENTS_BLOCKS;
    if (w.whole)
        count = s->count;

    int rc = 0;
    for (uint32_t i = 0, blocks = 1; i < count && rc == 0; i += blocks) {
        uint64_t file = (uint64_t)i * s->count / count;
        for (blocks = 1; i + blocks < count; blocks++)
            if ((uint64_t)(i + blocks) * s->count / count != file)
                break;
        rc = file_walk(&w, &s->file[file], blocks, e);
    }
    events_room_free(&w.room);
    slice_free(&w.block);
    return rc;
}
