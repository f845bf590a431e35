/* checkpoint_told.c: how the report and the status describe checkpoints. */
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/core.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define TOLD_KEY "checkpoint_told"
#define LATE_INTERVALS 3
/* lower bound, as an interval may be shorter than the making of a checkpoint */
#define LATE_LEAST_NS UINT64_C(60000000000)
#define NS 1e-9

/* ---- stored ---------------------------------------------------------------------------------- */

bool coord_checkpoint_list_note(struct coord_job *j)
{
    SHOAL_ASSERT(j->checkpoint->list->number == j->at.number);
    return coord_job_note(j, "checkpoints", j->checkpoint->list, sizeof *j->checkpoint->list);
}

static void told_note(struct coord_job *j)
{
    j->checkpoint->told.number = j->at.number;
    (void)coord_job_note(j, TOLD_KEY, &j->checkpoint->told, sizeof j->checkpoint->told);
}

int coord_checkpoint_told_open(struct coord_job *j, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct coord_checkpoint_told *t = &k->told;
    int rc = coord_store_get_fixed(j->store, TOLD_KEY, t, sizeof *t, e);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND && rc != SHOAL_E_CORRUPT)
        return rc;
    if (rc != 0 || t->number != j->at.number)
        *t = (struct coord_checkpoint_told){.number = j->at.number};
    t->failure[sizeof t->failure - 1] = 0;
    if (t->made != k->list->made) /* the coordinator died between the two writes */
        t->newest_s = 0;
    uint64_t wall_s = 0;
    if (j->fleet->options.folder != NULL)
        wall_s = j->fleet->options.folder->wall_s();
    k->age_ns = SAT_SUB(wall_s, t->newest_s) * UINT64_C(1000000000);
    k->aged_ns = env_now_ns(j->fleet->env);
    return 0;
}

void coord_checkpoint_told_made(struct coord_job *j, uint64_t age_ns)
{
    struct coord_checkpoint *k = j->checkpoint;
    k->aged_ns = env_now_ns(j->fleet->env);
    k->age_ns = age_ns;
    k->told.newest_s = j->fleet->options.folder->wall_s() - k->age_ns / UINT64_C(1000000000);
    k->told.made = k->list->made;
    told_note(j);
}

void coord_checkpoint_failed(struct coord_job *j, const char *why)
{
    struct coord_checkpoint *k = j->checkpoint;
    k->list->failed++;
    text_copy(k->told.failure, sizeof k->told.failure, why);
    (void)coord_checkpoint_list_note(j);
    told_note(j);
}

bool coord_checkpoint_age(const struct coord_job *j, uint64_t *ns)
{
    const struct coord_checkpoint *k = j->checkpoint;
    *ns = k->age_ns + (env_now_ns(j->fleet->env) - k->aged_ns);
    return k->list->made > 0 && k->told.newest_s != 0;
}

const struct coord_checkpoint_record *coord_checkpoint_record(const struct coord_job *j,
                                                              uint32_t older)
{
    const struct coord_checkpoint_list *list = j->checkpoint->list;
    for (uint32_t i = 0; i < list->made && i < COORD_CHECKPOINTS_MAX; i++) {
        const struct coord_checkpoint_record *r =
            &list->record[(list->made - 1 - i) % COORD_CHECKPOINTS_MAX];
        if (r->removed == 0 && older-- == 0)
            return r;
    }
    return NULL;
}

uint64_t coord_checkpoint_batches(const struct coord_job *j)
{
    struct wire_WORKER_BEAT sum;
    uint64_t lanes = 0;
    coord_worker_sums(&j->workers, &sum);
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        lanes += j->tasks->lane[l].mark;
    return MAX(lanes, sum.batches);
}

/* ---- told ------------------------------------------------------------------------------------ */

static const char *const published[] = {"",       "running",     "done",
                                        "failed", "passed over", "over its limit"};

const char *coord_checkpoint_published(const struct coord_checkpoint_record *r)
{
    if (r->published > 0 && r->published < sizeof published / sizeof published[0])
        return published[r->published];
    return NULL;
}

