/* reader_audit.c: `blame` and `erase`: questions to shards and to the coordinator. */
#include "deploy/cli/reader_inner.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SCRUB_MS = 3600000, BUSY_TRIES = 60 };

/* ---- blame ----------------------------------------------------------------------------------- */

/* The findings of a search so far. */
struct blamed {
    struct json *list; /* owned; pushes */
    struct json *away; /* owned; the shards that were not searched, and why */
    bool complete;     /* the journals that were searched reach back to their beginnings */
};

/* Searches one shard for the pushes that the limit leaves room for. */
static int shard_blame(struct reader *r, uint32_t at, struct wire w, struct blamed *b,
                       struct err *e)
{
    struct wire reply;
    struct json *part = NULL;
    struct ask *shard;
    w.u.BLAME.limit -= (uint32_t)json_count(b->list);
    int rc = reader_shard(r, at, &shard, e);
    if (rc == 0)
        rc = reader_ask_json(shard, &w, NULL, LONG_QUESTION_MS, &reply, &part, e);
    if (rc != 0)
        return rc;
    b->complete &= reply.u.BLAME_reply.complete;
    for (size_t i = 0; i < json_count(part); i++) {
        struct json *push = json_hold(json_array_at(part, i));
        (void)json_set_int(push, "shard", at);
        (void)json_append(b->list, push);
    }
    json_free(part);
    return 0;
}

/* The tablet of the key may have moved: the shards that led it before have its older pushes. The
 * shard that leads it now comes first, and must answer. */
static int live_blame(struct reader *r, const struct table_schema *s, uint64_t key, uint32_t limit,
                      struct blamed *b, struct err *e)
{
    uint32_t tablet = s->tablet_first + key_tablet(key_mix(key), s->tablet_bits);
    const struct wire w = {.type = WIRE_TYPE_BLAME, .u.BLAME = {s->table, key, limit}};
    if (tablet >= r->tablet_count)
        return err_set(e, SHOAL_E_NOT_LEADER, "the map has no tablet %u", tablet);
    int rc = shard_blame(r, r->shard_of[tablet], w, b, e);
    for (uint32_t at = 0; rc == 0 && at < r->shards; at++) {
        struct err why = {0};
        if (at == r->shard_of[tablet] || r->endpoint[at][0] == 0) /* the number is retired */
            continue;
        if (json_count(b->list) >= limit) { /* older ones than these */
            b->complete = false;
            break;
        }
        int refused = shard_blame(r, at, w, b, &why);
        if (refused == 0 || refused == SHOAL_E_NO_TABLE)
            continue;
        b->complete = false;
        struct json *one = json_new_object();
        (void)json_set_int(one, "shard", at);
        (void)json_set_string(one, "why", why.text);
        (void)json_append(b->away, one);
    }
    return rc;
}

struct run_blame {
    struct env *env;
    struct json *list;
    bool complete;
    int status;
    struct err *err;
};

static void run_done(void *context, int status, const char *text, const struct blame_entry *entry,
                     uint32_t count, bool complete)
{
    struct run_blame *b = context;
    if (status != 0)
        b->status = err_set(b->err, status, "%s", text);
    b->complete = complete;
    for (uint32_t i = 0; i < count; i++)
        (void)json_append(b->list, engine_blame_json(&entry[i]));
    env_stop(b->env);
}

/* A tablet may have moved, so several folders may have pushes of the key. */
static int run_blame(struct reader *r, const struct table_schema *s, uint64_t key, uint32_t limit,
                     struct blamed *to, struct err *e)
{
    for (uint32_t i = 0; i < r->engines; i++) {
        struct run_blame b = {.env = net_env(r->net), .list = to->list, .err = e};
        int rc = engine_blame(r->engine[i], s->table, key, limit, run_done, &b, e);
        if (rc == SHOAL_E_NO_TABLE)
            continue;
        if (rc == 0) {
            net_run(r->net);
            rc = b.status;
        }
        if (rc != 0)
            return rc;
        to->complete &= b.complete;
    }
    return 0;
}

