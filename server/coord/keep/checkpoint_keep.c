/* checkpoint_keep.c: prunes old checkpoints of a job, and keeps the claim on them. */
#include "server/coord/keep/checkpoint_keep.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/core/phase.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* between two looks at a folder that cannot be read */
#define LOOK_NS UINT64_C(1000000000)

struct keeping {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root;     /* borrowed */
    bool open;            /* dir is only opened, nothing is pruned */
    char dir[LIMIT_PATH]; /* absolute, once it is open */
    char job[LIMIT_NAME], space[LIMIT_NAME];
    char owner[COORD_CHECKPOINT_OWNER]; /* of the claim */
    uint32_t keep, keep_named;          /* 0: all */
    char published[2][LIMIT_PATH];      /* the publish command works on these, or takes them next */
    struct coord_folder_claim claim;
    bool more; /* removed checkpoints have left files */
    /* the checkpoint that is looked for, number 0: none; there: it has its name */
    struct coord_checkpoint_coming coming;
    bool there;
    struct err unread; /* why it is not known, code 0: it is */
};

static struct keeping *keeping_of(struct coord_errand *r)
{
    return container_of(r, struct keeping, errand);
}

struct kept {
    char name[LIMIT_NAME];
    struct json *order; /* owned; the fields of its manifest that tell when it was made */
    bool lacking;       /* it was made without servers that were away */
};

struct kept_list {
    const struct keeping *p;
    struct kept *item; /* (count), owned */
    size_t count, capacity;
};

void coord_checkpoint_owner(const char *job, const char *space, char out[COORD_CHECKPOINT_OWNER])
{
    bool own = strcmp(space, job) == 0;
    (void)snprintf(out, COORD_CHECKPOINT_OWNER, "%s%s%s", job, text_if(!own, "/"),
                   text_if(!own, space));
}

/* True for a checkpoint of this job's tables: those of a job with the same name in another space
 * are not its own. Manifests of earlier releases name no space. */
static bool is_own(const struct keeping *p, const struct json *m)
{
    const struct json *table = json_array_at(json_get(m, "tables"), 0);
    return strcmp(json_get_string(m, "job", ""), p->job) == 0 &&
           strcmp(json_get_string(table, "space", p->space), p->space) == 0;
}

/* Fills in the ordering fields of a checkpoint of this job, else none. Several jobs may share the
 * folder, and a manifest that cannot be read could belong to any of them. */
static void order_read(const struct keeping *p, const char *name, struct kept *k)
{
    static const char *const keys[] = {"name", "number", "run", "epoch", "examples"};
    struct json *m = NULL;
    char path[LIMIT_PATH];
    void *text = NULL;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%.900s/%s", p->dir, name);
    if (p->ops->get(path, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes, NULL) != 0)
        return;
    if (manifest_parse(text, bytes, &m, NULL) == 0 && is_own(p, m)) {
        k->order = json_new_object();
        k->lacking = json_count(json_get(m, "missing")) > 0;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (!json_absent(json_get(m, keys[i])))
                json_set(k->order, keys[i], json_hold(json_get(m, keys[i])));
    }
    json_free(m);
    free(text);
}

static uint32_t keep_of(const struct keeping *p, const char *name)
{
    return manifest_name_counts(name) ? p->keep : p->keep_named;
}

static void kept_seen(void *context, const char *name)
{
    struct kept_list *l = context;
    char same[LIMIT_NAME];
    coord_checkpoint_number_name(strtoull(name, NULL, 10), same);
    if (keep_of(l->p, name) == 0 || (manifest_name_counts(name) && strcmp(same, name) != 0))
        return; /* keep all, or not a name that coord_checkpoint_number_name makes */
    struct kept k = {.order = NULL};
    order_read(l->p, name, &k);
    if (k.order == NULL)
        return;
    if (array_room(&l->item, l->count, &l->capacity, 64) != 0) {
        json_free(k.order);
        return;
    }
    (void)snprintf(k.name, sizeof k.name, "%.63s", name);
    l->item[l->count++] = k;
}

/* Kinds of checkpoints, of which each has its own count: one that lacks rows must not take the
 * place of the last one that has all. */
enum { NAMED, NUMBERED, LACKING, KINDS };

static uint32_t kind_of(const struct kept *k)
{
    if (k->lacking)
        return LACKING;
    return manifest_name_counts(k->name) ? NUMBERED : NAMED;
}

