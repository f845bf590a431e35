/* cut.c: holds pushes for a cut, and restores a cut.
 *
 * 1. Between engine_hold and engine_go (or engine_release) no push is admitted. [assert:
 *    push_group_admit] [test: no_push_moves_while_a_cut_is_held]
 * 2. A RESTORE whose run is open already was done: it must not be done twice, for the run may have
 *    moved on. [test: cut_is_restored_once_in_memory, cut_is_restored_once_on_disk] */
#include "server/shard/cut.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "server/shard/admin.h"
#include "server/shard/park.h"
#include "server/shard/push.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CUTS_AT_ONCE 256u

static void let_go(struct shard *s)
{
    env_timer_stop(s->env, &s->hold.timer);
    s->hold.cut = 0;
    push_go_on(s);
}

int cut_release(struct shard *s)
{
    engine_release(s->engine, s->hold.cut);
    let_go(s);
    return push_group_settle(s);
}

static void hold_timeout_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, hold.timer);
    SHOAL_ASSERT(s->hold.cut != 0); /* let_go stops the timer */
    log_warn("shard %s: cut %" PRIu64 " was held for 10 s without GO; pushes go on", s->name,
             s->hold.cut);
    cut_release(s); /* this settles, too: no message may come for a while, and the senders wait */
}

void cut_init(struct shard *s)
{
    s->hold = (struct hold){.timer = {.fire = hold_timeout_cb}};
}

void cut_close(struct shard *s)
{
    env_timer_stop(s->env, &s->hold.timer);
}

