/* purge.c: every list in which requests wait. */
#include "server/shard/purge.h"

#include "proto/base/assert.h"
#include "server/shard/shard.h"

static void purge_list(struct shard *s, struct request_list *l, bool pulls)
{
    struct request_list all = *l;
    struct request *q;
    *l = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL) {
        uint32_t mode, lanes;
        bool open =
            engine_run_mode(s->engine, pulls ? q->pull.run : q->push.r.run, &mode, &lanes) == 0;
        if (open || (pulls && q->pull.lane == UINT32_MAX))
            request_append(l, q);
        else
            shard_refuse_request(s, q, SHOAL_E_OLD_RUN, "this run was dropped or replaced");
    }
}

/* Pulls that wait at a gate whose run is gone come out at the next tick and are refused there. */
void purge_requests(struct shard *s)
{
    SHOAL_ASSERT(s->group.head == NULL);
    bsp_purge(s);
    purge_list(s, &s->hold.queue, false);
    purge_list(s, &s->park.pushes, false);
    purge_list(s, &s->park.pulls, true);
    purge_list(s, &s->arrived, true);
}
