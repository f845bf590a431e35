/* checkpoint_keep.c: names, pruning and publishing of checkpoints. */
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

/* grace time of a publish command that was asked to end */
#define HOOK_TERM_NS UINT64_C(10000000000)
/* the longest time that a job which is over waits for its publish command */
#define HOOK_WAIT_NS UINT64_C(60000000000)
/* between two looks at a folder that cannot be read */
#define LOOK_NS UINT64_C(1000000000)

bool coord_checkpoint_newest(const struct coord_job *j, uint32_t older, char path[LIMIT_PATH])
{
    const struct coord_checkpoint_record *r = coord_checkpoint_record(j, older);
    /* after a restart the folder may take long to open: until then the job's own path stands */
    const char *dir = text_unless_empty(j->checkpoint->dir, j->spec.checkpoint.dir);
    if (r == NULL || dir[0] == 0)
        return false;
    (void)snprintf(path, LIMIT_PATH, "%.900s/%s", dir, r->name);
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void number_name(uint64_t number, char name[LIMIT_NAME])
{
    (void)snprintf(name, LIMIT_NAME, "%06" PRIu64, number);
}

static void name_seen(void *context, const char *name)
{
    struct coord_checkpoint_names *n = context;
    n->found = n->found || (n->want != NULL && strcmp(n->want, name) == 0);
    if (!n->collect || !manifest_name_counts(name))
        return;
    char same[LIMIT_NAME];
    number_name(strtoull(name, NULL, 10), same);
    if (strcmp(same, name) != 0) /* not a name that number_name makes */
        return;
    if (array_room(&n->number, n->count, &n->capacity, 64) != 0)
        return;
    SHOAL_ASSERT(n->count < n->capacity);
    n->number[n->count++] = strtoull(name, NULL, 10);
}

int coord_checkpoint_names(const struct coord_folder_ops *ops, const char *dir,
                           struct coord_checkpoint_names *out, struct err *e)
{
    SHOAL_ASSERT(dir[0] == '/' && out->count == 0);
    return ops->list(dir, name_seen, out, e);
}

uint64_t coord_checkpoint_last(const struct coord_job *j)
{
    struct coord_checkpoint_names n = {.collect = true};
    uint64_t last = 0;
    for (uint32_t i = 0; i < COORD_CHECKPOINTS_MAX; i++)
        name_seen(&n, j->checkpoint->list->record[i].name);
    for (size_t i = 0; i < n.count; i++)
        last = MAX(n.number[i], last);
    free(n.number);
    return last;
}

int coord_checkpoint_next_name(const struct coord_folder_ops *ops, const char *dir,
                               char name[LIMIT_NAME], uint64_t *number, struct err *e)
{
    struct coord_checkpoint_names n = {.collect = true};
    int rc = coord_checkpoint_names(ops, dir, &n, e);
    for (size_t i = 0; i < n.count; i++)
        *number = MAX(n.number[i], *number);
    free(n.number);
    number_name(++*number, name);
    SHOAL_ASSERT(rc != 0 || manifest_name_ok(name));
    return rc;
}

bool coord_checkpoint_of_tables(const struct coord_job *j)
{
    return j->checkpoint->reason == CHECKPOINT_OF_TABLES;
}

const struct job *coord_checkpoint_spec(const struct coord_job *j)
{
    if (coord_checkpoint_of_tables(j))
        return &j->space->made->spec;
    return &j->spec;
}

/* ---- its folder ------------------------------------------------------------------------------ */

int coord_checkpoint_dir(const struct coord_folder_ops *ops, const char *root, char dir[LIMIT_PATH],
                         struct err *e)
{
    char absolute[LIMIT_PATH];
    int rc = 0;
    if (root[0] != 0)
        rc = ops->below(root, dir, e); /* checked before the folder is made */
    if (rc == 0)
        rc = ops->open(dir, absolute, e);
    if (rc == 0)
        memcpy(dir, absolute, sizeof absolute);
    return rc;
}

/* ---- pruning --------------------------------------------------------------------------------- */

struct keeping {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root;     /* borrowed */
    bool open;            /* dir is only opened, nothing is pruned */
    char dir[LIMIT_PATH]; /* absolute, once it is open */
    char job[LIMIT_NAME];
    uint32_t keep, keep_named;     /* 0: all */
    char published[2][LIMIT_PATH]; /* the publish command works on these, or takes them next */
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
    if (manifest_parse(text, bytes, &m, NULL) == 0 &&
        strcmp(json_get_string(m, "job", ""), p->job) == 0) {
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
    number_name(strtoull(name, NULL, 10), same);
    if (keep_of(l->p, name) == 0 || (manifest_name_counts(name) && strcmp(same, name) != 0))
        return; /* keep all, or not a name that number_name makes */
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
    return p->ops->claim(p->dir, p->job, p->keep + p->keep_named != 0, &p->claim, e);
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

/* ---- sweeping -------------------------------------------------------------------------------- */

#define SWEEP_NS UINT64_C(50000000)

struct sweeping {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    bool more;
};

static int sweep_run(struct coord_errand *r, struct err *e)
{
    struct sweeping *s = container_of(r, struct sweeping, errand);
    (void)e;
    s->more = s->ops->sweep(r->folder);
    return 0;
}

static void sweep_undo(struct coord_errand *r)
{
    (void)r;
}

static void sweep_free(struct coord_errand *r)
{
    free(container_of(r, struct sweeping, errand));
}

static void sweep_done(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_checkpoint *k = j->checkpoint;
    (void)e;
    SHOAL_ASSERT(k->sweeper == r);
    k->sweeper = NULL;
    k->sweep = rc == 0 && container_of(r, struct sweeping, errand)->more;
    k->swept_ns = env_now_ns(j->fleet->env);
    if (rc == 0)
        coord_errand_leave(j->fleet, r);
}

void coord_checkpoint_sweep(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->sweep || k->dir[0] == 0)
        return; /* each checkpoint asks again */
    memcpy(k->swept, k->dir, sizeof k->swept);
    k->sweep = true;
}

void coord_checkpoint_sweep_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (!k->sweep || k->sweeper != NULL || env_now_ns(j->fleet->env) - k->swept_ns < SWEEP_NS)
        return;
    struct sweeping *s = calloc(1, sizeof *s);
    k->sweep = s != NULL;
    if (s == NULL)
        return;
    s->errand.run = sweep_run;
    s->errand.undo = sweep_undo;
    s->errand.free = sweep_free;
    s->ops = j->fleet->options.folder;
    memcpy(s->errand.folder, k->swept, sizeof k->swept);
    k->sweeper = &s->errand;
    if (coord_errand_start(j->fleet, &s->errand, j, sweep_done, NULL) != 0) {
        k->sweeper = NULL;
        k->sweep = false;
    }
}

/* ---- publishing ------------------------------------------------------------------------------ */

enum { PUBLISH_NONE, PUBLISH_RUNS, PUBLISH_DONE, PUBLISH_FAILED, PUBLISH_PASSED, PUBLISH_OVER };

static void hook_begin(struct coord_job *j, const char *path, uint32_t record)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct err e = {0};
    SHOAL_ASSERT(!k->hook.running && record < COORD_CHECKPOINTS_MAX);
    if (j->spec.checkpoint.publish.count == 0)
        return;
    if (j->fleet->options.hook_start(j->fleet->options.context, j->slot,
                                     &j->spec.checkpoint.publish, path, &e) != 0) {
        log_warn("checkpoint %s is not published: %s", path, e.text);
        k->list->record[record].published = PUBLISH_FAILED;
        k->list->record[record].publish_status = -1;
        return;
    }
    k->hook.running = true;
    k->hook.foreign = false;
    k->hook.record = record;
    k->hook.since_ns = env_now_ns(j->fleet->env);
    k->hook.limit_ns = j->spec.checkpoint.publish_limit_ms * UINT64_C(1000000);
    k->hook.stop = HOOK_FREE;
    text_copy(k->hook.path, sizeof k->hook.path, path);
    k->list->record[record].published = PUBLISH_RUNS;
}

