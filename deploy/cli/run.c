/* run.c: the folder of a run, wherever it is now. */
#include "deploy/cli/run.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* By the coordinator's own folder, which lies in it always. */
bool run_moved(const char *run, char former[LIMIT_PATH])
{
    char path[LIMIT_PATH];
    struct config *c = NULL;
    struct stat here, there;
    struct err silent;
    (void)snprintf(path, sizeof path, "%.900s/coordinator.yaml", run);
    if (config_load(path, NULL, keys_coordinator, &c, &silent) != 0)
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
    size_t below = moved ? strlen(former) : 0;
    char *now = NULL;
    if (moved && strncmp(path, former, below) == 0 && path[below] == '/')
        now = realpath(run, NULL);
    int n = now == NULL ? snprintf(out, LIMIT_PATH, "%s", path)
                        : snprintf(out, LIMIT_PATH, "%s%s", now, path + below);
    free(now);
    return n < (int)LIMIT_PATH
               ? 0
               : err_set(e, SHOAL_E_USAGE, "%s: a path has at most %u bytes", path, LIMIT_PATH - 1);
}
