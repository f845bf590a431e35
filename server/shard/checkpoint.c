/* checkpoint.c: putting a cut into a checkpoint, filling empty tables from one, and taking that
 * back. */
#include "server/shard/checkpoint.h"

#include "proto/base/log.h"
#include "server/shard/purge.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <string.h>

/* Takes the request as the one to be answered. True: it is under way already. */
static bool joins(struct checkpoint_asker *a, peer_t from, uint64_t id, bool same)
{
    if (!a->busy || !same)
        return false;
    a->peer = from;
    a->id = id;
    return true;
}

static void say_notes(const struct shard *s, const char *text)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        log_info("shard %s: %.*s", s->name, (int)bytes, text);
        text += bytes + (text[bytes] == '\n');
    }
}

/* ---- CUT_EXPORT ---- */

static void exported_cb(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.exporter;
    a->busy = false;
    if (status) {
        shard_refuse(s, a->peer, WIRE_TYPE_CUT_EXPORT, a->id, status, "shard %s: %s", s->name,
                     text);
        return;
    }
    shard_reply(s, WIRE_TYPE_CUT_EXPORT, a->id)->u.CUT_EXPORT_reply =
        (struct wire_CUT_EXPORT_reply){rows, bytes};
    shard_send_reply(s, a->peer);
}

void checkpoint_on_export(struct shard *s, peer_t from, struct msg *m)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_CUT_EXPORT r = s->in.u.CUT_EXPORT;
    uint64_t id = s->in.id;
    struct err e = {0};
    msg_free(m);
    if (joins(&c->exporter, from, id,
              r.cut == c->export.cut && r.part == c->export.part && r.parts == c->export.parts &&
                  strcmp(r.path, c->export.path) == 0))
        return;
    int rc = c->exporter.busy
                 ? err_set(&e, SHOAL_E_BUSY, "cut %" PRIu64 " is being exported; ask again",
                           c->export.cut)
                 : 0;
    if (!rc) {
        c->exporter = (struct checkpoint_asker){true, from, id};
        c->export = r;
        rc = engine_cut_export(s->engine, r.cut, r.path, r.part, r.parts, exported_cb, s, &e);
        if (rc)
            c->exporter.busy = false;
    }
    if (rc)
        shard_refuse(s, from, WIRE_TYPE_CUT_EXPORT, id, rc, "shard %s: %s", s->name, e.text);
}

/* ---- LOAD ---- */

static void loaded_cb(void *context, int status, const char *text, uint64_t rows)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.loader;
    a->busy = false;
    if (status) {
        shard_refuse(s, a->peer, WIRE_TYPE_LOAD, a->id, status, "shard %s: %s", s->name, text);
        return;
    }
    say_notes(s, text);
    shard_reply(s, WIRE_TYPE_LOAD, a->id)->u.LOAD_reply.rows = rows;
    shard_send_reply(s, a->peer);
}

void checkpoint_on_load(struct shard *s, peer_t from, struct msg *m)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_LOAD r = s->in.u.LOAD;
    uint64_t id = s->in.id;
    struct err e = {0};
    msg_free(m);
    if (joins(&c->loader, from, id, r.run == c->load.run && strcmp(r.path, c->load.path) == 0))
        return;
    int rc = 0;
    if (c->loader.busy)
        rc = err_set(&e, SHOAL_E_BUSY, "checkpoint %s is being loaded; ask again", c->load.path);
    else if (!lead_ready(&s->lead)) /* it would fill nothing and say that all is well */
        rc = err_set(&e, SHOAL_E_AGAIN, "there is no map yet; ask again");
    if (!rc) {
        struct engine_load_options o = {.path = c->load.path, .run = r.run};
        c->loader = (struct checkpoint_asker){true, from, id};
        c->load = r;
        rc = engine_load(s->engine, &o, loaded_cb, s, &e);
        if (rc)
            c->loader.busy = false;
    }
    if (rc)
        shard_refuse(s, from, WIRE_TYPE_LOAD, id, rc, "shard %s: %s", s->name, e.text);
}

/* ---- LOAD_DROP ---- */

static void dropped_cb(void *context, int status, const char *text)
{
    struct shard *s = context;
    struct checkpoint_asker *a = &s->checkpoints.dropper;
    a->busy = false;
    purge_requests(s);
    if (status) {
        shard_refuse(s, a->peer, WIRE_TYPE_LOAD_DROP, a->id, status, "shard %s: %s", s->name, text);
        return;
    }
    shard_reply(s, WIRE_TYPE_LOAD_DROP, a->id)->u.LOAD_DROP_reply.run = s->checkpoints.drop;
    shard_send_reply(s, a->peer);
}

void checkpoint_on_load_drop(struct shard *s, peer_t from, struct msg *m)
{
    struct checkpoints *c = &s->checkpoints;
    const struct wire_LOAD_DROP r = s->in.u.LOAD_DROP;
    uint64_t id = s->in.id;
    struct err e = {0};
    msg_free(m);
    if (joins(&c->dropper, from, id, r.run == c->drop))
        return;
    int rc = c->dropper.busy
                 ? err_set(&e, SHOAL_E_BUSY,
                           "the load of run %" PRIu64 " is being taken back; ask again", c->drop)
                 : 0;
    if (!rc) {
        c->dropper = (struct checkpoint_asker){true, from, id};
        c->drop = r.run;
        rc = engine_load_drop(s->engine, r.run, dropped_cb, s, &e);
        if (rc)
            c->dropper.busy = false;
    }
    if (rc)
        shard_refuse(s, from, WIRE_TYPE_LOAD_DROP, id, rc, "shard %s: %s", s->name, e.text);
}
