/* sample.c: walks lines at each of several places. */
#include "worker/data/sample.h"

#include "proto/base/assert.h"

#include <stdlib.h>

#define PLACES 64u

struct walk {
    const struct source *source;
    const struct index *index;
    const struct features *features;
    struct lines lines;
    struct cell *cell; /* (CELLS_MAX), owned */
    int (*see)(void *context, const struct cell *cell);
    void *context;
};

/* Walks up to `rows` lines from a chunk on. */
static int place_walk(struct walk *w, uint64_t chunk, uint64_t rows, struct err *e)
{
    const struct index *x = w->index;
    const struct features *f = w->features;
    struct line line;
    char reason[REASON_BYTES];
    int rc = 0;
    lines_start(&w->lines, w->source, features_rows(f), x->chunk[chunk].at, x->bytes,
                x->chunk[chunk].number);
    for (uint64_t i = 0; i < rows && rc == 0 && (rc = lines_next(&w->lines, &line, e)) == 0; i++)
        if (clean_line(f, &line, w->cell, reason) == 0)
            rc = w->see(w->context, w->cell);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

int sample_walk(const struct source *s, const struct index *x, const struct features *f,
                uint64_t most, int (*see)(void *context, const struct cell *cell), void *context,
                struct err *e)
{
    uint32_t places = 1;
    uint64_t rows = x->rows;
    if (!sample_whole(x, most)) {
        places = PLACES;
        rows = most / PLACES;
    }
    struct walk w = {.source = s, .index = x, .features = f, .see = see, .context = context};
    SHOAL_ASSERT(most >= PLACES && most <= SAMPLE_ROWS);
    if (x->chunks == 0)
        return 0;
    int rc = lines_init(&w.lines, e);
    if (rc != 0)
        return rc;
    w.cell = malloc(sizeof *w.cell * CELLS_MAX);
    if (w.cell == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line");
    for (uint32_t p = 0; p < places && rc == 0; p++)
        rc = place_walk(&w, (uint64_t)p * x->chunks / places, rows, e);
    free(w.cell);
    lines_free(&w.lines);
    return rc;
}
