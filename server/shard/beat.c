/* beat.c: beats to the coordinator. */
#include "server/shard/beat.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/shard/admin.h"
#include "server/shard/place.h"
#include "server/shard/pull.h"
#include "server/shard/shard.h"
#include "server/shard/shares.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS_DEFAULT 3000u /* until the coordinator sends the lease */
#define LEASE_MS_MIN 100u
#define LEASE_MS_MAX 600000u
/* after so long without an answer from the coordinator, a warning is logged */
#define SILENCE_NS UINT64_C(10000000000)

static uint64_t period_ns(const struct shard *s)
{
    uint64_t third_ms = MIN(s->beat.lease_ms / 3, WIRE_BEAT_MS);
    return MIN(third_ms * 1000000, copies_beat_ns(s));
}

static void send_beat(struct shard *s)
{
    struct beat *b = &s->beat;
    struct engine_stats stats;
    SHOAL_ASSERT(b->coordinator != 0 && b->incarnation != 0);
    engine_stats_get(s->engine, &stats);
    struct wire *w = &s->out;
    w->type = WIRE_TYPE_SHARD_BEAT;
    w->reply = false;
    w->id = ++b->id;
    b->sent_ns = b->sent_of[b->id % BEAT_TIMES] = env_now_ns(s->env);
    w->status = 0;
    w->error[0] = 0;
    struct wire_SHARD_BEAT *r = &w->u.SHARD_BEAT;
    *r = (struct wire_SHARD_BEAT){
        .shard_index = s->options.shard_index,
        .shard_count = s->options.shard_count,
        .incarnation = b->incarnation,
        .ready = engine_back(s->engine) || engine_restoring(s->engine),
        .rows = stats.rows,
        .row_bytes = stats.row_bytes,
        .journal_bytes = stats.journal_bytes,
        .keys_pulled = s->counts.keys_pulled + s->counts.keys_echoed,
        .keys_pushed = s->counts.keys_pushed,
        .skipped = s->counts.skipped,
        .cold_rows = stats.cold_rows,
        .fetched = stats.fetched,
        .evicted = stats.evicted,
        .evicted_clean = stats.evicted_clean,
        .memory_bytes = stats.memory_bytes,
        .memory_max = s->options.engine.memory,
        .disk_max = s->options.engine.disk,
        .parked = park_count(s),
        .disk_short = stats.disk_short,
        .keylist = s->keylist,
        .shares = shares_digest(s),
        .insecure = s->options.insecure,
        .boot = s->options.boot,
        .term = s->copies.term,
        .last_term = engine_last_term(s->engine),
        .sync_ms = (uint32_t)(gauges_sync_ns(s) / 1000000),
    };
    place_beat(s, r);
    follow_beat(s, r);
    text_copy(r->server, sizeof r->server, s->options.server);
    text_copy(r->endpoint, sizeof r->endpoint, s->endpoint);
    if (s->options.zone != NULL)
        text_copy(r->zone, sizeof r->zone, s->options.zone);
    if (s->options.process != NULL) {
        /* the machine's figures are no function of the messages: the simulator, which has no
         * machine, leaves them out */
        s->options.process(s->options.context, &r->rss_bytes, &r->rss_peak_bytes);
        r->disk_bytes = stats.disk_bytes;
    }
    shard_send(s, b->coordinator, wire_encode(w));
    coordinators_asked(&b->list);
}

/* Logs the coordinator's silence once: a shard that is cut off looks well from within. */
static void silence_tell(struct shard *s)
{
    struct beat *b = &s->beat;
    if (b->silent || env_now_ns(s->env) - b->heard_ns < SILENCE_NS)
        return;
    b->silent = true;
    const char *listed = "";
    if (s->options.allow != NULL && coordinators_tcp(s->options.coordinator))
        listed = ", and does its list have our key";
    log_warn("shard %s: no answer from the coordinator at %s for %u s: is it running, is that its "
             "endpoint%s?",
             s->name, s->options.coordinator, (unsigned)(SILENCE_NS / 1000000000), listed);
}

static void beat_timer_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, beat.timer);
    SHOAL_ASSERT(s->beat.lease_ms >= LEASE_MS_MIN && s->beat.lease_ms <= LEASE_MS_MAX);
    silence_tell(s);
    send_beat(s);
    pull_expire(s);
    env_timer_start(s->env, t, period_ns(s));
}

/* Answers to the old one have no receiver any more, and its own answers no longer count. */
static void coordinator_moved(struct coordinators *c, peer_t before)
{
    struct shard *s = container_of(c, struct shard, beat.list);
    s->beat.coordinator = c->peer;
    if (before != 0)
        shard_peer_gone(s, before);
    send_beat(s);
}

