/* trainer_host.c: what seats ask of the trainer. */
#include "worker/train/trainer_inner.h"

static int host_ready(void *context, uint32_t split, bool map, struct err *e)
{
    struct trainer *t = context;
    struct dataset *d = NULL;

    int status = split_open(&t->splits, split, &d, e);
    if (status != 0)
        return status;
    if (t->host.base.data[split] != d) /* threads that read from it look at this too */
        t->host.base.data[split] = d;
    if (!map || client_map(t->client) != NULL)
        return 0;
    client_map_refresh(t->client);
    return SHOAL_E_AGAIN;
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
        seat_drop(s); /* fenced: the same lane came back to us under a newer generation */
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
    trainer_clear(context, false, 0, "");
}

static void host_unknown(void *context)
{
    trainer_forgotten(context);
}

static void host_fatal(void *context, int status, const char *text)
{
    trainer_clear(context, false, status, text);
}

static void host_broken(void *context, int status, const char *text)
{
    trainer_break(context, status, text);
}

void trainer_host_init(struct trainer *t)
{
    t->host = (struct seat_host){.base = {.env = t->env, .client = t->client, .stats = &t->stats},
                                 .context = t,
                                 .ready = host_ready,
                                 .freed = host_freed,
                                 .held = host_held,
                                 .lanes = host_lanes,
                                 .end = host_end,
                                 .unknown = host_unknown,
                                 .fatal = host_fatal,
                                 .broken = host_broken};
}
