/* embedding_env.h: a tiny env for engine tests: work waits until the test runs it, on the test's
 * own thread. */
#ifndef TESTS_LIB_EMBEDDING_ENV_H
#define TESTS_LIB_EMBEDDING_ENV_H

#include "proto/base/env.h"

#define EMBEDDING_ENV_WORK 64

struct embedding_env {
    struct env env; /* first */
    struct env_work *work[EMBEDDING_ENV_WORK];
    unsigned count, started;
    /* running timers, in the order of their start; NULL: none. An engine has only two */
    struct env_timer *timer[2];
    uint64_t now_ns;
};

void embedding_env_init(struct embedding_env *e);
/* Runs the oldest work and its done, or without work fires the first timer; false when there is
 * neither. */
bool embedding_env_step(struct embedding_env *e);
/* Work on several threads keeps no order: runs the work at `at` (below count) and its done. */
void embedding_env_step_at(struct embedding_env *e, unsigned at);
/* Runs the work at `at` and takes it out of the queue, without its done. embedding_env_put puts it
 * back, and then only its done is called: the work does not run twice (offload.c). */
struct env_work *embedding_env_take(struct embedding_env *e, unsigned at);
void embedding_env_put(struct embedding_env *e, struct env_work *w);
/* Runs all but the oldest `keep`, newest first. */
void embedding_env_run_newest(struct embedding_env *e, unsigned keep);
void embedding_env_run(struct embedding_env *e);

#endif
