/* worker_script.c: peers of a worker's client; a case writes their replies. */
#include "tests/lib/worker_script.h"
#include "proto/job/half.h"
#include "tests/lib/dense_case.h"
#include "worker/data/batch_inner.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct script script;
static struct wire in, out; /* large: not on the stack */
static const uint32_t number[] = {0, 1, SCRIPT_COORDINATOR};

static struct msg *map_reply(void)
{
    static const char lines[] = "sim://shard-0\nsim://shard-1\n";
    out.u.MAP_GET_reply = (struct wire_MAP_GET_reply){
        .map_epoch = 3, .tablet_count = 64, .shards = 2, WIRE_TABLES_IS(table_set_word(1))};
    struct msg *m = wire_encode(&out);
    uint16_t *shard = msg_add(m, 64 * sizeof *shard);
    for (uint32_t t = 0; t < 64; t++)
        shard[t] = (uint16_t)(t / 32);
    memcpy(msg_add(m, sizeof lines - 1), lines, sizeof lines - 1);
    return m;
}

static struct msg *scripted_reply(uint32_t node)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < script.count; i++)
        before += script.seen[i].node == node && script.seen[i].w.type == in.type;
    ck_assert_uint_lt(script.count, SCRIPT_SEEN);
    script.seen[script.count++] =
        (struct script_seen){.node = node, .at_ns = sim_now_ns(script.sim), .w = in};
    if (!script.answer(&in, node, before, &out))
        return NULL;
    if (out.status != 0)
        return wire_refusal(&in, out.status, "scripted");
    struct msg *m = wire_encode(&out);
    if (in.type == WIRE_TYPE_PULL) {
        size_t bytes = (size_t)out.u.PULL_reply.key_count * out.u.PULL_reply.width *
                       half_bytes((enum value_kind)out.u.PULL_reply.values);
        memset(msg_add(m, bytes), 0, bytes);
    }
    if (in.type == WIRE_TYPE_PUSH) {
        size_t bytes = (size_t)out.u.PUSH_reply.key_count * out.u.PUSH_reply.width *
                       half_bytes((enum value_kind)out.u.PUSH_reply.values);
        memset(msg_add(m, bytes), 0, bytes);
    }
    return m;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    uint32_t node = *(const uint32_t *)core;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &in, &e), 0);
    msg_free(m);
    if (in.type == WIRE_TYPE_HELLO)
        return;
    wire_reply_to(&in, 0, &out);
    script.maps += in.type == WIRE_TYPE_MAP_GET;
    struct msg *reply = in.type == WIRE_TYPE_MAP_GET ? map_reply() : scripted_reply(node);
    if (reply != NULL)
        env_send(sim_node_env(script.node[node]), from, reply);
}

static void client_on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    client_message(script.client, from, m);
}

static void nothing(void *core)
{
    (void)core;
}

static void model_make(void)
{
    static const char text[] =
        "job: scripted\ndata: {format: csv, train: [none.csv], label: 0}\n"
        "tables:\n  - {name: emb, dim: 2, tablets: 64, optimizer: {kind: sgd, lr: 1}}\n"
        "model: {kind: probe}\ntrain: {batch: 4, consistency: async}\n";
    static const char head[] = "label,field";
    struct features features;
    struct err e = {0};
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &script.job, &e) == 0, "%s", e.text);
    ck_assert_int_eq(features_make(&script.job, "none.csv", head, sizeof head - 1, &features, &e),
                     0);
    ck_assert_int_eq(model_schemas(&script.job, &features.shape, script.schema, &script.tables, &e),
                     0);
    ck_assert_uint_eq(script.tables, 1);
    ck_assert_msg(model_new(&script.job, &features.shape, dense_backend(), &script.model, &e) == 0,
                  "%s", e.text);
    features_free(&features);
}

void script_open(bool (*answer)(const struct wire *in, uint32_t node, uint32_t n, struct wire *out))
{
    static const struct env_handler peer = {.on_message = on_message, .on_drained = nothing},
                                    own = {.on_message = client_on_message, .on_drained = nothing};
    static const char *const names[] = {"sim://shard-0", "sim://shard-1", "sim://coordinator"};
    const struct sim_options calm = {
        .seed = 1, .delay_min_ns = SCRIPT_MS / 100, .delay_max_ns = SCRIPT_MS / 100};
    const struct client_options client = {.coordinator = names[SCRIPT_COORDINATOR]};
    struct err e = {0};
    script = (struct script){.sim = sim_new(&calm), .answer = answer};
    script.seen = calloc(SCRIPT_SEEN, sizeof *script.seen);
    ck_assert_ptr_nonnull(script.seen);
    for (uint32_t i = 0; i < 3; i++) {
        script.node[i] = sim_node_new(script.sim, names[i], &peer, (void *)(uintptr_t)&number[i]);
        sim_listen(script.node[i], names[i]);
    }
    script.own = sim_node_new(script.sim, "client", &own, NULL);
    ck_assert_int_eq(client_new(sim_node_env(script.own), &client, &script.client, &e), 0);
    model_make();
    client_map_refresh(script.client);
    script_run_ms(1);
    ck_assert_ptr_nonnull(client_map(script.client));
}

void script_close(void)
{
    client_free(script.client);
    sim_free(script.sim);
    model_free(script.model);
    job_free(&script.job);
    free(script.seen);
}

void script_run_ms(uint64_t ms)
{
    sim_run(script.sim, sim_now_ns(script.sim) + ms * SCRIPT_MS, NULL, NULL);
}

const struct script_seen *script_seen(enum wire_type type, uint32_t n)
{
    for (uint32_t i = 0; i < script.count; i++)
        if (script.seen[i].w.type == type && n-- == 0)
            return &script.seen[i];
    ck_abort_msg("no such %s came", wire_type_name(type));
    return NULL;
}

uint32_t script_count(enum wire_type type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < script.count; i++)
        count += script.seen[i].w.type == type;
    return count;
}
