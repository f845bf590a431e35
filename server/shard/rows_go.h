/* rows_go.h: ROWS_GO of a shard: removes whole tables, the rows of tables or fields, or those that
 * a load brought. Tables and fields are removed a few tablets at a time, each step a record of its
 * own; the answer is sent once that is on disk. After a kill in between, a coordinator that asks
 * again gets the rest done. One request at a time: the same request again replaces the first one as
 * the one to be answered, another one is AGAIN, and so is the opening of a run while its fields are
 * being removed. Thread: the shard's. */
#ifndef SERVER_SHARD_ROWS_GO_H
#define SERVER_SHARD_ROWS_GO_H

#include "embedding/engine.h"
#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>

struct shard;

struct rows_go {
    peer_t peer; /* gets the answer; 0: no request is under way */
    uint64_t id;
    struct wire_ROWS_GO asked;
    struct engine_fields fields;
    uint32_t table, tablet; /* the next one */
    uint64_t rows;          /* removed */
    uint64_t through;       /* the sequence that the answer waits for; 0: not yet */
    uint32_t step_rows;     /* rows in the tablets of a step */
    struct env_timer timer;
};

void rows_go_init(struct shard *s);
/* Another copy leads, or the engine is closed: the request is given up without an answer. False:
 * the engine is removing rows. */
bool rows_go_stop(struct shard *s);
void rows_go_close(struct shard *s);
void rows_go_on_message(struct shard *s, peer_t from);
/* True when fields of some of these tables are being removed. */
bool rows_go_busy(const struct shard *s, struct table_set tables);

#endif
