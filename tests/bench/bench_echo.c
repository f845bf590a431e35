/* bench_echo.c: what rows that go back with a push cost a shard, in the simulator.
 *
 *     bench_echo [ROWS [MEMORY]]
 *
 * A table of ROWS rows (300000 by default) of width 2 in MEMORY MiB (6): most have left for the
 * store, so the shard looks for the rows of each request. Then the same 8,192 keys are pushed again
 * and again, without echoes, with echoes of every key, and with a pull of them behind each push.
 * Said are nanoseconds a key of each, the best of nine rounds of 40 pushes by the time the thread
 * was on a core, and the rows in the store. No test: run by hand. */
#include "proto/base/key.h"
#include "tests/lib/rig_dir.h"
#include "tests/server/shard_rig.h"

#include <inttypes.h>
#include <time.h>

enum { BATCH = 8192, BATCHES = 40, ROUNDS = 9, LATER = 999999 /* a peer: answers are dropped */ };
enum way { PLAIN, ECHO, PULL };

static struct rig rig;
static uint64_t keys[BATCH], to;
static float gradients[2 * BATCH];
static uint8_t bits[BATCH / 8];

static double core_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void keys_set(uint64_t first)
{
    for (uint32_t i = 0; i < BATCH; i++)
        keys[i] = first + i + 1;
    qsort(keys, BATCH, sizeof *keys, key_by_mixed);
}

static struct msg *pull_message(void)
{
    static struct wire w = {.type = WIRE_TYPE_PULL};
    w.u.PULL = (struct wire_PULL){
        .run = RIG_RUN, .lane = 0, .batch = to + 1, .bound = WIRE_BOUND_ASYNC, .key_count = BATCH};
    struct msg *m = wire_encode(&w);
    memcpy(msg_add(m, sizeof keys), keys, sizeof keys);
    return m;
}

static struct msg *push_message(bool echo)
{
    static struct wire w = {.type = WIRE_TYPE_PUSH};
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .from = to,
                                  .to = to + 1,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = BATCH,
                                  .echo = echo ? BATCH : 0};
    to++;
    return rig_push_message(&w, keys, gradients, bits, echo ? sizeof bits : 0);
}

/* Pushes the keys, and waits until the push is applied: rows may have to come from the store. */
static void push_wait(void)
{
    shard_handler.on_message(rig.shard, LATER, push_message(false));
    shard_handler.on_drained(rig.shard);
    while (engine_mark(rig.shard->engine, RIG_RUN, 0, 0) < to)
        rig_run(&rig, 1);
}

static double round_ns(enum way way)
{
    double ns = 0;
    for (uint32_t b = 0; b < BATCHES; b++) {
        struct msg *push = push_message(way == ECHO), *pull = NULL;
        if (way == PULL)
            pull = pull_message();
        double began = core_ns();
        shard_handler.on_message(rig.shard, LATER, push);
        if (pull != NULL)
            shard_handler.on_message(rig.shard, LATER, pull);
        shard_handler.on_drained(rig.shard);
        ns += core_ns() - began;
        if (engine_mark(rig.shard->engine, RIG_RUN, 0, 0) < to)
            ck_abort_msg("a push waits: its rows have left memory");
        rig_run(&rig, 1);
    }
    return ns / BATCHES / BATCH;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"push", "push with echoes", "push, and a pull"};
    uint64_t rows = 300000, memory = 6;
    char dir[LIMIT_PATH];
    if (argc > 1)
        rows = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        memory = strtoull(argv[2], NULL, 10);
    rig = (struct rig){.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .memory = memory << 20};
    rig_new(&rig, WIRE_ASYNC, 1, OPT_ADAGRAD);
    memset(bits, 0xff, sizeof bits);
    for (uint32_t i = 0; i < 2 * BATCH; i++)
        gradients[i] = 0.01f;
    for (uint64_t first = 0; first < rows; first += BATCH) {
        keys_set(first);
        push_wait();
    }
    rig_run(&rig, 2000);
    push_wait();
    printf("%" PRIu64 " rows, %" PRIu64 " of them in the store\n", rows,
           table_cold_rows(engine_table(rig.shard->engine, 0)));
    for (int way = PLAIN; way <= PULL; way++) {
        double best = 1e30;
        for (uint32_t r = 0; r < ROUNDS; r++) {
            double ns = round_ns((enum way)way);
            if (ns < best)
                best = ns;
        }
        printf("%-18s %6.1f ns a key\n", names[way], best);
    }
    rig_free(&rig);
    rig_remove_dir(dir);
    return 0;
}
