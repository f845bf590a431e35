/* naming.c: keys by name, from the wire to the engine. */
#include "server/shard/naming.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/json.h"
#include "proto/base/key.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_NS UINT64_C(5000000) /* pause while pushes, a cut or a load are in the way */

/* ---- search of the journal ---- */

static bool taken(struct shard *s, peer_t from, enum wire_type type, uint64_t id)
{
    if (s->audit.peer == 0)
        return false;
    /* else it is the same request again: its answer will come */
    if (s->audit.peer != from || s->audit.id != id)
        shard_refuse(s, from, type, id, SHOAL_E_BUSY,
                     "shard %s is searching its journal already; ask again later", s->name);
    return true;
}

/* Ends the search or the scrub. Returns true when it failed and the refusal is sent. */
static bool failed(struct shard *s, enum wire_type type, int status, const char *text)
{
    const struct audit a = s->audit;
    SHOAL_ASSERT(a.peer != 0 && a.scrub == (type == WIRE_TYPE_KEYS));
    s->audit.peer = 0;
    if (status)
        shard_refuse(s, a.peer, type, a.id, status, "shard %s: %s", s->name, text);
    return status != 0;
}

static void blame_done(void *context, int status, const char *text, const struct blame_entry *entry,
                       uint32_t count, bool complete)
{
    struct shard *s = context;
    const struct audit a = s->audit;
    if (failed(s, WIRE_TYPE_BLAME, status, text))
        return;
    SHOAL_ASSERT(count <= ENGINE_BLAME_MAX);
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++)
        json_append(list, engine_blame_json(&entry[i]));
    shard_reply(s, WIRE_TYPE_BLAME, a.id)->u.BLAME_reply.complete = complete;
    shard_send_json(s, a.peer, list);
}

void naming_on_blame(struct shard *s, peer_t from)
{
    const struct wire_BLAME in = s->in.u.BLAME;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (taken(s, from, WIRE_TYPE_BLAME, id))
        return;
    int rc;
    s->audit = (struct audit){from, id, false};
    if (in.limit == 0 || in.limit > ENGINE_BLAME_MAX)
        rc = err_set(&e, SHOAL_E_USAGE, "a limit is 1 to %u", ENGINE_BLAME_MAX);
    else
        rc = engine_blame(s->engine, in.table, in.key, in.limit, blame_done, s, &e);
    if (rc)
        failed(s, WIRE_TYPE_BLAME, rc, e.text);
}

static void scrub_done(void *context, int status, const char *text, uint64_t sequence)
{
    struct shard *s = context;
    const struct audit a = s->audit;
    if (failed(s, WIRE_TYPE_KEYS, status, text))
        return;
    shard_reply(s, WIRE_TYPE_KEYS, a.id)->u.KEYS_reply.changed = sequence;
    shard_send_reply(s, a.peer);
}

static void on_scrub(struct shard *s, peer_t from)
{
    const struct wire_KEYS in = s->in.u.KEYS;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (taken(s, from, WIRE_TYPE_KEYS, id))
        return;
    s->audit = (struct audit){from, id, true};
    int rc =
        engine_scrub(s->engine, in.table, s->m->frame[1].data, in.key_count, scrub_done, s, &e);
    if (rc)
        failed(s, WIRE_TYPE_KEYS, rc, e.text);
}

void naming_peer_gone(struct shard *s, peer_t peer)
{
    if (s->audit.peer == peer && !s->audit.scrub)
        engine_audit_stop(s->engine);
}

/* ---- changes of keys ---- */

_Static_assert((int)WIRE_KEY_ERASE == (int)KEY_ERASE && (int)WIRE_KEY_BLOCK == (int)KEY_BLOCK &&
                   (int)WIRE_KEY_ALLOW == (int)KEY_ALLOW && (int)WIRE_KEY_RESET == (int)KEY_RESET &&
                   (int)WIRE_KEY_EVICT == (int)KEY_EVICT,
               "the wire's actions are the engine's");

