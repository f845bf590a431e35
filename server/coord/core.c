/* core.c: what all parts of the coordinator stand on: its store, its answers, its times. */
#include "server/coord/core.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool stored(struct coord *c, int status, const struct err *e)
{
    if (status == 0)
        return true;
    log_error("store: %s; stopping, because nothing more can be promised", e->text);
    c->fatal = status;
    env_stop(c->env);
    return false;
}

bool coord_put(struct coord *c, const char *key, const void *value, size_t bytes)
{
    struct err e = {0};
    return c->fatal == 0 && stored(c, coord_store_put(c->store, key, value, bytes, &e), &e);
}

bool coord_note(struct coord *c, const char *key, const void *value, size_t bytes)
{
    struct err e = {0};
    return c->fatal == 0 && stored(c, coord_store_note(c->store, key, value, bytes, &e), &e);
}

bool coord_remove(struct coord *c, const char *key)
{
    struct err e = {0};
    return c->fatal == 0 && stored(c, coord_store_remove(c->store, key, &e), &e);
}

void coord_send(struct coord *c, peer_t to, struct msg *m)
{
    if (m == NULL)
        return;
    if (c->fatal != 0) /* it may not be stored */
        msg_free(m);
    else
        (void)env_send(c->env, to, m);
}

struct msg *coord_framed(const struct wire *w, const void *bytes, size_t count)
{
    struct msg *m = wire_encode(w);
    void *at = m == NULL ? NULL : msg_add(m, count);
    if (at == NULL) {
        msg_free(m);
        return NULL;
    }
    if (count > 0)
        memcpy(at, bytes, count);
    return m;
}

bool coord_send_frame(struct coord *c, peer_t to, const struct wire *w, const void *bytes,
                      size_t count)
{
    struct msg *m = coord_framed(w, bytes, count);
    coord_send(c, to, m);
    return m != NULL;
}

uint64_t coord_lease_ns(const struct coord *c)
{
    uint32_t ms = c->options.lease_ms;
    if (c->job.parsed && c->job.spec.coordinator.lease_ms < ms)
        ms = c->job.spec.coordinator.lease_ms;
    return ms * UINT64_C(1000000);
}

bool coord_from_loading(const struct coord_progress *at)
{
    return at->from == FROM_TO_LOAD || at->from == FROM_BACK || at->from == FROM_TO_START;
}

bool coord_from_resumes(const struct coord_progress *at)
{
    return at->from == FROM_TO_LOAD || at->from == FROM_LOADED || at->from == FROM_BACK;
}

bool coord_goes_back(const struct coord *c)
{
    uint32_t phase = c->job.at.phase;
    return c->job.lost[0] != 0 && phase != PHASE_NONE && phase != PHASE_DONE &&
           phase != PHASE_FAILED;
}

const struct coord_shard *coord_server_away(const struct coord *c)
{
    for (uint32_t s = 0; s < c->members.shards; s++)
        if (!coord_shard_there(&c->members.shard[s], env_now_ns(c->env), c->calls.lease_ns))
            return &c->members.shard[s];
    return NULL;
}

uint32_t coord_live_workers(const struct coord *c)
{
    uint32_t wanted = c->job.at.workers_wanted, deaths = c->job.at.worker_deaths;
    uint32_t expected = wanted > deaths ? wanted - deaths : 0;
    uint32_t live = c->members.workers > expected ? c->members.workers : expected;
    return live == 0 ? 1 : live;
}

bool coord_grow_on(const struct coord_job *j)
{
    return j->parsed && j->spec.data.objects.grow_ms > 0 && !j->spec.train.skip;
}

uint32_t coord_epochs(const struct coord_job *j)
{
    return coord_grow_on(j) ? COORD_ROUNDS_MAX : j->spec.train.epochs;
}

uint32_t coord_epochs_kept(const struct coord_job *j)
{
    return coord_grow_on(j) ? COORD_ROUNDS_KEPT : j->spec.train.epochs;
}