void coord_checkpoint_publish(struct coord_job *j, uint32_t record)
{
    struct coord_checkpoint *k = j->checkpoint;
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE); /* the checkpoint has its name */
    SHOAL_ASSERT(record == (k->list->made - 1) % COORD_CHECKPOINTS_MAX);
    if (j->spec.checkpoint.publish.count == 0 || j->fleet->options.hook_start == NULL)
        return;
    if (!k->hook.running) {
        hook_begin(j, k->path, record);
        return;
    }
    /* the command has run while a whole list was made: its own record is overwritten */
    if (k->hook.record == record)
        k->hook.foreign = true;
    if (k->hook.next[0] != 0)
        /* a newer one takes its place */
        k->list->record[k->hook.next_record].published = PUBLISH_PASSED;
    k->hook.next_record = record;
    text_copy(k->hook.next, sizeof k->hook.next, k->path);
}

/* Ends a publish command that hangs, which would keep later checkpoints from being published. */
static void hook_limit(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    uint64_t age = env_now_ns(j->fleet->env) - k->hook.since_ns;
    SHOAL_ASSERT(k->hook.running && k->hook.stop <= HOOK_KILLED);
    if (k->hook.stop == HOOK_FREE && age > k->hook.limit_ns) {
        log_warn("checkpoint.publish of %s takes longer than checkpoint.publish_limit, %.0f s: it "
                 "is asked to end",
                 k->hook.path, (double)k->hook.limit_ns * 1e-9);
        k->hook.stop = HOOK_ASKED;
        j->fleet->options.hook_stop(j->fleet->options.context, j->slot, false);
    } else if (k->hook.stop == HOOK_ASKED && age > k->hook.limit_ns + HOOK_TERM_NS) {
        log_warn("checkpoint.publish of %s does not end: it is killed", k->hook.path);
        k->hook.stop = HOOK_KILLED;
        j->fleet->options.hook_stop(j->fleet->options.context, j->slot, true);
    }
}

