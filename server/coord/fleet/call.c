/* call.c: calls; call.h describes their life. */
#include "server/coord/fleet/call.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void coord_call_open(struct coord_calls *c, struct env *env, struct coord_members *members,
                     uint64_t resend_ns, uint64_t lease_ns)
{
    *c = (struct coord_calls){
        .env = env, .members = members, .resend_ns = resend_ns, .lease_ns = lease_ns};
    c->next_id = env_random(env) | 1; /* replies to a former coordinator must not match */
}

static void call_free(struct coord_call *call)
{
    free(call->frame);
    free(call->more);
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

static bool may_ask(const struct coord_call *call, uint32_t shard)
{
    return call->set_up == NULL || call->set_up->shard[shard].done;
}

static bool moves(enum wire_type type)
{
    return type == WIRE_TYPE_MOVE_TAKE || type == WIRE_TYPE_MOVE_MAP;
}

static void call_send(struct coord_calls *c, const struct coord_call *call, uint32_t shard)
{
    const struct coord_shard *s = &c->members->shard[shard];
    if (!s->seen || !s->ready || !may_ask(call, shard) || call_answered(call, shard) ||
        (c->held && !moves(call->request.type)))
        return;
    struct msg *m;
    if (call->frame != NULL)
        m = coord_framed(&call->request, call->frame, call->frame_bytes);
    else
        m = wire_encode(&call->request);
    if (call->more != NULL)
        m = coord_framed_more(m, call->more, call->more_bytes);
    /* if the peer is full or lost, the timer sends again */
    coord_send(container_of(c, struct coord_fleet, calls), s->peer, m);
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

/* Marks the shards that are away as answered, so that they are not asked. Returns how many are
 * left. */
static uint32_t present_mark(const struct coord_calls *c, struct coord_call *call)
{
    uint64_t now = env_now_ns(c->env);
    COORD_EACH_SHARD (c->members, s) {
        const struct coord_shard *shard = &c->members->shard[s];
        if (shard->seen && shard->ready && may_ask(call, s) && now - shard->beat_ns <= c->lease_ns)
            continue;
        call->answered[s / 8] |= (uint8_t)(1u << (s % 8));
        call->missing--;
    }
    return call->missing;
}

/* Returns how many shards are asked: one, or all but those that the caller has marked. */
static uint32_t asked_count(const struct coord_calls *c, const struct coord_call *asked)
{
    uint32_t count = 0;
    if (asked->target != COORD_NOBODY)
        return 1;
    COORD_EACH_SHARD (c->members, s)
        count += !call_answered(asked, s);
    return count;
}

static bool frame_copy(void **out, const void *frame, size_t bytes)
{
    if (frame == NULL)
        return true;
    *out = malloc(bytes + 1);
    if (*out != NULL)
        memcpy(*out, frame, bytes);
    return *out != NULL;
}

bool coord_call_start(struct coord_calls *c, const struct coord_call *asked)
{
    SHOAL_ASSERT(asked->target == COORD_NOBODY || asked->target < c->members->shards);
    SHOAL_ASSERT(asked->frame != NULL || asked->frame_bytes == 0);
    SHOAL_ASSERT(asked->request.type != WIRE_TYPE_NONE && c->count <= COORD_CALLS_MAX);
    SHOAL_ASSERT(!asked->present || asked->target == COORD_NOBODY);
    uint32_t most = asked->set_up == NULL ? COORD_CALLS_MAX : COORD_CALLS_MAX - LIMIT_SHARDS;
    if (c->count >= most)
        return false;
    struct coord_call *call = malloc(sizeof *call);
    if (call == NULL)
        return false;
    *call = *asked;
    call->frame = call->more = NULL;
    call->missing = asked_count(c, asked);
    SHOAL_ASSERT(call->missing > 0);
    if (asked->present && present_mark(c, call) == 0) {
        free(call);
        return true; /* no shard is present */
    }
    if (!frame_copy(&call->frame, asked->frame, asked->frame_bytes) ||
        !frame_copy(&call->more, asked->more, asked->more_bytes)) {
        call_free(call);
        return false;
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

void coord_call_cancel(struct coord_calls *c, const void *context, enum wire_type type,
                       uint64_t owner)
{
    struct coord_call *next;
    for (struct coord_call *call = c->head; call != NULL; call = next) {
        next = call->next;
        if (call->context != context || call->request.type != type ||
            (owner != UINT64_MAX && call->owner != owner))
            continue;
        call_unlink(c, call);
        call_free(call);
    }
}

void coord_call_cancel_of(struct coord_calls *c, const void *context)
{
    struct coord_call *next;
    for (struct coord_call *call = c->head; call != NULL; call = next) {
        next = call->next;
        if (call->context != context)
            continue;
        call_unlink(c, call);
        call_free(call);
    }
}

bool coord_call_quiet(const struct coord_calls *c)
{
    for (const struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->request.type != WIRE_TYPE_RUN_DROP && call->request.type != WIRE_TYPE_CUT_DROP)
            return false;
    return true;
}

void coord_call_hold(struct coord_calls *c)
{
    SHOAL_ASSERT(coord_call_quiet(c));
    c->held = true;
}

void coord_call_let_go(struct coord_calls *c)
{
    c->held = false;
    for (struct coord_call *call = c->head; call != NULL; call = call->next)
        call_send_all(c, call);
}

bool coord_call_open_type(const struct coord_calls *c, const void *context, enum wire_type type)
{
    for (const struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->context == context && call->request.type == type)
            return true;
    return false;
}

/* Replies that mean "not now": the call stays open. A shard that takes tablets has all tables that
 * the coordinator knows, and its giver takes no push while the call is open. */
static bool reply_waits(const struct wire *reply)
{
    int status = reply->status;
    return status == SHOAL_E_AGAIN || status == SHOAL_E_BUSY || status == SHOAL_E_OLD_RUN ||
           (status == SHOAL_E_NO_TABLE && reply->type != WIRE_TYPE_MOVE_TAKE) ||
           status == SHOAL_E_UNAVAILABLE || status == SHOAL_E_NOT_LEADER;
}

void coord_call_on_reply(struct coord_calls *c, peer_t from, const struct wire *reply,
                         const struct msg *m)
{
    struct coord_call *call = c->head;
    while (call != NULL && (call->request.id != reply->id || call->request.type != reply->type))
        call = call->next;
    uint32_t shard = COORD_NOBODY;
    if (call != NULL)
        shard = coord_member_shard_of(c->members, from);
    if (shard == COORD_NOBODY || call_answered(call, shard) ||
        (call->target != COORD_NOBODY && call->target != shard))
        return; /* a late or repeated reply, or one of a shard that was not asked */
    if (reply_waits(reply)) {
        if (call->waits_ns == 0)
            call->waits_ns = env_now_ns(c->env);
        c->waits.shard = shard;
        text_copy(c->waits.text, sizeof c->waits.text,
                  text_unless_empty(reply->error, err_text(reply->status)));
        log_debug("%s of shard %u: %s, asked again later", wire_type_name(reply->type), shard,
                  err_text(reply->status));
        return;
    }
    if (reply->status == 0) {
        call->answered[shard / 8] |= (uint8_t)(1u << (shard % 8));
        SHOAL_ASSERT(call->missing > 0 && call->missing <= c->members->shards);
        call->missing--;
        if (call->on_reply != NULL)
            call->on_reply(call->context, call, shard, reply, m);
        if (call->missing > 0)
            return;
    }
    call_unlink(c, call);
    call->on_done(call->context, call, reply->status, reply->error);
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
    SHOAL_ASSERT(shard < c->members->shards);
    for (struct coord_call *call = c->head; call != NULL; call = call->next)
        if (call->target == COORD_NOBODY || call->target == shard)
            call_send(c, call, shard);
}

/* A shard that comes back learns it from its registration: the calls to present shards do not wait
 * for it any more. */
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

/* True when the call waits for nothing any more, since this shard need not answer it. */
static bool answered_without(struct coord_call *call, uint32_t shard)
{
    if (call_answered(call, shard) || (call->target != COORD_NOBODY && call->target != shard))
        return false;
    call->answered[shard / 8] |= (uint8_t)(1u << (shard % 8));
    SHOAL_ASSERT(call->missing > 0);
    return --call->missing == 0;
}

void coord_call_shard_added(struct coord_calls *c, uint32_t shard)
{
    for (struct coord_call *call = c->head; call != NULL; call = call->next)
        call->answered[shard / 8] |= (uint8_t)(1u << (shard % 8));
}

void coord_call_shard_retired(struct coord_calls *c, uint32_t shard)
{
    struct coord_call *call = c->head;
    while (call != NULL) {
        if (!answered_without(call, shard)) {
            call = call->next;
            continue;
        }
        call_unlink(c, call);
        if (!call->present)
            call->on_done(call->context, call, 0, "");
        call_free(call);
        call = c->head; /* the callback may have ended others */
    }
}

/* Calls of these types set a shard up or greet it. Their owner is the shard. */
static bool sets_up(enum wire_type type)
{
    switch (type) {
    case WIRE_TYPE_ROWS_GO:
    case WIRE_TYPE_MAP_SET:
    case WIRE_TYPE_TABLE_CREATE:
    case WIRE_TYPE_RUN_OPEN:
    case WIRE_TYPE_FENCES:
    case WIRE_TYPE_LOAD:
    case WIRE_TYPE_CUT_KEEP:
    case WIRE_TYPE_MAP_HELD:
    case WIRE_TYPE_NAMES_SET:
    case WIRE_TYPE_NAMES_HELD:
    case WIRE_TYPE_TAKEN_SET:
    case WIRE_TYPE_TAKEN_HELD:
        return true;
    default:
        return false;
    }
}

static void setup_forget(struct coord_calls *c, const void *context, uint32_t shard)
{
    struct coord_call *next;
    for (struct coord_call *call = c->head; call != NULL; call = next) {
        next = call->next;
        if ((context != NULL && call->context != context) || call->owner != shard ||
            call->target == COORD_NOBODY || !sets_up(call->request.type))
            continue;
        call_unlink(c, call);
        call_free(call);
    }
}

void coord_call_forget_shard(struct coord_calls *c, const void *context, uint32_t shard)
{
    SHOAL_ASSERT(shard < c->members->shards);
    setup_forget(c, context, shard);
    present_forget(c, shard);
}
