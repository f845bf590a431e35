/* server_thread.h: the thread of one shard. It has its own loop (net), engine and core, which it
 * opens, runs and closes. It wakes the main thread by SIGUSR1 when it reaches its next state. An
 * internal header of server_shards.h. */
#ifndef SERVER_SERVER_THREAD_H
#define SERVER_SERVER_THREAD_H

#include "proto/base/env.h"
#include "proto/base/limits.h"
#include "proto/net/net.h"
#include "server/server_keys.h"
#include "server/server_shards.h"

#include <pthread.h>

struct server_thread {
    const struct server_shards *of; /* borrowed */
    uint32_t index;
    char dir[LIMIT_PATH]; /* the shard's; it may open its engine again */
    pthread_t thread;
    _Atomic int state;       /* set by the thread, as are the members below it up to pulses */
    struct net *net;         /* net_interrupt from main, once opened */
    struct shard *shard;     /* used by its thread alone */
    int status;              /* 0 or SHOAL_E_*, once opened */
    struct err error;        /* the message for status */
    _Atomic uint64_t pulses; /* counted up by the thread while it makes progress */
    uint64_t seen;           /* the value of pulses when the main thread last told systemd */
    uint64_t stands;         /* the value of pulses when it last changed, as the main thread saw */
    uint64_t stands_ns;      /* and when that was; 0: not yet */
    struct env_timer pulse;
    struct server_list list; /* the allow-list of a server without a coordinator */
};

/* Starts the thread of m, whose `of` and `index` are set. NOMEM. */
int server_thread_start(struct server_thread *m, struct err *e);
/* Waits for the end of a thread that is CLOSED. */
void server_thread_end(struct server_thread *m);

#endif
