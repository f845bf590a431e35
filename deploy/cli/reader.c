/* reader.c: finds and opens the place of tables, and answers for every kind of place. */
#include "deploy/cli/reader_inner.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/lockfile.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the place ------------------------------------------------------------------------------- */

static int find_in(const char *folder, struct reader_place *out, struct err *e)
{
    char shard[LIMIT_PATH];
    *out = (struct reader_place){.kind = READER_CHECKPOINT};
    int rc = rights_read(folder, e);
    if (rc != 0)
        return rc;
    text_copy(out->folder, sizeof out->folder, folder);
    if (run_has(folder, MANIFEST_FILE))
        return 0;
    if (!run_is(folder) && !run_shard(folder, 0, shard)) /* servers' folders may lie alone */
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s: neither a checkpoint's folder (it has no " MANIFEST_FILE
                       ") nor that of a run of `shoal local` (no coordinator.yaml), such as "
                       "runs/JOB-DATE-TIME",
                       folder);
    if (run_answers(folder, out->endpoint))
        out->kind = READER_LIVE;
    else if (!run_end(folder, out->folder))
        out->kind = READER_RUN;
    return 0;
}

const char *reader_folder(const struct option_line *o)
{
    const char *from = option_text(o, "from");
    if (from == NULL)
        from = option_text(o, "run-dir");
    if (from != NULL && strcmp(from, "fleet") == 0)
        return NULL;
    return from;
}

int reader_find(const struct option_line *o, struct reader_place *out, struct err *e)
{
    const char *folder = reader_folder(o), *coordinator;
    if (option_given(o, "from") && option_given(o, "run-dir"))
        return err_set(e, SHOAL_E_USAGE, "--from and --run-dir say the same: give one of the two");
    if (folder != NULL)
        return find_in(folder, out, e);

    *out = (struct reader_place){.kind = READER_LIVE};
    int rc = cli_coordinator(o, &coordinator, e);
    if (rc == 0)
        text_copy(out->endpoint, sizeof out->endpoint, coordinator);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* space: NULL: the only one's. */
static int open_at(const struct reader_place *at, bool rows, const char *space, struct reader **out,
                   struct err *e)
{
    struct reader *r = calloc(1, sizeof *r);
    int rc = 0;
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    text_copy(r->space, sizeof r->space, text_or(space, ""));
    if (space != NULL && strlen(space) >= sizeof r->space)
        rc =
            err_set(e, SHOAL_E_USAGE, "--space: a name has at most %zu bytes", sizeof r->space - 1);
    if (rc != 0) {
        reader_close(r);
        return rc;
    }
    switch (at->kind) {
    case READER_LIVE:
        rc = reader_live_open(r, at->endpoint, e);
        if (rc == 0 && rows)
            rc = reader_live_known(r, e);
        break;
    case READER_RUN:
        rc = reader_run_open(r, at->folder, e);
        break;
    case READER_CHECKPOINT:
        rc = reader_checkpoint_open(r, at->folder, e);
        break;
    }
    if (rc != 0) {
        reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void reader_lacks_note(const struct reader *r, const char *folder)
{
    char lacks[LACKS_BYTES];
    text_copy(lacks, sizeof lacks, r->lacks);
    if (lacks[0] != 0)
        fprintf(stderr, "note: %s: %s\n", folder, text_clean(lacks));
}

int reader_open_space(const struct option_line *o, const char *space, struct reader **out,
                      struct err *e)
{
    struct reader_place at;
    int rc = reader_find(o, &at, e);
    if (rc == 0)
        rc = open_at(&at, true, space, out, e);
    if (rc == 0)
        reader_lacks_note(*out, at.folder);
    return rc;
}

int reader_open(const struct option_line *o, struct reader **out, struct err *e)
{
    return reader_open_space(o, option_text(o, "space"), out, e);
}

int reader_open_in(const char *folder, const char *space, struct reader **out, struct err *e)
{
    struct reader_place at;
    int rc = find_in(folder, &at, e);
    if (rc != 0)
        return rc;
    if (at.kind == READER_LIVE)
        return err_set(e, SHOAL_E_BUSY,
                       "the run in %s goes on: make a checkpoint, `shoal checkpoint create "
                       "--run-dir %s`, and read that",
                       folder, folder);
    return open_at(&at, true, space, out, e);
}

/* The error for a run whose coordinator does not answer. */
static int silent(const char *run_dir, struct err *e)
{
    int fd = lockfile_take(run_dir, 0);
    if (fd < 0 && errno == EWOULDBLOCK)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the coordinator of the run in %s does not answer yet: ask again, or see "
                       "%s/log",
                       run_dir, run_dir);
    if (fd >= 0)
        close(fd);
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "the run in %s is over and left no report: it failed or was killed; see %s/log",
                   run_dir, run_dir);
}

int reader_open_live(const struct option_line *o, struct reader **out, struct err *e)
{
    struct reader_place at;
    int rc = reader_find(o, &at, e);
    if (rc != 0)
        return rc;
    if (at.kind == READER_LIVE)
        return open_at(&at, false, NULL, out, e);
    if (at.kind == READER_RUN)
        return silent(at.folder, e);
    return err_set(e, SHOAL_E_NOINPUT, "%s: no coordinator runs for a checkpoint", at.folder);
}

void reader_close(struct reader *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < r->tables; i++)
        free(r->schema[i]);
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++)
        cli_ask_close(r->shard[i]);
    for (uint32_t i = 0; i < r->engines; i++)
        (void)engine_close(r->engine[i], false);
    if (r->net != NULL)
        net_free(r->net);
    cli_ask_close(r->coordinator);
    checkpoint_close(r->checkpoint);
    free(r->shard_of);
    free(r->endpoint);
    free(r->key);
    free(r->folder);
    free(r);
}

