/* bench_ring.c: sums over the workers of a ring, each a process of its own, over real connections.
 *
 *     bench_ring [OPTION VALUE]... DIR MEMBERS FLOATS STEPS
 *
 *     --values fp32|bf16   (fp32) on the wire
 *     --lanes N            (MEMBERS) lanes of all members
 *     --tcp PORT           listens on 127.0.0.1 from this port on; else on sockets in DIR
 *     --member N           runs this member alone, for a member in a network namespace of its own;
 *                          with --host PREFIX its address is PREFIX and N + 1
 *
 * The output of member 0 is one JSON object: steps a second, bytes that it sent a step beside
 * 2 (n - 1) / n of the array, chunks that were sent again, processor time of this process a step,
 * and a digest of the last sum, which is that of every member and of every run. No test. */
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/net/net.h"
#include "worker/ring/ring.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM = 3, LANES_MOST = 1024 };

struct bench {
    const char *dir, *host;
    uint32_t members, lanes, member, port;
    uint64_t floats, steps;
    enum value_kind values;
    struct way_shape shape;
    struct way_cut cut;
    struct env *env;
    struct ring *ring;
    struct exchange_part part[LANES_MOST];
    uint64_t began_ns, ended_ns, digest;
    struct ring_figures before, after;
    double cpu_s;
    struct env_timer end;
};

static double cpu_now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void endpoint_of(const struct bench *b, uint32_t member, char out[256])
{
    char host[64] = "127.0.0.1";
    if (b->host != NULL)
        (void)snprintf(host, sizeof host, "%.40s%u", b->host, member + 1);
    if (b->port != 0)
        (void)snprintf(out, 256, "tcp://%s:%u", host, b->port + member);
    else
        (void)snprintf(out, 256, "ipc://%.200s/ring-%u", b->dir, member);
}

static void on_end(struct env_timer *t)
{
    struct bench *b = container_of(t, struct bench, end);
    env_stop(b->env);
}

static void on_done(void *owner)
{
    struct bench *b = owner;
    uint64_t step = ring_step(b->ring), weight;
    if (step == WARM) {
        b->began_ns = env_now_ns(b->env);
        b->before = ring_figures(b->ring);
        b->cpu_s = cpu_now_s();
    }
    if (step < WARM + b->steps) {
        ring_reduce(b->ring, b->part);
        return;
    }
    b->ended_ns = env_now_ns(b->env);
    b->after = ring_figures(b->ring);
    b->cpu_s = cpu_now_s() - b->cpu_s;
    b->digest = hash_bytes(ring_sum(b->ring, &weight), b->floats * sizeof(float), weight);
    /* the members behind this one still need its answers */
    env_timer_start(b->env, &b->end, UINT64_C(500000000));
}

static void on_stale(void *owner, uint64_t number)
{
    (void)owner;
    (void)number;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct bench *b = core;
    struct wire w;
    struct err e;
    if (wire_decode(m, &w, &e) == 0)
        (void)ring_message(b->ring, from, &w, m);
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core; /* no message waits for a commit */
}

static void parts_make(struct bench *b)
{
    uint32_t first = b->shape.first[b->member], end = b->shape.first[b->member + 1];
    for (uint32_t lane = first; lane < end; lane++) {
        struct rng r = rng_of(1, lane, 2);
        float *x = malloc(b->floats * sizeof *x);
        for (uint64_t i = 0; x != NULL && i < b->floats; i++)
            x[i] = rng_float(&r) - 0.5f;
        b->part[lane - first] = (struct exchange_part){x, NULL, 512};
    }
}

static void told(const struct bench *b)
{
    double seconds = (double)(b->ended_ns - b->began_ns) * 1e-9, steps = (double)b->steps;
    double least =
        2.0 * (b->members - 1) / b->members * (double)b->floats * (double)half_bytes(b->values);
    printf("{\"members\": %u, \"floats\": %" PRIu64 ", \"steps_s\": %.2f, \"sent_step\": %.0f, "
           "\"least_step\": %.0f, \"again\": %" PRIu64
           ", \"cpu_step_ms\": %.3f, \"digest\": \"%016" PRIx64 "\"}\n",
           b->members, b->floats, steps / seconds,
           (double)(b->after.bytes - b->before.bytes) / steps, least,
           b->after.again - b->before.again, b->cpu_s / steps * 1e3, b->digest);
}

static int member_run(struct bench *b)
{
    static const struct env_handler handler = {.on_message = on_message, .on_drained = on_drained};
    const struct net_options options = {.insecure_plaintext = true};
    struct net *net = NULL;
    struct err e = {0};
    char own[256], bound[256], next[256];
    endpoint_of(b, b->member, own);
    endpoint_of(b, (b->member + 1) % b->members, next);
    int rc = net_new(&options, &net, &e);
    if (rc == 0)
        rc = net_listen(net, own, bound, &e);
    if (rc == 0) {
        b->env = net_env(net);
        b->end.fire = on_end;
        net_set_handler(net, &handler, b);
        const struct ring_options o = {
            .env = b->env,
            .run = 1,
            .ring = 1,
            .sum = {.shape = b->shape, .member = b->member, .cut = b->cut, .values = b->values},
            .next_endpoint = next,
            .next_key = "",
            .before_key = "",
            .done = on_done,
            .stale = on_stale,
            .owner = b};
        rc = ring_open(&o, &b->ring, &e);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "bench_ring: member %u: %s\n", b->member, e.text);
        return err_exit_status(rc);
    }
    parts_make(b);
    ring_reduce(b->ring, b->part);
    net_run(net);
    if (b->member == 0)
        told(b);
    ring_close(b->ring);
    net_free(net);
    return 0;
}

static int all_run(struct bench *b)
{
    int worst = 0, status;
    for (b->member = 0; b->member < b->members; b->member++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(member_run(b) + (fflush(stdout) != 0));
    }
    while (wait(&status) > 0)
        if (status != 0)
            worst = 1;
    return worst;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"values", required_argument, NULL, 'v'}, {"lanes", required_argument, NULL, 'l'},
        {"tcp", required_argument, NULL, 't'},    {"member", required_argument, NULL, 'm'},
        {"host", required_argument, NULL, 'h'},   {NULL, 0, NULL, 0}};
    static struct bench b = {.member = UINT32_MAX};
    struct err e = {0};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (o == 'v')
            b.values = strcmp(optarg, "bf16") == 0 ? VALUES_BF16 : VALUES_FP32;
        else if (o == 'l')
            b.lanes = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 't')
            b.port = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 'm')
            b.member = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 'h')
            b.host = optarg;
        else
            return 64;
    if (argc - optind != 4) {
        (void)fputs("usage: bench_ring [OPTION VALUE]... DIR MEMBERS FLOATS STEPS\n", stderr);
        return 64;
    }
    b.dir = argv[optind];
    b.members = (uint32_t)strtoul(argv[optind + 1], NULL, 10);
    b.floats = strtoull(argv[optind + 2], NULL, 10);
    b.steps = strtoull(argv[optind + 3], NULL, 10);
    if (b.lanes == 0)
        b.lanes = b.members;
    int rc = way_shape_even(b.lanes, b.members, b.members, &b.shape, &e);
    if (rc == 0)
        rc = way_cut(&(struct way_array){.floats = {b.floats}, .unit = 16}, b.members, &b.cut, &e);
    if (rc != 0 || b.lanes > LANES_MOST || b.cut.chunks == 0) {
        (void)fprintf(stderr, "bench_ring: %s\n", e.text);
        return 64;
    }
    if (b.member < b.members)
        return member_run(&b);
    return all_run(&b);
}
