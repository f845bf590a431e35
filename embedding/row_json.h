/* row_json.h: one row as JSON, for people and tools. A running shard and the folder of a stopped
 * one give the same text.
 *
 * Members: key, field, table, values, tablet, shard, found; weights (width) and state (the
 * optimizer's); with statistics `stats`: show, click, score, time (event time, seconds since 1970;
 * null: no push had one), has_vector; tier: memory or store, where the row is. Without a row: the
 * weights that a pull would give, no state, and, if the table has them, `waiting`, the key's counts
 * so far. With a row and without, where the key has a name, `named`: erased, blocked or allowed.
 * Thread: the shard's. */
#ifndef EMBEDDING_ROW_JSON_H
#define EMBEDDING_ROW_JSON_H

#include "embedding/table.h"
#include "proto/base/json.h"

/* own: the engine's own table, which knows the names, or t itself. shard: a name or a folder;
 * stored: the row was found in the store (engine_row). The caller frees the result; NULL: out of
 * memory. */
struct json *row_json(const struct table *t, const struct table *own, uint64_t key,
                      const char *shard, bool stored, bool *found);

#endif
