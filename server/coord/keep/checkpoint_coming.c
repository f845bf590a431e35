/* checkpoint_coming.c: a checkpoint that is to get its name. The folder gets it on another thread,
 * and the list of checkpoints knows it only afterwards. A coordinator that ends in between leaves a
 * whole checkpoint, to which its job must go back when rows are lost. So its record is stored
 * before, and the next coordinator looks for the folder (checkpoint_keep.c). */
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/job/manifest.h"
#include "server/coord/core/phase.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMING_KEY "checkpoint_coming"
#define SECOND_NS UINT64_C(1000000000)

bool coord_checkpoint_comes(const struct coord_job *j)
{
    uint64_t number = j->checkpoint->coming.number;
    return number != 0 && number == j->at.number && coord_phase_running(j);
}

/* ---- stored ---------------------------------------------------------------------------------- */

bool coord_checkpoint_coming_put(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    const struct coord_making *m = k->making;
    uint64_t age_ns = env_now_ns(j->fleet->env) - k->begun_ns;
    SHOAL_ASSERT(k->state == CHECKPOINT_EXPORTING && m->saved_bytes > 0);
    SHOAL_ASSERT(!coord_checkpoint_comes(j)); /* none begins while one is looked for */
    if (k->reason == CHECKPOINT_OF_TABLES || !coord_phase_running(j))
        return true; /* no job goes back to it */
    k->coming = (struct coord_checkpoint_coming){.number = j->at.number,
                                                 .state = hash_bytes(m->saved, m->saved_bytes, 0),
                                                 .begun_s = j->fleet->options.folder->wall_s() -
                                                            age_ns / SECOND_NS,
                                                 .reason = k->reason,
                                                 .record = k->record};
    return coord_job_put(j, COMING_KEY, &k->coming, sizeof k->coming);
}

void coord_checkpoint_coming_forget(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->coming.number == 0)
        return;
    k->coming = (struct coord_checkpoint_coming){.number = 0};
    (void)coord_job_note(j, COMING_KEY, &k->coming, sizeof k->coming);
}

/* A removed checkpoint's name may be given again: the figures tell the two apart. */
static bool same_made(const struct coord_checkpoint_record *a,
                      const struct coord_checkpoint_record *b)
{
    return strcmp(a->name, b->name) == 0 && a->rows == b->rows && a->bytes == b->bytes &&
           memcmp(&a->seconds, &b->seconds, sizeof a->seconds) == 0 &&
           memcmp(&a->held_seconds, &b->held_seconds, sizeof a->held_seconds) == 0;
}

int coord_checkpoint_coming_open(struct coord_job *j, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    const struct coord_checkpoint_list *l = k->list;
    struct coord_checkpoint_coming c;
    int rc = coord_store_get_fixed(j->store, COMING_KEY, &c, sizeof c, e);
    if (rc == SHOAL_E_NOT_FOUND || rc == SHOAL_E_CORRUPT)
        return 0;
    if (rc != 0 || c.number != j->at.number || !coord_phase_running(j))
        return rc;
    c.record.name[sizeof c.record.name - 1] = 0;
    if (l->made == 0 || !same_made(&l->record[(l->made - 1) % COORD_CHECKPOINTS_MAX], &c.record))
        k->coming = c;
    return 0;
}

/* ---- the folder ------------------------------------------------------------------------------ */

int coord_checkpoint_coming_there(const struct coord_folder_ops *ops, const char *dir,
                                  const struct coord_checkpoint_coming *coming, bool *there,
                                  struct err *e)
{
    char path[LIMIT_PATH];
    struct json *m = NULL;
    void *text = NULL;
    size_t bytes = 0;
    uint64_t state = 0;
    struct err why = {0};
    *there = false;
    (void)snprintf(path, sizeof path, "%.900s/%s", dir, coming->record.name);
    int rc = ops->get(path, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes, e);
    if (rc == SHOAL_E_TOO_BIG) /* no manifest of ours */
        log_warn("%s", e->text);
    if (rc == SHOAL_E_NOINPUT || rc == SHOAL_E_NOT_FOUND || rc == SHOAL_E_TOO_BIG) {
        *e = (struct err){0};
        return 0;
    }
    if (rc != 0)
        return rc;
    rc = manifest_parse(text, bytes, &m, &why);
    *there = rc == 0 &&
             manifest_hex(json_get(manifest_file(m, MANIFEST_STATE_FILE), "xxh3"), &state) &&
             state == coming->state;
    json_free(m);
    free(text);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "%s: no memory for its manifest", path);
    if (!*there)
        log_warn("%s is not the checkpoint that the job was making when the coordinator ended: %s",
                 path, rc != 0 ? why.text : "its state is another's");
    return 0;
}