/* ---- tables ---------------------------------------------------------------------------------- */

int reader_schema_add(struct reader *r, const struct table_schema *s, struct err *e)
{
    struct table_schema *own = malloc(sizeof *own);
    if (own == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    *own = *s;
    r->schema[r->tables++] = own;
    return 0;
}

uint32_t reader_tables(const struct reader *r)
{
    return r->tables;
}

const struct table_schema *reader_schema(const struct reader *r, uint32_t index)
{
    return r->schema[index];
}

int reader_table(const struct reader *r, const char *name, uint32_t *index, struct err *e)
{
    char names[256] = "";
    for (uint32_t i = 0; i < r->tables; i++) {
        if (strcmp(r->schema[i]->name, name) == 0) {
            *index = i;
            return 0;
        }
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, "%s%s", text_if(n > 0, ", "),
                       r->schema[i]->name);
    }
    return err_set(e, SHOAL_E_NOT_FOUND, "no table %s; there are: %s", name,
                   text_unless_empty(names, "none yet"));
}

uint32_t reader_lacks(const struct reader *r, uint32_t index)
{
    return r->lost[index];
}

const char *reader_lacks_text(const struct reader *r)
{
    return r->lacks;
}

/* ---- rows and figures ------------------------------------------------------------------------ */

struct digests {
    uint64_t *tablet; /* (tablets), owned */
    uint32_t tablets;
    uint64_t rows;
};

static int live_digests(struct reader *r, uint32_t table, struct digests *d, struct err *e)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        if (!reader_shard_leads(r, i))
            continue;
        struct wire w = {.type = WIRE_TYPE_DIGEST}, reply;
        struct ask *shard;
        struct msg *m;
        w.u.DIGEST.table = table;
        int rc = reader_shard(r, i, &shard, e);
        if (rc == 0)
            rc = cli_ask(shard, &w, NULL, LONG_QUESTION_MS, &reply, &m, e);
        if (rc != 0)
            return rc;
        uint32_t first = reply.u.DIGEST_reply.tablet_first,
                 count = reply.u.DIGEST_reply.tablet_count;
        d->rows += reply.u.DIGEST_reply.rows;
        const uint64_t *value = m->frame[1].data;
        for (uint32_t t = 0; first <= d->tablets && t < count && t < d->tablets - first; t++)
            if (value[t] != 0) /* else it is empty, or another shard leads it */
                d->tablet[first + t] = value[t];
        msg_free(m);
    }
    return 0;
}

static int digest_use(void *context, const struct table *t, uint32_t tablet)
{
    struct digests *d = context;
    d->rows += table_tablet_rows(t, tablet);
    return table_digest(t, tablet, &d->tablet[tablet]);
}

int reader_digest(struct reader *r, uint32_t index, uint64_t *rows, uint64_t *digest, struct err *e)
{
    const struct table_schema *s = r->schema[index];
    struct digests d = {.tablets = 1u << s->tablet_bits};
    int rc;
    d.tablet = calloc(d.tablets, sizeof *d.tablet);
    if (d.tablet == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (r->coordinator != NULL)
        rc = live_digests(r, s->table, &d, e);
    else
        rc = reader_tablets(r, index, digest_use, &d, e);
    *rows = d.rows;
    *digest = hash_bytes(d.tablet, 8ull * d.tablets, 0);
    free(d.tablet);
    return rc;
}

int reader_inspect(struct reader *r, uint32_t index, uint64_t key, bool *found, struct json **out,
                   struct err *e)
{
    const struct table_schema *s = r->schema[index];
    struct wire w = {.type = WIRE_TYPE_INSPECT, .u.INSPECT = {s->table, key}}, reply;
    *found = false;
    *out = NULL;
    if (r->coordinator == NULL)
        return reader_kept_row(r, index, key, found, out, e);
    int rc = reader_ask_key(r, s, key, &w, QUESTION_MS, &reply, out, e);
    *found = rc == 0 && reply.u.INSPECT_reply.found;
    return rc;
}

static int live_census(struct reader *r, const struct table_schema *s,
                       const struct census_ask *wish, struct census *sum, struct err *e)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        if (!reader_shard_leads(r, i))
            continue;
        struct wire w = {.type = WIRE_TYPE_TABLE_STATS}, reply;
        struct json *part = NULL;
        struct ask *shard;
        w.u.TABLE_STATS = (struct wire_TABLE_STATS){s->table,    wish->what_if, wish->shows,
                                                    wish->score, wish->ttl,     wish->rows};
        int rc = reader_shard(r, i, &shard, e);
        if (rc == 0)
            rc = reader_ask_json(shard, &w, NULL, LONG_QUESTION_MS, &reply, &part, e);
        if (rc == 0)
            rc = census_add_json(sum, part, e);
        json_free(part);
        if (rc != 0)
            return rc;
    }
    return 0;
}

