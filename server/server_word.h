/* server_word.h: what the main thread of a server tells the coordinator: how long the disk of
 * data_dir has not answered (SERVER_DISK). The thread of a shard, which beats, hangs with that
 * disk. There is a connection from the first such word to the last.
 *
 * Thread: main. */
#ifndef SERVER_SERVER_WORD_H
#define SERVER_SERVER_WORD_H

#include "proto/base/env.h"
#include "proto/net/keyfile.h"

#include <stdint.h>

struct net;

struct server_word {
    const char *server, *coordinator; /* borrowed; coordinator "": there is none to tell */
    const struct keyfile *keys;       /* borrowed; NULL: none */
    struct net *net;                  /* owned; NULL: there is nothing to tell */
    peer_t to;
    uint64_t id;
    struct env_timer over;
};

/* Tells it, in half a second at most; 0: the disk answers, which is told once. A word that does not
 * arrive is followed by the next one. */
void server_word_disk(struct server_word *w, uint32_t seconds);

#endif
