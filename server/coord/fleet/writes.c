/* writes.c: times of the store's transactions; writes.h. */
#include "server/coord/fleet/writes.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

void coord_writes_begun(struct coord_writes *w, uint64_t newest, uint64_t begun_ns)
{
    SHOAL_ASSERT(newest >= w->begun);
    if (newest > w->begun && w->begun == w->complete)
        w->moved_ns = begun_ns;
    while (w->begun < newest)
        w->begun_ns[++w->begun % COORD_WRITES] = begun_ns;
}

void coord_writes_complete(struct coord_writes *w, uint64_t complete, uint64_t now_ns)
{
    SHOAL_ASSERT(complete <= w->begun);
    for (; w->complete < complete; w->moved_ns = now_ns) {
        w->complete++;
        if (w->begun - w->complete >= COORD_WRITES)
            continue; /* its begin is overwritten */
        uint64_t took_ns = now_ns - w->begun_ns[w->complete % COORD_WRITES];
        meter_time(&w->times, took_ns);
        if (took_ns <= COORD_WRITE_SLOW_NS)
            continue;
        w->slow_ns = took_ns;
        w->slow_end_ns = now_ns;
    }
}

uint64_t coord_writes_stand_ns(const struct coord_writes *w, uint64_t now_ns)
{
    if (w->begun == w->complete)
        return 0;
    return now_ns - w->moved_ns;
}

double coord_writes_mean_s(const struct coord_writes *w, uint64_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < METER_CELLS; i++)
        *count += w->times.cell[i];
    if (*count == 0)
        return (double)NAN;
    return (double)w->times.sum_ns * 1e-9 / (double)*count;
}

bool coord_writes_problem(const struct coord_writes *w, const char *place, uint64_t now_ns,
                          char *text, size_t bytes)
{
    const char *see = "that disk, and what else writes to it";
    uint64_t stand_ns = coord_writes_stand_ns(w, now_ns);
    if (strncmp(place, "zookeeper:", strlen("zookeeper:")) == 0)
        see = "ZooKeeper's log and disk, and the network to it";
    if (stand_ns > COORD_WRITE_SLOW_NS)
        (void)snprintf(text, bytes,
                       "the coordinator's store, %.200s, has completed no write for %" PRIu64
                       " s: workers and orders wait for it: see %s",
                       place, stand_ns / SECOND_NS, see);
    else if (w->slow_ns != 0 && now_ns - w->slow_end_ns <= COORD_WRITE_TOLD_NS)
        (void)snprintf(text, bytes,
                       "the coordinator's store, %.200s, took %" PRIu64
                       " s for a write, which ended %" PRIu64
                       " s ago: workers and orders wait for each: see %s",
                       place, w->slow_ns / SECOND_NS, (now_ns - w->slow_end_ns) / SECOND_NS, see);
    else
        return false;
    return true;
}
