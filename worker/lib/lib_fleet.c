/* lib_fleet.c: connecting to a fleet, and its tables. */
#include "worker/lib/lib_fleet.h"

#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/optimizer.h"
#include "proto/net/name.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_options.h"
#include "worker/train/assigner.h"
#include "worker/train/fetcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 30000u
#define TABLES_MAX (LIMIT_JOB_TABLES + 2u) /* of a space: the job's, and two dense ones */

static const char made_anew[] = "the space's tables were made anew since the fleet was opened: "
                                "close it and open it again";

/* ---- the loop -------------------------------------------------------------------------------- */

void lib_fleet_end(struct shoal_fleet *f, int status, const char *text)
{
    if (f->over)
        return;
    f->over = true;
    f->end.code = status;
    text_copy(f->end.text, sizeof f->end.text, text);
    env_stop(net_env(f->net));
}

/* Rows that the call under way has read or written. */
static uint64_t rows_moved(const struct shoal_fleet *f)
{
    if (f->fetcher != NULL)
        return fetcher_taken(f->fetcher);
    if (f->assigner != NULL)
        return assigner_counts(f->assigner)->sent;
    return 0;
}

/* Ends the call if no answer has come since the timer began. */
static void limit_fire(struct env_timer *timer)
{
    struct shoal_fleet *f = container_of(timer, struct shoal_fleet, limit);
    const uint64_t moved = rows_moved(f);
    if (moved == f->moved)
        lib_fleet_end(f, SHOAL_E_TIMEOUT, "");
    else
        env_timer_start(net_env(f->net), timer, f->wait_ms * UINT64_C(1000000));
    f->moved = moved;
}

int lib_fleet_check(const struct shoal_fleet *f, const char *what, struct err *e)
{
    return f->anew ? err_set(e, SHOAL_E_CONFIG, "%s: %s", what, made_anew) : 0;
}

int lib_fleet_run(struct shoal_fleet *f, const char *what, struct err *e)
{
    f->limit.fire = limit_fire;
    env_timer_start(net_env(f->net), &f->limit, f->wait_ms * UINT64_C(1000000));
    while (!f->over)
        net_run(f->net);
    env_timer_stop(net_env(f->net), &f->limit);
    if (f->end.code == SHOAL_E_TIMEOUT && f->refused[0] != '\0' && !f->mapped)
        return err_set(e, SHOAL_E_TIMEOUT, "%s: the coordinator at %s has no tables yet: %s", what,
                       f->coordinator, f->refused);
    if (f->end.code == SHOAL_E_TIMEOUT)
        return err_set(e, SHOAL_E_TIMEOUT, "%s: the fleet at %s has not answered within %u ms; %s",
                       what, f->coordinator, f->wait_ms,
                       f->mapped ? "shoal status tells which server is away"
                                 : "is its coordinator there, and is the key file one of its own?");
    if (f->end.code != 0)
        return err_set(e, f->end.code, "%s: %s", what,
                       f->end.text[0] != '\0' ? f->end.text : err_text(f->end.code));
    return 0;
}

void lib_fleet_begin(struct shoal_fleet *f)
{
    f->over = false;
    f->moved = 0;
    f->end = (struct err){.code = 0};
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct shoal_fleet *f = core;
    client_message(f->client, from, m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void on_peer_gone(void *core, peer_t peer)
{
    struct shoal_fleet *f = core;
    client_peer_gone(f->client, peer);
}

static const struct env_handler handler = {on_message, on_drained, on_peer_gone};

/* ---- what a fleet has ------------------------------------------------------------------------ */

static void ask_table(struct shoal_fleet *f);

static struct msg *ask_build(struct request *r)
{
    struct shoal_fleet *f = container_of(r, struct shoal_fleet, ask);
    struct wire w;
    client_head(r, &w);
    if (r->type == WIRE_TYPE_TABLE_GET) {
        w.u.TABLE_GET.table = f->asked;
        text_copy(w.u.TABLE_GET.space, LIMIT_NAME, f->space);
    } else {
        text_copy(w.u.JOB_TEXT.space, LIMIT_NAME, f->space);
    }
    return wire_encode(&w);
}

static enum request_verdict text_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct shoal_fleet *f = container_of(r, struct shoal_fleet, ask);
    if (w->status != 0 && client_passing(w->status))
        return REQUEST_LATER;
    if (w->status != 0) {
        lib_fleet_end(f, w->status, wire_error(w));
        return REQUEST_DONE;
    }
    /* of a later release it may have keys that are not known here: rows go without it */
    f->have_job = job_parse(m->frame[1].data, m->frame[1].bytes, "the job of the tables", NULL,
                            &f->job, &f->job_why) == 0;
    lib_fleet_end(f, 0, "");
    return REQUEST_DONE;
}

static enum request_verdict table_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct shoal_fleet *f = container_of(r, struct shoal_fleet, ask);
    struct err e = {0};
    if (w->status != 0 && client_passing(w->status) && w->status != SHOAL_E_NO_TABLE)
        return REQUEST_LATER;
    int rc = w->status;
    if (rc == 0) {
        /* TABLE_GET's reply is laid out as TABLE_CREATE */
        struct wire_TABLE_CREATE create;
        memcpy(&create, &w->u.TABLE_GET_reply, sizeof create);
        rc = wire_schema_from(&create, &m->frame[1], &f->schema[f->asked], &e);
    } else {
        (void)err_set(&e, rc, "%s", wire_error(w));
    }
    if (rc != 0) {
        lib_fleet_end(f, rc, e.text);
        return REQUEST_DONE;
    }
    f->sparse += f->schema[f->asked].dense == 0;
    if (++f->asked == f->tables)
        lib_fleet_end(f, 0, "");
    else
        ask_table(f);
    return REQUEST_DONE;
}