void coord_checkpoint_publish_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    int exit_status = 0;
    /* a checkpoint waits only while a command runs */
    SHOAL_ASSERT(k->hook.running || k->hook.next[0] == 0);
    if (!k->hook.running)
        return;
    if (!j->fleet->options.hook_poll(j->fleet->options.context, j->slot, &exit_status)) {
        hook_limit(j);
        return;
    }
    if (!k->hook.foreign) {
        SHOAL_ASSERT(k->hook.record < COORD_CHECKPOINTS_MAX);
        struct coord_checkpoint_record *r = &k->list->record[k->hook.record];
        r->published = PUBLISH_FAILED;
        if (exit_status == 0)
            r->published = PUBLISH_DONE;
        else if (k->hook.stop != HOOK_FREE)
            r->published = PUBLISH_OVER;
        r->publish_status = exit_status;
    }
    if (exit_status == 0)
        log_info("checkpoint %s is published", k->hook.path);
    else
        log_warn("checkpoint.publish of %s ended with exit status %d", k->hook.path, exit_status);
    k->hook.running = false;
    k->hook.path[0] = 0;
    if (k->hook.next[0] != 0)
        hook_begin(j, k->hook.next, k->hook.next_record);
    k->hook.next[0] = 0;
    (void)coord_checkpoint_list_note(j);
}

void coord_checkpoint_publish_lost(struct coord_job *j)
{
    struct coord_checkpoint_list *l = j->checkpoint->list;
    for (uint32_t i = 0; i < COORD_CHECKPOINTS_MAX; i++)
        if (l->record[i].published == PUBLISH_RUNS) {
            l->record[i].published = PUBLISH_FAILED;
            l->record[i].publish_status = -1;
        }
}

void coord_checkpoint_publish_missed(struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    if (k->list->made == 0 || k->hook.running)
        return;
    const struct coord_checkpoint_record *r =
        &k->list->record[(k->list->made - 1) % COORD_CHECKPOINTS_MAX];
    if (r->published == PUBLISH_OVER)
        coord_missed(j, SHOAL_E_IO,
                     "the job is done, but checkpoint.publish of its newest checkpoint, %s, "
                     "did not end within checkpoint.publish_limit",
                     r->name);
    else if (r->published == PUBLISH_FAILED)
        coord_missed(j, SHOAL_E_IO,
                     "the job is done, but checkpoint.publish of its newest checkpoint, %s, "
                     "failed (exit status %d; -1: it did not start, or the coordinator died)",
                     r->name, r->publish_status);
}

struct json *coord_checkpoint_publish_json(const struct coord_job *j)
{
    static const char *const running[] = {"running", "over its limit: asked to end",
                                          "over its limit: killed"};
    const struct coord_checkpoint *k = j->checkpoint;
    const struct coord_checkpoint_record *r = NULL;
    SHOAL_ASSERT(k->hook.stop <= HOOK_KILLED);
    bool runs = k->hook.running && !k->hook.foreign;
    for (uint32_t i = 0; i < COORD_CHECKPOINTS_MAX && i < k->list->made && r == NULL; i++) {
        const struct coord_checkpoint_record *at =
            &k->list->record[(k->list->made - 1 - i) % COORD_CHECKPOINTS_MAX];
        if (at->published >= PUBLISH_DONE && at->published <= PUBLISH_OVER &&
            at->published != PUBLISH_PASSED)
            r = at;
    }
    if (!runs && r == NULL)
        return NULL;
    struct json *s = json_new_object();
    json_set_string(s, "checkpoint", runs ? k->list->record[k->hook.record].name : r->name);
    json_set_string(s, "state", runs ? running[k->hook.stop] : coord_checkpoint_published(r));
    if (runs) {
        json_set_number(s, "seconds",
                        (double)(env_now_ns(j->fleet->env) - k->hook.since_ns) * 1e-9);
        json_set_number(s, "limit_seconds", (double)k->hook.limit_ns * 1e-9);
    } else {
        json_set_int(s, "exit_status", r->publish_status);
    }
    return s;
}

uint64_t coord_checkpoint_cut(const struct coord_job *j)
{
    if (j->checkpoint->state != CHECKPOINT_EXPORTING)
        return 0;
    return j->checkpoint->cut;
}

bool coord_checkpoint_busy(const struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    return k->state != CHECKPOINT_IDLE ||
           (k->hook.running && env_now_ns(j->fleet->env) - j->phase_ns < HOOK_WAIT_NS);
}
