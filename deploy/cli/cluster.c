/* cluster.c: the two ways to read tables: questions over the wire, and engines opened on
 * folders. */
#include "deploy/cli/cluster_inner.h"
#include "deploy/cli/hold.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/lockfile.h"
#include "proto/base/machine.h"
#include "proto/job/keys.h"
#include "proto/job/legend.h"
#include "proto/net/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_FILES = 8 /* about this many descriptors a connection */, DIAL_MS = 3000 };

/* ---- live ------------------------------------------------------------------------------------ */

static int live_map(struct cluster *c, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MAP_GET, .u.MAP_GET.reads = true}, reply;
    struct msg *m;
    int rc = cli_ask(c->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    c->tablet_count = reply.u.MAP_GET_reply.tablet_count;
    c->shards = reply.u.MAP_GET_reply.shards;
    c->numbers = reply.u.MAP_GET_reply.tables;
    if (c->shards > LIMIT_SHARDS) {
        msg_free(m);
        return err_set(e, SHOAL_E_TOO_BIG, "the map names %u shards, at most %u", c->shards,
                       LIMIT_SHARDS);
    }
    c->shard_of = malloc(m->frame[1].bytes + 1);
    c->endpoint = calloc(c->shards + 1, sizeof *c->endpoint);
    c->key = calloc(c->shards + 1, sizeof *c->key);
    if (c->shard_of == NULL || c->endpoint == NULL || c->key == NULL) {
        msg_free(m);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    memcpy(c->shard_of, m->frame[1].data, m->frame[1].bytes);
    const char *line = m->frame[2].data, *end = line + m->frame[2].bytes;
    for (uint32_t i = 0; i < c->shards && line < end; i++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            break;
        const char *blank = memchr(line, ' ', (size_t)(stop - line)),
                   *end_of = blank != NULL ? blank : stop;
        (void)snprintf(c->endpoint[i], sizeof c->endpoint[i], "%.*s", (int)(end_of - line), line);
        if (blank != NULL)
            (void)snprintf(c->key[i], sizeof c->key[i], "%.*s", (int)(stop - blank - 1), blank + 1);
        line = stop + 1;
    }
    msg_free(m);
    return 0;
}

static int live_tables(struct cluster *c, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wire w = {.type = WIRE_TYPE_TABLE_GET}, reply;
        struct wire_TABLE_CREATE create;
        struct err silent;
        struct msg *m;
        w.u.TABLE_GET.table = i;
        int rc = cli_ask(c->coordinator, &w, NULL, QUESTION_MS, &reply, &m, &silent);
        if (rc == SHOAL_E_NO_TABLE || rc == SHOAL_E_NOT_FOUND)
            return 0;
        if (rc != 0)
            return err_set(e, rc, "%s", silent.text);
        memcpy(&create, &reply.u.TABLE_GET_reply, sizeof create);
        c->schema[c->tables] = calloc(1, sizeof *c->schema[0]);
        rc = c->schema[c->tables] == NULL
                 ? err_set(e, SHOAL_E_NOMEM, "out of memory")
                 : wire_schema_from(&create, &m->frame[1], c->schema[c->tables], e);
        msg_free(m);
        if (rc != 0)
            return rc;
        c->schema[c->tables]->table = wire_table_number(c->numbers, i);
        c->tables++;
    }
    return 0;
}

/* A fleet may have more shards than this process may have connections: they get half of its files.
 * Past that all connections are closed. */
static void shard_room(struct cluster *c)
{
    if (c->asked < machine_files() / 2 / ASK_FILES)
        return;
    for (uint32_t i = 0; i < c->shards; i++) {
        cli_ask_close(c->shard[i]);
        c->shard[i] = NULL;
    }
    c->asked = 0;
}

int cluster_shard(struct cluster *c, uint32_t shard, struct ask **out, struct err *e)
{
    if (shard >= c->shards || c->endpoint[shard][0] == 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "shard %u has not registered with the coordinator",
                       shard);
    if (c->shard[shard] == NULL) { /* HELLO first: long questions go only to shards that answer */
        struct wire w = {.type = WIRE_TYPE_HELLO, .u.HELLO = {.version = WIRE_VERSION}}, reply;
        (void)snprintf(w.u.HELLO.role, sizeof w.u.HELLO.role, "cli");
        shard_room(c);
        int rc = cli_ask_open(c->endpoint[shard], c->key[shard], &c->shard[shard], e);
        c->asked += rc == 0;
        if (rc == 0)
            rc = cli_ask(c->shard[shard], &w, NULL, QUESTION_MS, &reply, NULL, e);
        if (rc != 0)
            return err_wrap(e, rc, "shard %u at %s", shard, c->endpoint[shard]);
    }
    *out = c->shard[shard];
    return 0;
}