void cut_find_newest(struct shard *s)
{
    uint64_t cut[CUTS_AT_ONCE];
    uint32_t count = engine_cuts(s->engine, cut, CUTS_AT_ONCE);
    SHOAL_ASSERT(count <= CUTS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        s->newest_cut = cut[i] > s->newest_cut ? cut[i] : s->newest_cut;
}

static void cut_ahead(struct shard *s, peer_t from);

/* True when the held cut shares none of these tables: it belongs to another job or space, which has
 * not given it up. A cut of all tables (none) ends any. */
static bool of_another_job(struct shard *s, struct table_set tables)
{
    return table_set_any(tables) &&
           !table_set_meet(engine_cut_tables(s->engine, s->hold.cut), tables);
}

/* The tables of the cut that a HOLD asks for. A run that is not open has none. */
static struct table_set asked_tables(struct shard *s, const struct wire_HOLD *w)
{
    if (w->run == 0)
        return WIRE_TABLES_OF(*w);
    return engine_run_tables(s->engine, w->run);
}

static void refuse_held(struct shard *s, peer_t from, enum wire_type type)
{
    shard_refuse(s, from, type, s->in.id, SHOAL_E_BUSY,
                 "shard %s holds cut %" PRIu64 " of another job; ask again", s->name, s->hold.cut);
}

void cut_on_hold(struct shard *s, peer_t from)
{
    struct hold *h = &s->hold;
    uint64_t cut = s->in.u.HOLD.cut, id = s->in.id;
    if (cut == 0) {
        shard_refuse(s, from, WIRE_TYPE_HOLD, id, SHOAL_E_MALFORMED,
                     "cut 0 is none; cuts are numbered from 1");
        return;
    }
    if (s->in.u.HOLD.ahead) {
        cut_ahead(s, from);
        return;
    }
    if (h->cut != cut && (h->going == cut || h->last == cut)) {
        /* a late copy: this cut had its GO already */
        uint64_t sequence = h->last_sequence;
        if (h->going == cut)
            sequence = h->going_sequence;
        shard_reply(s, WIRE_TYPE_HOLD, id)->u.HOLD_reply.sequence = sequence;
        shard_send_reply(s, from);
        return;
    }
    const struct table_set tables = asked_tables(s, &s->in.u.HOLD);
    if (h->cut && h->cut != cut && of_another_job(s, tables)) {
        refuse_held(s, from, WIRE_TYPE_HOLD);
        return;
    }
    if (h->cut && h->cut != cut) {
        engine_release(s->engine, h->cut);
        h->cut = cut; /* the queue stays: the new cut holds it further */
    } else if (h->cut == cut) {
        cut = 0;
    }
    if (cut) {
        SHOAL_ASSERT(s->group.head == NULL); /* all pushes so far are in the cut */
        int rc = engine_hold(s->engine, cut, s->in.u.HOLD.run, &h->sequence); /* 1. */
        if (rc) {
            struct err e = {0};
            bool full = rc == SHOAL_E_NO_SPACE && engine_cut_room(s->engine, cut, &e) != 0;
            let_go(s);
            shard_refuse(s, from, WIRE_TYPE_HOLD, id, rc,
                         "shard %s cannot hold for cut %" PRIu64 ": %s", s->name, cut,
                         full ? e.text : err_text(rc));
            return;
        }
        h->cut = cut;
        h->run = s->in.u.HOLD.run;
        if (h->run == 0)
            engine_hold_tables(s->engine, tables);
        s->newest_cut = cut > s->newest_cut ? cut : s->newest_cut;
    }
    env_timer_start(s->env, &h->timer, HOLD_NS);
    shard_reply(s, WIRE_TYPE_HOLD, id)->u.HOLD_reply.sequence = h->sequence;
    shard_send_reply(s, from);
}

static void answer_go(struct shard *s, peer_t to, uint64_t id)
{
    const struct hold *h = &s->hold;
    SHOAL_ASSERT(h->last != 0 && h->last != h->going);
    if (h->last_status) {
        shard_refuse(s, to, WIRE_TYPE_GO, id, h->last_status,
                     "shard %s could not write its part of cut %" PRIu64 ": %s", s->name, h->last,
                     err_text(h->last_status));
        return;
    }
    shard_reply(s, WIRE_TYPE_GO, id)->u.GO_reply =
        (struct wire_GO_reply){h->last_sequence, h->last_rows, h->last_bytes};
    shard_send_reply(s, to);
}

static void hold_done_cb(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct shard *s = context;
    struct hold *h = &s->hold;
    SHOAL_ASSERT(h->going);
    h->last = h->going;
    h->last_status = status;
    h->last_sequence = h->going_sequence;
    h->last_rows = rows;
    h->last_bytes = bytes;
    h->going = 0;
    if (h->asker != 0)
        answer_go(s, h->asker, h->asker_id);
}

/* True when the cut is kept here. */
static bool has_cut(struct shard *s, uint64_t number)
{
    uint64_t cut[CUTS_AT_ONCE];
    uint32_t count = engine_cuts(s->engine, cut, CUTS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        if (cut[i] == number)
            return true;
    return false;
}

int cut_follow(struct shard *s, uint64_t cut, uint64_t run)
{
    struct hold *h = &s->hold;
    if (h->going != 0 && h->going != cut)
        return SHOAL_E_BUSY;
    if (h->going == cut || has_cut(s, cut))
        return 0;
    int rc = engine_hold(s->engine, cut, run, &h->going_sequence);
    if (rc)
        return rc;
    h->going = cut;
    h->going_tables = engine_cut_tables(s->engine, cut);
    h->asker = 0;
    rc = engine_go(s->engine, cut, hold_done_cb, s);
    if (rc) {
        h->going = 0;
        engine_release(s->engine, cut);
    }
    if (rc == 0 && cut > s->newest_cut)
        s->newest_cut = cut;
    return rc;
}

void cut_engine_gone(struct shard *s)
{
    struct hold *h = &s->hold;
    SHOAL_ASSERT(h->queue.head == NULL);
    env_timer_stop(s->env, &h->timer);
    h->cut = h->going = h->last = 0;
    h->asker = 0;
    memset(&s->checkpoints, 0, sizeof s->checkpoints);
}

void cut_on_go(struct shard *s, peer_t from)
{
    struct hold *h = &s->hold;
    uint64_t cut = s->in.u.GO.cut, id = s->in.id;
    if (h->going == cut && cut) {
        h->asker = from;
        h->asker_id = id;
        return;
    }
    if (h->last == cut && cut && h->cut != cut) {
        answer_go(s, from, id);
        return;
    }
    if (h->cut != cut || !cut || h->going) {
        shard_refuse(s, from, WIRE_TYPE_GO, id, h->going ? SHOAL_E_BUSY : SHOAL_E_NOT_FOUND,
                     "shard %s does not hold cut %" PRIu64 " (held: %" PRIu64
                     ", being written: %" PRIu64 "); HOLD again",
                     s->name, cut, h->cut, h->going);
        return;
    }
    h->going = cut;
    h->going_sequence = h->sequence;
    h->going_tables = engine_cut_tables(s->engine, cut);
    h->asker = from;
    h->asker_id = id;
    uint64_t run = h->run;
    struct err e = {0};
    int rc = engine_go(s->engine, cut, hold_done_cb, s);
    if (rc) {
        h->going = 0;
        engine_release(s->engine, cut);
        shard_refuse(s, from, WIRE_TYPE_GO, id, rc, "shard %s cannot write cut %" PRIu64 ": %s",
                     s->name, cut, err_text(rc));
    } else if (s->copies.role == COPIES_LEADS && engine_cut_mark(s->engine, cut, run, &e) != 0) {
        log_warn("shard %s: the other copies have no cut %" PRIu64 ": %s", s->name, cut, e.text);
    }
    let_go(s);
}

/* ---- RESTORE ---- */

/* Ends the asker's request. Returns true when it failed and the refusal is sent. */
static bool failed(struct shard *s, struct checkpoint_asker *a, enum wire_type type, int status,
                   const char *text)
{
    SHOAL_ASSERT(a->busy);
    a->busy = false;
    if (status)
        shard_refuse(s, a->peer, type, a->id, status, "shard %s: %s", s->name, text);
    return status != 0;
}

/* Returns true when the same request is already under way: the answer then goes to the new
 * asker. */
static bool joins(struct checkpoint_asker *a, peer_t from, uint64_t id, bool same)
{
    if (!a->busy || !same)
        return false;
    a->peer = from;
    a->id = id;
    return true;
}

/* ---- HOLD ahead ---- */

static void written_cb(void *context)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.writer;
    SHOAL_ASSERT(a->busy);
    a->busy = false;
    shard_reply(s, WIRE_TYPE_HOLD, a->id)->u.HOLD_reply.sequence = 0;
    shard_send_reply(s, a->peer);
}

/* HOLD ahead of a cut: holds nothing yet, but writes rows, so that the cut will have few
 * records. */
static void cut_ahead(struct shard *s, peer_t from)
{
    struct checkpoint_asker *a = &s->checkpoints.writer;
    if (joins(a, from, s->in.id, true))
        return;
    *a = (struct checkpoint_asker){true, from, s->in.id};
    engine_cut_ahead(s->engine, written_cb, s);
}

/* Answers a restore, or a look at its cut. */
static void rows_answer(struct shard *s, peer_t to, uint64_t id)
{
    struct engine_stats stats;
    engine_stats_get(s->engine, &stats);
    shard_reply(s, WIRE_TYPE_RESTORE, id)->u.RESTORE_reply.rows = stats.rows;
    shard_send_reply(s, to);
}

static void restored_answer(struct shard *s, peer_t to, uint64_t id, uint64_t run)
{
    shard_run_told(s, run); /* no worker has a lane of the run before all shards have the run */
    rows_answer(s, to, id);
}

static void looked_cb(void *context, int status, const char *text)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.looker;
    if (!failed(s, a, WIRE_TYPE_RESTORE, status, text))
        rows_answer(s, a->peer, a->id);
}

