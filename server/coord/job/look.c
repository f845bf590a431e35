/* look.c: see look.h. */
#include "server/coord/job/look.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/text.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_BYTES (1u << 20) /* less than any checkpoint takes with its files of a store */
#define WANTED_NS UINT64_C(2500000000) /* the client that waits asks each second */

bool coord_look_needed(const struct job *spec, const struct coord_submit *submit)
{
    return spec->checkpoint.dir[0] != 0 ||
           (submit->from[0] != 0 &&
            !(submit->start && strcmp(submit->from, COORD_FROM_FLEET) == 0));
}

/* ---- on the errand's thread ------------------------------------------------------------------ */

static struct coord_look *look_of(struct coord_errand *r)
{
    return container_of(r, struct coord_look, errand);
}

static int probe(const struct coord_look *l, const char *dir, struct err *e)
{
    const struct coord_folder_ops *ops = l->options.folder;
    char path[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    void *bytes = calloc(1, PROBE_BYTES);
    if (bytes == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to try whether %s can be written", dir);
    (void)snprintf(path, sizeof path, "%.900s/probe.%06" PRIx32 ".tmp", dir, l->random);
    int rc = ops->begin(path, &hold, e);
    bool made = rc == 0;
    if (rc == 0)
        rc = ops->put(path, "probe", bytes, PROBE_BYTES, e);
    ops->let_go(&hold);
    if (made && ops->remove(path, NULL) == SHOAL_E_AGAIN)
        (void)ops->sweep(dir);
    free(bytes);
    return rc;
}

static int dir_look(struct coord_look *l, struct err *e)
{
    const struct coord_folder_ops *ops = l->options.folder;
    const char *root = text_or(l->options.checkpoint_root, "");
    char dir[LIMIT_PATH], owner[COORD_CHECKPOINT_OWNER];
    text_copy(dir, sizeof dir, l->spec.checkpoint.dir);
    coord_checkpoint_owner(l->spec.name, l->spec.space, owner);
    int rc = coord_checkpoint_dir(ops, root, dir, e);
    if (rc == 0 && !l->spec.train.skip) /* otherwise the job makes no checkpoint */
        rc = ops->claim(dir, owner, l->spec.checkpoint.keep + l->spec.checkpoint.keep_named != 0,
                        &l->claim, e);
    if (rc == 0 && !l->spec.train.skip)
        rc = probe(l, dir, e);
    if (rc != 0)
        return err_wrap(e, rc, "checkpoint.dir");
    return 0;
}

/* Always returns 0: a failure here is the job's, not the errand's, and the claim belongs to the
 * look in any case. */
static int look_run(struct coord_errand *r, struct err *e)
{
    struct coord_look *l = look_of(r);
    (void)e;
    l->rc = 0;
    if (l->makes)
        l->rc = dir_look(l, &l->e);
    if (l->rc == 0 && l->reads)
        l->rc = coord_from_open(&l->options, l->path, l->start, &l->spec, &l->from, &l->e);
    return 0;
}

static void look_undo(struct coord_errand *r)
{
    struct coord_look *l = look_of(r);
    if (l->claim.path[0] != 0)
        l->options.folder->disclaim(&l->claim);
    coord_from_close(&l->options, &l->from);
}

static void look_free(struct coord_errand *r)
{
    struct coord_look *l = look_of(r);
    job_free(&l->spec);
    free(l->yaml);
    free(l);
}

/* ---- on the loop ----------------------------------------------------------------------------- */

/* Lets go of the former job's checkpoints first: its pruning still has the claim, and runs before
 * the look. */
static void former_end(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    coord_errand_detach(k->keeper);
    k->keeper = NULL;
    (void)coord_checkpoint_disclaim(j);
}

int coord_look_begin(struct coord *c, struct coord_job *former, struct coord_ask *a,
                     const struct coord_submit *submit, coord_errand_done looked, struct err *e)
{
    struct coord_look *l = calloc(1, sizeof *l);
    SHOAL_ASSERT(c->look == NULL);
    if (l == NULL || (l->yaml = malloc(submit->bytes + 1)) == NULL) {
        free(l);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    }
    int rc = job_parse(submit->yaml, submit->bytes, "job", NULL, &l->spec, e);
    if (rc != 0) {
        free(l->yaml);
        free(l);
        return rc;
    }
    memcpy(l->yaml, submit->yaml, submit->bytes);
    l->bytes = submit->bytes;
    l->errand.run = look_run;
    l->errand.undo = look_undo;
    l->errand.free = look_free;
    l->options = c->fleet.options;
    l->makes = l->spec.checkpoint.dir[0] != 0;
    l->reads = submit->from[0] != 0 && strcmp(submit->from, COORD_FROM_FLEET) != 0;
    l->start = submit->start;
    text_copy(l->path, sizeof l->path, submit->from);
    text_copy(l->errand.folder, LIMIT_PATH, l->makes ? l->spec.checkpoint.dir : submit->from);
    l->random = (uint32_t)(env_random(c->fleet.env) & 0xffffff);
    l->from.hold = COORD_FOLDER_NONE;
    l->asker = a->from;
    l->request = *a->request;
    l->begun_ns = l->asked_ns = env_now_ns(c->fleet.env);
    former_end(former);
    rc = coord_errand_start(&c->fleet, &l->errand, c, looked, e);
    if (rc == 0)
        c->look = l;
    return rc;
}

static bool same(const struct coord_look *l, const struct coord_ask *a,
                 const struct coord_submit *submit)
{
    return l->asker == a->from && l->start == submit->start && l->bytes == submit->bytes &&
           strcmp(l->path, submit->from) == 0 && memcmp(l->yaml, submit->yaml, l->bytes) == 0;
}

int coord_look_asked(struct coord *c, struct coord_ask *a, const struct coord_submit *submit,
                     struct err *e)
{
    struct coord_look *l = c->look;
    char hang[ERR_TEXT_MAX];
    uint64_t now = env_now_ns(c->fleet.env);
    bool hangs = coord_errand_hangs(&c->fleet, 0, hang, sizeof hang);
    if (!same(l, a, submit))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the folders of another job that is submitted are looked at%s%.350s: submit "
                       "again in a moment",
                       text_if(hangs, ", and "), text_if(hangs, hang));
    l->request = *a->request; /* a client that asks again under another id is answered under that
                               * id */
    l->asked_ns = now;
    if (l->over)
        return 0;
    if (hangs && now - l->begun_ns >= COORD_ERRAND_HANGS_NS)
        return err_set(e, SHOAL_E_UNAVAILABLE, "%.400s: submit again when it does", hang);
    return SHOAL_E_AGAIN;
}

int coord_look_result(const struct coord_look *l, struct err *e)
{
    SHOAL_ASSERT(l->over);
    if (l->rc != 0)
        return err_set(e, l->rc, "%s", l->e.text);
    return 0;
}

bool coord_look_wanted(const struct coord *c)
{
    return env_now_ns(c->fleet.env) - c->look->asked_ns < WANTED_NS;
}

void coord_look_end(struct coord *c)
{
    struct coord_look *l = c->look;
    c->look = NULL;
    if (l != NULL)
        coord_errand_leave(&c->fleet, &l->errand);
}
