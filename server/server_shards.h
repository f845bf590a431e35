/* server_shards.h: the shards of a server, each with a thread of its own (server_thread.h). The
 * main thread starts them, learns how far they are, and stops them.
 *
 *     server_shards_start -> OPENED -> server_shards_interrupt -> CLOSED -> server_shards_end
 *
 * Thread: main. A shard that reaches its next state wakes it by SIGUSR1, which all threads
 * block. */
#ifndef SERVER_SERVER_SHARDS_H
#define SERVER_SERVER_SHARDS_H

#include "proto/net/keyfile.h"
#include "server/server_config.h"
#include "server/server_status.h"
#include "server/shard/shard.h"

#include <stdbool.h>
#include <stdint.h>

#define SERVER_NOT_TAKEN                                                                           \
    "the coordinator does not take this server: its log says why, and so does shoal doctor "       \
    "--cluster"

struct board;
struct server_thread;

/* A shard's thread passes through the states in this order. One whose opening failed is OPENED with
 * a status, and then CLOSED. */
enum server_thread_state { THREAD_OPENS, THREAD_OPENED, THREAD_LEAVES, THREAD_CLOSED };

struct server_shards {
    /* borrowed, set by the owner before the start */
    const struct server_config *config;
    const char *name;           /* the server's */
    const struct keyfile *keys; /* NULL: none */
    bool insecure;              /* it listens on tcp without keys */
    struct budget budget;       /* each shard gets this much */
    struct board *board;        /* NULL: no metrics */
    /* the threads that were started, and their figures: (count), owned */
    struct server_thread *thread;
    struct server_progress *progress;
    uint32_t count;
};

/* After a failure, too, the threads that run must be stopped. NOMEM. */
int server_shards_start(struct server_shards *s, struct err *e);
/* True when all shards, or one of them, have reached the state. */
bool server_shards_all(const struct server_shards *s, enum server_thread_state state);
bool server_shards_any(const struct server_shards *s, enum server_thread_state state);
/* The status of the first shard that could not be opened, once all are OPENED; 0: there is none. */
int server_shards_failed(const struct server_shards *s, struct err *e);
/* True when every shard has made progress since one of these two functions last looked at it: the
 * first looks when all have, the second always. */
bool server_shards_all_moved(struct server_shards *s);
bool server_shards_any_moved(struct server_shards *s);
/* Returns for how long the loop has made no progress that has stood still for longest, and which
 * shard's that is. */
uint64_t server_shards_stand_ns(struct server_shards *s, uint64_t now_ns, uint32_t *shard);
/* Returns the number of shards that have this place in the fleet. */
uint32_t server_shards_placed(const struct server_shards *s, enum shard_place place);
/* Lets all loops end; every shard is OPENED. */
void server_shards_interrupt(struct server_shards *s);
/* Joins the threads, which are CLOSED, and frees what start allocated. */
void server_shards_end(struct server_shards *s);

#endif