static void look(struct shard *s, peer_t from, const struct wire_RESTORE *r, uint64_t id)
{
    struct checkpoints *c = &s->checkpoints;
    struct err e = {0};
    if (joins(&c->looker, from, id, r->cut == c->look.cut && r->run == c->look.run))
        return;
    if (c->looker.busy) {
        shard_refuse(s, from, WIRE_TYPE_RESTORE, id, SHOAL_E_BUSY,
                     "shard %s: cut %" PRIu64 " is being read; ask again", s->name, c->look.cut);
        return;
    }
    c->looker = (struct checkpoint_asker){true, from, id};
    c->look = *r;
    int rc = engine_restore_check(s->engine, r->cut, r->run, looked_cb, s, &e);
    if (rc) {
        c->looker.busy = false;
        shard_refuse(s, from, WIRE_TYPE_RESTORE, id, rc, "shard %s: %s", s->name, e.text);
    }
}

void cut_restored(struct shard *s)
{
    struct checkpoint_asker *a = &s->checkpoints.restorer;
    SHOAL_ASSERT(a->busy && engine_back(s->engine) && s->group.head == NULL);
    a->busy = false;
    /* the cut may hold other tables than the shard had */
    int rc = lead_apply(&s->lead, s->engine, NULL);
    if (rc == 0)
        rc = heat_take_lead(s);
    if (rc) {
        shard_refuse(s, a->peer, WIRE_TYPE_RESTORE, a->id, rc, "shard %s: %s", s->name,
                     err_text(rc));
        return;
    }
    park_purge(s);
    restored_answer(s, a->peer, a->id, s->checkpoints.restore.run);
}

