/* trainer_host.c: the answers of a trainer to its seats (struct seat_host): inputs, lanes that
 * other seats hold, and where the failure of a lane leads. */
#include "proto/base/assert.h"
#include "worker/data/object.h"
#include "worker/train/trainer_inner.h"

/* A worker that stays has the map of the previous job until the tables of this job are known, and
 * that map may lack tablets. Shards notice a map that is complete but old. */
static bool map_has_all(const struct trainer *t)
{
    const struct map *map = client_map(t->client);
    const struct table_schema *last = &t->schema[t->host.base.table_count - 1];
    SHOAL_ASSERT(t->host.base.table_count > 0);
    return map != NULL && last->tablet_first + (1u << last->tablet_bits) <= map->tablet_count;
}

static int host_ready(void *context, const struct wire_LANE_NEXT_reply *task, struct dataset **data,
                      struct err *e)
{
    struct trainer *t = context;
    char line[LIMIT_PATH];
    bool map = task->kind != WIRE_NEXT_INDEX, rows = !map || task->rows > 0;
    if (map && !map_has_all(t)) {
        client_map_refresh(t->client);
        return SHOAL_E_AGAIN;
    }
    object_line(task->object_name, task->object_mark, line);
    uint32_t object = INPUTS_NO_OBJECT;
    if (task->object != 0)
        object = task->object - 1;
    int rc = 0;
    if (rows)
        rc = inputs_open(&t->inputs, task->split, object, line, data, e);
    trainer_profile_tell(t); /* before the seat's report */
    return rc;
}

static void host_release(void *context, const struct dataset *data)
{
    struct trainer *t = context;
    inputs_release(&t->inputs, data);
}

static void host_freed(void *context)
{
    trainer_wake(context);
}

static bool host_held(void *context, const struct seat *but, uint32_t lane, uint64_t generation)
{
    struct trainer *t = context;
    for (uint32_t i = 0; i < t->seat_count; i++) {
        struct seat *s = t->seat[i];
        if (s == but || seat_lane(s) != lane)
            continue;
        if (seat_generation(s) >= generation)
            return true;
        seat_drop(s); /* fenced: the same lane came back under a newer generation */
    }
    return false;
}

static uint32_t host_lanes(void *context)
{
    const struct trainer *t = context;
    uint32_t held = 0;
    for (uint32_t i = 0; i < t->seat_count; i++)
        held += seat_lane(t->seat[i]) != SEAT_NO_LANE;
    return held;
}

static void host_end(void *context)
{
    trainer_end(context, 0, "");
}

static void host_unknown(void *context)
{
    trainer_forgotten(context);
}

static void host_back(void *context, const char *text)
{
    trainer_given_back(context, text);
}

static void host_fatal(void *context, int status, const char *text)
{
    trainer_end(context, status, text);
}

static void host_apart(void *context, const char *text)
{
    trainer_apart(context, text);
}

static void host_broken(void *context, int status, const char *text)
{
    trainer_break(context, status, text);
}

void trainer_host_init(struct trainer *t)
{
    t->host = (struct seat_host){
        .base = {.env = t->env, .client = t->client, .stats = &t->stats, .traces = &t->traces},
        .context = t,
        .ready = host_ready,
        .release = host_release,
        .freed = host_freed,
        .held = host_held,
        .lanes = host_lanes,
        .end = host_end,
        .unknown = host_unknown,
        .back = host_back,
        .fatal = host_fatal,
        .apart = host_apart,
        .broken = host_broken};
}