int cluster_dial(struct cluster *c, uint32_t shard, const char *endpoint, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_HELLO, .u.HELLO = {.version = WIRE_VERSION}}, reply;
    struct ask *a;
    struct err none;
    char numeric[256];
    bool tcp = strncmp(endpoint, "tcp://", 6) == 0;
    (void)snprintf(w.u.HELLO.role, sizeof w.u.HELLO.role, "cli");
    if (c->endpoint == NULL)
        (void)live_map(c, &none);
    const char *key = c->key != NULL && shard < c->shards ? c->key[shard] : "";
    if (tcp && key[0] == 0 && !cli_plain(endpoint))
        return 0;
    int rc = name_resolve(endpoint, numeric, e);
    if (rc == 0)
        rc = cli_ask_open(endpoint, key, &a, e);
    if (rc != 0)
        return rc;
    rc = cli_ask(a, &w, NULL, DIAL_MS, &reply, NULL, e);
    cli_ask_close(a);
    return rc;
}

/* ---- offline --------------------------------------------------------------------------------- */

/* Locks the folder of a shard's server. A server that is ending is waited for; one that starts
 * meanwhile waits for this process. */
static int offline_hold(const char *shard, char held[2 * LIMIT_PATH], struct err *e)
{
    const char *end = strrchr(shard, '/');
    int bytes = (int)(end - shard);
    if (strncmp(held, shard, (size_t)bytes) == 0 && held[bytes] == 0)
        return 0;
    (void)snprintf(held, 2 * LIMIT_PATH, "%.*s", bytes, shard);
    return hold_take(held, LOCKFILE_WAIT_MS, NULL, e);
}

static int offline_open(struct cluster *c, const char *run_dir, struct err *e)
{
    char held[2 * LIMIT_PATH] = "";
    struct net_options none = {0};
    glob_t found;
    /* An engine on a folder without rows would create some, and then a server with rows in memory
     * would no longer start. */
    int rc = run_take(run_dir, HOLD_WAIT_MS, e);
    if (rc != 0)
        return rc;
    (void)snprintf(c->job, sizeof c->job, "%s/job.yaml", run_dir);
    rc = run_shards(run_dir, &found, e);
    if (rc == 0)
        rc = net_new(&none, &c->net, e);
    c->folder = calloc(found.gl_pathc, sizeof *c->folder);
    if (rc == 0 && c->folder == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < found.gl_pathc && i < LIMIT_SHARDS && rc == 0; i++) {
        (void)snprintf(c->folder[i], sizeof c->folder[i], "%s", found.gl_pathv[i]);
        struct engine_options options = {.dir = c->folder[i], .durability = DURABLE_JOURNAL};
        char archive[LIMIT_PATH + 16];
        (void)snprintf(archive, sizeof archive, "%s/archive", c->folder[i]);
        if (access(archive, F_OK) == 0)
            options.journal_keep = UINT64_MAX; /* nothing in the archive is dropped */
        rc = offline_hold(c->folder[i], held, e);
        if (rc == 0)
            rc = engine_open(&options, net_env(c->net), &c->engine[i], e);
        if (rc == 0)
            c->engines++;
    }
    globfree(&found);
    for (uint32_t t = 0; t < LIMIT_TABLES && rc == 0 && c->engines > 0; t++) {
        struct table *table = engine_table(c->engine[0], t);
        if (table == NULL)
            continue;
        c->schema[c->tables] = malloc(sizeof *c->schema[0]);
        if (c->schema[c->tables] == NULL)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        *c->schema[c->tables++] = *table_schema_of(table);
    }
    return rc;
}