void cut_on_restore(struct shard *s, peer_t from)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_RESTORE r = s->in.u.RESTORE;
    uint64_t id = s->in.id;
    uint32_t mode, lanes;
    struct err e = {0};
    if (joins(&c->restorer, from, id, r.cut == c->restore.cut && r.run == c->restore.run))
        return;
    if (!engine_back(s->engine)) {
        shard_not_back(s, from, WIRE_TYPE_RESTORE, id);
        return;
    }
    if (engine_run_mode(s->engine, r.run, &mode, &lanes) == 0) { /* 2. */
        restored_answer(s, from, id, r.run);
        return;
    }
    if (r.look) {
        look(s, from, &r, id);
        return;
    }
    if (s->hold.cut && of_another_job(s, engine_cut_tables(s->engine, r.cut))) {
        refuse_held(s, from, WIRE_TYPE_RESTORE);
        return;
    }
    if (s->hold.cut && cut_release(s))
        return;
    SHOAL_ASSERT(s->hold.cut == 0 && s->group.head == NULL);
    int rc = engine_restore(s->engine, r.cut, r.run, &e);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_RESTORE, id, rc, "%s", e.text);
        return;
    }
    c->restorer = (struct checkpoint_asker){true, from, id};
    c->restore = r;
    if (engine_back(s->engine))
        cut_restored(s); /* else shard_recovered_cb does it */
}

/* ---- CUT_DROP, CUT_KEEP ---- */

/* Drops a cut, on the copies that follow too. BUSY: it is being written, or another one is held,
 * behind which no record may come before it is made. */
static int drop(struct shard *s, uint64_t cut)
{
    struct err e;
    if (s->hold.going == cut)
        return SHOAL_E_BUSY;
    if (s->copies.role != COPIES_LEADS)
        return engine_cut_drop(s->engine, cut);
    if (s->hold.cut != 0)
        return SHOAL_E_BUSY;
    int rc = engine_cut_drop_mark(s->engine, cut, &e);
    if (rc != 0)
        return rc;
    return engine_cut_drop(s->engine, cut);
}

void cut_on_drop(struct shard *s, peer_t from)
{
    uint64_t cut = s->in.u.CUT_DROP.cut, id = s->in.id;
    if (cut && s->hold.cut == cut && cut_release(s))
        return;
    int rc = drop(s, cut);
    if (rc && rc != SHOAL_E_NOT_FOUND) { /* NOT_FOUND: dropped already, this is a resend */
        shard_refuse(s, from, WIRE_TYPE_CUT_DROP, id, rc,
                     "shard %s cannot drop cut %" PRIu64 ": %s", s->name, cut, err_text(rc));
        return;
    }
    if (s->hold.last == cut)
        s->hold.last = 0;
    shard_reply(s, WIRE_TYPE_CUT_DROP, id)->u.CUT_DROP_reply.cut = cut;
    shard_send_reply(s, from);
}

