/* server_word.h: the main thread of a server tells the coordinator how long the disk of data_dir
 * has not answered (SERVER_DISK). The thread of a shard, which sends the beats, hangs with that
 * disk. The connection is open from the first such message to the last.
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
    const char *server, *coordinator; /* borrowed; coordinator: its list; "": there is none */
    const struct keyfile *keys;       /* borrowed; NULL: none */
    struct net *net;                  /* owned; NULL: no hang is being reported */
    struct coordinators list;
    uint32_t seconds;
    uint64_t id;
    struct env_timer over;
};

/* Sends the number of seconds and waits for an answer, half a second at most. 0: the disk answers
 * again, which is sent once. A lost message is not sent again; the next one follows. */
void server_word_disk(struct server_word *w, uint32_t seconds);

#endif
