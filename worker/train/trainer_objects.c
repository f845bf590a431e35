/* trainer_objects.c: a log of objects. The worker that the coordinator asks lists the objects of a
 * split for all workers: split by split before the model is made; a growing log again and again
 * while the worker works. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "worker/train/trainer_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *lines_put(const struct string_list *lines, void *at)
{
    char *to = at;
    for (size_t i = 0; i < lines->count; i++) {
        size_t n = strlen(lines->item[i]);
        memcpy(to, lines->item[i], n);
        to[n] = '\n';
        to += n + 1;
    }
    return to;
}

/* The split to list: before the model is made split by split, then that of the growing log. */
static uint32_t split_asked(const struct trainer *t)
{
    SHOAL_ASSERT(t->known < JOB_SPLITS || t->state == WORKING);
    return t->state == WORKING ? WIRE_TRAIN : t->known;
}

/* Adds the frame of the positions. False: no memory. */
static bool streams_add(struct msg *m, const struct positions *streams)
{
    size_t bytes;
    char *text = positions_text(streams, &bytes);
    void *frame = NULL;
    if (text != NULL)
        frame = msg_add(m, bytes);
    if (frame != NULL && bytes > 0)
        memcpy(frame, text, bytes);
    free(text);
    return frame != NULL;
}

/* The head that goes with a list. A coordinator that starts again before it has stored a list asks
 * for one once more, of a worker that knows the head already. */
static const char *head_of(const struct trainer *t)
{
    const char *head = t->inputs.got.head;
    if (head == NULL && t->listed && t->state != WORKING)
        head = t->job.data.head;
    return head != NULL ? head : "";
}

/* Builds a question or, when the list is there, the answer for all workers. */
static struct msg *objects_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, objects);
    const struct dataset_listed *s = &t->inputs.got;
    const char *line = head_of(t);
    size_t bytes = 0, head = strlen(line);
    struct wire w;
    client_head(r, &w);
    w.u.OBJECTS.pass = t->host.pass;
    w.u.OBJECTS.count = (uint32_t)s->lines.count;
    w.u.OBJECTS.due = t->state == WORKING;
    w.u.OBJECTS.listed = t->listed;
    w.u.OBJECTS.token = t->list_token;
    w.u.OBJECTS.gone = s->gone_bytes;
    w.u.OBJECTS.last = s->last;
    if (t->listed) {
        w.u.OBJECTS.fail_status = t->inputs.list_status;
        (void)snprintf(w.u.OBJECTS.fail_text, ERR_TEXT_MAX, "%s", t->inputs.list_error.text);
    }
    w.u.OBJECTS.split = split_asked(t);
    for (size_t i = 0; i < s->lines.count; i++)
        bytes += strlen(s->lines.item[i]) + 1;
    struct msg *m = wire_encode(&w);
    void *lines = NULL;
    if (m != NULL)
        lines = msg_add(m, bytes);
    char *first = NULL;
    if (lines != NULL)
        first = msg_add(m, head + s->gone_bytes);
    if (first == NULL || !streams_add(m, &s->streams)) {
        msg_free(m);
        return NULL;
    }
    (void)lines_put(&s->lines, lines);
    if (head > 0)
        memcpy(first, line, head);
    if (s->gone_bytes > 0)
        memcpy(first + head, s->gone, s->gone_bytes);
    return m;
}

/* Starts a list: the worker with the token makes it; a growing log leaves out the names in
 * inputs.taken. */
static void list_begin(struct trainer *t)
{
    inputs_relist(&t->inputs, split_asked(t));
    t->listing = true;
    trainer_wake(t);
}

static uint64_t taken_digest(const struct trainer *t)
{
    return nameset_digest(&t->inputs.taken) ^ positions_digest(&t->inputs.positions);
}

