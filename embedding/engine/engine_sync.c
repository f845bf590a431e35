/* engine_sync.c: the journal to the disk, on an I/O thread, one sync at a time. */
#include "embedding/engine/engine_state.h"

#include <stdlib.h>

struct sync_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    struct journal_sync sync;
};

static void sync_run(struct work *w)
{
    journal_sync_run(&((struct sync_work *)w)->sync);
}

static void sync_done(struct work *w)
{
    struct sync_work *s = (struct sync_work *)w;
    struct engine *g = s->g;
    struct err e = {0};
    g->syncing = false;
    if (w->cancelled)
        s->sync.status = SHOAL_E_STOPPED;
    int rc = journal_sync_end(g->journal, &s->sync, &e);
    if (w->cancelled)
        return;
    if (rc != 0) {
        engine_fail(g, &e);
        return;
    }
    if (g->options.durability == DURABLE_FSYNC) {
        engine_sync_start(g);
        if (g->options.on_synced != NULL)
            g->options.on_synced(g->options.context);
    }
}

void engine_sync_start(struct engine *g)
{
    if (g->journal == NULL || g->syncing || g->broken ||
        journal_synced(g->journal) == journal_committed(g->journal))
        return;
    struct sync_work *s = calloc(1, sizeof *s);
    if (s == NULL)
        return; /* the next commit asks again */
    s->g = g;
    s->work.run = sync_run;
    s->work.done = sync_done;
    if (!journal_sync_begin(g->journal, &s->sync)) {
        free(s);
        return;
    }
    g->syncing = true;
    work_start(&g->works, g->env, &s->work);
}

bool engine_unsynced(const struct engine *g)
{
    return g->journal != NULL && !g->broken &&
           journal_synced(g->journal) != journal_committed(g->journal);
}

bool engine_sync_due(struct engine *g)
{
    bool was = engine_unsynced(g);
    engine_sync_start(g);
    return was;
}
