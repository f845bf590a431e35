/* part_growth.c: the memory of a table of dim 16 with AdaGrad at every size, and the time of a pull
 * while it grows.
 *
 * The table grows in this process, by pushes of 8,192 new keys, so that no socket's buffer counts
 * and no other thread is waited for. After each push 8,192 of its rows are pulled and timed. Bytes
 * a row are reported twice: the memory of the arena, and the growth of this process by the system's
 * count; from a million rows on both are read after every push, or every 64 pushes, and the worst
 * value is kept. A pull that arrives during a push waits for it, so the time of a push, with
 * growing tablets, is a figure, too. A second pull behind the first is the control: if that is as
 * slow at times, the machine itself was away. */
#include "embedding/table.h"
#include "proto/base/time.h"
#include "tests/bench/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PAYLOAD = 8 + 2 * 4 * PART_WIDTH,
    FIRST_ROWS = 1000000,
    RESIDENT_EVERY = 64,
    TOUCHED = 170,
    SLOW_NS = 10000000
};

struct pulls {
    uint64_t count, slow; /* slow: of SLOW_NS and more */
    double ns_max, cpu_ns_max;
};

struct growth {
    struct table *table;
    struct arena *arena;
    uint64_t resident_before; /* bytes of the process before the first row */
    uint64_t next_report;     /* rows at which the next figure is due */
    /* whole millions, a twentieth of the rows where there are more than 20 millions */
    uint64_t report_step;
    double arena_worst, resident_worst; /* bytes a row */
    double push_ns_max, push_cpu_ns_max;
    /* the pull after each push, and one more after that, which shows the machine's own delays */
    struct pulls first, again;
    struct rng rng;
    uint64_t keys[PART_KEYS];
    float floats[PART_KEYS * PART_WIDTH]; /* gradients pushed, then rows pulled */
};

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the resident bytes of this process, or 0 if the system does not tell. */
static uint64_t resident_bytes(void)
{
    uint64_t all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%" SCNu64 " %" SCNu64, &all, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void most(double *worst, double x)
{
    if (x > *worst)
        *worst = x;
}

static int push_next(struct growth *g, uint64_t first, size_t count)
{
    const struct push_args args = {
        .lr_scale = 1, .batch = first, .step = 1, .tablet_count = 1u << PART_TABLET_BITS};
    for (size_t i = 0; i < count; i++)
        g->keys[i] = part_key(first + i);
    part_keys_sort(g->keys, count);
    for (size_t i = 0; i < count * PART_WIDTH; i++)
        g->floats[i] = 1e-3f;
    uint64_t wall = time_monotonic_ns(), cpu = cpu_ns();
    int rc = table_push(g->table, g->keys, g->floats, count, &args);
    most(&g->push_cpu_ns_max, (double)(cpu_ns() - cpu));
    most(&g->push_ns_max, (double)(time_monotonic_ns() - wall));
    return rc;
}

static void pull_some(struct growth *g, struct pulls *p)
{
    for (size_t i = 0; i < PART_KEYS; i++)
        g->keys[i] = part_key(rng_below(&g->rng, table_rows(g->table)));
    part_keys_sort(g->keys, PART_KEYS);
    uint64_t wall = time_monotonic_ns(), cpu = cpu_ns();
    table_pull(g->table, g->keys, PART_KEYS, g->floats);
    most(&p->cpu_ns_max, (double)(cpu_ns() - cpu));
    uint64_t took = time_monotonic_ns() - wall;
    most(&p->ns_max, (double)took);
    p->slow += took >= SLOW_NS;
    p->count++;
}

static int weigh(struct part_out *out, struct growth *g, uint64_t pushes)
{
    uint64_t rows = table_rows(g->table);
    double arena = (double)arena_bytes(g->arena) / (double)rows, resident = 0;
    bool report = rows >= g->next_report;
    char name[64];
    if (rows < FIRST_ROWS)
        return 0;
    most(&g->arena_worst, arena);
    if (pushes % RESIDENT_EVERY == 0 || report) {
        uint64_t now = resident_bytes();
        resident = now < g->resident_before ? 0 : (double)(now - g->resident_before) / (double)rows;
        most(&g->resident_worst, resident);
    }
    if (!report)
        return 0;
    g->next_report += g->report_step;
    (void)snprintf(name, sizeof name, "memory_row_bytes_%" PRIu64 "m", rows / FIRST_ROWS);
    return part_figure(out, name, arena > resident ? arena : resident, 1, "bytes/row");
}

static int grow(struct part_out *out, struct growth *g, uint64_t rows, struct err *e)
{
    uint64_t pushes = 0;
    for (uint64_t at = 0; at < rows;) {
        size_t count = rows - at < PART_KEYS ? (size_t)(rows - at) : PART_KEYS;
        if (push_next(g, at, count) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory at %" PRIu64 " rows", at);
        at += count;
        pull_some(g, &g->first);
        pull_some(g, &g->again);
        if (weigh(out, g, ++pushes) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory for a figure");
    }
    return 0;
}

static int tell(struct part_out *out, const struct growth *g)
{
    const struct {
        const char *name;
        double value;
        int decimals;
        const char *unit;
    } f[] = {{"memory_row_bytes_worst", g->arena_worst, 1, "bytes/row of the arena"},
             {"memory_rss_row_bytes_worst", g->resident_worst, 1, "bytes/row of the process"},
             {"memory_row_worst_ratio",
              (g->arena_worst > g->resident_worst ? g->arena_worst : g->resident_worst) / PAYLOAD,
              3, "of 136 bytes"},
             {"pull_growth_max_ms", g->first.ns_max / 1e6, 3, "ms, of 8,192 keys"},
             {"pull_growth_max_cpu_ms", g->first.cpu_ns_max / 1e6, 3, "ms of processor time"},
             {"pull_growth_slow", (double)g->first.slow, 0, "pulls of 10 ms and more"},
             {"pull_again_max_ms", g->again.ns_max / 1e6, 3, "ms, of a second pull"},
             {"pull_again_max_cpu_ms", g->again.cpu_ns_max / 1e6, 3, "ms of processor time"},
             {"pull_again_slow", (double)g->again.slow, 0, "pulls of 10 ms and more"},
             {"push_growth_max_ms", g->push_ns_max / 1e6, 3, "ms, 8,192 new rows"},
             {"push_growth_max_cpu_ms", g->push_cpu_ns_max / 1e6, 3, "ms of processor time"},
             {"pulls_growth", (double)g->first.count, 0, "pulls"}};
    int rc = 0;

    for (size_t i = 0; i < sizeof f / sizeof *f && rc == 0; i++)
        rc = part_figure(out, f[i].name, f[i].value, f[i].decimals, f[i].unit);
    return rc;
}

int part_growth(struct part_out *out, uint64_t rows, struct err *e)
{
    const struct table_schema schema = {
        .name = "growth",
        .width = PART_WIDTH,
        .tablet_bits = PART_TABLET_BITS,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    struct growth *g = malloc(sizeof *g);
    int rc;
    if (g == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    memset(g, 0, sizeof *g); /* touched, so that it does not count for the table */
    g->rng = (struct rng){7};
    g->report_step = rows / 20 < FIRST_ROWS ? FIRST_ROWS : FIRST_ROWS * (rows / 20 / FIRST_ROWS);
    g->next_report = FIRST_ROWS;
    part_touch(rows * TOUCHED);
    rc = arena_new(&g->arena);
    if (rc == 0) {
        g->resident_before = resident_bytes();
        rc = table_new(&schema, g->arena, &g->table, e);
    }
    if (rc == 0)
        rc = grow(out, g, rows, e);
    if (rc == 0 && tell(out, g) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory for a figure");
    if (g->table != NULL)
        table_free(g->table);
    arena_free(g->arena);
    free(g);
    return rc;
}
