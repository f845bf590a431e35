/* shard.c: the shard's tick, its handlers, its beginning and its end. */
#include "server/shard/shard.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/allow.h"
#include "server/shard/admin.h"
#include "server/shard/assign.h"
#include "server/shard/named.h"
#include "server/shard/naming.h"
#include "server/shard/place.h"
#include "server/shard/pull.h"
#include "server/shard/push.h"
#include "server/shard/push_group.h"
#include "server/shard/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- dispatch ---- */

#define SETTLE true /* the pushes so far are applied first */
#define AS_IT_IS false
#define AWAY_TOO true /* also while tablets are away, after a start or in a restore */
#define BACK_ONLY false

/* X(TYPE, settle first, when, handler): the types that a shard answers; all others belong to other
 * programs. proto/wire/allow.h has the senders that are allowed, copies.h the copies. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, AS_IT_IS, AWAY_TOO, admin_hello)                                                      \
    X(PULL, AS_IT_IS, AWAY_TOO, pull_on_message)                                                   \
    X(PUSH, AS_IT_IS, BACK_ONLY, push_on_message)                                                  \
    X(ASSIGN, AS_IT_IS, BACK_ONLY, assign_on_message)                                              \
    X(IMAGE, SETTLE, BACK_ONLY, assign_on_image)                                                   \
    X(TABLE_CREATE, SETTLE, BACK_ONLY, admin_table_create)                                         \
    X(RUN_OPEN, SETTLE, BACK_ONLY, admin_run_open)                                                 \
    X(RUN_DROP, SETTLE, BACK_ONLY, admin_run_drop)                                                 \
    X(FENCE, SETTLE, BACK_ONLY, admin_fence)                                                       \
    X(FENCES, SETTLE, BACK_ONLY, admin_fences)                                                     \
    X(MAP_SET, SETTLE, AWAY_TOO, admin_map_set)                                                    \
    X(MAP_HELD, AS_IT_IS, AWAY_TOO, place_held)                                                    \
    X(NAMES_SET, AS_IT_IS, AWAY_TOO, admin_names_set)                                              \
    X(NAMES_HELD, AS_IT_IS, AWAY_TOO, place_names_held)                                            \
    X(TAKEN_SET, AS_IT_IS, AWAY_TOO, admin_taken_set)                                              \
    X(TAKEN_HELD, AS_IT_IS, AWAY_TOO, place_taken_held)                                            \
    X(HOLD, SETTLE, BACK_ONLY, cut_on_hold)                                                        \
    X(GO, SETTLE, BACK_ONLY, cut_on_go)                                                            \
    X(RESTORE, SETTLE, AWAY_TOO, cut_on_restore)                                                   \
    X(CUT_DROP, SETTLE, BACK_ONLY, cut_on_drop)                                                    \
    X(CUT_KEEP, SETTLE, BACK_ONLY, cut_on_keep)                                                    \
    X(CUT_EXPORT, SETTLE, BACK_ONLY, cut_on_export)                                                \
    X(LOAD, SETTLE, BACK_ONLY, cut_on_load)                                                        \
    X(DIGEST, SETTLE, BACK_ONLY, survey_on_digest)                                                 \
    X(INSPECT, SETTLE, AWAY_TOO, admin_inspect)                                                    \
    X(BLAME, SETTLE, BACK_ONLY, naming_on_blame)                                                   \
    X(KEYS, SETTLE, BACK_ONLY, naming_on_message)                                                  \
    X(NAMED, SETTLE, BACK_ONLY, named_on_message)                                                  \
    X(ROWS_GO, SETTLE, AWAY_TOO, rows_go_on_message)                                               \
    X(TABLE_STATS, SETTLE, BACK_ONLY, survey_on_table_stats)                                       \
    X(HEAT, SETTLE, BACK_ONLY, heat_on_message)                                                    \
    X(SPANS, AS_IT_IS, AWAY_TOO, span_on_message)                                                  \
    X(SHARD_STATUS, SETTLE, AWAY_TOO, admin_status)                                                \
    X(KEYLIST, AS_IT_IS, AWAY_TOO, admin_keylist)                                                  \
    X(SHARES, AS_IT_IS, AWAY_TOO, shares_on_message)                                               \
    X(STOP, SETTLE, AWAY_TOO, admin_stop)                                                          \
    X(FOLLOW, AS_IT_IS, AWAY_TOO, copies_on_follow)                                                \
    X(COPY, AS_IT_IS, AWAY_TOO, copies_on_copy)                                                    \
    X(MOVE_TAKE, SETTLE, BACK_ONLY, move_on_take)                                                  \
    X(MOVE_READ, SETTLE, BACK_ONLY, move_on_read)                                                  \
    X(MOVE_MAP, SETTLE, BACK_ONLY, move_on_map)
struct handler {
    void (*run)(struct shard *s, peer_t from); /* handles the request in s->in and s->m */
    bool settle, away;
};