static int offline_digest(struct cluster *c, uint32_t table, uint64_t *tablet_digest,
                          uint32_t tablets, uint64_t *rows, struct err *e)
{
    for (uint32_t i = 0; i < c->engines; i++) {
        if (engine_table(c->engine[i], table) == NULL)
            continue;
        for (uint32_t k = 0; k < tablets; k++) {
            uint64_t digest;
            const struct table *t = engine_whole(c->engine[i], table, k, e);
            if (t == NULL)
                return err_wrap(e, e->code, "%s", c->folder[i]);
            if (table_tablet_rows(t, k) == 0)
                continue;
            if (table_digest(t, k, &digest) != 0)
                return err_set(e, SHOAL_E_NOMEM, "out of memory");
            *rows += table_tablet_rows(t, k);
            tablet_digest[k] = digest;
        }
    }
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int live_open(struct cluster *c, const char *endpoint, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    int rc = cli_ask_open(endpoint, NULL, &c->coordinator, e);
    if (rc == 0)
        rc = cli_ask(c->coordinator, &w, NULL, QUESTION_MS, &reply, NULL, e);
    if (rc != 0) {
        cli_ask_close(c->coordinator);
        c->coordinator = NULL;
        return rc == SHOAL_E_USAGE ? rc : err_wrap(e, rc, "coordinator %s", endpoint);
    }
    return 0;
}

/* Loads map and tables of a running cluster. UNAVAILABLE while a job has yet to make its own
 * tables: the servers' tables are unknown then, which is not the same as no tables. */
static int live_known(struct cluster *c, struct err *e)
{
    int rc = live_map(c, e);
    if (rc == SHOAL_E_AGAIN) /* no map yet, so no tables */
        return 0;
    if (rc == SHOAL_E_BUSY)
        return e->code = SHOAL_E_UNAVAILABLE;
    return rc != 0 ? rc : live_tables(c, e);
}

/* rows: map and tables are loaded, and a run whose coordinator does not answer is opened from its
 * folders. Without rows *out is NULL for such a run. */
static int open_any(const char *coordinator, const char *run_dir, bool rows, struct cluster **out,
                    struct err *e)
{
    int rc = 0;
    char endpoint[256];
    struct cluster *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (coordinator == NULL && run_answers(run_dir, endpoint))
        coordinator = endpoint;
    if (coordinator != NULL)
        rc = live_open(c, coordinator, e);
    else if (rows)
        rc = offline_open(c, run_dir, e);
    if (rc == 0 && rows && cluster_live(c))
        rc = live_known(c, e);
    if (rc != 0 || (!rows && !cluster_live(c))) {
        cluster_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

int cluster_open(const char *coordinator, const char *run_dir, struct cluster **out, struct err *e)
{
    return open_any(coordinator, run_dir, true, out, e);
}

static int open_option(const struct option_line *o, bool rows, struct cluster **out, struct err *e)
{
    const char *coordinator = option_text(o, "coordinator"), *run_dir = option_text(o, "run-dir");
    int rc = run_dir == NULL ? cli_coordinator(o, &coordinator, e) : 0;
    return rc != 0 ? rc : open_any(coordinator, run_dir, rows, out, e);
}

int cluster_open_option(const struct option_line *o, struct cluster **out, struct err *e)
{
    return open_option(o, true, out, e);
}

int cluster_open_live(const struct option_line *o, struct cluster **out, struct err *e)
{
    char endpoint[256];
    const char *run_dir = option_text(o, "run-dir");
    int rc = run_dir != NULL ? rights_read(run_dir, e) : 0;
    if (rc != 0)
        return rc;
    if (run_dir != NULL && !run_endpoint(run_dir, endpoint)) /* nor is it locked then */
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s holds no coordinator.yaml; give a run folder of `shoal local`, such as "
                       "runs/JOB-DATE-TIME",
                       run_dir);
    rc = open_option(o, false, out, e);
    if (rc != 0 || *out != NULL)
        return rc;
    int fd = lockfile_take(run_dir, 0);
    bool starts = fd < 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return starts ? err_set(e, SHOAL_E_UNAVAILABLE,
                            "the coordinator of the run in %s does not answer yet: ask again, or "
                            "see %s/log",
                            run_dir, run_dir)
                  : err_set(e, SHOAL_E_UNAVAILABLE,
                            "the run in %s is over and left no report: it failed or was killed; "
                            "see %s/log",
                            run_dir, run_dir);
}

void cluster_close(struct cluster *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->tables; i++)
        free(c->schema[i]);
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++)
        cli_ask_close(c->shard[i]);
    for (uint32_t i = 0; i < c->engines; i++)
        (void)engine_close(c->engine[i], false);
    if (c->net != NULL)
        net_free(c->net);
    cli_ask_close(c->coordinator);
    free(c->shard_of);
    free(c->endpoint);
    free(c->key);
    free(c->folder);
    free(c);
}

bool cluster_live(const struct cluster *c)
{
    return c->coordinator != NULL;
}

uint32_t cluster_tables(const struct cluster *c)
{
    return c->tables;
}

