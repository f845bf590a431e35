/* checkpoint_ready.c: checks that a checkpoint can be made now, and whether of the job or of its
 * tables alone. */
#include "server/coord/core/awaited.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/add.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/saved.h"
#include "server/coord/work/ring_job.h"

#include <stdio.h>
#include <string.h>

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
           j->space->made->number == j->at.number && phase >= PHASE_SETUP && phase != PHASE_FAILED;
}

static int is_away(const struct coord_fleet *f, const char *server, struct err *e)
{
    char ways[ERR_TEXT_MAX];
    return err_set(e, SHOAL_E_UNAVAILABLE, "server %s is away: ask again when it is back; %s",
                   server, coord_add_ways(f, server, ways));
}

/* No shard is set up for a run, so it is enough that every server beats and still has its rows. */
static int kept_check(const struct coord_job *j, struct err *e)
{
    const struct coord_fleet *f = j->fleet;
    COORD_EACH_SHARD (&f->members, s) {
        const struct coord_shard *shard = &f->members.shard[s];
        if (coord_checkpoint_leaves_out(j, s))
            continue;
        if (!coord_fleet_heard(f, shard))
            return is_away(f, shard->server, e);
        bool in_memory = shard->figures.in_memory || shard->made != 0;
        if (in_memory && shard->made != shard->incarnation)
            return err_set(e, SHOAL_E_NOT_FOUND,
                           "server %s has started again since job %s made its tables, and its rows "
                           "were in memory: they are lost",
                           shard->server, j->space->made->spec.name);
    }
    return 0;
}

/* True while the servers' tables are being made or filled. After a restart of the coordinator a job
 * is in SETUP too, until all servers are there: those that are have their rows. */
static bool in_the_making(const struct coord_job *j)
{
    bool kept = j->checkpoint->without[0] != 0 && !coord_from_loading(&j->at);
    return j->at.phase == PHASE_SETUP && !kept;
}

static int phase_check(const struct coord_job *j, bool tables, struct err *e)
{
    uint32_t phase = j->at.phase;
    if (coord_goes_back(j))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "job %s goes back to its newest checkpoint: ask again when it trains",
                       j->spec.name);
    if (coord_checkpoint_comes(j) && j->checkpoint->state == CHECKPOINT_IDLE)
        return err_set(e, SHOAL_E_BUSY,
                       "this coordinator has just started, and sees if checkpoint %s was made "
                       "before: ask again in a moment",
                       j->checkpoint->coming.record.name);
    if (coord_phase_running(j) && (in_the_making(j) || (!tables && !coord_saved_phase(phase))))
        return err_set(e, SHOAL_E_BUSY, "job %s is in %s: ask again in a moment", j->spec.name,
                       coord_phase_name(j));
    if (tables && coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_ROWS_GO))
        return err_set(e, SHOAL_E_BUSY,
                       "servers give back rows of the checkpoint that job %s could not load: ask "
                       "again in a moment",
                       j->spec.name);
    if (tables && !coord_made_known(j->fleet, j->space))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no job that this coordinator knows of has made tables: there is nothing to "
                       "checkpoint");
    return 0;
}

/* ---- servers that are left out --------------------------------------------------------------- */

/* A shard whose rows are there is not left out. */
static int gone_check(const struct coord_job *j, uint32_t shard, struct err *e)
{
    const struct coord_shard *s = &j->fleet->members.shard[shard];
    uint64_t silent_ns = coord_awaited_silent_ns(j, s), lease_ns = coord_fleet_lease_ns(j->fleet);
    if (coord_copies_others(j->fleet, shard))
        return err_set(e, SHOAL_E_USAGE,
                       "another copy of shard %u has all rows of server %s, so that they need not "
                       "be left out: shoal replace %s",
                       shard, s->server, s->server);
    if (silent_ns > lease_ns)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "server %s may be there: it was heard %.1f s ago, and is left out when it has "
                   "been silent for %.0f s. Ask again then, or take --without away",
                   s->server, (double)silent_ns * 1e-9, (double)lease_ns * 1e-9);
}

static int server_leave_out(struct coord_job *j, const char *server, struct err *e)
{
    const struct coord_members *m = &j->fleet->members;
    bool found = false;
    COORD_EACH_SHARD (m, s) {
        if (server[0] == 0 || strcmp(m->shard[s].server, server) != 0)
            continue;
        int rc = gone_check(j, s, e);
        if (rc != 0)
            return rc;
        j->checkpoint->left_out[s / 8] |= (uint8_t)(1u << (s % 8));
        found = true;
    }
    if (found)
        return 0;
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "--without: no server %s leads a shard here, so no rows are missing without it: "
                   "shoal status names those that lead",
                   server);
}

/* Takes the names of k->without, with commas, into k->left_out. */
static int leave_out(struct coord_job *j, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    char names[sizeof k->without], *next = names;
    int rc = 0;
    memset(k->left_out, 0, sizeof k->left_out);
    memcpy(names, k->without, sizeof names);
    while (rc == 0 && next != NULL && names[0] != 0)
        rc = server_leave_out(j, strsep(&next, ","), e);
    if (rc != 0)
        return rc;
    COORD_EACH_SHARD (&j->fleet->members, s)
        if (!coord_checkpoint_leaves_out(j, s))
            return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE, "--without leaves no server: there are no rows to keep");
}

int coord_checkpoint_ready(struct coord_job *j, bool *tables, struct err *e)
{
    *tables = !of_job(j) || j->checkpoint->without[0] != 0;
    if (!of_job(j) && !coord_space_holds(j->fleet, j->space) && j->fleet->cluster.tables > 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "the tables of the last job were dropped (shoal drop): there is nothing to "
                       "checkpoint");
    int rc = 0;
    if (j->fleet->drop.space == j->space) /* a drop of another space takes none of its rows */
        rc = coord_drop_check(j->fleet, e);
    /* a job that runs loads the rows that were lost */
    if (rc == 0 && (j->space->state == SPACE_HALF || !coord_phase_running(j)))
        rc = coord_space_whole(j->space, SHOAL_E_NOT_FOUND, e);
    if (rc == 0)
        rc = leave_out(j, e);
    if (rc == 0)
        rc = phase_check(j, *tables, e);
    if (rc != 0)
        return rc;
    if (*tables || j->at.phase == PHASE_DONE)
        return kept_check(j, e);
    const struct coord_shard *away = coord_server_away(j);
    char why[ERR_TEXT_MAX];
    if (away != NULL)
        return is_away(j->fleet, away->server, e);
    if (coord_ring_alone(j, why, sizeof why))
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s", why);
    return 0;
}
