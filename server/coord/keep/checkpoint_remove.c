/* checkpoint_remove.c: removes one checkpoint. The header says which checkpoints stay, and why. */
#include "server/coord/keep/checkpoint_remove.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct coord_removing *removing_of(struct coord_errand *r)
{
    return container_of(r, struct coord_removing, errand);
}

/* ---- on the errand's thread ------------------------------------------------------------------ */

static void seen(void *context, const char *name)
{
    struct coord_checkpoint_names *n = context;
    n->found = n->found || strcmp(n->want, name) == 0;
}

/* Finds the folder that holds the checkpoint. Does not make a folder that is missing. */
static int find(struct coord_removing *m, struct err *e)
{
    struct coord_checkpoint_names names = {.want = m->name};
    struct err other = {0};
    int rc = m->ops->list(m->dir, seen, &names, e);
    if (!names.found && m->tables_dir[0] != 0) {
        m->of_tables = m->ops->list(m->tables_dir, seen, &names, &other) == 0 && names.found;
        if (m->of_tables)
            memcpy(m->dir, m->tables_dir, sizeof m->dir);
    }
    if (names.found)
        rc = coord_checkpoint_dir(m->ops, m->root, m->dir, e);
    else if (rc == 0)
        rc = err_set(e, SHOAL_E_NOT_FOUND,
                     "there is no checkpoint %s in %.200s: `shoal checkpoint list %.120s` names "
                     "those that there are",
                     m->name, m->dir, m->dir);
    (void)snprintf(m->path, sizeof m->path, "%.900s/%s", m->dir, m->name);
    return rc;
}

/* A folder may have several paths, so the manifests are compared: no two checkpoints have the same
 * manifest. A copy has, and then this checkpoint stays. */
static int from_check(const struct coord_removing *m, const void *manifest, size_t bytes,
                      struct err *e)
{
    void *text = NULL;
    size_t count = 0;
    bool same = strcmp(m->from, m->path) == 0;
    if (m->from[0] == 0)
        return 0;
    if (!same && m->ops->get(m->from, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &count, NULL) == 0)
        same = count == bytes && memcmp(text, manifest, bytes) == 0;
    free(text);
    if (same && m->loads)
        return err_set(e, SHOAL_E_BUSY,
                       "checkpoint %s is being loaded by the servers for job %s: remove it when "
                       "the job trains (shoal status tells)",
                       m->name, m->job);
    if (same)
        return err_set(e, SHOAL_E_DENIED,
                       "checkpoint %s stays: job %s went on from %.200s, goes back there when "
                       "rows are lost, and has made no other one: make one first (shoal "
                       "checkpoint create), or wait for the job's end",
                       m->name, m->job, m->from);
    return 0;
}

static int published_check(const struct coord_removing *m, struct err *e)
{
    for (uint32_t i = 0; i < 2; i++)
        if (strcmp(m->path, m->published[i]) == 0)
            return err_set(e, SHOAL_E_DENIED,
                           "checkpoint %s stays: the command of checkpoint.publish %s; remove it "
                           "when that command has ended (shoal status tells)",
                           m->name, i == 0 ? "works on it" : "takes it next");
    return 0;
}

/* Reads the name of its owner. An empty name: the manifest is damaged, so that no job can begin
 * with the checkpoint. */
static int owner_of(const void *manifest, size_t bytes, char owner[COORD_CHECKPOINT_OWNER],
                    struct err *e)
{
    struct json *m = NULL;
    int rc = manifest_parse(manifest, bytes, &m, e);
    const char *job = json_get_string(m, "job", "");
    owner[0] = 0;
    if (rc == 0)
        coord_checkpoint_owner(
            job, json_get_string(json_array_at(json_get(m, "tables"), 0), "space", job), owner);
    json_free(m);
    if (rc == SHOAL_E_CHECKSUM || rc == SHOAL_E_CORRUPT)
        return 0;
    return rc;
}

static int claim_take(const struct coord_removing *m, const char *owner,
                      struct coord_folder_claim *claim, struct err *e)
{
    if (owner[0] == 0 || (strcmp(owner, m->claimed) == 0 && !m->of_tables))
        return 0;
    int rc = m->ops->claim(m->dir, owner, true, claim, e);
    if (rc == SHOAL_E_CANTCREATE)
        return err_set(e, SHOAL_E_DENIED,
                       "checkpoint %s stays: it is of job %s, which another coordinator trains "
                       "with checkpoints in %.200s: have that coordinator remove it "
                       "(--coordinator EP), or wait for its job's end",
                       m->name, owner, m->dir);
    return rc;
}

