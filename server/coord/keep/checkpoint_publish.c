/* checkpoint_publish.c: runs the publish command for each checkpoint that was made. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <string.h>

/* grace time of a publish command that was asked to end */
#define HOOK_TERM_NS UINT64_C(10000000000)
/* the longest time that a job which is over waits for its publish command */
#define HOOK_WAIT_NS UINT64_C(60000000000)

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

bool coord_checkpoint_busy(const struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    return k->state != CHECKPOINT_IDLE ||
           (k->hook.running && env_now_ns(j->fleet->env) - j->phase_ns < HOOK_WAIT_NS);
}
