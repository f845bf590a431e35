/* embedding_env.c: work under the test's control. */
#include "tests/lib/embedding_env.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/time.h"

#include <stdlib.h>
#include <string.h>

static uint64_t now_ns(struct env *env)
{
    (void)env;
    return time_monotonic_ns();
}

static void work(struct env *env, struct env_work *w)
{
    struct embedding_env *e = container_of(env, struct embedding_env, env);
    SHOAL_ASSERT(e->count < EMBEDDING_ENV_WORK);
    e->work[e->count++] = w;
    e->started++;
}

static void timer_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    struct embedding_env *e = container_of(env, struct embedding_env, env);
    t->due_ns = 1 + delay_ns;
    if (e->timer[0] == t || e->timer[1] == t)
        return;
    SHOAL_ASSERT(e->timer[1] == NULL);
    e->timer[e->timer[0] == NULL ? 0 : 1] = t;
}

static void timer_stop(struct env *env, struct env_timer *t)
{
    struct embedding_env *e = container_of(env, struct embedding_env, env);
    t->due_ns = 0;
    if (e->timer[0] == t)
        e->timer[0] = e->timer[1];
    else if (e->timer[1] != t)
        return;
    e->timer[1] = NULL;
}

void embedding_env_init(struct embedding_env *e)
{
    static const struct env_ops ops = {
        .now_ns = now_ns, .work = work, .timer_start = timer_start, .timer_stop = timer_stop};
    memset(e, 0, sizeof *e);
    e->env.ops = &ops;
}

bool embedding_env_step(struct embedding_env *e)
{
    if (e->count == 0 && e->timer[0] != NULL) {
        struct env_timer *t = e->timer[0];
        timer_stop(&e->env, t);
        t->fire(t);
        return true;
    }
    if (e->count == 0)
        return false;
    embedding_env_step_at(e, 0);
    return true;
}

struct env_work *embedding_env_take(struct embedding_env *e, unsigned at)
{
    SHOAL_ASSERT(at < e->count);
    struct env_work *w = e->work[at];
    memmove(&e->work[at], &e->work[at + 1], (--e->count - at) * sizeof e->work[0]);
    w->run(w);
    return w;
}

void embedding_env_put(struct embedding_env *e, struct env_work *w)
{
    SHOAL_ASSERT(e->count < EMBEDDING_ENV_WORK);
    e->work[e->count++] = w;
}

void embedding_env_step_at(struct embedding_env *e, unsigned at)
{
    struct env_work *w = embedding_env_take(e, at);
    w->done(w);
}

void embedding_env_run_newest(struct embedding_env *e, unsigned keep)
{
    while (e->count > keep) {
        struct env_work *w = e->work[--e->count];
        w->run(w);
        w->done(w);
    }
}

void embedding_env_run(struct embedding_env *e)
{
    while (embedding_env_step(e)) {
    }
}