static int folder_remove(struct coord_removing *m, struct err *e)
{
    int rc = m->ops->remove(m->path, e);
    m->more = rc == SHOAL_E_AGAIN; /* the name is gone; the sweeper removes the rest */
    if (rc == SHOAL_E_BUSY)
        return err_set(
            e, rc,
            "checkpoint %s is being read: by a job that loads it, predict, eval, export, "
            "verify, sign, diff or a copy; wait for the end of that: `fuser -v "
            "%.250s/" MANIFEST_FILE "`, as root on the reader's machine, names it",
            m->name, m->path);
    if (m->more)
        return 0;
    return rc;
}

static int remove_run(struct coord_errand *r, struct err *e)
{
    struct coord_removing *m = removing_of(r);
    struct coord_folder_claim claim = {.path = ""};
    char owner[COORD_CHECKPOINT_OWNER];
    void *manifest = NULL;
    size_t bytes = 0;
    int rc = find(m, e);
    if (rc == 0)
        rc = published_check(m, e);
    if (rc == 0)
        rc = m->ops->get(m->path, MANIFEST_FILE, MANIFEST_BYTES_MAX, &manifest, &bytes, e);
    if (rc == 0)
        rc = from_check(m, manifest, bytes, e);
    if (rc == 0)
        rc = owner_of(manifest, bytes, owner, e);
    if (rc == 0)
        rc = claim_take(m, owner, &claim, e);
    if (rc == 0)
        rc = folder_remove(m, e);
    m->ops->disclaim(&claim);
    free(manifest);
    return rc;
}

/* A removed checkpoint does not come back, so there is nothing to undo. */
static void remove_undo(struct coord_errand *r)
{
    (void)r;
}

