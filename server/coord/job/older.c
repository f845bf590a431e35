/* older.c: ends jobs that began with older state than servers have. */
#include "server/coord/job/older.h"

#include "server/coord/core/phase.h"
#include "server/coord/work/taken_names.h"

#include <inttypes.h>

void coord_older_names(struct coord_job *j, const struct wire_SHARD_BEAT *beat)
{
    /* a job that drops all tables uses its own names and run, and has not told a shard yet */
    bool drops = j->spec.fresh_all && j->at.phase <= PHASE_SETUP && j->opened != j->at.run;
    if (!coord_phase_running(j) || drops)
        return;
    if (j->at.phase == PHASE_WAITING && j->at.from == FROM_NOTHING)
        coord_end_fail(j, SHOAL_E_EXISTS, /* the error with which it would have been refused, had
                                           * this been known */
                       "server %s holds tables that this coordinator, whose data_dir is older, "
                       "did not know of when the job was submitted; submit the job again: where "
                       "they are of its space, --start-from fleet begins with them, and --set "
                       "fresh=all drops them for good, unless a checkpoint has them",
                       beat->server);
    else
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "the coordinator's data_dir is older than it was: server %s knows newer "
                       "names of the tables' fields than this job began with; submit the job again",
                       beat->server);
}

void coord_older_taken(struct coord_job *j, const struct wire_SHARD_BEAT *beat)
{
    bool has_tables = j->at.phase >= PHASE_SETUP && !coord_taken_begins(j);
    if (coord_phase_running(j) && (has_tables || j->asked.path[0] != 0))
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "the coordinator's data_dir is older than it was: server %s knows more of "
                       "what its tables have learnt than this job began with; submit the job again",
                       beat->server);
}

void coord_older_run(struct coord_job *j, const struct wire_SHARD_BEAT *beat)
{
    if (coord_phase_running(j) && beat->newest_run > j->at.run)
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "the coordinator's data_dir is older than it was: since then run %" PRIu64
                       " was opened, this job is run %" PRIu64 "; submit the job again",
                       beat->newest_run, j->at.run);
}
