/* import_send.c: sends the rows of a source to the shards of a running cluster. */
#include "deploy/cli/import.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "worker/train/assigner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define CHANGED "a file has changed since its rows were checked"
#define PATIENCE_NS (30 * SECOND_NS) /* for the first map */
#define ASKS_NS (2 * SECOND_NS)

struct sender {
    const struct import_order *order;
    struct net *net;
    struct env *env;
    struct client *client;
    struct assigner *assigner;
    struct env_timer progress, patience, asks;
    uint64_t rows, row; /* rows of the source; the next row */
    bool begun, ended;
    int status;
    struct err err;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static int sender_fill(void *context, uint64_t *keys, float *rows, uint32_t room, struct err *e)
{
    struct sender *s = context;
    struct import_source *from = s->order->source;
    struct import_key key;
    uint32_t n = 0;
    while (n < room) {
        int rc = from->next(from, &key, rows + (size_t)n * from->floats, e);
        if (rc < 0)
            return err_wrap(e, rc, CHANGED);
        if ((rc > 0 && s->row == s->rows) || (rc == 0 && s->row != s->rows))
            return err_set(e, SHOAL_E_DATA, CHANGED ": %s has not the rows that were checked",
                           from->names);
        if (rc == 0)
            break;
        const uint64_t row = s->row++;
        if (import_keys_left_out(s->order->keys, row))
            continue;
        keys[n++] = import_keys_at(s->order->keys, row);
    }
    return (int)n;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void progress_say(const struct sender *s, char end)
{
    char sent[32], all[32];
    if (!s->order->quiet)
        fprintf(stderr, "%s: %s of %s rows%c", s->order->schema->name,
                cli_number_text((double)assigner_counts(s->assigner)->sent, sent),
                cli_number_text((double)import_keys_count(s->order->keys), all), end);
}

static void progress_fire(struct env_timer *t)
{
    struct sender *s = container_of(t, struct sender, progress);
    progress_say(s, isatty(STDERR_FILENO) ? '\r' : '\n');
    env_timer_start(s->env, t, isatty(STDERR_FILENO) ? SECOND_NS : 10 * SECOND_NS);
}

static void sender_done(void *context, int status, const struct err *e);

static void asks_fire(struct env_timer *t)
{
    struct sender *s = container_of(t, struct sender, asks);
    struct err e = {0};
    int rc = s->order->asks(s->order->context, &e);
    if (rc != 0)
        sender_done(s, rc, &e);
    else
        env_timer_start(s->env, t, ASKS_NS);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void sender_done(void *context, int status, const struct err *e)
{
    struct sender *s = context;
    s->ended = true;
    s->status = status;
    if (status != 0)
        s->err = *e;
    env_stop(s->env);
}

static void sender_map(void *context)
{
    struct sender *s = context;
    if (s->begun) {
        assigner_remap(s->assigner);
        return;
    }
    s->begun = true;
    env_timer_stop(s->env, &s->patience);
    env_timer_start(s->env, &s->progress, SECOND_NS);
    env_timer_start(s->env, &s->asks, ASKS_NS);
    assigner_start(s->assigner);
}

static void patience_fire(struct env_timer *t)
{
    struct sender *s = container_of(t, struct sender, patience);
    sender_done(s, SHOAL_E_UNAVAILABLE,
                &(struct err){SHOAL_E_UNAVAILABLE,
                              "no map came in 30 s: a server of the table is away, or the "
                              "coordinator does not answer"});
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct sender *s = core;
    client_message(s->client, from, m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void on_peer_gone(void *core, peer_t peer)
{
    struct sender *s = core;
    client_peer_gone(s->client, peer);
}

static int sender_open(struct sender *s, struct err *e)
{
    static const struct env_handler handler = {on_message, on_drained, on_peer_gone};
    const struct import_order *o = s->order;
    const struct net_options net = {.keys = cli_keys(), .io_threads = 1};
    int rc = net_new(&net, &s->net, e);
    if (rc != 0)
        return rc;
    s->env = net_env(s->net);
    net_set_handler(s->net, &handler, s);
    const struct client_options client = {.coordinator = o->endpoint,
                                          .reads = true,
                                          .space = o->space,
                                          .resolve = name_resolve,
                                          .on_map = sender_map,
                                          .context = s};
    rc = client_new(s->env, &client, &s->client, e);
    if (rc != 0)
        return rc;
    const struct assigner_options assigner = {.client = s->client,
                                              .table = o->schema->table,
                                              .tablet_first = o->schema->tablet_first,
                                              .tablet_bits = o->schema->tablet_bits,
                                              .floats = o->source->floats,
                                              .parts =
                                                  o->source->parts | (o->keep ? ASSIGN_KEEP : 0),
                                              .fill = sender_fill,
                                              .done = sender_done,
                                              .context = s};
    return assigner_new(&assigner, &s->assigner, e);
}

int import_send(const struct import_order *o, struct import_counts *out, struct err *e)
{
    struct sender s = {.order = o,
                       .rows = import_keys_count(o->keys),
                       .progress = {.fire = progress_fire},
                       .asks = {.fire = asks_fire},
                       .patience = {.fire = patience_fire}};
    *out = (struct import_counts){.sent = 0};
    o->source->rewind(o->source);
    import_keys_rewind(o->keys);
    int rc = sender_open(&s, e);
    if (rc == 0) {
        env_timer_start(s.env, &s.patience, PATIENCE_NS);
        client_map_refresh(s.client);
        net_run(s.net);
        SHOAL_ASSERT(s.ended);
        const struct assigner_counts *c = assigner_counts(s.assigner);
        *out = (struct import_counts){c->sent, c->made, c->replaced, c->kept, c->blocked};
        progress_say(&s, '\n');
        env_timer_stop(s.env, &s.progress);
        env_timer_stop(s.env, &s.patience);
        env_timer_stop(s.env, &s.asks);
        rc = s.status;
        if (rc != 0)
            err_set(e, rc, "%s", s.err.text);
    }
    if (rc == 0 && o->source->sum(o->source) != o->source->checksum)
        rc = err_set(e, SHOAL_E_DATA, CHANGED ": %s", o->source->names);
    assigner_free(s.assigner);
    client_free(s.client);
    if (s.net != NULL)
        net_free(s.net);
    return rc;
}