static struct handler handler_of(enum wire_type type)
{
    switch (type) {
#define X(name, first, when, function)                                                             \
    case WIRE_TYPE_##name:                                                                         \
        return (struct handler){function, first, when};
        DISPATCH_MAP(X)
#undef X
    default:
        return (struct handler){0};
    }
}

/* Returns false when there is no such type, which only a header of another protocol version can
 * cause: such a message cannot be answered. */
static bool count(struct dispatch_counts *c, enum wire_type type)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        c->name++;                                                                                 \
        return true;
        WIRE_MAP(X)
#undef X
    default:
        return false;
    }
}

/* Refuses a request that its sender may not send. In a shard without a coordinator (tests, shoal
 * bench), any peer with the right to administer it counts as the coordinator. */
static bool may_ask(struct shard *s, peer_t from)
{
    const struct wire *w = &s->in;
    const struct env_who *who = env_who(s->env, from);
    enum wire_right right = allow_right_of(w);
    bool alone = s->beat.coordinator == 0 && (who->role == ROLE_LOCAL || who->role == ROLE_ADMIN);
    bool boss = alone || from == s->beat.coordinator;
    char object[NAMING_OBJECT] = "";
    struct err e;
    if (w->type == WIRE_TYPE_KEYS)
        naming_object(s, &w->u.KEYS, object);
    if (allow_may(right, WIRE_SHARD, alone ? ROLE_LOCAL : who->role, boss)) {
        if (allow_audited(right) && !allow_again(&s->ordered, from, 0, s->m))
            log_audit(.key = who->key, .role = boss ? "coordinator" : role_text(who->role),
                      .name = who->name, .peer = who->address, .operation = allow_text(right),
                      .object = object, .result = "taken");
        return true;
    }
    log_audit_bounded(.key = who->key, .role = role_text(who->role), .name = who->name,
                      .peer = who->address, .operation = allow_text(right), .object = object,
                      .result = "denied");
    int rc = allow_denied(right, WIRE_SHARD, role_text(who->role), &e);
    shard_refuse(s, from, w->type, w->id, rc, "shard %s: %s", s->name, e.text);
    return false;
}

static void on_reply(struct shard *s, peer_t from)
{
    if (beat_refused(s, from))
        return;
    switch (s->in.type) {
    case WIRE_TYPE_SHARD_BEAT:
        beat_on_reply(s, from);
        break;
    case WIRE_TYPE_IN_SYNC:
        copies_on_in_sync(s, from);
        break;
    case WIRE_TYPE_FOLLOW:
    case WIRE_TYPE_COPY:
        follow_on_reply(s, from);
        break;
    case WIRE_TYPE_MOVE_READ:
        move_on_reply(s, from);
        break;
    default:
        break;
    }
}

/* Decodes s->m into s->in and calls its handler. A message that cannot be decoded is refused, if
 * type and id are known, and has no other effect. */
