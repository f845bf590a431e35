/* fleet_fake.h: a fleet on a thread of its own: one loop that answers as a coordinator and as the
 * shards of two tables, for tests of libshoal over the real network. Each program has one. */
#ifndef TESTS_WORKER_LIB_FLEET_FAKE_H
#define TESTS_WORKER_LIB_FLEET_FAKE_H

#include "embedding/table.h"
#include "proto/base/env.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"
#include "tests/lib/embedding_rows.h"
#include "worker/lib/shoal.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAKE_BITS = 3, FAKE_TABLES = 2, FAKE_SCRIPT = 8, FAKE_EMB = 5, FAKE_DENSE = 9 };

/* The next answers to requests of this type are refusals; status 0: there are none. */
struct fake_refusal {
    enum wire_type type;
    int status;
    uint32_t count; /* how many */
    const char *text;
};

static struct {
    struct net *net;
    pthread_t thread;
    char folder[64], endpoint[128];
    struct rows emb, dense;
    struct table_schema schema[FAKE_TABLES];
    const char *job;
    size_t job_bytes;
    pthread_mutex_t lock; /* of the rest */
    struct fake_refusal refusal[FAKE_SCRIPT];
    enum wire_type silent;        /* requests of this type get no answer */
    bool older;                   /* it knows no parts of rows */
    bool anew;                    /* its tables have other numbers, and shards refuse the old map */
    uint32_t seen[512];           /* requests by type */
    struct wire_IMPORT import[2]; /* begin and end of the last one */
    char space[LIMIT_NAME];
} fake;

static const char fake_job[] =
    "job: made\n"
    "data:\n"
    "  format: csv\n"
    "  train: [/nowhere/a.csv]\n"
    "  label: label\n"
    "  columns: [{name: user}, {name: shop, id: true}, {name: age, type: number, transform: "
    "bucket}]\n"
    "tables:\n"
    "  - name: emb\n"
    "    dim: 3\n"
    "    optimizer: {kind: adagrad, lr: 0.5}\n"
    "model:\n"
    "  kind: external\n"
    "  first_order: true\n"
    "  tensors:\n"
    "    - {name: w1, shape: [3, 5]}\n"
    "    - {name: b1, shape: [300]}\n"
    "names: {\"fields\": {\"user\": [3, \"emb\", \"category\"], \"shop\": [4, \"emb\", \"id\"], "
    "\"age\": [6, \"emb\", \"bucket\"], \"gone\": [7, \"other\", \"category\"]}, \"numbers\": {}, "
    "\"input\": \"user 3, shop 3, age 3\", \"labels\": \"label\", \"real\": 0, "
    "\"model\": \"external\", \"learnt\": false, "
    "\"tensors\": {\"w1\": [2, \"3x5\"], \"b1\": [0, \"300\"]}, \"statistics\": {}}\n";