/* Asks the coordinator for the senders of one run's pushes, and adds them to the pushes. */
static int who_of_run(struct reader *r, struct json *list, int64_t run, struct err *e)
{
    struct wire_batch_name *name = calloc(WIRE_WHO_MAX, sizeof *name);
    struct json **at = calloc(WIRE_WHO_MAX, sizeof *at);
    struct wire w = {.type = WIRE_TYPE_WHO}, reply;
    struct json *answer = NULL;
    uint32_t count = 0;
    for (size_t i = 0; name != NULL && at != NULL && i < json_count(list) && count < WIRE_WHO_MAX;
         i++) {
        struct json *p = json_array_at(list, i);
        if (json_get_int(p, "run", -1) != run || json_get(p, "who") != NULL)
            continue;
        at[count] = p;
        name[count++] = (struct wire_batch_name){(uint64_t)json_get_int(p, "generation", 0),
                                                 (uint64_t)json_get_int(p, "batch", 0),
                                                 (uint32_t)json_get_int(p, "lane", 0), 0};
    }
    const struct frame frame = {.data = name, .bytes = count * sizeof *name};
    w.u.WHO = (struct wire_WHO){(uint64_t)run, count};
    int rc;
    if (count == 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else
        rc = reader_ask_json(r->coordinator, &w, &frame, QUESTION_MS, &reply, &answer, e);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        (void)json_set(at[i], "who",
                       json_absent(json_array_at(answer, i)) ? json_new_null()
                                                             : json_hold(json_array_at(answer, i)));
    json_free(answer);
    free(name);
    free(at);
    return rc;
}

int reader_blame(struct reader *r, uint32_t index, uint64_t key, uint32_t limit, struct json **out,
                 struct err *e)
{
    const struct table_schema *s = r->schema[index];
    int rc;
    if (r->checkpoint != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "a checkpoint has rows and no pushes: blame asks a run or a cluster");
    struct blamed b = {json_new_array(), json_new_array(), true};
    if (r->coordinator != NULL)
        rc = live_blame(r, s, key, limit, &b, e);
    else
        rc = run_blame(r, s, key, limit, &b, e);
    for (size_t i = 0; rc == 0 && r->coordinator != NULL && i < json_count(b.list); i++) {
        struct json *p = json_array_at(b.list, i);
        if (json_get(p, "who") == NULL)
            rc = who_of_run(r, b.list, json_get_int(p, "run", 0), e);
    }
    if (rc != 0) {
        json_free(b.list);
        json_free(b.away);
        return rc;
    }
    *out = json_new_object();
    (void)json_set_string(*out, "table", s->name);
    (void)json_set_hex(*out, "key", key);
    (void)json_set_bool(*out, "complete", b.complete);
    (void)json_set(*out, "pushes", b.list);
    (void)json_set(*out, "not_asked", b.away);
    return 0;
}

/* ---- erase ----------------------------------------------------------------------------------- */

static int scrub_ask(struct ask *shard, uint32_t table, const uint64_t *keys, uint32_t count,
                     uint64_t *sequence, struct err *e)
{
    struct wire reply;
    const struct frame frame = {.data = (void *)(uintptr_t)keys, .bytes = count * sizeof *keys};
    int rc = SHOAL_E_BUSY;
    for (int i = 0; (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN) && i < BUSY_TRIES; i++) {
        struct wire w = {.type = WIRE_TYPE_KEYS};
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        w.u.KEYS = (struct wire_KEYS){table, WIRE_KEY_SCRUB, count};
        rc = cli_ask(shard, &w, &frame, SCRUB_MS, &reply, NULL, e);
    }
    if (rc == 0)
        *sequence = reply.u.KEYS_reply.changed;
    return rc;
}

/* The cuts that the shard keeps: their files still contain the keys. */
static int shard_cuts(struct ask *shard, struct json **cuts, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_STATUS}, reply;
    struct json *status_json = NULL;
    int rc = reader_ask_json(shard, &w, NULL, QUESTION_MS, &reply, &status_json, e);
    if (rc != 0)
        return rc;
    *cuts = json_hold(json_get(status_json, "cuts"));
    json_free(status_json);
    return rc;
}

/* An erasing, on one shard after another. */
struct erasing {
    const struct table_schema *schema;
    const uint64_t *keys; /* (count) */
    uint32_t count;
    const struct json *copies; /* all shards', from the coordinator's status; NULL: none follows */
    uint32_t shard;
    uint64_t sequence; /* the leader's journal up to here has no data of them */
};

/* A follower has the erasing by its leader's records. Its files are rewritten like the leader's,
 * once it has the leader's records up to there. */