const struct table_schema *cluster_schema(const struct cluster *c, uint32_t index)
{
    return c->schema[index];
}

int cluster_table(const struct cluster *c, const char *name, uint32_t *index, struct err *e)
{
    char names[256] = "";
    for (uint32_t i = 0; i < c->tables; i++) {
        if (strcmp(c->schema[i]->name, name) == 0) {
            *index = i;
            return 0;
        }
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", c->schema[i]->name);
    }
    return err_set(e, SHOAL_E_NOT_FOUND, "no table %s; there are: %s", name,
                   names[0] != 0 ? names : "none yet");
}

static int live_digest(struct cluster *c, uint32_t table, uint64_t *tablet_digest, uint32_t tablets,
                       uint64_t *rows, struct err *e)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        struct wire w = {.type = WIRE_TYPE_DIGEST}, reply;
        struct ask *shard;
        struct msg *m;
        w.u.DIGEST.table = table;
        int rc = cluster_shard(c, i, &shard, e);
        if (rc == 0)
            rc = cli_ask(shard, &w, NULL, LONG_QUESTION_MS, &reply, &m, e);
        if (rc != 0)
            return rc;
        uint32_t first = reply.u.DIGEST_reply.tablet_first,
                 count = reply.u.DIGEST_reply.tablet_count;
        *rows += reply.u.DIGEST_reply.rows;
        if (first <= tablets && count <= tablets - first && count > 0)
            memcpy(tablet_digest + first, m->frame[1].data, 8ull * count);
        msg_free(m);
    }
    return 0;
}

int cluster_digest(struct cluster *c, uint32_t index, uint64_t *rows, uint64_t *digest,
                   struct err *e)
{
    const struct table_schema *s = c->schema[index];
    uint32_t tablets = 1u << s->tablet_bits;
    uint64_t *tablet_digest = calloc(tablets, sizeof *tablet_digest);
    if (tablet_digest == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    *rows = 0;
    int rc = cluster_live(c) ? live_digest(c, s->table, tablet_digest, tablets, rows, e)
                             : offline_digest(c, s->table, tablet_digest, tablets, rows, e);
    *digest = hash_bytes(tablet_digest, 8ull * tablets, 0);
    free(tablet_digest);
    return rc;
}

static int live_job(struct cluster *c, char **text, size_t *bytes, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOB_TEXT}, reply;
    struct msg *m;
    int rc = cli_ask(c->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc == SHOAL_E_AGAIN ? 0 : rc; /* there was no job */
    *bytes = m->frame[1].bytes;
    *text = strndup(m->frame[1].data, *bytes);
    msg_free(m);
    return *text != NULL ? 0 : err_set(e, SHOAL_E_NOMEM, "out of memory");
}

/* The newest names that a shard keeps; job.yaml has none before its run trains. */
static int names_kept(const struct cluster *c, struct legend *out, struct err *e)
{
    const struct engine_names *newest = NULL;
    for (uint32_t i = 0; i < c->engines; i++) {
        const struct engine_names *n = engine_names(c->engine[i]);
        if (n->version > (newest == NULL ? 0 : newest->version))
            newest = n;
    }
    return newest == NULL ? 0 : legend_parse(newest->line, newest->bytes, out, e);
}

static int offline_job(struct cluster *c, char **text, size_t *bytes, struct err *e)
{
    struct legend names = {.input = NULL};
    char *named = NULL;
    size_t named_bytes;
    if (file_read_whole(c->job, LIMIT_CONFIG_BYTES + LEGEND_BYTES_MAX, text, bytes) != 0)
        return errno == ENOENT
                   ? 0
                   : err_set(e, SHOAL_E_IO, "cannot read %s: %s", c->job, strerror(errno));
    int rc = names_kept(c, &names, e);
    if (rc == 0 && legend_known(&names)) {
        rc = legend_put(*text, *bytes, &names, &named, &named_bytes, e);
        free(*text);
        *text = named;
        *bytes = rc == 0 ? named_bytes : 0;
    }
    legend_free(&names);
    return rc;
}

int cluster_job(struct cluster *c, char **text, size_t *bytes, struct err *e)
{
    *text = NULL;
    *bytes = 0;
    return cluster_live(c) ? live_job(c, text, bytes, e) : offline_job(c, text, bytes, e);
}

int cluster_status(struct cluster *c, struct json **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct msg *m;
    int rc = cli_ask(c->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    rc = json_parse(m->frame[1].data, m->frame[1].bytes, out, e);
    msg_free(m);
    return rc;
}
