/* replay_objects.c: makes a replay's windows from those of its objects. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/core.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/source.h"
#include "server/coord/work/task.h"

#include <stdlib.h>

/* The rows of an object in a window. */
struct range {
    uint32_t number, first, object; /* number, first: as in wire_window */
    uint64_t position, rows;
};

static int less(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->number != y->number)
        return (x->number > y->number) - (x->number < y->number);
    if (x->first != y->first)
        return (x->first > y->first) - (x->first < y->first);
    return (x->object > y->object) - (x->object < y->object); /* objects are listed by name */
}

/* Returns all ranges in the order in which they are learnt; the caller frees them. */
static struct range *ranges_of(const struct coord_objects *o)
{
    struct range *out = malloc((o->windows + 1ull) * sizeof *out);
    uint32_t count = 0;
    for (uint32_t i = 0; out != NULL && i < o->count; i++) {
        uint64_t position = 0;
        for (uint32_t w = 0; w < o->object[i].windows; w++) {
            const struct wire_window *of = &o->object[i].window[w];
            out[count++] = (struct range){of->number, of->first, i, position, of->rows};
            position += of->rows;
        }
    }
    SHOAL_ASSERT(out == NULL || count == o->windows);
    if (out != NULL)
        qsort(out, count, sizeof *out, less);
    return out;
}

static int ranges_take(struct coord_job *j, const struct range *range, struct err *e)
{
    struct coord_replay *r = j->replay;
    uint32_t count = j->objects[WIRE_TRAIN].windows;
    r->window = malloc((count + 1ull) * sizeof *r->window);
    r->piece = malloc((count + 1ull) * sizeof *r->piece);
    if (r->window == NULL || r->piece == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u windows", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct range *of = &range[i];
        r->piece[i] = (struct coord_piece){.position = of->position,
                                           .rows = of->rows,
                                           .object = of->object,
                                           .lane = j->objects[WIRE_TRAIN].object[of->object].lane};
        if (i == 0 || range[i - 1].number != of->number)
            r->window[r->windows++] = (struct wire_window){0, of->number, of->first};
        r->window[r->windows - 1].rows += of->rows;
    }
    if (r->windows > WIRE_WINDOWS_MAX)
        return err_set(e, SHOAL_E_DATA,
                       "data.train has %u windows of %u s, at most %u are possible: raise "
                       "replay.window",
                       r->windows, j->spec.replay.window, WIRE_WINDOWS_MAX);
    return coord_replay_segments(j, e);
}

static int windows_make(struct coord_job *j, struct err *e)
{
    SHOAL_ASSERT(j->replay->windows == 0 && j->replay->window == NULL &&
                 j->objects[WIRE_TRAIN].windows > 0);
    struct range *range = ranges_of(&j->objects[WIRE_TRAIN]);
    if (range == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u windows",
                       j->objects[WIRE_TRAIN].windows);
    int rc = ranges_take(j, range, e);
    free(range);
    if (rc == 0)
        log_info("data.train: %u windows of %u s, %u of them trained", j->replay->windows,
                 j->spec.replay.window, j->replay->segments);
    return rc;
}

static int known(struct coord_job *j, struct err *e)
{
    int rc = windows_make(j, e);
    if (rc != 0)
        return rc;
    return coord_objects_put_rows(j, e);
}

static int load(struct coord_job *j, struct err *e)
{
    int rc = coord_objects_stored(j, e);
    if (rc != 0)
        return rc;
    return windows_make(j, e);
}

const struct coord_source coord_replay_objects_source = {.list = coord_objects_list,
                                                         .known = known,
                                                         .load = load,
                                                         .amount = coord_replay_amount,
                                                         .plan = coord_replay_plan};