static int kept_compare(const void *a, const void *b)
{
    return manifest_order(((const struct kept *)a)->order, ((const struct kept *)b)->order);
}

/* A job that keeps all shares the claim on its checkpoints with others that keep all. */
static int claim_take(struct keeping *p, struct err *e)
{
    if (p->claim.path[0] != 0)
        return 0;
    return p->ops->claim(p->dir, p->owner, p->keep + p->keep_named != 0, &p->claim, e);
}

static void prune_one(struct keeping *p, const char *name)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    (void)snprintf(path, sizeof path, "%.900s/%s", p->dir, name);
    if (strcmp(path, p->published[0]) == 0 || strcmp(path, p->published[1]) == 0)
        return;
    int rc = p->ops->remove(path, &e);
    p->more = p->more || rc == SHOAL_E_AGAIN;
    if (rc == 0 || rc == SHOAL_E_AGAIN)
        log_info("checkpoint %s is removed: the newest %u are kept", path, keep_of(p, name));
    else if (rc != SHOAL_E_BUSY) /* BUSY: a reader has it open */
        log_warn("%s", e.text);
}

static void prune(struct keeping *p)
{
    struct kept_list l = {.p = p};
    uint32_t kept[KINDS] = {0};
    struct err e = {0};
    int rc = claim_take(p, &e);
    if (rc == 0 && p->keep + p->keep_named != 0)
        rc = p->ops->list(p->dir, kept_seen, &l, &e);
    if (rc != 0)
        log_warn("old checkpoints stay: %s", e.text);
    if (l.count > 1)
        qsort(l.item, l.count, sizeof l.item[0], kept_compare);
    for (size_t i = l.count; i-- > 0;) {
        const char *name = l.item[i].name;
        if (rc == 0 && kept[kind_of(&l.item[i])]++ >= keep_of(p, name))
            prune_one(p, name);
        json_free(l.item[i].order);
    }
    free(l.item);
}

static int keeper_run(struct coord_errand *r, struct err *e)
{
    struct keeping *p = keeping_of(r);
    struct err why = {0};
    if (!p->open) {
        prune(p);
        return 0;
    }
    int rc = coord_checkpoint_dir(p->ops, p->root, p->dir, e);
    if (rc == 0 && claim_take(p, &why) != 0)
        log_warn("%s; this job removes none meanwhile, the other may", why.text);
    if (rc == 0 && p->coming.number != 0)
        (void)coord_checkpoint_coming_there(p->ops, p->dir, &p->coming, &p->there, &p->unread);
    return rc;
}

static void keeper_undo(struct coord_errand *r)
{
    struct keeping *p = keeping_of(r);
    if (p->claim.path[0] != 0)
        p->ops->disclaim(&p->claim);
}

static void keeper_free(struct coord_errand *r)
{
    free(keeping_of(r));
}

static struct keeping *keeping_new(const struct coord_fleet *f)
{
    struct keeping *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->errand.run = keeper_run;
    p->errand.undo = keeper_undo;
    p->errand.free = keeper_free;
    p->ops = f->options.folder;
    return p;
}

/* The folder was looked at: there: the checkpoint that was to come joins the job's list. */
static void coming_seen(struct coord_job *j, bool there)
{
    struct coord_checkpoint *k = j->checkpoint;
    const struct coord_checkpoint_coming c = k->coming;
    k->coming.number = 0;
    if (!there || !coord_phase_running(j))
        return;
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE && c.number == j->at.number);
    (void)snprintf(k->path, sizeof k->path, "%.900s/%s", k->dir, c.record.name);
    log_info("checkpoint %s was made when the coordinator ended", k->path);
    uint64_t age_s = SAT_SUB(j->fleet->options.folder->wall_s(), c.begun_s);
    k->last_ns = 0; /* the next one is due by the age of this one */
    k->prune = true;
    coord_checkpoint_made_note(j, &c.record, (enum coord_checkpoint_reason)c.reason,
                               age_s * UINT64_C(1000000000));
}

/* The folder cannot be read now: "it is not there" would make the job begin anew or go back further
 * than it has to, so coord_checkpoint_coming_step looks again. */
static void coming_unread(struct coord_job *j, const struct err *why)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->coming_ns == 0)
        log_warn("%s; checkpoint %s may be there: the coordinator looks again", why->text,
                 k->coming.record.name);
    k->coming_ns = MAX(env_now_ns(j->fleet->env), 1);
}

