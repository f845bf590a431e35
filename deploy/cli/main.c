/* main.c: `shoal`, the operator's command: one word says what to do. */
#include "deploy/cli/cli.h"
#include "deploy/cli/reference.h"
#include "embedding/engine.h"
#include "proto/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text; /* NULL: for those who build, not told */
} verbs[] = {
    {"local", cli_local,
     "run a job on this machine: coordinator, servers and workers over loopback"},
    {"submit", cli_submit, "hand a job to a running cluster and show it until it ends"},
    {"stop", cli_stop, "end the job of a running cluster early"},
    {"checkpoint", cli_checkpoint, "make, list, check, compare, restore and export checkpoints"},
    {"status", cli_status, "what a cluster is doing, or how a run ended"},
    {"digest", cli_digest, "rows and digest of each table"},
    {"tables", cli_tables, "what is in the tables, what a rule would keep, what a log will need"},
    {"inspect", cli_inspect, "one row: weights, optimizer state, statistics, tablet, shard"},
    {"blame", cli_blame,
     "which pushes changed a row, computed by whom, from which rows of the input"},
    {"erase", cli_erase, "rows gone for good, with a receipt"},
    {"report", cli_report, "a report.json as a page of HTML"},
    {"synth", cli_synth, "write a made-up click log whose best possible AUC is known"},
    {"bench", cli_bench, "measure pull, push and training on this machine"},
    {"reference", reference_main, NULL},
};

static void usage(FILE *f)
{
    fputs("usage: shoal VERB [options]\n\n", f);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (verbs[i].text != NULL)
            fprintf(f, "  %-10s %s\n", verbs[i].name, verbs[i].text);
    fputs("\n`shoal VERB --help` tells more. `shoal local JOB.yaml` is the way to begin; job files "
          "that ship are in deploy/jobs.\n",
          f);
}

int main(int argc, char **argv)
{
    log_init("shoal");
    if (argc < 2) {
        usage(stderr);
        return 64;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("shoal %s\nstore checksums: %s\n", SHOAL_VERSION, engine_checksums());
        return 0;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "shoal: unknown verb %s\n\n", argv[1]);
    usage(stderr);
    return 64;
}