static int follower_scrub(const struct json *copy, const struct erasing *x, struct json *list,
                          struct err *e)
{
    const char *endpoint = json_get_string(copy, "endpoint", "");
    uint64_t sequence = 0;
    struct json *cuts = NULL;
    struct ask *a;
    int rc = cli_ask_open(endpoint, json_get_string(copy, "key", ""), &a, e);
    if (rc != 0)
        return err_wrap(e, rc, "a copy of shard %u, %s", x->shard, endpoint);
    for (int i = 0; rc == 0 && sequence < x->sequence && i < BUSY_TRIES; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        rc = scrub_ask(a, x->schema->table, x->keys, x->count, &sequence, e);
    }
    if (rc == 0 && sequence < x->sequence)
        rc = err_set(e, SHOAL_E_TIMEOUT, "it is far behind its leader; erase again later");
    if (rc == 0)
        rc = shard_cuts(a, &cuts, e);
    cli_ask_close(a);
    if (rc != 0)
        return err_wrap(e, rc, "a copy of shard %u, %s", x->shard, endpoint);
    struct json *j = json_new_object();
    (void)json_set_string(j, "endpoint", endpoint);
    (void)json_set_int(j, "sequence", (int64_t)sequence);
    (void)json_set(j, "cuts", cuts != NULL ? cuts : json_new_array());
    (void)json_append(list, j);
    return 0;
}

static int followers_scrub(const struct erasing *x, struct json *list, struct err *e)
{
    int rc = 0;
    for (size_t s = 0; s < json_count(x->copies); s++) {
        const struct json *shard = json_array_at(x->copies, s), *all = json_get(shard, "copies");
        if (json_get_int(shard, "shard", -1) != (int64_t)x->shard)
            continue;
        for (size_t i = 0; rc == 0 && i < json_count(all); i++)
            if (!json_get_bool(json_array_at(all, i), "leads", false))
                rc = follower_scrub(json_array_at(all, i), x, list, e);
    }
    return rc;
}

/* Rewrites the files of the shard and its followers: the shard may have led the keys' tablets
 * before they moved. j: the shard's part of the receipt. */
static int shard_scrub(struct reader *r, struct erasing *x, struct json *j, struct err *e)
{
    struct json *cuts = NULL, *followers = json_new_array();
    struct ask *shard;
    int rc = reader_shard(r, x->shard, &shard, e);
    if (rc == 0)
        rc = scrub_ask(shard, x->schema->table, x->keys, x->count, &x->sequence, e);
    if (rc == 0)
        rc = shard_cuts(shard, &cuts, e);
    if (rc != 0)
        err_wrap(e, rc, "shard %u", x->shard);
    else
        rc = followers_scrub(x, followers, e);
    (void)json_set_int(j, "sequence", (int64_t)x->sequence);
    (void)json_set(j, "cuts", cuts != NULL ? cuts : json_new_array());
    (void)json_set(j, "followers", followers);
    return rc;
}

/* Lists the shards, with the keys that each has erased. */
static void shards_list(const struct reader *r, const struct reader_named *named, struct json *list)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        if (r->endpoint[i][0] == 0) /* the number is retired */
            continue;
        struct json *j = json_new_object();
        (void)json_set_int(j, "shard", i);
        (void)json_set_string(j, "endpoint", r->endpoint[i]);
        (void)json_set_int(j, "keys", (int64_t)named->keys_of[i]);
        (void)json_set_int(j, "newly_erased", (int64_t)named->changed_of[i]);
        (void)json_append(list, j);
    }
}

/* A shard without the table never had a tablet of it. */
static int all_scrub(struct reader *r, struct erasing *x, const struct json *list, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        struct json *j = json_array_at(list, i);
        x->shard = (uint32_t)json_get_int(j, "shard", 0);
        rc = shard_scrub(r, x, j, e);
        if (rc == SHOAL_E_NO_TABLE && json_get_int(j, "keys", 0) == 0)
            rc = 0;
    }
    return rc;
}

int reader_erase(struct reader *r, uint32_t index, const uint64_t *keys, uint32_t count,
                 struct json **shards, struct err *e)
{
    const struct table_schema *s = r->schema[index];
    const struct reader_naming naming = {.action = WIRE_KEY_ERASE, .keys = keys, .count = count};
    struct erasing x = {.schema = s, .keys = keys, .count = count};
    struct reader_named *named = malloc(sizeof *named);
    struct json *status_json = NULL;
    int rc = 0;
    *shards = json_new_array();
    if (r->coordinator == NULL)
        rc = err_set(e, SHOAL_E_UNAVAILABLE,
                     "erasing needs the cluster to run: start it, or delete the run folder");
    else if (named == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = reader_name(r, index, &naming, named, e);
    if (rc == 0)
        rc = reader_status(r, &status_json, e);
    if (rc == 0) {
        x.copies = json_get(json_get(status_json, "cluster"), "copies");
        shards_list(r, named, *shards);
        rc = all_scrub(r, &x, *shards, e);
    }
    json_free(status_json);
    free(named);
    return rc;
}