void beat_init(struct shard *s)
{
    s->beat = (struct beat){.lease_ms = LEASE_MS_DEFAULT,
                            .list = {.moved = coordinator_moved, .logs = true},
                            .timer = {.fire = beat_timer_cb}};
}

int beat_start(struct shard *s, struct err *e)
{
    struct beat *b = &s->beat;
    SHOAL_ASSERT(b->incarnation == 0 && b->coordinator == 0); /* once */
    b->incarnation = env_random(s->env) | 1;
    if (s->options.coordinator == NULL) {
        /* without a coordinator the number is that within the server */
        s->lead.self = s->options.shard_index;
        b->place = SHARD_TAKEN;
        return 0;
    }
    int rc = coordinators_open(&b->list, s->env, s->options.coordinator, e);
    if (rc)
        return rc;
    b->coordinator = b->list.peer;
    b->heard_ns = env_now_ns(s->env);
    send_beat(s);
    env_timer_start(s->env, &b->timer, period_ns(s));
    return 0;
}

void beat_now(struct shard *s)
{
    if (s->beat.coordinator)
        send_beat(s);
}

/* Logs each message once: it comes again with every beat. */
static void say_refused(struct shard *s, const char *text)
{
    uint64_t sum = hash_bytes(text, strlen(text), 0);
    if (s->beat.said != sum)
        log_warn("shard %s is not taken: %s", s->name, text);
    s->beat.said = sum;
    s->beat.place = SHARD_REFUSED;
}

void beat_due(struct shard *s)
{
    const struct beat *b = &s->beat;
    if (b->coordinator != 0 && s->engine != NULL && env_now_ns(s->env) - b->sent_ns > period_ns(s))
        send_beat(s);
}

static void number_take(struct shard *s, const struct wire_SHARD_BEAT_reply *r)
{
    struct err e = {0};
    log_info("shard %s is number %u of cluster %016" PRIx64 "%016" PRIx64, s->name, r->shard,
             r->cluster_high, r->cluster_low);
    SHOAL_ASSERT(s->lead.self == LEAD_NO_SHARD); /* the folder has one number */
    s->lead.self = r->shard;
    if (admin_take_map(s, &e))
        log_error("shard %s: %s", s->name, e.text);
    send_beat(s); /* tells that the folder has the number now */
}

/* When a beat was sent; 0: unasked, or too long ago. */
static uint64_t sent_at(const struct beat *b, uint64_t id)
{
    if (id == 0 || id > b->id || b->id - id >= BEAT_TIMES)
        return 0;
    return b->sent_of[id % BEAT_TIMES];
}

bool beat_refused(struct shard *s, peer_t from)
{
    return s->beat.coordinator != 0 && coordinators_heard(&s->beat.list, from, &s->in);
}

void beat_on_reply(struct shard *s, peer_t from)
{
    struct beat *b = &s->beat;
    SHOAL_ASSERT(s->in.reply && s->in.type == WIRE_TYPE_SHARD_BEAT);
    if (from != b->coordinator)
        return;
    b->heard_ns = env_now_ns(s->env);
    b->silent = false;
    if (s->in.status) {
        say_refused(s, wire_error(&s->in));
        return;
    }
    const struct wire_SHARD_BEAT_reply *r = &s->in.u.SHARD_BEAT_reply;
    if (r->lease_ms >= LEASE_MS_MIN && r->lease_ms <= LEASE_MS_MAX)
        b->lease_ms = r->lease_ms;
    if (r->shard == WIRE_NO_SHARD)
        return;
    struct err e = {0};
    if (place_told(s, r, &e)) {
        say_refused(s, e.text);
        return;
    }
    b->place = SHARD_TAKEN;
    if (r->shard != s->lead.self)
        number_take(s, r);
    copies_told(s, r, s->in.id, sent_at(b, s->in.id));
    if (s->copies.role != COPIES_ALONE && b->timer.due_ns > env_now_ns(s->env) + period_ns(s))
        env_timer_start(s->env, &b->timer, period_ns(s)); /* the lease is shorter than it was */
}

struct msg *beat_disk(const struct wire_SERVER_DISK *hang, uint64_t id)
{
    struct wire w = {.type = WIRE_TYPE_SERVER_DISK, .id = id, .u.SERVER_DISK = *hang};
    return wire_encode(&w);
}

void beat_close(struct shard *s)
{
    if (!s->beat.coordinator)
        return;
    env_timer_stop(s->env, &s->beat.timer);
    coordinators_close(&s->beat.list);
    s->beat.coordinator = 0; /* the last flush still calls shard_pulse_cb */
}