/* True when the coordinator's list does not keep the cut. */
static bool unlisted(const struct wire_CUT_KEEP *r, uint64_t cut)
{
    return cut != 0 && cut < r->below && cut != r->keep;
}

/* The job's tables; none in the request: all. */
static struct table_set tables_of(const struct wire_CUT_KEEP *r)
{
    return table_set_or_all(WIRE_TABLES_OF(*r));
}

static bool unwanted(struct shard *s, const struct wire_CUT_KEEP *r, uint64_t cut)
{
    return unlisted(r, cut) && table_set_meet(engine_cut_tables(s->engine, cut), tables_of(r));
}

/* Drops the runs of jobs that ended while this shard was away: the request to drop them may have
 * been lost when the next job began, and a shard has room for few runs. Returns false when it has
 * refused the request. */
static bool runs_drop_below(struct shard *s, peer_t from, const struct wire_CUT_KEEP *r)
{
    struct err e = {0};
    uint64_t id = s->in.id;
    int rc = engine_runs_drop_below(s->engine, r->runs, tables_of(r), &e);
    park_purge(s);
    if (rc)
        shard_refuse(s, from, WIRE_TYPE_CUT_KEEP, id, rc, "shard %s: %s", s->name, e.text);
    return !rc;
}

/* Drops the cuts that no coordinator will ask for again: those of checkpoints and best epochs that
 * a coordinator gave up before it died. */
void cut_on_keep(struct shard *s, peer_t from)
{
    const struct wire_CUT_KEEP r = s->in.u.CUT_KEEP;
    uint64_t id = s->in.id, cut[CUTS_AT_ONCE];
    uint32_t dropped = 0;
    if (unwanted(s, &r, s->hold.cut) && cut_release(s))
        return;
    if (s->copies.role == COPIES_LEADS && s->hold.cut != 0) { /* as in drop */
        shard_refuse(s, from, WIRE_TYPE_CUT_KEEP, id, SHOAL_E_BUSY,
                     "shard %s holds cut %" PRIu64 "; ask again", s->name, s->hold.cut);
        return;
    }
    uint32_t count = engine_cuts(s->engine, cut, CUTS_AT_ONCE);
    SHOAL_ASSERT(count <= CUTS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++) {
        if (cut[i] == s->hold.going || !unwanted(s, &r, cut[i]))
            continue;
        if (drop(s, cut[i]) != 0) {
            log_warn("shard %s: cut %" PRIu64 " is not wanted any more and cannot be deleted",
                     s->name, cut[i]);
            continue;
        }
        if (s->hold.last == cut[i])
            s->hold.last = 0;
        dropped++;
    }
    if (dropped > 0)
        log_info("shard %s: %u cuts that nobody wants any more are gone", s->name, dropped);
    if (unlisted(&r, s->hold.going) && table_set_meet(s->hold.going_tables, tables_of(&r))) {
        shard_refuse(s, from, WIRE_TYPE_CUT_KEEP, id, SHOAL_E_BUSY,
                     "shard %s is still writing cut %" PRIu64 "; ask again", s->name,
                     s->hold.going);
        return;
    }
    /* a follower hears of a dropped run by its record */
    if (s->copies.role != COPIES_FOLLOWS && !runs_drop_below(s, from, &r))
        return;
    shard_reply(s, WIRE_TYPE_CUT_KEEP, id)->u.CUT_KEEP_reply.dropped = dropped;
    shard_send_reply(s, from);
}

/* ---- checkpoint ---- */

static void say_notes(const struct shard *s, const char *text)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        log_info("shard %s: %.*s", s->name, (int)bytes, text);
        text += bytes + (text[bytes] == '\n');
    }
}