static void keeper_done(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_checkpoint *k = j->checkpoint;
    struct keeping *p = keeping_of(r);
    SHOAL_ASSERT(k->keeper == r && k->claim.path[0] == 0);
    bool looked = p->coming.number != 0 && p->coming.number == k->coming.number;
    k->keeper = NULL;
    if (rc != 0) {
        if (!looked || k->coming_ns == 0)
            log_warn("%s; %s", e->text, p->open ? "no checkpoint can be made" : "old ones stay");
        if (looked && (rc == SHOAL_E_USAGE || rc == SHOAL_E_DENIED)) /* the path is refused */
            coming_seen(j, false);
        else if (looked)
            coming_unread(j, e);
        return;
    }
    k->claim = p->claim;
    p->claim.path[0] = 0;
    memcpy(k->dir, p->dir, sizeof k->dir);
    if (looked && p->unread.code != 0)
        coming_unread(j, &p->unread);
    else if (looked)
        coming_seen(j, p->there);
    if (p->open || p->more)
        coord_checkpoint_sweep(j);
    coord_errand_leave(j->fleet, r);
}

void coord_checkpoint_keeper(struct coord_job *j, bool open)
{
    struct coord_checkpoint *k = j->checkpoint;
    const struct job *spec = &j->spec;
    const char *dir = spec->checkpoint.dir;
    if (!open) {
        spec = coord_checkpoint_spec(j);
        dir = k->dir;
    }
    struct err e = {0};
    SHOAL_ASSERT(k->keeper == NULL);
    if (spec != &j->spec && coord_phase_running(j))
        return; /* the claim belongs to the waiting job */
    /* checked first: an errand that is refused later would lose the claim of the folder */
    int rc = coord_errand_check(j->fleet, dir, &e);
    struct keeping *p = NULL;
    if (rc == 0)
        p = keeping_new(j->fleet);
    else
        log_warn("%s; old checkpoints stay", e.text);
    if (p == NULL)
        return; /* the next checkpoint prunes again */
    p->open = open;
    if (open && coord_checkpoint_comes(j))
        p->coming = k->coming;
    p->root = text_or(j->fleet->options.checkpoint_root, "");
    text_copy(p->dir, sizeof p->dir, dir);
    memcpy(p->errand.folder, p->dir, sizeof p->errand.folder);
    text_copy(p->job, sizeof p->job, spec->name);
    text_copy(p->space, sizeof p->space, spec->space);
    coord_checkpoint_owner(spec->name, spec->space, p->owner);
    p->keep = spec->checkpoint.keep;
    p->keep_named = spec->checkpoint.keep_named;
    text_copy(p->published[0], LIMIT_PATH, k->hook.path);
    text_copy(p->published[1], LIMIT_PATH, k->hook.next);
    p->claim = k->claim;
    k->claim.path[0] = 0;
    k->keeper = &p->errand;
    rc = coord_errand_start(j->fleet, &p->errand, j, keeper_done, NULL);
    SHOAL_ASSERT(rc == 0);
}

void coord_checkpoint_coming_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (!coord_checkpoint_comes(j) || k->state == CHECKPOINT_NAMING || k->keeper != NULL ||
        coord_errand_check(j->fleet, j->spec.checkpoint.dir, NULL) != 0 ||
        (k->coming_ns != 0 && env_now_ns(j->fleet->env) - k->coming_ns < LOOK_NS))
        return;
    coord_checkpoint_keeper(j, true);
}

bool coord_checkpoint_disclaim(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct keeping *p = NULL;
    if (k->keeper == NULL && k->claim.path[0] != 0)
        p = keeping_new(j->fleet);
    if (p == NULL)
        return k->keeper == NULL && k->claim.path[0] == 0;
    (void)snprintf(p->errand.folder, LIMIT_PATH, "%.*s",
                   (int)(strrchr(k->claim.path, '/') - k->claim.path), k->claim.path);
    p->claim = k->claim;
    k->claim.path[0] = 0;
    coord_errand_leave(j->fleet, &p->errand);
    return true;
}

uint64_t coord_checkpoint_cut(const struct coord_job *j)
{
    if (j->checkpoint->state != CHECKPOINT_EXPORTING)
        return 0;
    return j->checkpoint->cut;
}
