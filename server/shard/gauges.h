/* gauges.h: the shard's figures for Prometheus. */
#ifndef SERVER_SHARD_GAUGES_H
#define SERVER_SHARD_GAUGES_H

#include "proto/base/limits.h"
#include "proto/meter/meter.h"

#include <stdbool.h>
#include <stdint.h>

struct shard;

struct gauges {
    uint64_t flushed, flushed_ns; /* the flushed sequence, and when it was first seen */
    uint64_t syncs, sync_ns;      /* syncs that are done, and when the one at hand was first seen */
    bool syncing;                 /* the last look saw one */
    uint64_t names_version;       /* version of the names in `space`; 0: none are known */
    /* by the table's number, the space that has it; "": it was dropped, or the fleet has one
     * space */
    char space[LIMIT_TABLES][LIMIT_NAME];
    bool several; /* the fleet has several spaces */
};

/* Adds all rows of a shard (proto/meter/meter_table.h) to the sheet. On the shard's loop, about
 * once a second: it looks at all tablets. */
void gauges_put(struct shard *s, struct meter_sheet *out);
/* For how long the journal's sync at hand has been seen by these calls, at least one a second: the
 * loop turns while a disk completes no sync. 0: there is none. */
uint64_t gauges_sync_ns(struct shard *s);

#endif
