/* heard.c: the worker that a request comes from. */
#include "server/coord/work/heard.h"

#include "server/coord/work/stall.h"

/* True when a new request of this type shows that its worker makes progress. A worker that gets no
 * answer sends the same request again and again, and ids of a worker's requests rise. Every live
 * worker sends beats and asks for lanes, and may send traces again; in a log that grows, a worker
 * that cannot train sends lists, too. */
static bool reports(const struct coord_job *j, const struct wire *request)
{
    switch (request->type) {
    case WIRE_TYPE_WORKER_BEAT:
    case WIRE_TYPE_LANE_NEXT:
    case WIRE_TYPE_TRACES:
        return false;
    case WIRE_TYPE_OBJECTS:
    case WIRE_TYPE_TAKEN:
        return j->at.phase == PHASE_INDEX || j->at.phase == PHASE_GROW;
    default:
        return true;
    }
}

void coord_heard_count(struct coord_job *j)
{
    if (j->workers.count <= j->tally.workers_most)
        return;
    uint32_t heard = coord_worker_heard(&j->workers);
    if (heard <= j->tally.workers_most)
        return;
    j->tally.workers_most = heard;
    (void)coord_tally_note(j); /* a store that fails stops the coordinator */
}

int coord_heard(struct coord_job *j, struct coord_ask *a, uint64_t pass)
{
    a->worker = coord_worker_of_pass(&j->workers, pass, a->who.key);
    if (a->worker == NULL)
        return err_set(&a->e, SHOAL_E_UNAVAILABLE,
                       "this worker is not known here: its lease ran out, join again");
    a->worker->beat_ns = coord_now_ns(j);
    a->worker->peer = a->from;
    coord_heard_count(j);
    if (reports(j, a->request) && a->request->id > a->worker->reported_id) {
        a->worker->reported_id = a->request->id;
        coord_stall_moved(a->worker, a->worker->beat_ns);
    }
    return 0;
}
