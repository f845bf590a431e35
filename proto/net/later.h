/* later.h: what a core asked to happen later: its timers and its work on other threads, on a libuv
 * loop. Inside of proto/net.
 *
 * A libuv handle or request is taken at the first use and kept for the next one, so nothing is
 * allocated on a warm path. The env_timer and env_work structs stay the core's; `impl` points to
 * ours while they run. Thread: the loop's.
 */
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
/* Stops the timers and waits for running work; work not begun is cancelled, `done` is called for
 * none. Then closes the handles: the loop must run once more before later_free. */
void later_close(struct later *l);
void later_free(struct later *l);

#endif
