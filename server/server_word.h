/* server_word.h: the main thread of a server tells the coordinator how long the disk of data_dir
 * has not answered, and which loop makes no progress (SERVER_DISK). The thread of a shard, which
 * sends the beats, hangs then. The connection is open from the first such message to the last.
 *
 * Thread: main. */
#ifndef SERVER_SERVER_WORD_H
#define SERVER_SERVER_WORD_H

#include "proto/base/env.h"
#include "proto/net/keyfile.h"
#include "proto/wire/coordinators.h"

#include <stdint.h>

struct net;

struct server_word {
    const char *coordinator;    /* borrowed: its list; "": there is none */
    const struct keyfile *keys; /* borrowed; NULL: none */
    struct net *net;            /* owned; NULL: no hang is being reported */
    struct coordinators list;
    struct wire_SERVER_DISK hang; /* the report; the owner sets its `server` */
    uint64_t id;
    struct env_timer over;
};

/* Sends for how many seconds the disk has not answered and loop `shard_index` has made no progress,
 * and waits for an answer, half a second at most. 0 and 0: all is well again, which is sent once. A
 * lost message is not sent again; the next one follows. */
void server_word_hang(struct server_word *w, uint32_t disk_s, uint32_t shard_index,
                      uint32_t loop_s);

#endif