struct json *coord_checkpoint_json(const struct coord_job *j)
{
    const struct coord_checkpoint_list *l = j->checkpoint->list;
    uint32_t count = MIN(l->made, COORD_CHECKPOINTS_MAX);
    struct json *list = json_new_array();
    for (uint32_t i = l->made - count; i < l->made; i++) {
        const struct coord_checkpoint_record *r = &l->record[i % COORD_CHECKPOINTS_MAX];
        const char *publish = coord_checkpoint_published(r);
        struct json *item = json_new_object();
        json_set_string(item, "name", r->name);
        json_set_int(item, "rows", (int64_t)r->rows);
        json_set_int(item, "bytes", (int64_t)r->bytes);
        json_set_number(item, "seconds", r->seconds);
        json_set_number(item, "held_seconds", r->held_seconds);
        if (publish != NULL) {
            json_set_string(item, "publish", publish);
            json_set_int(item, "publish_status", r->publish_status);
        }
        if (r->removed != 0)
            json_set_bool(item, "removed", true);
        json_append(list, item);
    }
    return list;
}

void coord_checkpoint_status(const struct coord_job *j, struct json *s)
{
    const struct coord_checkpoint *k = j->checkpoint;
    const struct coord_checkpoint_record *r = coord_checkpoint_record(j, 0);
    uint64_t age_ns;
    json_set_int(s, "checkpoints", k->list->made);
    json_set_int(s, "checkpoints_failed", k->list->failed);
    if (k->told.failure[0] != 0)
        json_set_string(s, "checkpoint_failure", k->told.failure);
    if (r != NULL) {
        struct json *newest = json_new_object();
        /* the known age is that of the last one that was made */
        bool known = r == &k->list->record[(k->list->made - 1) % COORD_CHECKPOINTS_MAX] &&
                     coord_checkpoint_age(j, &age_ns);
        json_set_string(newest, "name", r->name);
        json_set_number(newest, "age_seconds", known ? (double)age_ns * NS : NAN);
        json_set_int(newest, "rows", (int64_t)r->rows);
        json_set_int(newest, "bytes", (int64_t)r->bytes);
        json_set(s, "checkpoint", newest);
    }
}

bool coord_checkpoint_late(const struct coord_job *j, char *text, size_t bytes)
{
    const struct coord_checkpoint *k = j->checkpoint;
    const struct job *spec = &j->spec;
    uint64_t now = env_now_ns(j->fleet->env), since_ns = now - k->last_ns,
             done = coord_checkpoint_batches(j);
    char every[160] = "";
    if (j->at.phase != PHASE_TRAIN || k->last_ns == 0 || since_ns < LATE_LEAST_NS ||
        (k->state != CHECKPOINT_IDLE && now - k->begun_ns < LATE_LEAST_NS)) /* one is being made */
        return false;
    if (spec->checkpoint.every_minutes > 0 &&
        (double)since_ns >= LATE_INTERVALS * spec->checkpoint.every_minutes * 60e9)
        (void)snprintf(every, sizeof every, "checkpoint.every_minutes asks for one every %.0f s",
                       spec->checkpoint.every_minutes * 60);
    else if (spec->checkpoint.every_batches > 0 && done > k->last_batches &&
             (done - k->last_batches) / LATE_INTERVALS >= spec->checkpoint.every_batches)
        (void)snprintf(every, sizeof every,
                       "checkpoint.every_batches asks for one every %" PRIu64
                       " batches, and %" PRIu64 " are done since",
                       spec->checkpoint.every_batches, done - k->last_batches);
    if (every[0] == 0)
        return false;
    const char *why = "the coordinator's log says what it waits for";
    if (k->told.failure[0] != 0)
        why = "the last one that failed: ";
    (void)snprintf(text, bytes, "job %s has made no checkpoint for %.0f s: %s; %s%s", spec->name,
                   (double)since_ns * NS, every, why, k->told.failure);
    return true;
}
