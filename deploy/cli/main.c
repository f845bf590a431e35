/* main.c: `shoal`, the operator's command: its first word names the verb. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/export.h"
#include "deploy/cli/replay.h"
#include "embedding/engine.h"
#include "proto/base/crash.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/version.h"
#include "proto/net/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(struct option_line *o, struct err *e);
} verbs[] = {
    {"shoal local", cli_local},
    {"shoal sweep", cli_sweep},
    {"shoal submit", cli_submit},
    {"shoal stop", cli_stop},
    {"shoal predict", cli_predict},
    {"shoal eval", cli_eval},
    {"shoal status", cli_status},
    {"shoal top", cli_top},
    {"shoal digest", cli_digest},
    {"shoal tables", cli_tables},
    {"shoal inspect", cli_inspect},
    {"shoal blame", cli_blame},
    {"shoal erase", cli_erase},
    {"shoal keys allow", cli_keys_allow},
    {"shoal keys block", cli_keys_block},
    {"shoal keys reset", cli_keys_reset},
    {"shoal keys list", cli_keys_list},
    {"shoal export", cli_export},
    {"shoal drop", cli_drop},
    {"shoal import", cli_import},
    {"shoal promote", cli_promote},
    {"shoal replace", cli_replace},
    {"shoal rebalance", cli_rebalance},
    {"shoal drain", cli_drain},
    {"shoal add", cli_add},
    {"shoal keygen", cli_keygen},
    {"shoal report", cli_report},
    {"shoal jobs", cli_jobs},
    {"shoal trace", cli_trace},
    {"shoal data", cli_data},
    {"shoal convert", cli_convert},
    {"shoal synth", cli_synth},
    {"shoal doctor", cli_doctor},
    {"shoal bench", cli_bench},
    {"shoal replay", cli_replay},
    {"shoal replay diff", replay_diff_main},
    {"shoal checkpoint create", checkpoint_create_main},
    {"shoal checkpoint list", checkpoint_list_main},
    {"shoal checkpoint verify", checkpoint_verify_main},
    {"shoal checkpoint sign", checkpoint_sign_main},
    {"shoal checkpoint diff", checkpoint_diff_main},
    {"shoal checkpoint restore", checkpoint_restore_main},
    {"shoal checkpoint remove", checkpoint_remove_main},
};

static void usage(const char *program, const char *more, FILE *f)
{
    fprintf(f, "usage: %s VERB [options]\n\n", program);
    option_verbs(program, f);
    fprintf(f, "\n`%s VERB --help` tells more. %s\n", program, more);
}

/* Runs the verb that argv[1] names. */
static int verb_run(const char *program, const char *more, int argc, char **argv)
{
    char command[64];
    if (argc < 2) {
        usage(program, more, stderr);
        return 64;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(program, more, stdout);
        return 0;
    }
    (void)snprintf(command, sizeof command, "%s %s", program, argv[1]);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(command, verbs[i].name) == 0)
            return cli_run(command, verbs[i].run, argc - 1, argv + 1);
    fprintf(stderr, "%s: unknown verb %s\n\n", program, argv[1]);
    usage(program, more, stderr);
    return 64;
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
    crash_begin("shoal");
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        version();
        return 0;
    }
    (void)machine_files(); /* a verb may connect to many shards of a large fleet */
    if (argc > 2 && strcmp(argv[1], "checkpoint") == 0 && strcmp(argv[2], "export") == 0)
        return export_moved(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "checkpoint") == 0)
        return verb_run("shoal checkpoint",
                        "A checkpoint is a folder: all tables with their optimizers' state, and "
                        "where the job stood.",
                        argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "keys") == 0)
        return verb_run("shoal keys", "", argc - 1, argv + 1);
    if (argc > 2 && strcmp(argv[1], "replay") == 0 && strcmp(argv[2], "diff") == 0)
        return verb_run("shoal replay", "", argc - 1, argv + 1);
    return verb_run("shoal",
                    "`shoal local JOB.yaml` is the way to begin; job files that ship are in "
                    "deploy/jobs.",
                    argc, argv);
}