static struct table *fake_table(uint32_t number)
{
    if (number == FAKE_EMB)
        return fake.emb.table;
    return number == FAKE_DENSE ? fake.dense.table : NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void fake_map(struct wire *out, struct msg **m)
{
    const uint32_t tablets = FAKE_TABLES << FAKE_BITS;
    uint16_t shard[FAKE_TABLES << FAKE_BITS];
    char lines[300];
    struct wire_MAP_GET_reply *r = &out->u.MAP_GET_reply;
    struct table_set numbers = {0};
    const bool anew = fake.anew; /* the caller holds the lock */
    table_set_add(&numbers, anew ? FAKE_EMB + 1 : FAKE_EMB);
    table_set_add(&numbers, FAKE_DENSE);
    *r = (struct wire_MAP_GET_reply){
        .map_epoch = anew ? 2 : 1, .tablet_count = tablets, .shards = 2, WIRE_TABLES_IS(numbers)};
    snprintf(r->space, sizeof r->space, "%s", fake.space);
    for (uint32_t t = 0; t < tablets; t++)
        shard[t] = t % (1u << FAKE_BITS) >= 4;
    int n = snprintf(lines, sizeof lines, "%s\n%s\n", fake.endpoint, fake.endpoint);
    *m = wire_encode(out);
    memcpy(msg_add(*m, sizeof shard), shard, sizeof shard);
    memcpy(msg_add(*m, (size_t)n), lines, (size_t)n);
}

static void fake_pull(const struct wire *w, const struct msg *in, struct wire *out, struct msg **m)
{
    const struct wire_PULL *q = &w->u.PULL;
    struct table *t = fake_table(q->table);
    const struct table_schema *s = table_schema_of(t);
    const uint32_t parts = fake.older ? 0 : q->parts, width = table_assign_floats(s, parts);
    out->u.PULL_reply =
        (struct wire_PULL_reply){.key_count = q->key_count, .width = width, .values = VALUES_FP32};
    *m = wire_encode(out);
    float *rows = msg_add(*m, (size_t)q->key_count * width * sizeof *rows);
    const uint64_t *keys = in->frame[1].data;
    for (uint32_t i = 1; i < q->key_count; i++) /* sorted, each once */
        ck_assert(key_mix(keys[i - 1]) < key_mix(keys[i]));
    if (parts != 0)
        table_pull_state(t, keys, q->key_count, rows);
    else
        table_pull_as(t, &(struct pull_args){.reader = true}, keys, q->key_count, rows);
}

static void fake_assign(const struct wire *w, const struct msg *in, struct wire *out)
{
    const struct wire_ASSIGN *q = &w->u.ASSIGN;
    struct table *t = fake_table(q->table);
    const uint64_t *keys = in->frame[1].data;
    const float *rows = (const float *)(const void *)(keys + q->key_count);
    const struct assign_args args = {
        .parts = q->parts, .tablet_first = q->tablet, .tablet_count = q->tablet_count};
    struct assign_counts c = {.made = 0};
    size_t bad;
    const char *why;
    if (!table_assign_ok(table_schema_of(t), q->parts, rows, q->key_count, &bad, &why)) {
        out->status = SHOAL_E_NOT_FINITE;
        snprintf(out->error, sizeof out->error, "key %d: %s", (int)bad, why);
        return;
    }
    ck_assert_int_eq(table_assign(t, keys, rows, q->key_count, &args, &c), 0);
    out->u.ASSIGN_reply = (struct wire_ASSIGN_reply){
        .applied = true, .made = c.made, .replaced = c.replaced, .kept = c.kept};
}

static bool fake_refuses(const struct wire *w, struct wire *out)
{
    for (uint32_t i = 0; i < FAKE_SCRIPT; i++) {
        struct fake_refusal *r = &fake.refusal[i];
        if (r->status == 0 || r->type != w->type || r->count == 0)
            continue;
        r->count--;
        out->status = r->status;
        snprintf(out->error, sizeof out->error, "%s", r->text);
        return true;
    }
    return false;
}

static void fake_answer(const struct wire *w, const struct msg *in, struct wire *out,
                        struct msg **m)
{
    switch (w->type) {
    case WIRE_TYPE_HELLO:
        out->u.HELLO_reply.version = WIRE_VERSION;
        break;
    case WIRE_TYPE_MAP_GET:
        fake_map(out, m);
        break;
    case WIRE_TYPE_TABLE_GET: {
        struct wire_TABLE_CREATE c;
        ck_assert_uint_lt(w->u.TABLE_GET.table, FAKE_TABLES);
        wire_schema_to(&fake.schema[w->u.TABLE_GET.table], &c);
        memcpy(&out->u.TABLE_GET_reply, &c, sizeof out->u.TABLE_GET_reply);
        *m = wire_encode(out);
        (void)msg_add(*m, 0);
        break;
    }
    case WIRE_TYPE_JOB_TEXT:
        *m = wire_encode(out);
        memcpy(msg_add(*m, fake.job_bytes), fake.job, fake.job_bytes);
        break;
    case WIRE_TYPE_PULL:
        fake_pull(w, in, out, m);
        break;
    case WIRE_TYPE_ASSIGN:
        fake_assign(w, in, out);
        break;
    case WIRE_TYPE_IMPORT:
        fake.import[w->u.IMPORT.done] = w->u.IMPORT;
        break;
    default:
        out->status = SHOAL_E_USAGE;
    }
}

static void fake_message(void *core, peer_t from, struct msg *in)
{
    static struct wire w, out;
    struct err e;
    struct msg *m = NULL;
    (void)core;
    ck_assert_msg(wire_decode(in, &w, &e) == 0, "%s", e.text);
    pthread_mutex_lock(&fake.lock);
    fake.seen[w.type % 512]++;
    wire_reply_to(&w, 0, &out);
    const bool silent = fake.silent != WIRE_TYPE_NONE && fake.silent == w.type;
    if (!silent && !fake_refuses(&w, &out))
        fake_answer(&w, in, &out, &m);
    pthread_mutex_unlock(&fake.lock);
    if (m == NULL && !silent)
        m = wire_encode(&out);
    if (m != NULL)
        (void)env_send(net_env(fake.net), from, m);
    msg_free(in);
}

static void fake_drained(void *core)
{
    (void)core;
}

static const struct env_handler fake_handler = {.on_message = fake_message,
                                                .on_drained = fake_drained};

/* ---- life ------------------------------------------------------------------------------------ */

static void *fake_run(void *unused)
{
    net_run(fake.net);
    return unused;
}

static void fake_schemas(void)
{
    struct table_schema *emb = &fake.schema[0], *dense = &fake.schema[1];
    *emb = rows_schema(OPT_ADAGRAD, 4, FAKE_BITS);
    strcpy(emb->name, "emb");
    emb->zero_first = 1;
    *dense = rows_schema(OPT_ADAM, 256, FAKE_BITS);
    strcpy(dense->name, "dense");
    dense->table = 1;
    dense->dense = 1;
    dense->tablet_first = 1u << FAKE_BITS;
}

__attribute__((unused)) static void fake_setup(void)
{
    char bound[256];
    struct err e = {0};
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    snprintf(fake.folder, sizeof fake.folder, "/tmp/shoal-lib-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fake.folder));
    snprintf(fake.endpoint, sizeof fake.endpoint, "ipc://%s/fleet", fake.folder);
    fake_schemas();
    fake.emb = rows_open(&fake.schema[0]);
    fake.dense = rows_open(&fake.schema[1]);
    fake.job = fake_job;
    fake.job_bytes = sizeof fake_job - 1;
    ck_assert_msg(net_new(&(struct net_options){0}, &fake.net, &e) == 0, "%s", e.text);
    net_set_handler(fake.net, &fake_handler, NULL);
    ck_assert_msg(net_listen(fake.net, fake.endpoint, bound, &e) == 0, "%s", e.text);
    ck_assert_int_eq(pthread_create(&fake.thread, NULL, fake_run, NULL), 0);
}

__attribute__((unused)) static void fake_teardown(void)
{
    char path[160];
    net_interrupt(fake.net);
    pthread_join(fake.thread, NULL);
    net_free(fake.net);
    rows_close(&fake.emb);
    rows_close(&fake.dense);
    snprintf(path, sizeof path, "%s/fleet", fake.folder);
    (void)unlink(path);
    (void)rmdir(fake.folder);
    pthread_mutex_destroy(&fake.lock);
}

/* The next `count` requests of this type are refused. */
__attribute__((unused)) static void fake_refuse(enum wire_type type, int status, uint32_t count,
                                                const char *text)
{
    pthread_mutex_lock(&fake.lock);
    for (uint32_t i = 0; i < FAKE_SCRIPT; i++)
        if (fake.refusal[i].status == 0) {
            fake.refusal[i] = (struct fake_refusal){type, status, count, text};
            break;
        }
    pthread_mutex_unlock(&fake.lock);
}

__attribute__((unused)) static void fake_silence(enum wire_type type)
{
    pthread_mutex_lock(&fake.lock);
    fake.silent = type;
    pthread_mutex_unlock(&fake.lock);
}

#endif
