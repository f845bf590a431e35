/* checkpoint_ready.c: checks that a checkpoint can be made now, and whether of the job or of its
 * tables alone. */
#include "server/coord/core/phase.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/saved.h"

/* True when the log grows and the job is done within a round. The marks were dropped with the run,
 * so it is unknown which batches of that round are learnt. */
static bool within_a_round(const struct coord_job *j)
{
    return j->at.phase == PHASE_DONE && coord_grow_on(j) && coord_saved_as(j) != PHASE_GROW;
}

/* True when the job at hand trains, or has trained, the tables, and its position in the input is
 * known. */
static bool of_job(const struct coord_job *j)
{
    uint32_t phase = j->at.phase;
    return !within_a_round(j) && j->parsed && !j->spec.train.skip && j->tablets > 0 &&
           j->made.number == j->at.number && phase >= PHASE_SETUP && phase != PHASE_FAILED;
}

/* No shard is set up for a run, so it is enough that every server beats and still has its rows. */
static int kept_check(const struct coord_job *j, struct err *e)
{
    const struct coord_fleet *f = j->fleet;
    uint64_t now = env_now_ns(f->env);
    COORD_EACH_SHARD (&f->members, s) {
        const struct coord_shard *shard = &f->members.shard[s];
        if (!shard->seen || !shard->ready || now - shard->beat_ns > coord_fleet_lease_ns(f))
            return err_set(e, SHOAL_E_UNAVAILABLE, "server %s is away: ask again when it is back",
                           shard->server);
        if (shard->figures.in_memory && shard->made != shard->incarnation)
            return err_set(e, SHOAL_E_NOT_FOUND,
                           "server %s has started again since job %s made its tables, and its rows "
                           "were in memory: they are lost",
                           shard->server, j->made.spec.name);
    }
    return 0;
}

static int phase_check(const struct coord_job *j, bool tables, struct err *e)
{
    uint32_t phase = j->at.phase;
    if (coord_goes_back(j))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "job %s goes back to its newest checkpoint: ask again when it trains",
                       j->spec.name);
    if (coord_phase_running(j) && (phase == PHASE_SETUP || (!tables && !coord_saved_phase(phase))))
        return err_set(e, SHOAL_E_BUSY, "job %s is in %s: ask again in a moment", j->spec.name,
                       coord_phase_name(j));
    if (tables && coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_ROWS_GO))
        return err_set(e, SHOAL_E_BUSY,
                       "servers give back rows of the checkpoint that job %s could not load: ask "
                       "again in a moment",
                       j->spec.name);
    if (tables && !coord_made_known(j))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no job that this coordinator knows of has made tables: there is nothing to "
                       "checkpoint");
    return 0;
}

int coord_checkpoint_ready(const struct coord_job *j, bool *tables, struct err *e)
{
    *tables = !of_job(j);
    int rc = coord_drop_check(j->fleet, e);
    if (rc == 0)
        rc = phase_check(j, *tables, e);
    if (rc != 0)
        return rc;
    if (*tables || j->at.phase == PHASE_DONE)
        return kept_check(j, e);
    const struct coord_shard *away = coord_server_away(j);
    if (away != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "server %s is away: ask again when it is back",
                       away->server);
    return 0;
}
