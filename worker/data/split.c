/* split.c: opening the splits off the loop. */
#include "worker/data/split.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <string.h>

static struct split *split_of(struct env_work *w)
{
    return container_of(w, struct split, work);
}

static void open_run(struct env_work *w) /* on a thread of the pool */
{
    struct split *s = split_of(w);
    uint32_t number = (uint32_t)(s - s->set->split);
    s->status = dataset_open(s->set->job, number, &s->data, &s->error);
}

static void open_done(struct env_work *w)
{
    struct split *s = split_of(w);
    s->opening = false;
    if (s->status != 0)
        s->data = NULL;
    s->set->on_change(s->set->context);
}

void split_init(struct split_set *s, struct env *env, const struct job *job,
                void (*on_change)(void *context), void *context)
{
    memset(s, 0, sizeof *s);
    s->env = env;
    s->job = job;
    s->on_change = on_change;
    s->context = context;
    for (uint32_t i = 0; i < SPLIT_COUNT; i++)
        s->split[i] = (struct split){.set = s, .work = {.run = open_run, .done = open_done}};
}

void split_close(struct split_set *s)
{
    for (uint32_t i = 0; i < SPLIT_COUNT; i++) {
        SHOAL_ASSERT(!s->split[i].opening);
        if (s->split[i].data != NULL)
            dataset_close(s->split[i].data);
        s->split[i].data = NULL;
        s->split[i].status = 0;
    }
}

bool split_busy(const struct split_set *s)
{
    for (uint32_t i = 0; i < SPLIT_COUNT; i++)
        if (s->split[i].opening)
            return true;
    return false;
}

int split_open(struct split_set *s, uint32_t split, struct dataset **out, struct err *e)
{
    if (split >= SPLIT_COUNT)
        return err_set(e, SHOAL_E_MALFORMED,
                       "the coordinator names split %u, there are train, valid and test", split);
    struct split *one = &s->split[split];
    if (one->opening)
        return SHOAL_E_AGAIN;
    if (one->data != NULL) {
        *out = one->data;
        return 0;
    }
    if (one->status != 0) {
        if (e != NULL)
            *e = one->error;
        return one->status;
    }
    one->opening = true;
    memset(&one->error, 0, sizeof one->error);
    env_work_start(s->env, &one->work);
    return SHOAL_E_AGAIN;
}
