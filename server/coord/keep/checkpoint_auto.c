/* checkpoint_auto.c: checkpoints that nothing asks for: by batches or minutes, at the end of a
 * replay's day, and at the job's end. */
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/saved.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"

/* attempts at the checkpoint of the job's end, RETRY_NS apart */
#define END_TRIES 5u

static bool due(struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    const struct job *spec = &j->spec;
    uint64_t now = env_now_ns(j->fleet->env);
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE && k->last_ns <= now);
    if (now < k->retry_ns)
        return false;
    if (spec->checkpoint.every_minutes > 0 &&
        (double)(now - k->last_ns) >= spec->checkpoint.every_minutes * 60e9)
        return true;
    return spec->checkpoint.every_batches > 0 &&
           coord_checkpoint_batches(j) - k->last_batches >= spec->checkpoint.every_batches;
}

bool coord_checkpoint_end_due(const struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    const struct job *spec = &j->spec;
    bool asked = spec->checkpoint.at_end || (j->stop.asked && spec->checkpoint.dir[0] != 0);
    return asked && !spec->train.skip && !k->end_made && k->end_failed < END_TRIES;
}

void coord_checkpoint_missed(struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    const char *kept = "; `shoal checkpoint create` makes one of the tables that are kept";
    if (j->spec.durability == DURABLE_MEMORY)
        kept = ", and its tables were in memory alone (durability: memory)";
    if (j->spec.checkpoint.at_end && !j->spec.train.skip && !k->end_made)
        coord_missed(
            j, k->end_why.status != 0 ? k->end_why.status : SHOAL_E_IO,
            "the job is done, but its checkpoint of the end (checkpoint.at_end) could not be "
            "made%s: %s",
            kept, k->end_why.text);
    coord_checkpoint_publish_missed(j);
}

/* Begins an automatic checkpoint. One that cannot be begun is a warning like the others (4). While
 * a server is away, or a ring has no worker, it waits without a message: the status tells of it. */
static void begin_by_itself(struct coord_job *j, enum coord_checkpoint_reason reason)
{
    struct coord_checkpoint *k = j->checkpoint;
    char why[ERR_TEXT_MAX];
    struct err e = {0};
    if (k->state != CHECKPOINT_IDLE || env_now_ns(j->fleet->env) < k->retry_ns ||
        coord_checkpoint_comes(j) || coord_server_away(j) != NULL ||
        coord_ring_alone(j, why, sizeof why))
        return;
    int rc = coord_checkpoint_begin(j, "", "", reason, &e);
    if (rc != 0)
        coord_checkpoint_begin_failed(j, rc, e.text);
}

/* True when a job that is to stop can be saved as it stands (stop.h); for a growing log grow.ending
 * says so. */
static bool stop_saves(const struct coord_job *j)
{
    return j->stop.asked && !coord_grow_on(j) && coord_saved_phase(j->at.phase);
}

void coord_checkpoint_automatic_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    bool ends = j->at.phase == PHASE_DIGEST || j->grow->ending || stop_saves(j);
    if (ends && coord_checkpoint_end_due(j)) {
        begin_by_itself(j, CHECKPOINT_OF_END);
        return;
    }
    if (coord_replay_due(j)) {
        begin_by_itself(j, CHECKPOINT_OF_DAY);
        return;
    }
    /* all that is learnt is published before the job goes on */
    bool waits = j->at.phase == PHASE_GROW;
    if ((j->at.phase != PHASE_TRAIN && !waits) ||
        (j->spec.checkpoint.every_batches == 0 && j->spec.checkpoint.every_minutes <= 0))
        return;
    /* a restarted coordinator keeps to the schedule: it goes by the age of the newest one */
    if (k->last_ns == 0) {
        uint64_t now = env_now_ns(j->fleet->env), age_ns;
        if (!coord_checkpoint_age(j, &age_ns))
            age_ns = 0;
        k->last_ns = MAX(SAT_SUB(now, age_ns), 1);
        k->last_batches = coord_checkpoint_batches(j);
    }
    if (waits && k->last_batches == coord_checkpoint_batches(j))
        return;
    if (k->state == CHECKPOINT_IDLE && due(j))
        begin_by_itself(j, CHECKPOINT_ANY);
}
