/* reader_live.c: questions to a running cluster: its coordinator, and the shards that it names. */
#include "deploy/cli/reader_inner.h"
#include "proto/base/key.h"
#include "proto/base/machine.h"
#include "proto/base/text.h"
#include "proto/net/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ASK_FILES = 12 /* at most this many descriptors a connection */, DIAL_MS = 1000 };

/* ---- the coordinator ------------------------------------------------------------------------- */

int reader_live_open(struct reader *r, const char *endpoint, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    int rc = cli_ask_open(endpoint, NULL, &r->coordinator, e);
    if (rc == 0)
        rc = cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, NULL, e);
    if (rc != 0) {
        cli_ask_close(r->coordinator);
        r->coordinator = NULL;
        if (rc != SHOAL_E_USAGE)
            err_wrap(e, rc, "coordinator %s", endpoint);
    }
    return rc;
}

int reader_ask_json(struct ask *a, struct wire *w, const struct frame *frame, uint32_t timeout_ms,
                    struct wire *reply, struct json **out, struct err *e)
{
    struct msg *m;
    int rc = cli_ask(a, w, frame, timeout_ms, reply, &m, e);
    if (rc != 0)
        return rc;
    rc = json_parse(m->frame[1].data, m->frame[1].bytes, out, e);
    msg_free(m);
    return rc;
}

int reader_status_within(struct reader *r, uint64_t job, uint32_t timeout_ms, struct json **out,
                         struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS, .u.STATUS.run = job}, reply;
    return reader_ask_json(r->coordinator, &w, NULL, timeout_ms, &reply, out, e);
}

int reader_status(struct reader *r, struct json **out, struct err *e)
{
    return reader_status_within(r, 0, QUESTION_MS, out, e);
}

int reader_jobs(struct reader *r, uint32_t timeout_ms, struct json **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOBS}, reply;
    return reader_ask_json(r->coordinator, &w, NULL, timeout_ms, &reply, out, e);
}

static int live_map(struct reader *r, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MAP_GET, .u.MAP_GET.reads = true}, reply;
    struct msg *m;
    memcpy(w.u.MAP_GET.space, r->space, sizeof r->space);
    int rc = cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc == SHOAL_E_USAGE)
        return err_wrap(e, rc, "--space is missing");
    if (rc != 0)
        return rc;
    const char *is = reply.u.MAP_GET_reply.space;
    if (r->space[0] != 0 && is[0] != 0 && strcmp(r->space, is) != 0) {
        msg_free(m);
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s there, but %s", r->space, is);
    }
    r->tablet_count = reply.u.MAP_GET_reply.tablet_count;
    r->shards = reply.u.MAP_GET_reply.shards;
    r->numbers = WIRE_TABLES_OF(reply.u.MAP_GET_reply);
    if (r->shards > LIMIT_SHARDS) {
        msg_free(m);
        return err_set(e, SHOAL_E_TOO_BIG, "the map names %u shards, at most %u", r->shards,
                       LIMIT_SHARDS);
    }
    r->shard_of = malloc(m->frame[1].bytes + 1);
    r->endpoint = calloc(r->shards + 1, sizeof *r->endpoint);
    r->key = calloc(r->shards + 1, sizeof *r->key);
    if (r->shard_of == NULL || r->endpoint == NULL || r->key == NULL) {
        msg_free(m);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    memcpy(r->shard_of, m->frame[1].data, m->frame[1].bytes);
    const char *line = m->frame[2].data, *end = line + m->frame[2].bytes;
    for (uint32_t i = 0; i < r->shards && line < end; i++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            break;
        const char *blank = memchr(line, ' ', (size_t)(stop - line)),
                   *end_of = text_or(blank, stop);
        (void)snprintf(r->endpoint[i], sizeof r->endpoint[i], "%.*s", (int)(end_of - line), line);
        if (blank != NULL)
            (void)snprintf(r->key[i], sizeof r->key[i], "%.*s", (int)(stop - blank - 1), blank + 1);
        line = stop + 1;
    }
    msg_free(m);
    return 0;
}