/* Copies as many whole lines as fit into one line: a string on the wire has no line ends. */
static void lines_take(const char *text, char *out, size_t room)
{
    const char *before = "";
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        int n = snprintf(out + used, room - used, "%s%.*s", before, (int)bytes, text);
        if (n < 0 || (size_t)n >= room - used) {
            out[used] = '\0';
            return;
        }
        used += (size_t)n;
        text += bytes + (text[bytes] == '\n');
        before = "; ";
    }
}

/* ---- CUT_EXPORT ---- */

static void exported_cb(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.exporter;
    if (failed(s, a, WIRE_TYPE_CUT_EXPORT, status, text))
        return;
    shard_reply(s, WIRE_TYPE_CUT_EXPORT, a->id)->u.CUT_EXPORT_reply =
        (struct wire_CUT_EXPORT_reply){rows, bytes};
    shard_send_reply(s, a->peer);
}

void cut_on_export(struct shard *s, peer_t from)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_CUT_EXPORT r = s->in.u.CUT_EXPORT;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (joins(&c->exporter, from, id,
              r.cut == c->export.cut && r.part == c->export.part && r.parts == c->export.parts &&
                  strcmp(r.path, c->export.path) == 0))
        return;
    if (c->exporter.busy) {
        shard_refuse(s, from, WIRE_TYPE_CUT_EXPORT, id, SHOAL_E_BUSY,
                     "shard %s: cut %" PRIu64 " is being exported; ask again", s->name,
                     c->export.cut);
        return;
    }
    c->exporter = (struct checkpoint_asker){true, from, id};
    c->export = r;
    const struct engine_export what = {.cut = r.cut,
                                       .path = r.path,
                                       .part = r.part,
                                       .parts = r.parts,
                                       .tables = WIRE_TABLES_OF(r)};
    int rc = engine_cut_export_tables(s->engine, &what, exported_cb, s, &e);
    if (rc) {
        c->exporter.busy = false;
        shard_refuse(s, from, WIRE_TYPE_CUT_EXPORT, id, rc, "shard %s: %s", s->name, e.text);
    }
}

/* ---- LOAD ---- */

static void loaded_cb(void *context, int status, const char *text, uint64_t rows)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.loader;
    if (failed(s, a, WIRE_TYPE_LOAD, status, text))
        return;
    /* no worker has a lane of the run before all shards have loaded */
    shard_run_told(s, s->checkpoints.load.run);
    say_notes(s, text);
    copies_base(s);
    struct wire_LOAD_reply *r = &shard_reply(s, WIRE_TYPE_LOAD, a->id)->u.LOAD_reply;
    r->rows = rows;
    lines_take(text, r->translated, sizeof r->translated);
    shard_send_reply(s, a->peer);
}

void cut_on_load(struct shard *s, peer_t from)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_LOAD r = s->in.u.LOAD;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (joins(&c->loader, from, id, r.run == c->load.run && strcmp(r.path, c->load.path) == 0))
        return;
    int rc = 0;
    if (c->loader.busy)
        rc = err_set(&e, SHOAL_E_BUSY, "checkpoint %s is being loaded; ask again", c->load.path);
    /* without a map the load would fill nothing and report success */
    else if (!lead_ready(&s->lead))
        rc = err_set(&e, SHOAL_E_AGAIN, "there is no map yet; ask again");
    if (!rc) {
        struct engine_load_options o = {.path = c->load.path,
                                        .run = r.run,
                                        .lanes = r.lanes,
                                        .mode = r.mode,
                                        .tables = WIRE_TABLES_OF(r),
                                        .without = c->load.without};
        c->loader = (struct checkpoint_asker){true, from, id};
        c->load = r;
        rc = engine_load(s->engine, &o, loaded_cb, s, &e);
        if (rc)
            c->loader.busy = false;
    }
    if (rc)
        shard_refuse(s, from, WIRE_TYPE_LOAD, id, rc, "shard %s: %s", s->name, e.text);
}
