/* sim_cold.c: a call is identified by its table and keys. After it has returned false, and its
 * delay has passed, the next such call gets the engine's own result. */
#include "tests/lib/sim_cold.h"

#include "embedding/engine.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"

#include <string.h>

#define ENGINES 64u
#define ASKED 64u

struct cold_engine {
    struct engine *g; /* NULL: free */
    struct env *env;
    struct engine_options options;
    struct env_timer timer;
    uint32_t percent, count;
    struct {
        uint64_t id;
        bool come;
    } asked[ASKED];
};

static struct cold_engine engines[ENGINES];
static uint32_t share;
static uint64_t answers;

int __real_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
int __real_engine_close(struct engine *g, bool flush_all);
int __wrap_engine_close(struct engine *g, bool flush_all);
bool __real_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);

void sim_cold_share(uint32_t percent)
{
    share = percent;
}

uint64_t sim_cold_answers(void)
{
    return answers;
}

static struct cold_engine *find(const struct engine *g)
{
    for (uint32_t i = 0; i < ENGINES; i++)
        if (engines[i].g == g)
            return &engines[i];
    return NULL;
}

static void come(struct env_timer *t)
{
    struct cold_engine *c = container_of(t, struct cold_engine, timer);
    for (uint32_t i = 0; i < c->count; i++)
        c->asked[i].come = true;
    c->options.on_fetched(c->options.context);
}

int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e)
{
    int rc = __real_engine_open(options, env, out, e);
    struct cold_engine *c = rc == 0 && share > 0 ? find(NULL) : NULL;
    if (c != NULL)
        *c = (struct cold_engine){
            .g = *out, .env = env, .options = *options, .timer.fire = come, .percent = share};
    return rc;
}

int __wrap_engine_close(struct engine *g, bool flush_all)
{
    struct cold_engine *c = find(g);
    if (c != NULL) {
        env_timer_stop(c->env, &c->timer);
        c->g = NULL;
    }
    return __real_engine_close(g, flush_all);
}

bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    struct cold_engine *c = find(g);
    if (!__real_engine_warm(g, table, keys, count))
        return false;
    if (c == NULL || count == 0)
        return true;
    uint64_t id = key_mix(keys[0] ^ key_mix(keys[count - 1] + table) ^ count);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->asked[i].id != id)
            continue;
        bool warm = c->asked[i].come;
        if (warm)
            c->asked[i] = c->asked[--c->count];
        return warm;
    }
    if (c->count == ASKED || env_random(c->env) % 100 >= c->percent)
        return true;
    c->asked[c->count].id = id;
    c->asked[c->count++].come = false;
    answers++;
    if (!c->timer.due_ns)
        env_timer_start(c->env, &c->timer, env_random(c->env) % 5000000);
    return false;
}