static int live_tables(struct reader *r, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wire w = {.type = WIRE_TYPE_TABLE_GET}, reply;
        struct wire_TABLE_CREATE create;
        struct table_schema schema = {.table = 0};
        struct err silent;
        struct msg *m;
        w.u.TABLE_GET.table = i;
        memcpy(w.u.TABLE_GET.space, r->space, sizeof r->space);
        int rc = cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, &m, &silent);
        if (rc == SHOAL_E_NO_TABLE || rc == SHOAL_E_NOT_FOUND)
            return 0;
        if (rc != 0)
            return err_set(e, rc, "%s", silent.text);
        memcpy(&create, &reply.u.TABLE_GET_reply, sizeof create);
        rc = wire_schema_from(&create, &m->frame[1], &schema, e);
        msg_free(m);
        if (rc != 0)
            return rc;
        schema.table = table_set_nth(r->numbers, i);
        rc = reader_schema_add(r, &schema, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int reader_live_known(struct reader *r, struct err *e)
{
    int rc = live_map(r, e);
    if (rc == SHOAL_E_AGAIN) /* no map yet, so no tables */
        return 0;
    if (rc == SHOAL_E_BUSY)
        return e->code = SHOAL_E_UNAVAILABLE;
    if (rc != 0)
        return rc;
    return live_tables(r, e);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void shards_close(struct reader *r)
{
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++) {
        cli_ask_close(r->shard[i]);
        r->shard[i] = NULL;
    }
    r->asked = 0;
}

/* A fleet may have more shards than this process may have connections: they get half of its files.
 * Past that all connections are closed. ZeroMQ closes files a little later, in a thread of its own:
 * the next connection waits for them, two seconds at most. */
static void shard_room(struct reader *r)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    if (r->asked == 0 && r->files == 0)
        r->files = machine_files_open();
    if (r->asked < machine_files() / 2 / ASK_FILES)
        return;
    shards_close(r);
    for (uint32_t i = 0; i < 1000 && machine_files_open() > r->files; i++)
        (void)nanosleep(&moment, NULL);
}

/* out: NULL, or where the answer goes. */
static int hello(struct ask *a, uint32_t timeout_ms, struct wire_HELLO_reply *out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_HELLO, .u.HELLO = {.version = WIRE_VERSION}}, reply;
    (void)snprintf(w.u.HELLO.role, sizeof w.u.HELLO.role, "cli");
    int rc = cli_ask(a, &w, NULL, timeout_ms, &reply, NULL, e);
    if (rc == 0 && out != NULL)
        *out = reply.u.HELLO_reply;
    return rc;
}

int reader_shard(struct reader *r, uint32_t shard, struct ask **out, struct err *e)
{
    if (shard >= r->shards || r->endpoint[shard][0] == 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "shard %u has not registered with the coordinator",
                       shard);
    if (r->shard[shard] == NULL) { /* HELLO first: long questions go only to shards that answer */
        shard_room(r);
        int rc = cli_ask_open(r->endpoint[shard], r->key[shard], &r->shard[shard], e);
        r->asked += rc == 0;
        if (rc == 0)
            rc = hello(r->shard[shard], QUESTION_MS, NULL, e);
        if (rc != 0)
            return err_wrap(e, rc, "shard %u at %s", shard, r->endpoint[shard]);
    }
    *out = r->shard[shard];
    return 0;
}

int reader_map_renew(struct reader *r, struct err *e)
{
    shards_close(r);
    free(r->shard_of);
    free(r->endpoint);
    free(r->key);
    r->shard_of = NULL;
    r->endpoint = NULL;
    r->key = NULL;
    r->tablet_count = r->shards = 0;
    int rc = live_map(r, e);
    if (rc != 0)
        r->tablet_count = r->shards = 0;
    return rc;
}

bool reader_shard_leads(const struct reader *r, uint32_t shard)
{
    for (uint32_t i = 0; i < r->tablet_count; i++)
        if (r->shard_of[i] == shard)
            return true;
    return false;
}

int reader_ask_key(struct reader *r, const struct table_schema *s, uint64_t key, struct wire *w,
                   uint32_t timeout_ms, struct wire *reply, struct json **out, struct err *e)
{
    uint32_t tablet = s->tablet_first + key_tablet(key_mix(key), s->tablet_bits);
    struct ask *shard;
    if (tablet >= r->tablet_count)
        return err_set(e, SHOAL_E_NOT_LEADER, "the map has no tablet %u", tablet);
    int rc = reader_shard(r, r->shard_of[tablet], &shard, e);
    if (rc != 0)
        return rc;
    return reader_ask_json(shard, w, NULL, timeout_ms, reply, out, e);
}

int reader_hello(struct reader *r, struct wire_HELLO_reply *out, struct err *e)
{
    return hello(r->coordinator, DIAL_MS, out, e);
}

int reader_dial(struct reader *r, uint32_t shard, const char *endpoint,
                struct wire_HELLO_reply *out, struct err *e)
{
    struct err none;
    const char *key = "";
    if (r->endpoint == NULL)
        (void)live_map(r, &none);
    if (r->key != NULL && shard < r->shards)
        key = r->key[shard];
    return reader_dial_key(endpoint, key, out, e);
}

int reader_dial_key(const char *endpoint, const char *key, struct wire_HELLO_reply *out,
                    struct err *e)
{
    *out = (struct wire_HELLO_reply){.version = 0};
    struct ask *a;
    char numeric[256];
    bool tcp = strncmp(endpoint, "tcp://", 6) == 0;
    if (tcp && key[0] == 0 && !cli_plain(endpoint))
        return 0;
    int rc = name_resolve(endpoint, numeric, e);
    if (rc == 0)
        rc = cli_ask_open(endpoint, key, &a, e);
    if (rc != 0)
        return rc;
    rc = hello(a, DIAL_MS, out, e);
    cli_ask_close(a);
    return rc;
}