uint32_t coord_epoch_first(const struct coord_job *j)
{
    uint32_t kept = coord_epochs_kept(j);
    return j->at.epoch > kept ? j->at.epoch - kept + 1 : 1;
}

uint32_t coord_epoch_slot(const struct coord_job *j, uint32_t epoch)
{
    SHOAL_ASSERT(epoch >= 1 && epoch <= coord_epochs(j));
    return (epoch - 1) % coord_epochs_kept(j);
}

struct coord_losses coord_epoch_losses(const struct coord_job *j)
{
    struct coord_losses sum = j->grow.at.before;
    uint32_t from = coord_grow_on(j) ? j->at.epoch : 1;
    for (uint32_t n = from; n >= 1 && n <= j->at.epoch; n++)
        coord_losses_add(&sum, &j->epoch[coord_epoch_slot(j, n)].train);
    return sum;
}

bool coord_epoch_open(const struct coord_job *j)
{
    return j->parsed && j->at.epoch >= 1 &&
           j->epoch[coord_epoch_slot(j, j->at.epoch)].number != j->at.number;
}

uint64_t coord_examples(const struct coord_job *j)
{
    uint64_t examples = j->at.train_rows;
    for (uint32_t i = 0; coord_epoch_open(j) && i < j->tasks.tasks; i++)
        examples += j->tasks.task[i].pushed ? j->tasks.task[i].rows : 0;
    return examples;
}

uint32_t coord_retry_ms(const struct coord *c)
{
    uint32_t ms = 5 * c->members.workers;
    return ms < 20 ? 20 : ms > 500 ? 500 : ms;
}

int coord_drop_check(const struct coord *c, struct err *e)
{
    return c->drop.asker == 0 ? 0
                              : err_set(e, SHOAL_E_BUSY,
                                        "%s is being dropped from all servers (shoal drop): ask "
                                        "again when it is done",
                                        c->drop.name);
}

/* ---- call ---- */

void coord_call_open(struct coord_calls *c, struct env *env, struct coord_members *members,
                     void *context, uint64_t resend_ns, uint64_t lease_ns)
{
    *c = (struct coord_calls){.env = env,
                              .members = members,
                              .context = context,
                              .resend_ns = resend_ns,
                              .lease_ns = lease_ns};
    c->next_id = env_random(env) | 1; /* answers to a former coordinator must not match */
}

static void call_free(struct coord_call *call)
{
    free(call->frame);
    free(call);
}

void coord_call_cancel_all(struct coord_calls *c)
{
    while (c->head != NULL) {
        struct coord_call *call = c->head;
        SHOAL_ASSERT(c->count > 0);
        c->count--;
        c->head = call->next;
        call_free(call);
    }
    SHOAL_ASSERT(c->count == 0);
}

static bool call_answered(const struct coord_call *call, uint32_t shard)
{
    return (call->answered[shard / 8] >> (shard % 8) & 1) != 0;
}

static void call_send(struct coord_calls *c, const struct coord_call *call, uint32_t shard)
{
    const struct coord_shard *s = &c->members->shard[shard];
    if (!s->seen || !s->ready || (!s->set_up && !call->early) || call_answered(call, shard))
        return;
    struct msg *m = call->frame != NULL
                        ? coord_framed(&call->request, call->frame, call->frame_bytes)
                        : wire_encode(&call->request);
    if (m != NULL)
        (void)env_send(c->env, s->peer, m); /* a full or lost peer: the timer sends again */
}

static void call_send_all(struct coord_calls *c, struct coord_call *call)
{
    call->sent_ns = env_now_ns(c->env);
    if (call->target != COORD_NOBODY) {
        call_send(c, call, call->target);
        return;
    }
    for (uint32_t s = 0; s < c->members->shards; s++)
        call_send(c, call, s);
}

/* Who is away is not asked. How many are. */
static uint32_t present_mark(const struct coord_calls *c, struct coord_call *call)
{
    uint64_t now = env_now_ns(c->env);
    for (uint32_t s = 0; s < c->members->shards; s++) {
        const struct coord_shard *shard = &c->members->shard[s];
        if (shard->seen && shard->ready && (shard->set_up || call->early) &&
            now - shard->beat_ns <= c->lease_ns)
            continue;
        call->answered[s / 8] |= (uint8_t)(1u << (s % 8));
        call->missing--;
    }
    return call->missing;
}

