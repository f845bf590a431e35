/* gauges.h: the shard's figures for Prometheus. */
#ifndef SERVER_SHARD_GAUGES_H
#define SERVER_SHARD_GAUGES_H

#include "proto/meter/meter.h"

struct shard;

/* Adds all rows of a shard (proto/meter/meter_table.h) to the sheet. On the shard's loop, about
 * once a second: it looks at all tablets. */
void gauges_put(const struct shard *s, struct meter_sheet *out);

#endif
