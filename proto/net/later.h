/* later.h: the timers of a core and its work on other threads, on a libuv loop. Internal to
 * proto/net.
 *
 * A libuv handle or request is allocated at its first use and then reused, so a warm path allocates
 * nothing. The core owns its env_timer and env_work structs; `impl` points to ours while they run.
 * Thread: the loop's. */
#ifndef PROTO_NET_LATER_H
#define PROTO_NET_LATER_H

#include "proto/base/env.h"

#include <stdint.h>
#include <uv.h>

struct later_timer;
struct later_work;

struct later {
    uv_loop_t *loop;            /* borrowed */
    struct later_timer *timers; /* owned: all */
    struct later_timer *timers_free;
    struct later_work *works; /* owned: all */
    struct later_work *works_free;
    uint32_t working; /* started, done not called yet */
    bool firing, closing;
};

void later_init(struct later *l, uv_loop_t *loop);
void later_timer_start(struct later *l, struct env_timer *t,
                       /* never fires early; at most 1 ms late on an idle loop */
                       uint64_t delay_ns);
void later_timer_stop(struct later *l, struct env_timer *t);
void later_work(struct later *l, struct env_work *w);
/* Stops the timers, waits for running work and cancels the rest; no `done` is called. Then closes
 * the handles: the loop must run once more before later_free. */
void later_close(struct later *l);
void later_free(struct later *l);

#endif
