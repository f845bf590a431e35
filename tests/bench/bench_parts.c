/* bench_parts.c: measurements of a server, of reading a log, of keys over tcp that `shoal bench`
 * does not make.
 *
 *     bench_parts [--dir DIR] [--rows N] [--seconds N] [--json] PART...
 *
 * PART, with its rows by default (--rows sets those of all that are named):
 *
 *     growth      20,000,000: memory and pulls of a table that grows in this process
 *     checkpoint   1,000,000: pulls while checkpoints are made
 *     cold         2,000,000: pulls of a table that is four times its server's memory
 *     shards       4,000,000: servers with 1, 2 and 4 shards by turns
 *     servers      4,000,000: 1, 2 and 3 servers by turns
 *     copies       2,000,000: pushes of a shard without and with a follower
 *     anew        10,000,000: a new follower copies them
 *     parse        1,000,000: a Criteo log to batches, on one core
 *     curve        1,000,000: pulls, pushes and training with keys beside plain ones
 *     events       1,000,000: an event file, and a second epoch from kept rows
 *     fsync       10,000,000: pulls and pushes with durability fsync
 *
 * --seconds: length of a phase (3). DIR (bench-parts), on the disk to be measured, keeps the files.
 * --json: one flat object at the end. README.md here says what each figure is. No test: run by
 * hand; tests/e2e/test_bench.py runs some with few rows. */
#include "deploy/cli/bench.h"

#include "proto/base/file.h"
#include "proto/base/key.h"
#include "tests/bench/part.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what the parts share -------------------------------------------------------------------- */

static int mixed_compare(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

void part_keys_sort(uint64_t *keys, size_t count)
{
    qsort(keys, count, sizeof *keys, mixed_compare);
}

void part_touch(uint64_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page / 2;
    if (bytes > most)
        bytes = most;
    char *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return;
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < bytes; i += page)
        *(volatile char *)(p + i) = 1;
    munmap(p, bytes + 1);
}

int part_figure(struct part_out *out, const char *name, double value, int decimals,
                const char *unit)
{
    if (!out->as_json)
        printf("  %-26s %14.*f %s\n", name, decimals, value, unit);
    fflush(stdout);
    return json_set_number(out->figures, name, value);
}

/* ---- parts ----------------------------------------------------------------------------------- */

struct order {
    const char *dir;
    uint64_t rows;
    double seconds;
};

static int growth(struct part_out *out, const struct order *o, struct err *e)
{
    return part_growth(out, o->rows, e);
}

static int checkpoint(struct part_out *out, const struct order *o, struct err *e)
{
    return part_checkpoint(out, o->dir, o->rows, o->seconds, e);
}

static int cold(struct part_out *out, const struct order *o, struct err *e)
{
    return part_cold(out, o->dir, o->rows, o->seconds, e);
}

static int shards(struct part_out *out, const struct order *o, struct err *e)
{
    return part_shards(out, o->dir, o->rows, o->seconds, e);
}

static int servers(struct part_out *out, const struct order *o, struct err *e)
{
    return part_servers(out, o->dir, o->rows, o->seconds, e);
}

static int copies(struct part_out *out, const struct order *o, struct err *e)
{
    return part_copies(out, o->dir, o->rows, o->seconds, e);
}

static int anew(struct part_out *out, const struct order *o, struct err *e)
{
    return part_anew(out, o->dir, o->rows, e);
}

/* The log is made where it is not there yet. */
static int parse(struct part_out *out, const struct order *o, struct err *e)
{
    char log[4200], rows[32], *text = NULL;
    size_t bytes;
    struct stat st;
    int rc = 0;
    (void)snprintf(log, sizeof log, "%s/train.tsv", o->dir);
    (void)snprintf(rows, sizeof rows, "%" PRIu64, o->rows);
    const char *const synth[] = {"shoal", "synth", "--rows", rows, "--seed",
                                 "1",     "--out", log,      NULL};
    if (stat(log, &st) != 0 || st.st_size == 0)
        rc = child_output(synth, &text, &bytes, e);
    free(text);
    return rc != 0 ? rc : part_parse(out, o->dir, log, o->seconds, e);
}

static int curve(struct part_out *out, const struct order *o, struct err *e)
{
    return part_curve(out, o->dir, o->rows, o->seconds, (int64_t)o->rows, e);
}

static int events(struct part_out *out, const struct order *o, struct err *e)
{
    return part_events(out, o->dir, o->rows, e);
}

/* As `shoal bench` measures `journal`. */
static int fsync_rate(struct part_out *out, const struct order *o, struct err *e)
{
    struct bench_out same = {out->figures, out->as_json};
    const struct bench_rate rate = {.durability = "fsync",
                                    .rows = o->rows,
                                    .seconds = o->seconds,
                                    .journal_seconds = 20 * o->seconds};
    return bench_rate(&same, &rate, e);
}

static const struct part {
    const char *name;
    uint64_t rows;
    int (*run)(struct part_out *out, const struct order *o, struct err *e);
} parts[] = {
    {"growth", 20000000, growth}, {"checkpoint", 1000000, checkpoint}, {"cold", 2000000, cold},
    {"shards", 4000000, shards},  {"servers", 4000000, servers},       {"copies", 2000000, copies},
    {"anew", 10000000, anew},     {"parse", 1000000, parse},           {"curve", 1000000, curve},
    {"events", 1000000, events},  {"fsync", 10000000, fsync_rate}};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct part *part_of(const char *name)
{
    for (int i = 0; i < PARTS; i++)
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    return NULL;
}

static int usage(void)
{
    fputs("usage: bench_parts [--dir DIR] [--rows N] [--seconds N] [--json] PART...; PART:",
          stderr);
    for (int i = 0; i < PARTS; i++)
        fprintf(stderr, " %s", parts[i].name);
    fputs("\n", stderr);
    return 64;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    char folder[4096];
    const char *dir = "bench-parts";
    uint64_t rows = 0;
    struct order o = {.dir = folder, .seconds = 3};
    struct part_out out = {.figures = json_new_object()};
    struct err e = {0};
    int rc = 0, c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == '?')
            return usage();
        dir = c == 'd' ? optarg : dir;
        rows = c == 'r' ? strtoull(optarg, NULL, 10) : rows;
        o.seconds = c == 's' ? strtod(optarg, NULL) : o.seconds;
        out.as_json |= c == 'j';
    }
    for (int i = optind; i < argc; i++)
        if (part_of(argv[i]) == NULL)
            return usage();
    if (optind == argc)
        return usage();
    signal(SIGPIPE, SIG_IGN);
    if ((mkdir(dir, 0755) != 0 && errno != EEXIST) || realpath(dir, folder) == NULL ||
        chdir(folder) != 0)
        rc = err_set(&e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", dir, strerror(errno));
    for (int i = optind; i < argc && rc == 0; i++) {
        o.rows = rows > 0 ? rows : part_of(argv[i])->rows;
        rc = part_of(argv[i])->run(&out, &o, &e);
    }
    if (rc != 0) {
        fprintf(stderr, "bench_parts: %s\n", e.text);
        return err_exit_status(e.code);
    }
    char *text = json_text(out.figures, 2);
    if (out.as_json && text != NULL)
        puts(text);
    free(text);
    json_free(out.figures);
    return 0;
}
