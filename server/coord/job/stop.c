/* stop.c: an order to end the job; stop.h. */
#include "server/coord/job/stop.h"

#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/ring_job.h"

#include <stdio.h>
#include <string.h>

#define STOP_KEY "stop"       /* the number of the job that is ordered to end */
#define STOP_ID_KEY "stop-id" /* id of the request */
/* for a checkpoint of very large tables; a second request ends the job at once */
#define STOP_MAX_NS UINT64_C(600000000000)

int coord_stop_load(struct coord_job *j, struct err *e)
{
    struct coord_stop *s = &j->stop;
    uint64_t stop = 0;
    int rc = coord_store_get_fixed(j->store, STOP_KEY, &stop, sizeof stop, e);
    *s = (struct coord_stop){.asked = rc == 0 && stop == j->at.number,
                             .since_ns = env_now_ns(j->fleet->env)};
    if (s->asked)
        rc = coord_store_get_fixed(j->store, STOP_ID_KEY, &s->id, sizeof s->id, e);
    return coord_store_optional(rc);
}

/* True when the job has begun to train. That holds in SETUP too, after a restart of the coordinator
 * or from a checkpoint. */
static bool trains(const struct coord_job *j)
{
    switch (j->at.phase) {
    case PHASE_SETUP:
        return j->opened == j->at.run || coord_from_resumes(&j->at);
    case PHASE_LANES:
    case PHASE_TRAIN:
    case PHASE_EVAL:
    case PHASE_GROW:
        return true;
    case PHASE_CUT:
    case PHASE_RESTORE:
    case PHASE_TEST:
    case PHASE_DIGEST: /* a log that grows is ending already */
        return !coord_grow_on(j);
    default:
        return false;
    }
}

/* True when something is to be done before the job ends. */
static bool orderly(const struct coord_job *j)
{
    if (!trains(j) || coord_grow_on(j))
        return trains(j);
    return j->spec.checkpoint.dir[0] != 0 && !j->spec.train.skip && coord_server_away(j) == NULL;
}

/* why: there is no last checkpoint, for this reason; NULL: for that of its last attempt. */
static void end(struct coord_job *j, const char *why)
{
    const struct coord_checkpoint *k = j->checkpoint;
    char path[LIMIT_PATH] = "";
    bool kept = coord_checkpoint_newest(j, 0, path);
    if (why == NULL)
        why = k->end_why.status != 0 ? k->end_why.text : "there was none in time";
    if (k->end_made && kept)
        coord_end_fail(j, SHOAL_E_STOPPED, "stopped by request; --resume %.400s goes on", path);
    else
        coord_end_fail(
            j, SHOAL_E_STOPPED, "stopped by request; it has no last checkpoint: %.250s%s%.180s%s",
            why, text_if(kept, "; --resume "), path, text_if(kept, " goes on from an earlier one"));
}

bool coord_stop_order(struct coord_job *j, uint64_t id)
{
    char why[ERR_TEXT_MAX];
    if (j->stop.asked || !orderly(j) || coord_goes_back(j))
        return false;
    if (!coord_grow_on(j) && coord_ring_alone(j, why, sizeof why)) {
        end(j, why);
        return false;
    }
    j->stop = (struct coord_stop){.asked = true, .id = id, .since_ns = env_now_ns(j->fleet->env)};
    log_info("job %s is asked to stop: it ends behind %s", j->spec.name,
             coord_grow_on(j) ? "the batches that are given out" : "its last checkpoint");
    return coord_job_note(j, STOP_ID_KEY, &id, sizeof id) &&
           coord_job_put(j, STOP_KEY, &j->at.number, sizeof j->at.number);
}

void coord_stop_step(struct coord_job *j)
{
    if (!j->stop.asked || coord_grow_on(j) || coord_phase_over(j))
        return;
    char why[ERR_TEXT_MAX];
    bool due = coord_checkpoint_end_due(j) || coord_checkpoint_busy(j);
    if (due && coord_ring_alone(j, why, sizeof why))
        end(j, why);
    else if (!due || env_now_ns(j->fleet->env) - j->stop.since_ns > STOP_MAX_NS)
        end(j, NULL);
}

bool coord_stop_waits(const struct coord_job *j, char *text, size_t bytes)
{
    if (!j->stop.asked || !coord_phase_running(j))
        return false;
    const char *first = "its last checkpoint is made first";
    if (coord_grow_on(j))
        first = "batches that are given out are trained first";
    (void)snprintf(text, bytes,
                   "waits for its end: shoal stop asked for it, and %s; a second "
                   "shoal stop ends it at once",
                   first);
    return true;
}
