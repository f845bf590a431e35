/* row_json.h: one row as JSON, for people and tools: the same text from a running shard and from
 * the folder of a stopped one.
 *
 * Members: key, field, table, values, tablet, shard, found; weights (width) and state (the
 * optimizer's); with statistics `stats`: show, click, score, time (event time, seconds since 1970;
 * null: none was told), has_vector; tier: where the row lies: memory or store. Without
 * a row: weights as a pull would give them, no state, and where there is any `waiting`, its
 * appearances so far, and `named`: erased, blocked, allowed. Thread: the shard's. */
#ifndef EMBEDDING_ROW_JSON_H
#define EMBEDDING_ROW_JSON_H

#include "embedding/table.h"
#include "proto/base/json.h"

/* shard: a name or a folder; stored: the row was found in the store (engine_row). The caller frees;
 * NULL when memory is out. */
struct json *row_json(const struct table *t, uint64_t key, const char *shard, bool stored,
                      bool *found);

#endif