static void dispatch_message(struct shard *s, peer_t from)
{
    struct err e = {0};
    struct wire *w = &s->in;
    w->type = WIRE_TYPE_NONE;
    w->reply = false;
    w->id = 0;
    int rc = wire_decode(s->m, w, &e);
    bool known = count(&s->dispatched, w->type);
    if (rc) {
        s->counts.malformed++;
        if (rc == SHOAL_E_VERSION) /* its sender may drop the answer, which is of this release */
            log_warn("shard %s: a program of another release is refused: %s", s->name, e.text);
        if (known && !w->reply)
            shard_refuse(s, from, w->type, w->id, rc, "%s", e.text);
        return;
    }
    env_known(s->env, from);
    if (w->reply) {
        on_reply(s, from);
        return;
    }
    struct handler h = handler_of(w->type);
    if (h.run == NULL) {
        shard_refuse(s, from, w->type, w->id, SHOAL_E_USAGE,
                     "%s is not for a shard; ask the coordinator", wire_type_name(w->type));
    } else if (!may_ask(s, from)) {
        return;
    } else if (s->copies.role != COPIES_ALONE && copies_refuse(s, from)) {
        return;
    } else if (!h.away && !engine_back(s->engine)) {
        shard_not_back(s, from, w->type, w->id);
    } else if (!h.settle || push_group_settle(s) == 0) {
        SHOAL_ASSERT(!h.settle || s->group.head == NULL);
        h.run(s, from);
    }
}

/* The largest group. A pull behind a group waits for all of it: so many keys take up to 5 ms where
 * every key is a new row in memory that was never touched. Larger groups would not be written to
 * the journal any faster. */
#define GROUP_KEYS 8192u

/* ---- the loop's three calls ---- */

/* The order is the durability rule: see shard.h. */
static void shard_tick(struct shard *s)
{
    push_parked(s);
    if (push_group_settle(s))
        return;
    if (s->park.purge_due)
        park_purge(s);
    pull_tick(s);
    if (s->copies.role == COPIES_LEADS)
        copies_serve(s); /* records other than pushes */
    engine_flush_step(s->engine);
    if (!s->sync.due_ns && engine_unsynced(s->engine))
        env_timer_start(s->env, &s->sync, SHARD_SYNC_NS);
}

static void park_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, park.timer);
    s->park.pushes_due |= table_set_any(s->park.short_of_room);
    shard_tick(s);
}

static void follow_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, follow.timer);
    follow_step(s);
    shard_tick(s);
}

static void shard_on_message(void *core, peer_t from, struct msg *m)
{
    struct shard *s = core;
    if (s->fatal.code) {
        msg_free(m); /* a broken shard acknowledges nothing */
        return;
    }
    s->m = m;
    dispatch_message(s, from);
    msg_free(s->m);
    s->m = NULL;
    if (s->group_keys >= GROUP_KEYS)
        shard_tick(s);
    SHOAL_ASSERT(s->group_keys < GROUP_KEYS || s->fatal.code != 0);
}

static void shard_on_drained(void *core)
{
    shard_tick(core);
}

/* A sync that is in progress when the timer fires may not cover all records: the timer then fires
 * once more. */
static void sync_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, sync);
    if (!s->fatal.code && engine_sync_due(s->engine))
        env_timer_start(s->env, t, SHARD_SYNC_NS);
}

/* A gone peer's waiting pulls have no receiver. Its held pushes stay: they belong to the lane,
 * until a newer generation fences them. */
void shard_peer_gone(struct shard *s, peer_t peer)
{
    struct request_list gone = {0};
    struct request *q;
    naming_peer_gone(s, peer);
    copies_peer_gone(s, peer);
    clock_peer_gone(&s->clock, peer, &gone);
    park_peer_gone(s, peer, &gone);
    while ((q = request_pop(&gone)) != NULL)
        request_give(&s->pool, q);
}

static void shard_on_peer_gone(void *core, peer_t peer)
{
    struct shard *s = core;
    shard_peer_gone(s, peer);
    if (s->beat.coordinator != 0)
        coordinators_gone(&s->beat.list, peer);
}

const struct env_handler shard_handler = {
    .on_message = shard_on_message,
    .on_drained = shard_on_drained,
    .on_peer_gone = shard_on_peer_gone,
};

/* ---- from the engine ---- */

static void shard_synced_cb(void *context)
{
    struct shard *s = context;
    if (s->fatal.code)
        return;
    push_group_synced(s);
    move_synced(s);
    follow_step(s);
}