static void ask_table(struct shoal_fleet *f)
{
    f->ask = (struct request){.type = WIRE_TYPE_TABLE_GET,
                              .target = CLIENT_COORDINATOR,
                              .build = ask_build,
                              .reply = table_reply};
    client_start(f->client, &f->ask);
}

/* True when the tables have other numbers than when the fleet was opened: rows would be read from,
 * and written to, another table. Further tables of the space may come behind them. */
static bool tables_moved(const struct shoal_fleet *f)
{
    const struct table_set *now = &client_map(f->client)->tables;
    if (table_set_count(*now) < table_set_count(f->numbers))
        return true;
    for (uint32_t i = 0; i < table_set_count(f->numbers); i++)
        if (table_set_nth(*now, i) != table_set_nth(f->numbers, i))
            return true;
    return false;
}

static void on_map(void *context)
{
    struct shoal_fleet *f = context;
    if (!f->mapped)
        lib_fleet_end(f, 0, ""); /* shoal_fleet_open waits for it */
    f->mapped = true;
    if (tables_moved(f)) {
        f->anew = true;
        lib_fleet_end(f, SHOAL_E_CONFIG, made_anew);
        return;
    }
    if (f->fetcher != NULL)
        fetcher_remap(f->fetcher);
    if (f->assigner != NULL)
        assigner_remap(f->assigner);
}

/* No later answer mends a refusal such as DENIED; without a map yet the call ends. */
static void on_refused(void *context, int status, const char *text)
{
    struct shoal_fleet *f = context;
    text_copy(f->refused, sizeof f->refused, text);
    if (!f->mapped && !client_passing(status))
        lib_fleet_end(f, status, text);
}

