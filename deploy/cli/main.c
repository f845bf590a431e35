/* main.c: `shoal`, the operator's command: one word says what to do. */
#include "deploy/cli/cli.h"
#include "embedding/engine.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/version.h"
#include "proto/net/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_verb verbs[] = {
    {"local", cli_local},     {"replay", cli_replay}, {"sweep", cli_sweep},
    {"submit", cli_submit},   {"stop", cli_stop},     {"checkpoint", cli_checkpoint},
    {"predict", cli_predict}, {"eval", cli_eval},     {"status", cli_status},
    {"digest", cli_digest},   {"tables", cli_tables}, {"inspect", cli_inspect},
    {"blame", cli_blame},     {"erase", cli_erase},   {"drop", cli_drop},
    {"keygen", cli_keygen},   {"report", cli_report}, {"jobs", cli_jobs},
    {"convert", cli_convert}, {"synth", cli_synth},   {"doctor", cli_doctor},
    {"bench", cli_bench},     {NULL, NULL},
};

static void usage(FILE *f)
{
    fputs("usage: shoal VERB [options]\n\n", f);
    option_verbs("shoal", f);
    fputs("\n`shoal VERB --help` tells more. `shoal local JOB.yaml` is the way to begin; job files "
          "that ship are in deploy/jobs.\n",
          f);
}

static void version(void)
{
    const char *library[] = {net_libraries(),
                             wire_library(),
                             engine_library(),
                             json_library(),
                             config_library(),
                             hash_library(),
                             NULL};
    version_print("shoal", WIRE_VERSION, library);
    printf("store checksums: %s\n", engine_checksums());
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
        version();
        return 0;
    }
    (void)machine_files(); /* a large fleet has many shards to ask */
    int rc = cli_verb(verbs, argc, argv);
    if (rc >= 0)
        return rc;
    fprintf(stderr, "shoal: unknown verb %s\n\n", argv[1]);
    usage(stderr);
    return 64;
}
