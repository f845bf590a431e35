/* cut_ahead.c: writes rows in advance of a cut that becomes a checkpoint, so that the cut has few
 * records.
 *
 * 1. A cut links the journal from the oldest record that no durable image includes. A push touches
 *    nearly every tablet, so that is most of the journal: for 55 MB of rows up to 1 GiB a shard.
 *    This writes the tablets once, urgently, while pushes go on; the journal begins a segment
 *    first, so that all earlier records are trimmed. The cut then has only the records pushed
 *    meanwhile. [test: a_cut_after_a_writing_has_few_records]
 * 2. It is an optimization: the cut is whole without it, and nothing waits for it. It is skipped
 *    when the disk has no room for images. [test: a_full_disk_writes_nothing_ahead] */
#include "embedding/engine/cut.h"

#include "embedding/engine/flush.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <stdlib.h>

struct cut_ahead {
    struct engine_job job;
    uint64_t sequence; /* durable images shall include all records up to this one */
    engine_ahead_done done;
    void *context;
};

static struct cut_ahead *ahead_of(const struct engine *g)
{
    return container_of(g->job[JOB_AHEAD], struct cut_ahead, job);
}

static bool is_urgent(const struct engine *g)
{
    return !g->space.stopped && flush_floor(g) < ahead_of(g)->sequence;
}

static void ahead_close(struct engine *g)
{
    struct cut_ahead *a = ahead_of(g);
    engine_job_end(g, JOB_AHEAD);
    free(a);
}

void cut_ahead_end(struct engine *g)
{
    if (g->job[JOB_AHEAD] == NULL)
        return;
    engine_ahead_done done = ahead_of(g)->done;
    void *context = ahead_of(g)->context;
    ahead_close(g);
    done(context);
}

static void ahead_step(struct engine *g)
{
    if (!is_urgent(g))
        cut_ahead_end(g);
}

/* True when the journal is small compared with the rows or with a segment. */
static bool is_short(const struct engine *g)
{
    return journal_bytes(g->journal) <= flush_image_bytes(g) / 4 + g->segment_bytes / 8;
}

/* Returns true when it has begun. */
static bool ahead_begin(struct engine *g, engine_ahead_done done, void *context)
{
    static const struct engine_job_ops ops = {ahead_step, is_urgent, NULL, ahead_close};
    struct err e = {0};
    struct cut_ahead *a = calloc(1, sizeof *a);
    if (a == NULL)
        return false; /* 2 */
    if (journal_roll(g->journal, &e) != 0) {
        free(a);
        engine_fail(g, &e);
        return false;
    }
    a->sequence = g->committed;
    a->done = done;
    a->context = context;
    engine_job_begin(g, JOB_AHEAD, &a->job, &ops);
    return true;
}

void engine_cut_ahead(struct engine *g, engine_ahead_done done, void *context)
{
    SHOAL_ASSERT(g->job[JOB_AHEAD] == NULL);
    bool can = g->journal != NULL && !g->broken && engine_back(g) && !g->holding && !g->cut_busy &&
               g->pending == 0 && g->committed == g->sequence;
    if (can && !g->space.stopped && !is_short(g) && ahead_begin(g, done, context))
        engine_flush_step(g);
    else
        done(context);
}