static int tables_read(struct shoal_fleet *f, struct err *e)
{
    f->numbers = client_map(f->client)->tables;
    f->tables = table_set_count(f->numbers);
    if (f->tables == 0 || f->tables > TABLES_MAX)
        return err_set(e, SHOAL_E_NOT_FOUND, "shoal_fleet_open: the space has %u tables",
                       f->tables);
    f->schema = calloc(f->tables, sizeof *f->schema);
    if (f->schema == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    f->asked = 0;
    lib_fleet_begin(f);
    ask_table(f);
    int rc = lib_fleet_run(f, "shoal_fleet_open", e);
    if (rc != 0)
        return rc;
    lib_fleet_begin(f);
    f->ask = (struct request){.type = WIRE_TYPE_JOB_TEXT,
                              .target = CLIENT_COORDINATOR,
                              .build = ask_build,
                              .reply = text_reply};
    client_start(f->client, &f->ask);
    return lib_fleet_run(f, "shoal_fleet_open", e);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int options_take(struct shoal_fleet *f, const struct shoal_fleet_options *o, struct err *e)
{
    const char *coordinator = o->coordinator, *space = o->space;
    if (coordinator == NULL)
        coordinator = getenv("SHOAL_COORDINATOR");
    if (space == NULL)
        space = getenv("SHOAL_SPACE");
    if (coordinator == NULL || coordinator[0] == '\0')
        return err_set(e, SHOAL_E_USAGE,
                       "shoal_fleet_open: no coordinator is named: set options.coordinator or "
                       "SHOAL_COORDINATOR, as to tcp://HOST:7070");
    if (strlen(coordinator) >= sizeof f->coordinator ||
        (space != NULL && strlen(space) >= sizeof f->space))
        return err_set(e, SHOAL_E_USAGE, "shoal_fleet_open: a name is too long");
    text_copy(f->coordinator, sizeof f->coordinator, coordinator);
    if (space != NULL)
        text_copy(f->space, sizeof f->space, space);
    f->wait_ms = o->wait_ms == 0 ? WAIT_MS : o->wait_ms;
    int rc = keyfile_find(o->keys, &f->keys, e);
    if (rc == 0 && f->keys == NULL && coordinators_tcp(f->coordinator) && !o->insecure_plaintext)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: over tcp whoever answers there would be believed: name a key file "
                     "(options.keys), or, in a network that you trust, set "
                     "options.insecure_plaintext",
                     f->coordinator);
    return rc;
}

static int fleet_connect(struct shoal_fleet *f, bool insecure, struct err *e)
{
    const struct net_options net = {.keys = f->keys, .insecure_plaintext = insecure};
    const struct client_options client = {.coordinator = f->coordinator,
                                          .reads = true,
                                          .space = f->space,
                                          .resolve = name_resolve,
                                          .on_map = on_map,
                                          .on_refused = on_refused,
                                          .context = f};
    int rc = net_new(&net, &f->net, e);
    if (rc == 0)
        rc = client_new(net_env(f->net), &client, &f->client, e);
    if (rc != 0)
        return rc;
    net_set_handler(f->net, &handler, f);
    lib_fleet_begin(f);
    client_map_refresh(f->client);
    rc = lib_fleet_run(f, "shoal_fleet_open", e);
    if (rc != 0)
        return rc;
    return tables_read(f, e);
}

int shoal_fleet_open(const struct shoal_fleet_options *options, shoal_fleet **out,
                     struct shoal_error *e)
{
    struct shoal_fleet_options o = {0};
    struct err own = {0};
    *out = NULL;
    int rc = lib_options_take(&o, sizeof o, options, options == NULL ? 0 : options->size,
                              "shoal_fleet_open", e);
    if (rc != SHOAL_OK)
        return rc;
    if (getenv("SHOAL_LOG") == NULL)
        log_set_level(LOG_LEVEL_ERROR);
    struct shoal_fleet *f = calloc(1, sizeof *f);
    if (f == NULL)
        return lib_error_set(e, SHOAL_ERROR_MEMORY, "out of memory");
    rc = options_take(f, &o, &own);
    if (rc == 0)
        rc = fleet_connect(f, o.insecure_plaintext, &own);
    if (rc != 0) {
        own.code = rc;
        shoal_fleet_close(f);
        return lib_error(e, &own);
    }
    *out = f;
    return lib_error_none(e);
}

void shoal_fleet_close(shoal_fleet *f)
{
    if (f == NULL)
        return;
    fetcher_free(f->fetcher);
    assigner_free(f->assigner);
    if (f->client != NULL)
        client_free(f->client);
    if (f->net != NULL)
        net_free(f->net);
    keyfile_free(f->keys);
    free(f->schema);
    lib_fleet_features_free(f);
    if (f->have_job)
        job_free(&f->job);
    free(f);
}

int lib_fleet_job(const struct shoal_fleet *f, const char *what, struct err *e)
{
    if (f->have_job)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s: this library cannot read the job of the tables (%s): is it older than the "
                   "fleet?",
                   what, f->job_why.text);
}

/* ---- tables ---------------------------------------------------------------------------------- */

uint32_t lib_fleet_state_floats(const struct table_schema *s)
{
    uint32_t floats = schema_state_floats(s);
    if (s->rules.stats != 0)
        floats -= (uint32_t)(sizeof(struct row_stats) / sizeof(float));
    return floats;
}

uint32_t shoal_fleet_tables(const shoal_fleet *fleet)
{
    return fleet->sparse;
}

int shoal_fleet_table(const shoal_fleet *fleet, uint32_t index, struct shoal_table *out,
                      struct shoal_error *e)
{
    struct shoal_table t = {.size = out->size};
    if (index >= fleet->sparse || out->size < sizeof out->size)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_fleet_table: the fleet has %u tables, so none of index %u (or "
                             "out->size is not set)",
                             fleet->sparse, index);
    const struct table_schema *s = &fleet->schema[index];
    text_copy(t.name, sizeof t.name, s->name);
    t.width = s->width;
    t.first = s->zero_first;
    t.dim = s->width - s->zero_first;
    t.state = lib_fleet_state_floats(s);
    t.values = s->values;
    t.stats = s->rules.stats != 0;
    t.lr = s->optimizer.lr;
    text_copy(t.optimizer, sizeof t.optimizer, optimizer_facts((uint32_t)s->optimizer.kind)->name);
    memcpy(out, &t, sizeof t < out->size ? sizeof t : out->size);
    return lib_error_none(e);
}

int shoal_fleet_find(const shoal_fleet *fleet, const char *name, uint32_t *index,
                     struct shoal_error *e)
{
    char names[256] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < fleet->sparse; i++) {
        const char *is = fleet->schema[i].name;
        *index = i;
        if (strcmp(is, name) == 0)
            return lib_error_none(e);
        if (at + strlen(is) + 3 < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "", is);
    }
    return lib_error_set(e, SHOAL_ERROR_NOT_FOUND, "there is no table %.63s; there are %s", name,
                         names);
}
