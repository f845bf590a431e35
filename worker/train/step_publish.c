/* step_publish.c: the network goes to the tables of the servers: the first member of the ring
 * assigns it. With sharded state (step.h) each member assigns the tablets of the shares that it
 * owns, in a rest alone, since all of them are to be of one step.
 *
 *   PUBLISH_NONE --copied, on a thread--> PUBLISH_COPIED --the next step is there, or a rest-->
 *   PUBLISH_SENDS --every tablet is acknowledged--> PUBLISH_NONE
 *
 * FENCED: another worker is at the head of the ring, and this publish is forgotten. */
#include "dense/model.h"
#include "proto/base/container_of.h"
#include "worker/train/step_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* ---- copying --------------------------------------------------------------------------------- */

static size_t image_bytes(const struct steps *s, uint32_t index, enum network_part *part,
                          uint32_t *tablet)
{
    uint32_t dense = network_tablets(s->network, NETWORK_DENSE);
    *part = NETWORK_DENSE;
    *tablet = index;
    if (index >= dense) {
        *part = NETWORK_STATS;
        *tablet = index - dense;
    }
    return network_image_bytes(s->network, *part, *tablet);
}

/* Tablets begin at multiples of 8 bytes. */
static size_t image_end(size_t at, size_t bytes)
{
    return (at + bytes + 7) & ~(size_t)7;
}

static int images_reserve(struct step_publish *p, size_t bytes, struct err *e)
{
    if (bytes <= p->capacity)
        return 0;
    free(p->images);
    p->images = malloc(bytes);
    p->capacity = 0;
    if (p->images == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a copy of the network, of %zu bytes",
                       bytes);
    p->capacity = bytes;
    return 0;
}

int step_publish_copy(struct steps *s, struct err *e)
{
    struct step_publish *p = &s->publish;
    uint32_t tablets = step_tablets(s), tablet;
    enum network_part part;
    p->at[0] = 0;
    for (uint32_t i = 0; i < tablets; i++) {
        size_t bytes = image_bytes(s, i, &part, &tablet);
        if (s->sharded && (p->owned >> network_share(s->network, part, tablet) & 1) == 0)
            bytes = 0;
        SHOAL_ASSERT(bytes <= LIMIT_FRAME_BYTES); /* network_new has refused larger ones */
        p->bytes[i] = bytes;
        p->at[i + 1] = image_end(p->at[i], bytes);
    }
    int rc = images_reserve(p, p->at[tablets], e);
    for (uint32_t i = 0; i < tablets && rc == 0; i++) {
        if (p->bytes[i] == 0)
            continue;
        (void)image_bytes(s, i, &part, &tablet);
        network_image_write(s->network, part, tablet, p->images + p->at[i]);
    }
    return rc;
}

bool step_publish_due(const struct steps *s)
{
    const struct step_publish *p = &s->publish;
    return s->work.sum && !s->sharded && p->state == PUBLISH_NONE && step_leads(s) &&
           s->told.generation != 0 &&
           env_now_ns(s->options.env) - p->last_ns >= s->options.job->train.publish_ms * MS;
}