static void remove_free(struct coord_errand *r)
{
    free(removing_of(r));
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static int name_check(const struct coord_job *j, const char *name, struct err *e)
{
    const struct coord_checkpoint_record *newest = coord_checkpoint_record(j, 0);
    if (!manifest_name_ok(name))
        return err_set(e, SHOAL_E_USAGE,
                       "'%s' is no name of a checkpoint: say the name alone, as `shoal checkpoint "
                       "list` prints it, without the folder before it",
                       name);
    if (j->fleet->options.folder == NULL)
        return err_set(e, SHOAL_E_CONFIG, "this coordinator keeps no checkpoints");
    if (j->spec.checkpoint.dir[0] == 0 && j->space->made->spec.checkpoint.dir[0] == 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "no job with a checkpoint.dir is known here, so there is no folder to remove "
            "%s from: ask the coordinator whose job made it (--coordinator EP)",
            name);
    if (coord_phase_running(j) && newest != NULL && strcmp(newest->name, name) == 0)
        return err_set(
            e, SHOAL_E_DENIED,
            "checkpoint %s stays: it is the newest of job %s, which runs and goes back "
            "to it when rows are lost: make a newer one first (shoal checkpoint create), "
            "or wait for the job's end",
            name, j->spec.name);
    return 0;
}

/* Notes the checkpoint that the running job loads, or goes back to while it has made none
 * itself. */
static void from_note(const struct coord_job *j, struct coord_removing *m)
{
    const struct coord_progress *at = &j->at;
    if (!coord_phase_running(j))
        return;
    bool alone = coord_from_resumes(at) && coord_checkpoint_record(j, 0) == NULL;
    m->loads = coord_from_loading(at) && !alone;
    if (m->loads || alone)
        text_copy(m->from, sizeof m->from, at->from_path);
}

static int begin(struct coord_job *j, const struct coord_ask *a, void *context,
                 coord_errand_done removed, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    const char *name = a->request->u.CHECKPOINT_REMOVE.name;
    const char *dir = j->spec.checkpoint.dir, *tables_dir = j->space->made->spec.checkpoint.dir;
    SHOAL_ASSERT(k->removing == NULL); /* 3 */
    int rc = name_check(j, name, e);
    dir = text_unless_empty(dir, tables_dir);
    if (rc == 0)
        rc = coord_errand_check(j->fleet, dir, e);
    if (rc == 0 && k->keeper != NULL) /* the keeper has the claim */
        rc = err_set(e, SHOAL_E_BUSY, "old checkpoints are being removed: ask again in a moment");
    if (rc != 0)
        return rc;
    struct coord_removing *m = calloc(1, sizeof *m);
    if (m == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to remove a checkpoint");
    m->errand.run = remove_run;
    m->errand.undo = remove_undo;
    m->errand.free = remove_free;
    text_copy(m->errand.folder, sizeof m->errand.folder, dir);
    m->ops = j->fleet->options.folder;
    m->root = text_or(j->fleet->options.checkpoint_root, "");
    text_copy(m->name, sizeof m->name, name);
    text_copy(m->dir, sizeof m->dir, dir);
    if (strcmp(dir, tables_dir) != 0)
        text_copy(m->tables_dir, sizeof m->tables_dir, tables_dir);
    memcpy(m->published[0], k->hook.path, LIMIT_PATH);
    memcpy(m->published[1], k->hook.next, LIMIT_PATH);
    text_copy(m->job, sizeof m->job, j->spec.name);
    if (coord_phase_running(j) && k->claim.path[0] != 0)
        coord_checkpoint_owner(j->spec.name, j->spec.space, m->claimed);
    from_note(j, m);
    m->number = j->at.number;
    m->asker = a->from;
    m->who = a->who;
    m->request = *a->request;
    rc = coord_errand_start(j->fleet, &m->errand, context, removed, e);
    if (rc == 0)
        k->removing = m;
    return rc;
}

/* Marks the record as removed, so that the status does not name it. A job that has begun meanwhile
 * has another list. */
static void record_note(struct coord_job *j, const struct coord_removing *m)
{
    struct coord_checkpoint_list *l = j->checkpoint->list;
    bool noted = false;
    for (uint32_t i = 0; i < COORD_CHECKPOINTS_MAX; i++)
        if (m->number == l->number && !m->of_tables && l->record[i].removed == 0 &&
            strcmp(l->record[i].name, m->name) == 0) {
            l->record[i].removed = 1;
            noted = true;
        }
    if (noted)
        (void)coord_checkpoint_list_note(j);
}

bool coord_checkpoint_removes(const struct coord_job *j, const struct coord_errand *r)
{
    return j->checkpoint->removing != NULL && &j->checkpoint->removing->errand == r;
}

const struct coord_removing *coord_checkpoint_removed(struct coord_job *j, struct coord_errand *r,
                                                      int rc, const struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct coord_removing *m = removing_of(r);
    SHOAL_ASSERT(k->removing == m && !m->over);
    m->over = true;
    m->rc = rc;
    m->e = *e;
    if (rc == 0)
        log_info("checkpoint %s is removed, as was asked for", m->path);
    if (rc == 0 && m->more && !k->sweep) { /* files are left: sweep the folder */
        memcpy(k->swept, m->dir, sizeof k->swept);
        k->sweep = true;
    }
    /* While a job runs, its folder may only be unmounted for a moment, so the record stays. */
    if (rc == 0 || (rc == SHOAL_E_NOT_FOUND && !coord_phase_running(j)))
        record_note(j, m);
    return m;
}

void coord_checkpoint_remove_end(struct coord_job *j, int rc)
{
    struct coord_removing *m = j->checkpoint->removing;
    SHOAL_ASSERT(m != NULL && m->over);
    j->checkpoint->removing = NULL;
    if (rc == 0)
        coord_errand_leave(j->fleet, &m->errand);
}

/* ---- answers --------------------------------------------------------------------------------- */

static int answer_again(const struct coord_job *j, struct coord_ask *a)
{
    const struct coord_checkpoint *k = j->checkpoint;
    if (k->removed.status != 0)
        return err_set(&a->e, k->removed.status, "%s", k->removed.text);
    memcpy(a->reply.u.CHECKPOINT_REMOVE_reply.path, k->removed.path, LIMIT_PATH);
    return 0;
}

static void answer_note(struct coord_job *j, const struct coord_removing *m)
{
    struct coord_checkpoint *k = j->checkpoint;
    k->removed.peer = m->asker;
    k->removed.id = m->request.id;
    k->removed.status = m->rc;
    memcpy(k->removed.text, m->e.text, sizeof k->removed.text);
    memcpy(k->removed.path, m->path, sizeof k->removed.path);
}

/* A waiting client repeats its request. The order is audited the first time, and when it has its
 * result. */
static int busy(struct coord_job *j, struct coord_ask *a)
{
    struct coord_checkpoint *k = j->checkpoint;
    const char *name = a->request->u.CHECKPOINT_REMOVE.name;
    if (k->remove_waits.peer != a->from || strcmp(k->remove_waits.name, name) != 0) {
        k->remove_waits.peer = a->from;
        text_copy(k->remove_waits.name, LIMIT_NAME, name);
        return SHOAL_E_BUSY;
    }
    a->later = true;
    coord_send(j->fleet, a->from, wire_refusal(a->request, SHOAL_E_BUSY, "%s", a->e.text));
    return 0;
}

int coord_checkpoint_remove(struct coord_job *j, struct coord_ask *a, void *context,
                            coord_errand_done removed)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct coord_removing *m = k->removing;
    bool same = m != NULL && m->asker == a->from && m->request.id == a->request->id;
    int rc = 0;
    if (same && m->over)
        answer_note(j, m);
    if (k->removed.peer == a->from && k->removed.id == a->request->id && a->request->id != 0) {
        rc = answer_again(j, a);
    } else {
        if (m == NULL)
            rc = begin(j, a, context, removed, &a->e);
        else if (!same)
            rc = err_set(&a->e, SHOAL_E_BUSY,
                         "checkpoint %s is being removed: ask again in a moment", m->name);
        a->later = rc == 0;
    }
    if (rc == SHOAL_E_BUSY)
        return busy(j, a);
    return rc;
}