struct counting {
    const struct reader *reader;
    struct census *sum;
};

static int census_use(void *context, const struct table *t, uint32_t tablet)
{
    const struct counting *c = context;
    const struct table *own = c->reader->own;
    return census_add_tablet(c->sum, t, tablet, own != NULL ? own : t);
}

int reader_census(struct reader *r, uint32_t index, const struct census_ask *wish,
                  struct census **out, struct err *e)
{
    int rc = census_new(r->schema[index], wish, out, e);
    if (rc != 0)
        return rc;
    struct counting c = {r, *out};
    if (r->coordinator != NULL)
        rc = live_census(r, r->schema[index], wish, *out, e);
    else
        rc = reader_tablets(r, index, census_use, &c, e);
    if (rc != 0)
        census_free(*out);
    return rc;
}

/* Takes what a shard tells of the tablets that the map gives to it. */
static void heat_take(const struct reader *r, const struct table_schema *s, uint32_t shard,
                      const struct wire_HEAT_reply *reply, const struct wire_heat *in,
                      struct reader_heat *out)
{
    uint32_t tablets = 1u << s->tablet_bits;
    for (uint32_t i = 0; i < reply->tablet_count && reply->tablet_first < tablets - i; i++) {
        uint32_t t = reply->tablet_first + i;
        if (s->tablet_first + t < r->tablet_count && r->shard_of[s->tablet_first + t] == shard)
            out[t] =
                (struct reader_heat){shard, in[i].rows, in[i].bytes, in[i].pull_ns, in[i].push_ns};
    }
}

int reader_heat(struct reader *r, uint32_t index, struct reader_heat *out, struct err *e)
{
    const struct table_schema *s = r->schema[index];
    if (r->coordinator == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the load of tablets is known while servers run: this run has ended, or "
                       "this is a checkpoint");
    for (uint32_t i = 0; i < r->shards; i++) {
        if (!reader_shard_leads(r, i))
            continue;
        struct wire w = {.type = WIRE_TYPE_HEAT, .u.HEAT.table = s->table}, reply;
        struct ask *shard;
        struct msg *m;
        int rc = reader_shard(r, i, &shard, e);
        if (rc == 0)
            rc = cli_ask(shard, &w, NULL, QUESTION_MS, &reply, &m, e);
        if (rc != 0)
            return rc;
        heat_take(r, s, i, &reply.u.HEAT_reply, m->frame[1].data, out);
        msg_free(m);
    }
    return 0;
}

struct visiting {
    void (*visit)(void *context, const void *row);
    void *context;
};

static int visit_use(void *context, const struct table *t, uint32_t tablet)
{
    const struct visiting *v = context;
    table_visit(t, tablet, v->visit, v->context);
    return 0;
}

int reader_visit(struct reader *r, uint32_t index, void (*visit)(void *context, const void *row),
                 void *context, struct err *e)
{
    struct visiting v = {visit, context};
    SHOAL_ASSERT(r->coordinator == NULL);
    return reader_tablets(r, index, visit_use, &v, e);
}

static int live_job(struct reader *r, char **text, size_t *bytes, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOB_TEXT}, reply;
    struct msg *m;
    memcpy(w.u.JOB_TEXT.space, r->space, sizeof r->space);
    int rc = cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc == SHOAL_E_AGAIN) /* there was no job */
        return 0;
    if (rc != 0)
        return rc;
    *bytes = m->frame[1].bytes;
    *text = strndup(m->frame[1].data, *bytes);
    msg_free(m);
    if (*text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

int reader_job(struct reader *r, char **text, size_t *bytes, struct err *e)
{
    *text = NULL;
    *bytes = 0;
    if (r->coordinator != NULL)
        return live_job(r, text, bytes, e);
    return reader_kept_job(r, text, bytes, e);
}
