/* cut_copy.c: copies the images of a cut, batch by batch.
 *
 * 1. Rows and marks of a tablet that is not copied yet are as at GO: a push that would change it
 *    gets BUSY, and no run is dropped. A row of it may come into memory, because image and pair are
 *    equal. [assert: gather] [test: pushes_wait_for_what_is_not_copied]
 * 2. At most a batch is copied in one turn of the loop, but at least one tablet. [assert: gather]
 *    [test: a_copy_goes_batch_by_batch] */
#include "embedding/engine/cut_copy.h"

#include "embedding/engine/flush.h"
#include "embedding/engine/space.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <stdlib.h>

struct cut_copy {
    struct engine *g;         /* borrowed */
    const char *parent, *tmp; /* borrowed; NULL: the copy stays in memory */
    struct store *to;         /* owned; NULL: not made yet */
    void *control;            /* owned; the control state of GO; NULL: a batch has written it */
    size_t control_bytes;     /* length of the control state */
    uint64_t sequence;
    struct table_set tables; /* tables that existed at GO */
    uint32_t table, tablet;  /* the next tablet */
    uint64_t bytes;          /* bytes of images so far */
    uint64_t room;           /* estimate of their total */
    uint64_t unflushed;      /* bytes in the store's buffers */
    bool busy;               /* a batch is being written */
    int status;
    struct err err;
};

int cut_copy_new(struct engine *g, const struct cut_facts *facts, const char *parent,
                 const char *tmp, struct cut_copy **out)
{
    struct cut_copy *c = calloc(1, sizeof *c);
    struct table *list[LIMIT_TABLES];
    if (c == NULL)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(g->copying == NULL && g->pending == 0);
    *c = (struct cut_copy){.g = g,
                           .parent = parent,
                           .tmp = tmp,
                           .sequence = facts->sequence,
                           .tables = facts->existing,
                           .room = flush_image_bytes(g)};
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = g->table[i].table;
    int rc =
        stored_control_write(list, &g->runs, (struct stored_as_of){facts->sequence, 0, g->terms},
                             &c->control, &c->control_bytes);
    if (rc == 0 && tmp == NULL)
        rc = store_mem_open(&c->to);
    if (rc != 0) {
        cut_copy_free(g, c);
        return rc;
    }
    g->copying = c;
    *out = c;
    return 0;
}

void cut_copy_free(struct engine *g, struct cut_copy *c)
{
    if (c == NULL)
        return;
    SHOAL_ASSERT(!c->busy);
    if (g->copying == c)
        g->copying = NULL;
    store_close(c->to);
    free(c->control);
    free(c);
}

bool cut_copy_waits(const struct engine *g, uint32_t table, uint32_t first, uint32_t count)
{
    const struct cut_copy *c = g->copying;
    if (c == NULL)
        return false;
    SHOAL_ASSERT(count > 0);
    return table_set_has(&c->tables, table) && table >= c->table &&
           (table > c->table || first + count > c->tablet);
}

bool cut_copy_under_way(const struct engine *g)
{
    return g->copying != NULL;
}

uint64_t cut_copy_memory(const struct cut_copy *c)
{
    if (c->tmp != NULL)
        return 0;
    return MAX(c->bytes, c->room);
}

int cut_copy_status(const struct cut_copy *c, struct err *e)
{
    if (c->status != 0)
        err_set(e, c->status, "%s", c->err.text);
    return c->status;
}

struct store *cut_copy_take(struct cut_copy *c, uint64_t *bytes)
{
    struct store *to = c->to;
    SHOAL_ASSERT(c->tmp == NULL && !c->busy && c->status == 0);
    c->to = NULL;
    *bytes = c->bytes;
    return to;
}

/* ---- a batch ---- */

struct copy_work {
    struct offload work; /* first */
    struct cut_copy *c;  /* borrowed */
};

/* The next tablet. False: there is none. */
static bool next(struct cut_copy *c)
{
    for (; c->table < LIMIT_TABLES; c->table++, c->tablet = 0)
        if (table_set_has(&c->tables, c->table) && c->tablet < c->g->table[c->table].scope.tablets)
            return true;
    return false;
}