static void name_end(struct shard *s)
{
    free(s->naming.keys);
    s->naming.keys = NULL;
    s->naming.peer = 0;
}

/* The number of keys of the next step: all keys of some tablets; the first tablet may have any
 * number of rows. */
static uint32_t step_keys(const struct naming *n, const struct table *t)
{
    uint32_t bits = table_schema_of(t)->tablet_bits, end = n->next;
    for (uint64_t rows = 0; end < n->count && rows < n->step_rows;) {
        uint32_t tablet = key_tablet(key_mix(n->keys[end]), bits);
        if (n->action == WIRE_KEY_ERASE || n->action == WIRE_KEY_EVICT)
            rows += table_tablet_rows(t, tablet);
        for (; end < n->count && key_tablet(key_mix(n->keys[end]), bits) == tablet; end++)
            rows++;
    }
    return end - n->next;
}

/* Keys of tablets that another shard leads. */
static uint32_t not_led(const struct shard *s, const struct table_schema *schema,
                        const uint64_t *keys, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found +=
            !lead_covers(&s->lead, schema, key_tablet(key_mix(keys[i]), schema->tablet_bits), 1);
    return found;
}

/* A tablet that is being given does not change any more: its image may be on its way (move.h). */
static int given_check(const struct shard *s, struct err *e)
{
    if (s->moves.give.epoch == 0)
        return 0;
    return err_set(e, SHOAL_E_AGAIN, "tablets are being given to another shard; ask again");
}

static int name_some(struct shard *s, struct err *e)
{
    struct naming *n = &s->naming;
    uint64_t changed;
    int rc = given_check(s, e);
    if (rc)
        return rc;
    rc = engine_keys_check(s->engine, n->table, (enum key_action)n->action, n->count - n->next, e);
    if (rc)
        return rc;
    const struct table *t = engine_table(s->engine, n->table);
    uint32_t count = step_keys(n, t);
    n->skipped += not_led(s, table_schema_of(t), n->keys + n->next, count);
    rc = engine_keys(s->engine, n->table, (enum key_action)n->action, n->keys + n->next, count,
                     &changed, e);
    if (rc)
        return rc;
    SHOAL_ASSERT(changed <= count);
    n->changed += changed;
    n->next += count;
    return 0;
}

static const struct naming_done *done_find(const struct naming *n, peer_t peer, uint64_t id)
{
    for (uint32_t i = 0; i < NAMING_DONE; i++)
        if (n->done[i].peer == peer && n->done[i].id == id)
            return &n->done[i];
    return NULL;
}

static void done_send(struct shard *s, const struct naming_done *done)
{
    shard_reply(s, WIRE_TYPE_KEYS, done->id)->u.KEYS_reply = done->reply;
    shard_send_reply(s, done->peer);
}

static void name_step(struct shard *s)
{
    struct naming *n = &s->naming;
    struct err e = {0};
    bool begun = n->next > 0;
    int rc = name_some(s, &e);
    if (begun && (rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY)) {
        env_timer_start(s->env, &n->timer, WAIT_NS);
    } else if (rc) {
        shard_refuse(s, n->peer, WIRE_TYPE_KEYS, n->id, rc, "shard %s: %s", s->name, e.text);
        name_end(s);
    } else if (n->next < n->count) {
        env_timer_start(s->env, &n->timer, 0);
    } else {
        struct naming_done *done = &n->done[n->done_next++ % NAMING_DONE];
        *done = (struct naming_done){n->peer, n->id, {n->changed, n->skipped}};
        done_send(s, done);
        name_end(s);
    }
}

static void name_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, naming.timer);
    SHOAL_ASSERT(s->naming.peer != 0 && s->naming.next < s->naming.count);
    if (!s->fatal.code && push_group_settle(s) == 0)
        name_step(s);
}