bool coord_call_start(struct coord_calls *c, const struct coord_call *asked)
{
    SHOAL_ASSERT(asked->target == COORD_NOBODY || asked->target < c->members->shards);
    SHOAL_ASSERT(asked->frame != NULL || asked->frame_bytes == 0);
    SHOAL_ASSERT(asked->request.type != WIRE_TYPE_NONE && c->count <= COORD_CALLS_MAX);
    SHOAL_ASSERT(!asked->present || asked->target == COORD_NOBODY);
    uint32_t most = asked->early ? COORD_CALLS_MAX : COORD_CALLS_MAX - LIMIT_SHARDS;
    struct coord_call *call = c->count >= most ? NULL : malloc(sizeof *call);
    if (call == NULL)
        return false;
    *call = *asked;
    call->missing = asked->target == COORD_NOBODY ? c->members->shards : 1;
    if ((asked->present || PLANTED("starting_forgotten")) && present_mark(c, call) == 0) {
        free(call);
        return true; /* nobody is there to be asked */
    }
    if (asked->frame != NULL) {
        call->frame = malloc(asked->frame_bytes + 1);
        if (call->frame == NULL) {
            free(call);
            return false;
        }
        memcpy(call->frame, asked->frame, asked->frame_bytes);
    }
    call->request.reply = false;
    call->request.id = c->next_id++;
    call->next = c->head;
    c->head = call;
    c->count++;
    call_send_all(c, call);
    return true;
}

static void call_unlink(struct coord_calls *c, struct coord_call *call)
{
    struct coord_call **at = &c->head;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    SHOAL_ASSERT(c->count > 0);
    c->count--;
}

void coord_call_cancel(struct coord_calls *c, enum wire_type type, uint64_t owner)
{
    struct coord_call *next;
    for (struct coord_call *call = c->head; call != NULL; call = next) {
        next = call->next;
        if (call->request.type != type || (owner != UINT64_MAX && call->owner != owner))
            continue;
        call_unlink(c, call);
        call_free(call);
    }
}

bool coord_call_open_type(const struct coord_calls *c, enum wire_type type)
{
    for (const struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->request.type == type)
            return true;
    return false;
}

/* Answers that mean "not now": the call stays open. */
static bool status_waits(int status)
{
    return status == SHOAL_E_AGAIN || status == SHOAL_E_BUSY || status == SHOAL_E_OLD_RUN ||
           status == SHOAL_E_NO_TABLE || status == SHOAL_E_UNAVAILABLE ||
           status == SHOAL_E_NOT_LEADER;
}

void coord_call_on_reply(struct coord_calls *c, peer_t from, const struct wire *reply,
                         const struct msg *m)
{
    struct coord_call *call = c->head;
    while (call != NULL && (call->request.id != reply->id || call->request.type != reply->type))
        call = call->next;
    uint32_t shard = call == NULL ? COORD_NOBODY : coord_member_shard_of(c->members, from);
    if (shard == COORD_NOBODY || call_answered(call, shard) ||
        (call->target != COORD_NOBODY && call->target != shard))
        return; /* late, twice, or nobody we asked */
    if (status_waits(reply->status)) {
        call->waits_ns = call->waits_ns == 0 ? env_now_ns(c->env) : call->waits_ns;
        c->waits.shard = shard;
        (void)snprintf(c->waits.text, sizeof c->waits.text, "%s",
                       reply->error[0] != 0 ? reply->error : err_text(reply->status));
        log_debug("%s of shard %u: %s, asked again later", wire_type_name(reply->type), shard,
                  err_text(reply->status));
        return;
    }
    if (reply->status == 0) {
        call->answered[shard / 8] |= (uint8_t)(1u << (shard % 8));
        SHOAL_ASSERT(call->missing > 0 && call->missing <= c->members->shards);
        call->missing--;
        if (call->on_reply != NULL)
            call->on_reply(c->context, call, shard, reply, m);
        if (call->missing > 0)
            return;
    }
    call_unlink(c, call);
    call->on_done(c->context, call, reply->status, reply->error);
    call_free(call);
}