/* Fills the flushes' batch with the control state, then tablets. 0 or NOMEM. */
static int gather(struct cut_copy *c)
{
    struct engine *g = c->g;
    size_t most = flush_batch_bytes(g);
    g->flush.items = g->flush.bytes = 0;
    if (c->control != NULL) {
        struct store_item item;
        stored_control_key(&item);
        if (!flush_room(g, 1, 0))
            return SHOAL_E_NOMEM;
        flush_put_value(g, &item, c->control, c->control_bytes);
        return 0;
    }
    while (next(c)) {
        const struct engine_table *t = &g->table[c->table];
        if (g->journal != NULL && t->changed[c->tablet] == 0) { /* the store has no image either */
            c->tablet++;
            continue;
        }
        size_t need = stored_tablet_bytes(t->table, &g->runs, c->tablet), so_far = flush_bytes(g);
        SHOAL_ASSERT(t->changed[c->tablet] <= c->sequence); /* 1 */
        if (so_far > 0 && so_far + need > most)
            break;
        if (!flush_room(g, 1, need))
            return SHOAL_E_NOMEM;
        flush_put_copy(g, c->table, c->tablet, c->sequence);
        SHOAL_ASSERT(so_far == 0 || flush_bytes(g) <= most); /* 2 */
        c->tablet++;
    }
    c->bytes += flush_bytes(g);
    return 0;
}

static int write_batch(struct cut_copy *c, struct err *e)
{
    const struct flush_state *f = &c->g->flush;
    char rows[LIMIT_PATH];
    int rc = 0;
    if (c->to == NULL) {
        SHOAL_ASSERT(c->tmp != NULL);
        snprintf(rows, sizeof rows, "%.*s/rows", (int)LIMIT_PATH - 6, c->tmp);
        rc = cut_folder_make(c->parent, c->tmp, e);
        if (rc == 0)
            rc = store_rocks_open(rows, 0, &c->to, e);
    }
    if (rc == 0)
        rc = store_write(c->to, f->item, f->items, e);
    c->unflushed += f->bytes;
    if (rc == 0 && c->unflushed >= flush_batch_bytes(c->g)) {
        c->unflushed = 0;
        rc = store_flush(c->to, e);
    }
    return rc;
}

static void copy_run(struct offload *w)
{
    struct cut_copy *c = container_of(w, struct copy_work, work)->c;
    c->status = write_batch(c, &c->err);
    if (c->status != 0) {
        store_close(c->to);
        c->to = NULL;
    }
}

static void copy_done(struct offload *w)
{
    struct cut_copy *c = container_of(w, struct copy_work, work)->c;
    struct engine *g = c->g;
    SHOAL_ASSERT(c->busy && g->cut_busy);
    c->busy = false;
    free(c->control);
    c->control = NULL;
    if (c->tmp != NULL)
        space_add(g, g->flush.bytes);
    g->flush.items = g->flush.bytes = 0;
    if (!w->cancelled)
        engine_flush_step(g);
}

bool cut_copy_step(struct cut_copy *c)
{
    struct engine *g = c->g;
    if (c->busy)
        return false;
    bool left = c->status == 0 && (c->control != NULL || next(c));
    if (!left) {
        g->copying = NULL;
        return true;
    }
    SHOAL_ASSERT(g->copying == c && !g->flush.busy); /* the batch is idle */
    struct copy_work *w = calloc(1, sizeof *w);
    if (w == NULL || gather(c) != 0) {
        free(w);
        c->status = err_set(&c->err, SHOAL_E_NOMEM, "no memory to copy tablets");
        g->copying = NULL;
        return true;
    }
    w->c = c;
    c->busy = true;
    engine_work(g, &w->work, copy_run, copy_done);
    return false;
}

int cut_copy_end(struct cut_copy *c, struct err *e)
{
    SHOAL_ASSERT(!c->busy && c->status == 0 && c->control == NULL);
    if (c->tmp == NULL)
        return 0;
    int rc = 0;
    if (c->g->store != NULL)
        rc = cut_copy_cold(c->g->store, c->to, flush_batch_bytes(c->g), e);
    if (rc == 0)
        rc = store_flush(c->to, e);
    store_close(c->to);
    c->to = NULL;
    return rc;
}