static void name_begin(struct shard *s, peer_t from)
{
    const struct wire_KEYS r = s->in.u.KEYS;
    struct naming *n = &s->naming;
    uint64_t id = s->in.id;
    size_t bytes = r.key_count * sizeof *n->keys;
    n->keys = malloc(bytes + 1);
    if (n->keys == NULL) {
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, SHOAL_E_NOMEM, "shard %s: no memory for %u keys",
                     s->name, r.key_count);
        return;
    }
    n->peer = from;
    n->id = id;
    n->table = r.table;
    n->action = (uint32_t)r.action;
    n->count = r.key_count;
    n->next = 0;
    n->changed = 0;
    n->skipped = 0;
    if (bytes > 0)
        memcpy(n->keys, s->m->frame[1].data, bytes);
    qsort(n->keys, n->count, sizeof *n->keys, key_by_mixed);
    name_step(s);
}

void naming_object(const struct shard *s, const struct wire_KEYS *r, char out[NAMING_OBJECT])
{
    static const char *const action[] = {
        [WIRE_KEY_ERASE] = "erase", [WIRE_KEY_BLOCK] = "block", [WIRE_KEY_ALLOW] = "allow",
        [WIRE_KEY_RESET] = "reset", [WIRE_KEY_SCRUB] = "scrub", [WIRE_KEY_EVICT] = "evict"};
    const struct table *t = NULL;
    const char *table = "no table", *what = "no action on";
    if (r->table < LIMIT_TABLES)
        t = engine_table(s->engine, r->table);
    if (t != NULL)
        table = table_schema_of(t)->name;
    if (r->action <= WIRE_KEY_EVICT && action[r->action] != NULL)
        what = action[r->action];
    (void)snprintf(out, NAMING_OBJECT, "%s %u keys of %s", what, r->key_count, table);
}

void naming_on_message(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    const struct naming_done *done = done_find(&s->naming, from, id);
    if (s->in.u.KEYS.action == WIRE_KEY_SCRUB)
        on_scrub(s, from);
    else if (s->in.u.KEYS.action > WIRE_KEY_RESET &&
             s->in.u.KEYS.action != WIRE_KEY_EVICT) /* whole fields are dropped by ROWS_GO */
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, SHOAL_E_MALFORMED, "shard %s: no action %u",
                     s->name, s->in.u.KEYS.action);
    else if (!lead_ready(&s->lead))
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, SHOAL_E_AGAIN,
                     "shard %s: it has no map yet; ask again", s->name);
    else if (done != NULL)
        done_send(s, done);
    else if (s->naming.peer == 0)
        name_begin(s, from);
    /* else it is the same request again: its answer will come */
    else if (s->naming.peer != from || s->naming.id != id)
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, SHOAL_E_AGAIN,
                     "shard %s: other keys are being named; ask again", s->name);
}

static void done_forget(struct naming *n)
{
    memset(n->done, 0, sizeof n->done);
}

void naming_tables_gone(struct shard *s, struct table_set tables)
{
    struct naming *n = &s->naming;
    done_forget(n);
    if (n->peer == 0 || !table_set_has(&tables, n->table))
        return;
    env_timer_stop(s->env, &n->timer);
    shard_refuse(s, n->peer, WIRE_TYPE_KEYS, n->id, SHOAL_E_NO_TABLE, "shard %s: the table is gone",
                 s->name);
    name_end(s);
}

void naming_stop(struct shard *s)
{
    env_timer_stop(s->env, &s->naming.timer);
    done_forget(&s->naming); /* their records may be lost with the lead */
    name_end(s);
}

void naming_init(struct shard *s)
{
    s->naming = (struct naming){.step_rows = KEYS_STEP_ROWS, .timer = {.fire = name_cb}};
}

void naming_close(struct shard *s)
{
    env_timer_stop(s->env, &s->naming.timer);
    free(s->naming.keys);
}
