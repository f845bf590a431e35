/* newest.c: see newest.h. */
#include "server/coord/keep/newest.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct coord_newest *coord_newest_of(struct coord_errand *r)
{
    return container_of(r, struct coord_newest, errand);
}

bool coord_newest_path(const struct coord_job *j, char path[LIMIT_PATH])
{
    const char *ordered = j->fleet->replace.from;
    if (ordered[0] != 0) {
        text_copy(path, LIMIT_PATH, ordered);
        return true;
    }
    if (coord_checkpoint_comes(j)) {
        (void)snprintf(path, LIMIT_PATH, "%.900s/%s",
                       text_unless_empty(j->checkpoint->dir, j->spec.checkpoint.dir),
                       j->checkpoint->coming.record.name);
        return true;
    }
    if (coord_checkpoint_newest(j, 0, path))
        return true;
    text_copy(path, LIMIT_PATH, j->at.from_path);
    return coord_from_resumes(&j->at);
}

/* ---- on the errand's thread ------------------------------------------------------------------ */

/* Opens one checkpoint. The first failure is kept, as that of the newest: it is told when none can
 * be read. */
static bool try(struct coord_newest *n, const char *path, int rc)
{
    struct err e = n->e;
    if (rc == 0)
        rc = coord_from_open(&n->options, path, false, &n->spec, &n->from, &e);
    if (rc == 0) {
        n->rc = 0;
        return true;
    }
    coord_from_close(&n->options, &n->from);
    n->from = (struct coord_from){.hold = COORD_FOLDER_NONE};
    if (rc != SHOAL_E_NOINPUT) /* many have been pruned */
        log_warn("checkpoint %s cannot be gone back to: %s", path, e.text);
    if (n->rc == 0) {
        n->rc = rc;
        n->e = e;
    }
    return false;
}

/* When no checkpoint can be read, that is the job's failure, not the errand's. */
static int newest_run(struct coord_errand *r, struct err *e)
{
    struct coord_newest *n = coord_newest_of(r);
    const char *root = text_or(n->options.checkpoint_root, "");
    char dir[LIMIT_PATH], path[LIMIT_PATH];
    (void)e;
    SHOAL_ASSERT(n->count > 0 || n->last[0] != 0);
    memcpy(dir, n->dir, sizeof dir);
    int rc = 0;
    if (n->count > 0)
        rc = coord_checkpoint_dir(n->options.folder, root, dir, &n->e);
    for (uint32_t i = 0; i < n->count; i++) {
        (void)snprintf(path, sizeof path, "%.900s/%s", dir, n->name[i]);
        if (try(n, path, rc))
            return 0;
        if (rc != 0)
            break;
    }
    if (n->last[0] != 0)
        (void)try(n, n->last, 0);
    return 0;
}

static void newest_undo(struct coord_errand *r)
{
    struct coord_newest *n = coord_newest_of(r);
    coord_from_close(&n->options, &n->from);
}

static void newest_free(struct coord_errand *r)
{
    struct coord_newest *n = coord_newest_of(r);
    job_free(&n->spec);
    free(n->name);
    free(n);
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void key_names_take(const struct coord_job *j, struct coord_newest *n)
{
    const struct coord_checkpoint_record *r;
    while (n->count < COORD_CHECKPOINTS_MAX && (r = coord_checkpoint_record(j, n->count)) != NULL)
        memcpy(n->name[n->count++], r->name, LIMIT_NAME);
}

int coord_newest_begin(struct coord_job *j, coord_errand_done read, struct coord_newest **out,
                       struct err *e)
{
    struct coord_newest *n = calloc(1, sizeof *n);
    if (n == NULL || (n->name = calloc(COORD_CHECKPOINTS_MAX, sizeof *n->name)) == NULL) {
        free(n);
        return err_set(e, SHOAL_E_NOMEM, "no memory to read a checkpoint");
    }
    int rc = job_parse(j->yaml, j->yaml_bytes, "job", NULL, &n->spec, e);
    if (rc != 0) {
        free(n->name);
        free(n);
        return rc;
    }
    n->errand.run = newest_run;
    n->errand.undo = newest_undo;
    n->errand.free = newest_free;
    n->options = j->fleet->options;
    n->number = j->at.number;
    n->from.hold = COORD_FOLDER_NONE;
    const char *ordered = j->fleet->replace.from;
    text_copy(n->dir, sizeof n->dir, j->spec.checkpoint.dir);
    if (ordered[0] != 0)
        text_copy(n->last, sizeof n->last, ordered);
    else
        key_names_take(j, n);
    if (ordered[0] == 0 && coord_from_resumes(&j->at))
        text_copy(n->last, sizeof n->last, j->at.from_path);
    text_copy(n->errand.folder, LIMIT_PATH, n->count > 0 ? n->dir : n->last);
    rc = coord_errand_start(j->fleet, &n->errand, j, read, e);
    *out = rc == 0 ? n : NULL;
    return rc;
}