void step_publish_copied(struct steps *s)
{
    s->publish.state = PUBLISH_COPIED;
    s->publish.step = s->at;
    s->publish.last_ns = env_now_ns(s->options.env);
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct msg *assign_build(struct request *r)
{
    const struct step_flight *f = container_of(r, struct step_flight, request);
    const struct steps *s = f->step;
    const struct step_publish *p = &s->publish;
    struct step_tablet at;
    struct wire w;
    if (!step_tablet_find(s, f->index, &at))
        return NULL;
    client_head(r, &w);
    w.u.ASSIGN = (struct wire_ASSIGN){.run = s->run,
                                      .table = at.table,
                                      .lane = 0,
                                      .generation = p->generation,
                                      .from = 0, /* a whole image needs none before it */
                                      .to = p->step,
                                      .tablet = at.tablet,
                                      .map_epoch = client_map(s->options.client)->epoch,
                                      .worker = s->as.worker};
    struct msg *m = wire_encode(&w);
    void *image = msg_add(m, p->bytes[f->index]);
    if (image == NULL) {
        msg_free(m);
        return NULL;
    }
    memcpy(image, p->images + p->at[f->index], p->bytes[f->index]);
    return m;
}

static void flight_next(struct steps *s, struct step_flight *f)
{
    struct step_tablet at;
    while (s->publish.next < step_tablets(s) && s->publish.bytes[s->publish.next] == 0)
        s->publish.next++; /* another member's */
    if (s->publish.next == step_tablets(s) || !step_tablet_find(s, s->publish.next, &at))
        return;
    f->index = s->publish.next++;
    f->request.target = at.shard;
    client_start(s->options.client, &f->request);
}

static enum request_verdict assign_refused(struct step_flight *f, const struct wire *w)
{
    struct steps *s = f->step;
    struct step_tablet at;
    char text[ERR_TEXT_MAX + 64];
    if (step_tablet_find(s, f->index, &at))
        f->request.target = at.shard;
    if (client_passing(w->status) || w->status == SHOAL_E_NOT_LEADER)
        return REQUEST_LATER;
    if (w->status == SHOAL_E_FENCED || w->status == SHOAL_E_OLD_RUN) {
        step_publish_stop(s);
        return REQUEST_DONE;
    }
    (void)snprintf(text, sizeof text, "the tables do not take the network of step %" PRIu64 ": %s",
                   s->publish.step, wire_error(w));
    s->options.failed(s->options.context, w->status, text);
    return REQUEST_DONE;
}

static void publish_done(struct steps *s)
{
    s->publish.state = PUBLISH_NONE;
    s->publish.done = s->publish.step;
    step_turn(s); /* the coordinator is told */
}

static enum request_verdict assign_reply(struct request *r, const struct wire *w,
                                         const struct msg *m)
{
    struct step_flight *f = container_of(r, struct step_flight, request);
    struct steps *s = f->step;
    struct step_publish *p = &s->publish;
    (void)m;
    if (w->status != 0)
        return assign_refused(f, w);
    s->figures.blocks += 1 + p->bytes[f->index] / (BLOCK_FLOATS * sizeof(float));
    if (--p->left > 0)
        flight_next(s, f);
    else
        publish_done(s);
    return REQUEST_DONE;
}

static void publish_send(struct steps *s)
{
    struct step_publish *p = &s->publish;
    p->state = PUBLISH_SENDS;
    p->generation = s->told.generation;
    p->next = p->left = 0;
    for (uint32_t i = 0; i < step_tablets(s); i++)
        p->left += p->bytes[i] > 0;
    if (p->left == 0) { /* it owns no share */
        publish_done(s);
        return;
    }
    for (uint32_t i = 0; i < STEP_ASSIGNS_AT_ONCE; i++) {
        p->flight[i] = (struct step_flight){.step = s,
                                            .request = {.type = WIRE_TYPE_ASSIGN,
                                                        .write = true,
                                                        .build = assign_build,
                                                        .reply = assign_reply}};
        flight_next(s, &p->flight[i]);
    }
}

/* The coordinator wants the step of the rest in the tables. */
static bool rest_wanted(const struct steps *s)
{
    const struct wire_RING_reply *t = &s->told;
    return t->publish && t->rest != 0 && t->rest_at == s->at && s->publish.done < s->at;
}

void step_publish_turn(struct steps *s)
{
    struct step_publish *p = &s->publish;
    if (s->state != STEP_OPEN || s->told.generation == 0 || s->work.runs || s->work.sum)
        return;
    if (p->state != PUBLISH_NONE &&
        (!step_leads(s) || (p->state == PUBLISH_SENDS && p->generation != s->told.generation)))
        step_publish_stop(s);
    if (!step_leads(s))
        return;
    /* 4: every lane has contributed to a later step, or has settled */
    if (p->state == PUBLISH_COPIED && (s->at > p->step || rest_wanted(s)))
        publish_send(s);
    else if (p->state == PUBLISH_NONE && rest_wanted(s) && !s->work.copies) {
        s->work.copies = true;
        p->owned = way_owned(&s->shape, s->told.member);
        step_work_start(s);
    }
}

void step_publish_stop(struct steps *s)
{
    struct step_publish *p = &s->publish;
    for (uint32_t i = 0; i < STEP_ASSIGNS_AT_ONCE; i++)
        client_cancel(s->options.client, &p->flight[i].request);
    p->state = PUBLISH_NONE;
}

void step_publish_remap(struct steps *s)
{
    struct step_publish *p = &s->publish;
    for (uint32_t i = 0; i < STEP_ASSIGNS_AT_ONCE && p->state == PUBLISH_SENDS; i++)
        if (request_active(&p->flight[i].request))
            step_flight_remap(s, &p->flight[i]);
        else
            flight_next(s, &p->flight[i]);
}

/* ---- life ------------------------------------------------------------------------------------ */

int step_publish_new(struct steps *s, struct err *e)
{
    s->publish.at = calloc(step_tablets(s) + 1, sizeof *s->publish.at);
    s->publish.bytes = calloc(step_tablets(s) + 1, sizeof *s->publish.bytes);
    if (s->publish.at == NULL || s->publish.bytes == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the tablets of a network");
    return 0;
}

void step_publish_free(struct steps *s)
{
    free(s->publish.images);
    free(s->publish.at);
    free(s->publish.bytes);
}