static void shard_fetched_cb(void *context)
{
    park_fetched(context);
    follow_wake(context);
}

static void shard_recovered_cb(void *context)
{
    struct shard *s = context;
    SHOAL_ASSERT(engine_back(s->engine));
    if (s->checkpoints.restorer.busy) {
        cut_restored(s);
        return;
    }
    log_info("shard %s: all rows are back", s->name);
    beat_now(s);
    follow_wake(s);
}

static void shard_pulse_cb(void *context, uint64_t done, uint64_t of)
{
    struct shard *s = context;
    if (s->options.pulse != NULL)
        s->options.pulse(s->options.context, done, of);
    beat_due(s);
}

static void shard_fatal_cb(void *context, const struct err *e)
{
    shard_fatal(context, e);
}

/* ---- life ---- */

static int open_parts(struct shard *s, struct err *e)
{
    if (request_pool_init(&s->pool, s->options.waiting_max) || clock_init(&s->clock))
        return err_set(e, SHOAL_E_NOMEM, "shard %s: no memory for its request pool", s->name);
    struct engine_options *o = &s->options.engine;
    o->on_synced = shard_synced_cb;
    o->on_fetched = shard_fetched_cb;
    o->on_recovered = shard_recovered_cb;
    o->on_pulse = shard_pulse_cb;
    o->on_fatal = shard_fatal_cb;
    o->context = s;
    int rc = engine_open(o, s->env, &s->engine, e);
    if (rc) {
        err_wrap(e, rc, "shard %s", s->name);
        return rc;
    }
    follow_read_engine(s);
    return 0;
}

int shard_open(const struct shard_options *options, struct env *env, struct shard **out,
               struct err *e)
{
    struct shard *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a shard");
    s->env = env;
    s->options = *options;
    SHOAL_ASSERT(options->shard_index < options->shard_count);
    snprintf(s->name, sizeof s->name, "%.50s/%u", options->server, options->shard_index);
    lead_init(&s->lead);
    park_init(s);
    cut_init(s);
    survey_init(s);
    naming_init(s);
    rows_go_init(s);
    beat_init(s);
    copies_init(s);
    move_init(s);
    s->follow.timer.fire = follow_cb;
    s->sync.fire = sync_cb;
    s->park.timer.fire = park_cb;
    int rc = open_parts(s, e);
    if (rc) {
        request_pool_close(&s->pool);
        clock_close(&s->clock);
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int shard_start(struct shard *s, const char *endpoint, struct err *e)
{
    text_copy(s->endpoint, sizeof s->endpoint, endpoint);
    return beat_start(s, e);
}

void shard_figures(const struct shard *s, struct shard_figures *out)
{
    struct engine_stats g;
    engine_stats_get(s->engine, &g);
    *out = (struct shard_figures){.place = s->beat.place,
                                  .rows = g.rows,
                                  .keys_pulled = s->counts.keys_pulled,
                                  .keys_pushed = s->counts.keys_pushed,
                                  .tablets_away = g.tablets_away,
                                  .tablets_awaited = g.tablets_awaited};
}

int shard_close(struct shard *s, bool flush_all)
{
    push_group_settle(s);
    follow_stop(s);
    move_close(s);
    copies_close(s);
    park_close(s);
    cut_close(s);
    survey_close(s);
    naming_close(s);
    rows_go_close(s);
    beat_close(s);
    env_timer_stop(s->env, &s->sync);
    int rc = engine_close(s->engine, flush_all && !s->fatal.code);
    bsp_close(&s->bsp);
    clock_close(&s->clock);
    heat_close(&s->heat);
    spans_close(&s->spans);
    lead_close(&s->lead);
    request_pool_close(&s->pool);
    free(s);
    return rc;
}

const char *shard_libraries(unsigned *protocol)
{
    static char text[128];
    *protocol = WIRE_VERSION;
    (void)snprintf(text, sizeof text, "%s, %s", wire_library(), engine_library());
    return text;
}

const char *shard_checksums(void)
{
    return engine_checksums();
}
