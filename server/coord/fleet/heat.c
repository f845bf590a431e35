/* heat.c: collects the heat of tablets; heat.h. */
#include "server/coord/fleet/heat.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>

static void end(struct coord_fleet *f, int status, const char *text)
{
    struct coord_heat *h = &f->heat;
    SHOAL_ASSERT(h->asked_ns != 0);
    h->asked_ns = 0;
    h->complete = status == 0;
    if (h->done != NULL)
        h->done(h->context, status, text);
}

/* Takes what a shard tells of tablets that are its own. */
static void on_reply(void *context, const struct coord_call *call, uint32_t shard,
                     const struct wire *reply, const struct msg *m)
{
    struct coord_fleet *f = context;
    const struct coord_cluster *cl = &f->cluster;
    const struct wire_HEAT_reply *r = &reply->u.HEAT_reply;
    const struct wire_heat *in = m->frame[1].data;
    (void)call;
    if (cl->map_epoch != f->heat.map_epoch)
        return; /* on_done ends the collection */
    uint32_t first = cl->first[f->heat.table], tablets = 1u << cl->bits[f->heat.table];
    for (uint32_t i = 0; i < r->tablet_count && r->tablet_first < tablets - i; i++) {
        uint32_t global = first + r->tablet_first + i;
        if (cl->shard_of[global] == shard)
            f->heat.of[global] =
                (struct coord_heat_tablet){in[i].bytes, in[i].pull_ns + in[i].push_ns};
    }
}

static void on_done(void *context, const struct coord_call *call, int status, const char *text);

/* Goes on to the first table from this number on. False: there is none. */
static bool place_next(struct coord_fleet *f, uint32_t number)
{
    while (number < f->cluster.tables && !coord_map_place(&f->cluster, number))
        number++;
    f->heat.table = number;
    return number < f->cluster.tables;
}

static bool table_ask(struct coord_fleet *f)
{
    struct wire w = {.type = WIRE_TYPE_HEAT, .u.HEAT.table = f->heat.table};
    return coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                            .request = w,
                                                            .target = COORD_NOBODY,
                                                            .owner = COORD_NOBODY,
                                                            .on_reply = on_reply,
                                                            .on_done = on_done});
}

static void on_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    (void)call;
    if (status != 0)
        end(f, status, text);
    else if (f->cluster.map_epoch != f->heat.map_epoch)
        end(f, SHOAL_E_AGAIN, "the map has changed meanwhile: ask again");
    else if (!place_next(f, f->heat.table + 1))
        end(f, 0, "");
    else if (!table_ask(f))
        end(f, SHOAL_E_NOMEM, "no memory to ask the shards for their heat");
}

int coord_heat_ask(struct coord_fleet *f, coord_heat_done done, void *context, struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    if (f->heat.asked_ns != 0 && f->heat.done == NULL) {
        f->heat.done = done;
        f->heat.context = context;
        return 0;
    }
    if (f->heat.asked_ns != 0)
        return err_set(e, SHOAL_E_BUSY, "the shards are being asked for their heat: ask again");
    if (!coord_cluster_ready(cl) || !table_set_any(coord_map_places(cl)))
        return err_set(e, SHOAL_E_UNAVAILABLE, "no tables are known: no job has made them yet");
    struct coord_heat_tablet *of = calloc(MAX(cl->tablets, 1), sizeof *of);
    if (of == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the heat of %u tablets", cl->tablets);
    free(f->heat.of);
    f->heat = (struct coord_heat){.of = of,
                                  .tablets = cl->tablets,
                                  .map_epoch = cl->map_epoch,
                                  .asked_ns = env_now_ns(f->env),
                                  .done = done,
                                  .context = context};
    if (place_next(f, 0) && table_ask(f))
        return 0;
    f->heat.asked_ns = 0;
    return err_set(e, SHOAL_E_NOMEM, "no memory to ask the shards for their heat");
}

/* Names a shard that is silent. */
static void late_text(const struct coord_fleet *f, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "the shards do not tell their heat in time: ask again");
    COORD_EACH_SHARD (&f->members, s) {
        const struct coord_shard *m = &f->members.shard[s];
        if (!coord_fleet_heard(f, m))
            (void)snprintf(text, bytes, "shard %u is away%s%s: ask again when it is back", s,
                           text_if(m->seen, ", server "), text_if(m->seen, m->server));
    }
}

void coord_heat_tick(struct coord_fleet *f)
{
    char text[ERR_TEXT_MAX];
    if (f->heat.asked_ns == 0 || env_now_ns(f->env) - f->heat.asked_ns < COORD_HEAT_NS)
        return;
    coord_call_cancel(&f->calls, f, WIRE_TYPE_HEAT, COORD_NOBODY);
    late_text(f, text, sizeof text);
    end(f, SHOAL_E_UNAVAILABLE, text);
}

void coord_heat_close(struct coord_fleet *f)
{
    free(f->heat.of);
    f->heat = (struct coord_heat){0};
}
