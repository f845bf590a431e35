/* local_ended.c: a cluster on this machine for one question: coordinator and servers of an ended
 * run, started again on its folders. Logs and sockets lie in folders of this verb's own. */
#include "deploy/cli/local_inner.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "deploy/cli/scratch.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_WAIT_MS = 60000 }; /* a wait for other commands that read the run */

int local_scratch_make(struct local *l, struct err *e)
{
    const char *where = getenv("TMPDIR");
    char log[LIMIT_PATH + 8];
    (void)snprintf(l->dir, sizeof l->dir, "%s/shoal-look-XXXXXX",
                   where != NULL && where[0] == '/' ? where : "/tmp");
    if (scratch_make(l->dir) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", l->dir,
                       strerror(errno));
    text_copy(l->scratch, sizeof l->scratch, l->dir);
    (void)snprintf(log, sizeof log, "%s/log", l->scratch);
    if (file_mkdir(log, 0700) == 0)
        return 0;
    return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", log, strerror(errno));
}

void local_scratch_remove(struct local *l, bool keep_logs)
{
    if (l->sockets[0] != 0)
        (void)file_remove_tree(l->sockets);
    if (l->scratch[0] != 0 && keep_logs && l->children > 0)
        scratch_keep(l->scratch);
    else if (l->scratch[0] != 0)
        (void)file_remove_tree(l->scratch);
}

static int set_add(struct child *c, const char *key, const char *folder, const char *name,
                   struct err *e)
{
    char text[LOCAL_QUOTED + 32], quoted[LOCAL_QUOTED];
    int n = snprintf(text, sizeof text, "%s=%s", key, local_quote(folder, name, quoted));
    if (n >= (int)sizeof c->arg[0])
        return err_set(e, SHOAL_E_NOINPUT, "%s: the path is too long", folder);
    local_child_arg(c, "--set", text);
    return 0;
}

/* Adds a daemon with its own file; options replace what no longer holds in that file. */
static int reopen_daemon(struct local *l, const char *run, const char *program, const char *name,
                         struct err *e)
{
    char text[LIMIT_PATH];
    struct child *c = local_child(l, program, name);
    (void)snprintf(text, sizeof text, "%.*s/%s.yaml", LIMIT_PATH - 64, run, name);
    local_child_arg(c, "--config", text);
    (void)snprintf(text, sizeof text, "ipc://%s", l->sockets);
    int rc = set_add(c, "listen", text, name, e);
    if (rc == 0)
        rc = set_add(c, "data_dir", run, name, e); /* the folder may have been moved */
    if (rc == 0 && strcmp(name, "coordinator") == 0) {
        local_child_arg(c, "--set", "publish=false"); /* it does not stay for such a command */
        return set_add(c, "report", l->dir, "report.json", e);
    }
    local_child_arg(c, "--set", "net.drop=0");
    if (rc != 0)
        return rc;
    return set_add(c, "coordinator", l->coordinator, NULL, e);
}

/* The error for a run without a report: it was interrupted, or its job failed and cannot go on. */
static int not_ended(const char *run, struct err *e)
{
    char path[LIMIT_PATH + 16], *why;
    struct begin newest;
    struct err silent;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/" LOCAL_FAILED_FILE, run);
    if (file_read_whole(path, ERR_TEXT_MAX, &why, &bytes) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the run in %s has not ended and its coordinator does not answer: has it "
                       "stopped? The line that began it, with --run-dir %s, goes on with it",
                       run, run);
    bool kept = begin_find(run, false, &newest, &silent) == 0;
    int rc = err_set(e, SHOAL_E_NOINPUT, "the job of the run in %s failed (%.300s): %s%s", run, why,
                     kept ? "its newest checkpoint is " : "it has no checkpoint",
                     text_if(kept, newest.path));
    free(why);
    return rc;
}

static int reopen(struct local *l, const char *folder, struct err *e)
{
    char name[48], run[LIMIT_PATH], *whole;
    int rc = rights_read(folder, e);
    if (rc == 0)
        rc = local_sockets_make(l, e);
    if (rc != 0)
        return rc;
    whole = realpath(folder, NULL);
    int length = LIMIT_PATH;
    if (whole != NULL)
        length = snprintf(run, sizeof run, "%s", whole);
    free(whole);
    if (length > (int)LIMIT_PATH - 64)
        return err_set(e, SHOAL_E_NOINPUT, "%s: its full path is too long or not readable", folder);
    if (!run_is(run))
        return err_set(e, SHOAL_E_NOINPUT, "%s is no folder of a run of `shoal local`", run);
    if (!run_has(run, "report.json"))
        return not_ended(run, e);
    rc = run_take(run, LOOK_WAIT_MS, e); /* daemons of two commands must not wait for each other */
    if (rc != 0)
        return rc;
    (void)snprintf(l->coordinator, sizeof l->coordinator, "ipc://%s/coordinator", l->sockets);
    rc = reopen_daemon(l, run, "shoal-coordinator", "coordinator", e);
    for (l->servers = 0; l->servers < LIMIT_LOCAL_SERVERS && rc == 0; l->servers++) {
        (void)snprintf(name, sizeof name, "server-%d.yaml", l->servers);
        if (!run_has(run, name))
            break;
        (void)snprintf(name, sizeof name, "server-%d", l->servers);
        rc = reopen_daemon(l, run, "shoal-server", name, e);
    }
    return rc;
}

int local_run_open(struct local *l, const char *run, char endpoint[256], struct err *e)
{
    if (run_answers(run, endpoint))
        return 0;
    int rc = reopen(l, run, e);
    text_copy(endpoint, 256, l->coordinator);
    if (rc != 0)
        return rc;
    return local_start(l, e);
}