/* Takes what the tables have learnt from a reply. False: no memory, and nothing is known. */
static bool taken_take(struct trainer *t, const struct wire_TAKEN_reply *q, const struct msg *m)
{
    struct nameset *names = &t->inputs.taken;
    struct positions *positions = &t->inputs.positions;
    const char *items = m->frame[1].data;
    nameset_close(names);
    positions_close(positions);
    if (nameset_add_all(names, items, q->count) == 0 &&
        positions_take(positions, items + q->count * sizeof *names->item, q->positions) == 0)
        return true;
    nameset_close(names);
    positions_close(positions);
    return false;
}

static struct msg *taken_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, taken);
    struct wire w;
    client_head(r, &w);
    w.u.TAKEN.pass = t->host.pass;
    w.u.TAKEN.digest = taken_digest(t);
    return wire_encode(&w);
}

static enum request_verdict taken_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, taken);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        trainer_clear(t, true, 0, "");
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (w->status != 0) {
        trainer_end(t, w->status, wire_error(w));
        return REQUEST_DONE;
    }
    if (w->u.TAKEN_reply.digest != taken_digest(t) && !taken_take(t, &w->u.TAKEN_reply, m))
        return REQUEST_LATER;
    list_begin(t);
    return REQUEST_DONE;
}

static enum request_verdict objects_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, objects);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        trainer_clear(t, true, 0, "");
        return REQUEST_DONE;
    }
    bool works = t->state == WORKING; /* a growing log */
    if (t->listed || works)
        /* the list was sent, or is not wanted any more */
        inputs_relist(&t->inputs, WIRE_TRAIN);
    t->listed = false;
    if (client_passing(w->status) && !works) /* AGAIN: another worker lists them */
        return REQUEST_LATER;
    if (client_passing(w->status)) /* they are listed again */
        return REQUEST_DONE;
    if (w->status != 0 && works) {
        log_warn("the coordinator refused the list of objects: %s", w->error);
        return REQUEST_DONE;
    }
    if (w->status != 0) {
        trainer_end(t, w->status, wire_error(w));
        return REQUEST_DONE;
    }
    if (w->u.OBJECTS_reply.list) {
        t->list_token = w->u.OBJECTS_reply.token;
        if (split_asked(t) == WIRE_TRAIN && t->job.data.objects.grow_ms > 0)
            client_start(t->client, &t->taken);
        else
            list_begin(t);
        return REQUEST_DONE;
    }
    if (works)
        return REQUEST_DONE;
    const struct frame *head = &m->frame[1];
    char *first = NULL;
    if (head->bytes != 0)
        first = strndup(head->data, head->bytes);
    if (head->bytes > 0 && first == NULL)
        return REQUEST_LATER;
    if (t->known++ == WIRE_TRAIN) {
        free(t->job.data.head);
        t->job.data.head = first;
    } else {
        free(first);
    }
    trainer_job_prepare(t);
    trainer_wake(t);
    return REQUEST_DONE;
}

void trainer_objects_list(struct trainer *t)
{
    struct err e = {0};
    int rc = inputs_list(&t->inputs, &e);
    if (rc == SHOAL_E_AGAIN)
        return;
    t->listing = false;
    t->listed = split_asked(t) == WIRE_TRAIN && t->job.data.objects.grow_ms > 0;
    /* if there never was a list, the job file is wrong; a list that existed, here or at another
     * worker, will come back, as does a cluster that is away */
    bool was = t->state == WORKING || t->inputs.known ||
               (t->job.data.kafka.on && rc == SHOAL_E_UNAVAILABLE);
    if (rc != 0 && !(t->listed && was))
        trainer_end(t, rc, e.text);
    else
        client_start(t->client, &t->objects);
}

void trainer_objects_list_again(struct trainer *t)
{
    if (t->state == WORKING && !t->listing && !request_active(&t->objects) &&
        !request_active(&t->taken))
        client_start(t->client, &t->objects);
}

void trainer_objects_init(struct trainer *t)
{
    t->objects = (struct request){.type = WIRE_TYPE_OBJECTS,
                                  .target = CLIENT_COORDINATOR,
                                  .build = objects_build,
                                  .reply = objects_reply};
    t->taken = (struct request){.type = WIRE_TYPE_TAKEN,
                                .target = CLIENT_COORDINATOR,
                                .build = taken_build,
                                .reply = taken_reply};
}
