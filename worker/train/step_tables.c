/* step_tables.c: the network is read from the tables of the servers. */
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "worker/train/step_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- tablets --------------------------------------------------------------------------------- */

uint32_t step_tablets(const struct steps *s)
{
    return network_tablets(s->network, NETWORK_DENSE) + network_tablets(s->network, NETWORK_STATS);
}

bool step_tablet_find(const struct steps *s, uint32_t index, struct step_tablet *out)
{
    const struct map *map = client_map(s->options.client);
    uint32_t dense = network_tablets(s->network, NETWORK_DENSE);
    *out = (struct step_tablet){.part = NETWORK_DENSE, .tablet = index};
    SHOAL_ASSERT(index < step_tablets(s));
    if (index >= dense)
        *out = (struct step_tablet){.part = NETWORK_STATS, .tablet = index - dense};
    const struct table_schema *schema = &s->options.schema[s->tables + out->part];
    if (map == NULL || schema->tablet_first + out->tablet >= map->tablet_count)
        return false;
    out->table = table_set_nth(map->tables, s->tables + out->part);
    out->shard = map->shard[schema->tablet_first + out->tablet];
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct msg *image_build(struct request *r)
{
    const struct step_flight *f = container_of(r, struct step_flight, request);
    struct step_tablet at;
    struct wire w;
    if (!step_tablet_find(f->step, f->index, &at))
        return NULL;
    client_head(r, &w);
    w.u.IMAGE = (struct wire_IMAGE){.run = f->step->run,
                                    .table = at.table,
                                    .lane = 0,
                                    .tablet = at.tablet,
                                    .map_epoch = client_map(f->step->options.client)->epoch};
    return wire_encode(&w);
}

/* Asks for the next tablet, if there is one left. */
static void flight_next(struct steps *s, struct step_flight *f)
{
    struct step_tablet at;
    if (s->reading.next == step_tablets(s) || !step_tablet_find(s, s->reading.next, &at))
        return;
    f->index = s->reading.next++;
    f->request.target = at.shard;
    client_start(s->options.client, &f->request);
}

static enum request_verdict image_refused(struct step_flight *f, const struct wire *w)
{
    struct steps *s = f->step;
    struct step_tablet at;
    char text[ERR_TEXT_MAX + 64];
    if (step_tablet_find(s, f->index, &at))
        f->request.target = at.shard;
    if (w->status == 0 || client_passing(w->status) || w->status == SHOAL_E_NOT_LEADER)
        return REQUEST_LATER;
    (void)snprintf(text, sizeof text, "the network cannot be read from the tables: %s",
                   wire_error(w));
    s->options.failed(s->options.context, w->status, text);
    return REQUEST_DONE;
}

static enum request_verdict image_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct step_flight *f = container_of(r, struct step_flight, request);
    struct steps *s = f->step;
    struct step_reading *g = &s->reading;
    uint64_t mark = w->u.IMAGE_reply.mark;
    struct step_tablet at;
    struct err e = {0};
    if (w->status != 0 || !step_tablet_find(s, f->index, &at))
        return image_refused(f, w);
    SHOAL_ASSERT(!s->has && s->busy == 0 && !s->work.runs); /* step.h, 5 */
    int rc =
        network_image_take(s->network, at.part, at.tablet, m->frame[1].data, m->frame[1].bytes, &e);
    if (rc != 0) {
        s->options.failed(s->options.context, rc, e.text);
        return REQUEST_DONE;
    }
    g->low = MIN(g->low, mark);
    g->high = MAX(g->high, mark);
    if (--g->left == 0) {
        g->whole = true;
        step_turn(s);
    } else {
        flight_next(s, f);
    }
    return REQUEST_DONE;
}

static void reading_begin(struct steps *s)
{
    struct step_reading *g = &s->reading;
    g->next = 0;
    g->left = step_tablets(s);
    g->low = UINT64_MAX;
    g->high = 0;
    g->whole = false;
    for (uint32_t i = 0; i < STEP_READS_AT_ONCE; i++) {
        g->flight[i] = (struct step_flight){
            .step = s,
            .request = {.type = WIRE_TYPE_IMAGE, .build = image_build, .reply = image_reply}};
        flight_next(s, &g->flight[i]);
    }
}

/* The tables have the step that the coordinator names. Where all tablets have the same other one,
 * the coordinator learns of it, and names that one; where they differ, it goes back to a cut. */
void step_reading_turn(struct steps *s)
{
    struct step_reading *g = &s->reading;
    if (g->whole && g->low == g->high && g->low == s->told.step) {
        network_settle(s->network, g->low, NULL);
        step_whole(s, g->low, false);
        step_reading_stop(s);
        return;
    }
    bool untold = g->whole && g->high == 0; /* such marks cannot be told: perhaps it comes */
    if ((g->left == 0 && !g->whole) || untold)
        reading_begin(s);
}

void step_reading_stop(struct steps *s)
{
    struct step_reading *g = &s->reading;
    for (uint32_t i = 0; i < STEP_READS_AT_ONCE; i++)
        client_cancel(s->options.client, &g->flight[i].request);
    g->left = 0;
    g->whole = false;
}

void step_flight_remap(struct steps *s, struct step_flight *f)
{
    struct step_tablet at;
    if (!request_active(&f->request) || !step_tablet_find(s, f->index, &at) ||
        at.shard == f->request.target)
        return;
    client_cancel(s->options.client, &f->request);
    f->request.target = at.shard;
    client_start(s->options.client, &f->request);
}

void step_reading_remap(struct steps *s)
{
    struct step_reading *g = &s->reading;
    for (uint32_t i = 0; i < STEP_READS_AT_ONCE && g->left > 0; i++)
        if (request_active(&g->flight[i].request))
            step_flight_remap(s, &g->flight[i]);
        else
            flight_next(s, &g->flight[i]); /* there was no map */
}
