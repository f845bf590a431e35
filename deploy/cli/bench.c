/* bench.c: `shoal bench`: pull and push against a real server process over tcp loopback, recovery,
 * restoring a checkpoint, and a whole training run.
 *
 * One server process, one client process (this one), a table of 10 M rows of dim 16 with AdaGrad,
 * 8,192 random keys a request, one or four requests in flight. The client prepares its keys before
 * the clock starts; a figure counts requests answered in the measured seconds. */
#include "deploy/cli/bench.h"

#include "deploy/cli/cli.h"
#include "deploy/cli/hold.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS = 256 };

void bench_figure(struct bench_out *out, const char *name, double value, int decimals,
                  const char *unit)
{
    if (!out->as_json)
        printf("  %-26s %14.*f %s\n", name, decimals, value, unit);
    fflush(stdout);
    json_set_number(out->figures, name, value);
}

int bench_write(const char *path, const char *text, struct err *e)
{
    FILE *f = file_stream(path, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    fputs(text, f);
    fclose(f);
    return 0;
}

/* ---- pull and push --------------------------------------------------------------------------- */

struct phase {
    const char *name; /* NULL: a warm-up */
    uint32_t pushes, pulls;
    double seconds;
};

static int phases_run(struct bench_load *l, struct bench_out *out, const struct phase *p,
                      size_t count, struct err *e)
{
    char name[96];
    int rc = 0;
    for (; count > 0 && rc == 0; count--, p++) {
        uint64_t began = time_monotonic_ns();
        double cpu = bench_server_cpu(&l->server);
        rc = bench_load_run(l, p->pushes, p->pulls, p->seconds, e);
        if (rc == 0)
            rc = bench_load_rest(l, e);
        if (rc != 0 || p->name == NULL)
            continue;
        double keys = (double)l->answered * BENCH_KEYS;
        bench_figure(out, p->name, keys / bench_since(began), 0, "keys/s");
        (void)snprintf(name, sizeof name, "%s_cpu_ns", p->name);
        if (l->answered > 0)
            bench_figure(out, name, (bench_server_cpu(&l->server) - cpu) / keys * 1e9, 1,
                         "ns a key");
    }
    return rc;
}

int bench_rate(struct bench_out *out, const struct bench_rate *of, struct err *e)
{
    struct bench_load l = {.server = {.spaces = of->spaces}};
    const char *durability = of->durability;
    double seconds = of->seconds;
    char name[4][64];
    static const char *const head[] = {"server-", "push_", "push_", "pull_"};
    static const char *const tail[] = {"", "_w1", "_w4", "_w4"};
    for (int i = 0; i < 4; i++)
        (void)snprintf(name[i], sizeof name[i], "%s%s%s", head[i], durability, tail[i]);
    const struct phase memory[] = {{NULL, 0, 1, 0.5}, {"pull_w1", 0, 1, seconds},
                                   {NULL, 0, 4, 0.5}, {"pull_w4", 0, 4, seconds},
                                   {NULL, 1, 0, 0.5}, {name[1], 1, 0, seconds},
                                   {NULL, 4, 0, 0.5}, {name[2], 4, 0, seconds}};
    const struct phase durable[] = {{NULL, 4, 0, 10},
                                    {name[1], 1, 0, seconds},
                                    {name[2], 4, 0, of->journal_seconds},
                                    {name[3], 0, 4, seconds}};
    bool kept = strcmp(durability, "memory") != 0;
    uint64_t rows = of->rows / MAX(of->spaces, 1);
    int rc = bench_load_prepare(&l, rows, SETS, rows, e);
    if (rc == 0)
        rc = bench_load_fill(&l, name[0], durability, e);
    if (rc == 0)
        rc = phases_run(&l, out, kept ? durable : memory, kept ? 4 : 8, e);
    bench_load_release(&l);
    return rc;
}

/* ---- training, with the commands that users type --------------------------------------------- */

static int say(const char *const argv[], struct err *e)
{
    char *text = NULL;
    size_t bytes;
    int rc = child_output(argv, &text, &bytes, e);
    free(text);
    return rc;
}

/* Makes a log, or uses the existing one again; trains a run; scores the log by its tables in both
 * ways. */
static int train_measure(struct bench_out *out, int64_t rows, struct err *e)
{
    char run[64], path[96], count[32];
    (void)snprintf(run, sizeof run, "train-run-%d", (int)getpid());
    (void)snprintf(path, sizeof path, "%s/report.json", run);
    (void)snprintf(count, sizeof count, "%" PRId64, rows);
    const char *const line[][9] = {
        {"shoal", "synth", "--rows", count, "--seed", "1", "--out", "train.tsv"},
        {"shoal", "local", "train.yaml", "--run-dir", run},
        {"shoal", "eval", "--from", run, "--in", "train.tsv"},
        {"shoal", "predict", "--from", run, "--in", "train.tsv", "--out", "scores.csv"}};
    static const char *const name[] = {NULL, "train_deepfm", "eval_deepfm", "predict_deepfm"};
    (void)file_unlink("scores.csv");
    int rc = bench_write(
        "train.yaml",
        "job: bench\ndata: {format: criteo, train: [train.tsv]}\n"
        "tables: [{name: emb, dim: 16, optimizer: {kind: adagrad, lr: 0.02}}]\n"
        "model: {kind: deepfm, hidden: [400, 400, 400]}\ndurability: journal\n"
        "train: {batch: 4096, consistency: ssp, staleness: 2, prefetch: 1, lanes: 2, warmup: 20}\n",
        e);
    for (int i = access("train.tsv", R_OK) == 0; i < 4 && rc == 0; i++) {
        struct json *report = NULL;
        uint64_t began = time_monotonic_ns();
        rc = say(line[i], e);
        double rate = (double)rows / bench_since(began);
        if (rc == 0 && i == 1 && (rc = cli_json_file(path, &report, e)) == 0)
            rate = json_get_number(report, "examples_per_second", 0);
        json_free(report);
        if (rc == 0 && i > 0)
            bench_figure(out, name[i], rate, 0, "examples/s");
    }
    return rc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static const char *const parts[] = {"checkpoint", "import", "memory", "journal", "train"};
enum { PARTS = sizeof parts / sizeof *parts };

static int only_check(const char *list, struct err *e)
{
    size_t known = 0;
    for (int i = 0; i < PARTS; i++)
        if (strstr(list, parts[i]) != NULL)
            known += strlen(parts[i]) + 1;
    if (known == strlen(list) + 1)
        return 0;
    return err_set(e, SHOAL_E_USAGE,
                   "--only %s: expected some of checkpoint,import,memory,journal,train, each once",
                   list);
}

static int part_run(const char *part, const struct option_line *o, struct bench_out *out,
                    struct err *e)
{
    double seconds = (double)option_int(o, "seconds");
    if (strcmp(part, "checkpoint") == 0)
        return bench_checkpoint(out, (uint64_t)option_int(o, "checkpoint-rows"), seconds, e);
    if (strcmp(part, "import") == 0)
        return bench_import(out, (uint64_t)option_int(o, "import-rows"), e);
    if (strcmp(part, "train") == 0)
        return train_measure(out, option_int(o, "train-rows"), e);
    const struct bench_rate rate = {.durability = part,
                                    .rows = (uint64_t)option_int(o, "rows"),
                                    .spaces = (uint32_t)option_int(o, "spaces"),
                                    .seconds = seconds,
                                    .journal_seconds = (double)option_int(o, "journal-seconds")};
    return bench_rate(out, &rate, e);
}

int cli_bench(struct option_line *o, struct err *e)
{
    struct bench_out out;
    const char *only = option_text(o, "only"), *dir = option_text(o, "dir");
    int rc = only_check(only, e);
    if (rc != 0)
        return rc;
    out = (struct bench_out){json_new_object(), option_given(o, "json")};
    signal(SIGPIPE, SIG_IGN);
    if (file_mkdir(dir, 0755) == 0 || errno == EEXIST)
        rc = hold_take(dir, HOLD_WAIT_MS, NULL, e);
    if (rc == 0 && chdir(dir) != 0)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot use the folder %s: %s", dir, strerror(errno));
    for (int i = 0; i < PARTS && rc == 0; i++)
        if (strstr(only, parts[i]) != NULL)
            rc = part_run(parts[i], o, &out, e);
    if (rc == 0 && out.as_json)
        cli_json_print(out.figures);
    json_free(out.figures);
    return rc;
}