uint64_t coord_call_put_off_ns(const struct coord_calls *c)
{
    uint64_t longest = 0, now = env_now_ns(c->env);
    for (const struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->waits_ns != 0 && now - call->waits_ns > longest)
            longest = now - call->waits_ns;
    return longest;
}

void coord_call_tick(struct coord_calls *c)
{
    uint64_t now = env_now_ns(c->env);
    for (struct coord_call *call = c->head; call != NULL; call = call->next) {
        SHOAL_ASSERT(call->missing > 0 && call->sent_ns <= now);
        if (now - call->sent_ns >= c->resend_ns)
            call_send_all(c, call);
    }
}

void coord_call_shard_ready(struct coord_calls *c, uint32_t shard)
{
    SHOAL_ASSERT(shard < c->members->shards && c->members->shard[shard].set_up);
    for (struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->target == COORD_NOBODY || call->target == shard)
            call_send(c, call, shard);
}

/* A shard that comes back is told by its registration: those calls wait for it no longer. */
static void present_forget(struct coord_calls *c, uint32_t shard)
{
    struct coord_call *next;
    for (struct coord_call *call = c->head; call != NULL; call = next) {
        next = call->next;
        if (!call->present || call_answered(call, shard))
            continue;
        call->answered[shard / 8] |= (uint8_t)(1u << (shard % 8));
        SHOAL_ASSERT(call->missing > 0);
        if (--call->missing > 0)
            continue;
        call_unlink(c, call);
        call_free(call);
    }
}

void coord_call_forget_shard(struct coord_calls *c, uint32_t shard)
{
    struct coord_shard *s = &c->members->shard[shard];
    SHOAL_ASSERT(shard < c->members->shards && !(s->set_up && s->busy));
    coord_call_cancel(c, WIRE_TYPE_CLEAR, shard);
    coord_call_cancel(c, WIRE_TYPE_FIELD_DROP, shard);
    coord_call_cancel(c, WIRE_TYPE_MAP_SET, shard);
    coord_call_cancel(c, WIRE_TYPE_TABLE_CREATE, shard);
    coord_call_cancel(c, WIRE_TYPE_RUN_OPEN, shard);
    coord_call_cancel(c, WIRE_TYPE_FENCES, shard);
    coord_call_cancel(c, WIRE_TYPE_LOAD, shard);
    coord_call_cancel(c, WIRE_TYPE_CUT_KEEP, shard);
    coord_call_cancel(c, WIRE_TYPE_MAP_HELD, shard);
    coord_call_cancel(c, WIRE_TYPE_NAMES_SET, shard);
    coord_call_cancel(c, WIRE_TYPE_NAMES_HELD, shard);
    coord_call_cancel(c, WIRE_TYPE_TAKEN_SET, shard);
    coord_call_cancel(c, WIRE_TYPE_TAKEN_HELD, shard);
    present_forget(c, shard);
    s->set_up = s->busy = s->greeted = false;
    s->step = 0;
}

void coord_call_forget(struct coord_calls *c)
{
    for (uint32_t i = 0; i < c->members->shards; i++)
        coord_call_forget_shard(c, i);
}

const char *coord_said(const char *text)
{
    return text[0] != 0 ? text : "it gave no reason";
}

void coord_missed(struct coord *c, int status, const char *format, ...)
{
    va_list arguments;
    SHOAL_ASSERT(status != 0);
    if (c->job.missed.status != 0)
        return;
    c->job.missed.status = status == SHOAL_E_CANTCREATE ? status : SHOAL_E_IO;
    va_start(arguments, format);
    (void)vsnprintf(c->job.missed.text, sizeof c->job.missed.text, format, arguments);
    va_end(arguments);
}
