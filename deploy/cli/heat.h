/* heat.h: `shoal tables --heat`: the load of tablets, by table and shard. */
#ifndef DEPLOY_CLI_HEAT_H
#define DEPLOY_CLI_HEAT_H

#include "deploy/cli/reader.h"

/* Prints the heat of a table (UINT32_MAX: of every table) as text, or as JSON: [{"table", "load",
 * "shards": [{"shard", "tablets", "rows", "bytes", "pull_ns", "push_ns", "load"}], "tablets":
 * [{"tablet", "shard", "rows", "bytes", "pull_ns", "push_ns"}]}]; "load" is a share of the load of
 * all tables that are shown. UNAVAILABLE: no servers run. */
int heat_tell(struct reader *r, uint32_t only, bool as_json, struct err *e);

#endif
