/* turns.c: a queue before the pool. */
#include "worker/train/turns.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"

static void turn_run(struct env_work *w) /* on a thread of the pool */
{
    struct turn *turn = container_of(w, struct turn, work);
    turn->run(turn);
}

static void pool_fill(struct turns *t);

static void turn_done(struct env_work *w)
{
    struct turn *turn = container_of(w, struct turn, work);
    struct turns *t = turn->of;
    SHOAL_ASSERT(t->running > 0);
    t->running--;
    pool_fill(t); /* before `done`, which may start further ones */
    turn->ran_ns = w->ran_ns;
    turn->done(turn);
}

static void pool_fill(struct turns *t)
{
    while (t->running < t->most && t->head != NULL) {
        struct turn *turn = t->head;
        t->head = turn->next;
        t->running++;
        turn->work = (struct env_work){.run = turn_run, .done = turn_done};
        env_work_start(t->env, &turn->work);
    }
}

void turns_init(struct turns *t, struct env *env, uint32_t most)
{
    SHOAL_ASSERT(most > 0);
    *t = (struct turns){.env = env, .most = most};
}

void turns_start(struct turns *t, struct turn *turn)
{
    SHOAL_ASSERT(t->most > 0);
    turn->of = t;
    turn->next = NULL;
    if (t->head == NULL)
        t->head = turn;
    else
        t->tail->next = turn;
    t->tail = turn;
    pool_fill(t);
}
