/* run.c: the folder of a run, also after it was moved. */
#include "deploy/cli/run.h"
#include "deploy/cli/begin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/hold.h"
#include "deploy/cli/rights.h"
#include "proto/base/text.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"
#include "proto/net/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWER_MS = 500 };

#define COORDINATOR_FILE "coordinator.yaml"

bool run_has(const char *folder, const char *name)
{
    char path[2 * LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

bool run_is(const char *folder)
{
    return run_has(folder, COORDINATOR_FILE);
}

/* The settings with which the coordinator was started; NULL: unknown. */
static struct config *coordinator_file(const char *run)
{
    char path[LIMIT_PATH];
    struct config *c = NULL;
    struct err silent;
    (void)snprintf(path, sizeof path, "%.900s/" COORDINATOR_FILE, run);
    if (config_load(path, NULL, keys_coordinator, &c, &silent) == 0)
        return c;
    return NULL;
}

/* The coordinator's own folder always lies in the run folder, so its path tells where that was. */
bool run_moved(const char *run, char former[LIMIT_PATH])
{
    struct config *c = coordinator_file(run);
    struct stat here, there;
    if (c == NULL)
        return false;
    const char *dir = config_string(c, "data_dir"), *end = strrchr(dir, '/');
    bool own = end != NULL && strcmp(end, "/coordinator") == 0 && end - dir < LIMIT_PATH;
    if (own)
        (void)snprintf(former, LIMIT_PATH, "%.*s", (int)(end - dir), dir);
    config_free(c);
    if (!own || stat(run, &here) != 0)
        return false;
    return stat(former, &there) != 0 || here.st_dev != there.st_dev || here.st_ino != there.st_ino;
}

int run_path(const char *run, const char *path, char out[LIMIT_PATH], struct err *e)
{
    char former[LIMIT_PATH];
    bool moved = run_moved(run, former);
    size_t below = 0;
    char *now = NULL;
    if (moved)
        below = strlen(former);
    if (moved && strncmp(path, former, below) == 0 && path[below] == '/')
        now = realpath(run, NULL);
    if (now == NULL)
        below = 0;
    int n = snprintf(out, LIMIT_PATH, "%s%s", text_or(now, ""), path + below);
    free(now);
    now = n < (int)LIMIT_PATH ? realpath(out, NULL) : NULL;
    if (now != NULL)
        n = snprintf(out, LIMIT_PATH, "%s", now);
    free(now);
    if (n < (int)LIMIT_PATH)
        return 0;
    return err_set(e, SHOAL_E_USAGE, "%s: a path has at most %u bytes", path, LIMIT_PATH - 1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The endpoint as `shoal local` wrote it; false: unknown. */
static bool endpoint_of(const char *run, char out[256])
{
    struct config *c = coordinator_file(run);
    if (c == NULL)
        return false;
    int n = snprintf(out, 256, "%s", config_string(c, "listen"));
    config_free(c);
    return n < 256;
}

bool run_answers(const char *run, char endpoint[256])
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct ask *a = NULL;
    struct err silent;
    bool answers = endpoint_of(run, endpoint) && net_listened(endpoint) &&
                   cli_ask_open(endpoint, NULL, &a, &silent) == 0 &&
                   cli_ask(a, &w, NULL, ANSWER_MS, &reply, NULL, &silent) == 0;
    cli_ask_close(a);
    return answers;
}

bool run_shard(const char *run, uint32_t n, char out[LIMIT_PATH])
{
    (void)snprintf(out, LIMIT_PATH, "%.900s/server-%u/shard-%u", run, n / LIMIT_LOCAL_SHARDS,
                   n % LIMIT_LOCAL_SHARDS);
    return access(out, F_OK) == 0;
}

int run_kept(const char *run, struct err *e)
{
    char path[LIMIT_PATH];
    struct begin newest;
    struct err silent;
    uint32_t shards = 0, kept = 0;
    for (uint32_t n = 0; n < RUN_SHARDS; n++)
        if (run_shard(run, n, path)) {
            shards++;
            kept += run_has(path, "rows") || errno != ENOENT;
        }
    if (shards == 0)
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s holds no server-*/shard-* folder; give a run folder of `shoal local`, "
                       "such as runs/JOB-DATE-TIME",
                       run);
    if (kept == shards)
        return 0;
    if (begin_find(run, false, &newest, &silent) == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "the servers of %s kept nothing (durability: memory): take its newest "
                       "checkpoint, %s",
                       run, newest.path);
    return err_set(e, SHOAL_E_CONFIG,
                   "the servers of %s kept nothing (durability: memory): it has no checkpoint "
                   "either; checkpoint.at_end: true makes one",
                   run);
}

int run_take(const char *run, uint32_t wait_ms, struct err *e)
{
    int rc = rights_read(run, e);
    if (rc == 0)
        rc = run_kept(run, e);
    if (rc == 0)
        rc = rights_write(run, e);
    if (rc != 0)
        return rc;
    return hold_take(run, wait_ms, NULL, e);
}

bool run_end(const char *run, char path[LIMIT_PATH])
{
    struct begin end;
    struct err silent;
    if (rights_write(run, &silent) != SHOAL_E_DENIED || begin_find(run, true, &end, &silent) != 0)
        return false;
    text_copy(path, LIMIT_PATH, end.path);
    fprintf(stderr,
            "note: %s cannot be written; the rows are those of the checkpoint of its end, %s\n",
            run, path);
    return true;
}
