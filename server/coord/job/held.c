/* held.c: what the servers hold of a job's space; held.h. */
#include "server/coord/job/held.h"

#include "proto/base/text.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/names_job.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/submit.h"

#include <stdio.h>
#include <string.h>

#define AGAIN ": submit again in a moment"

int coord_held_awaited(const struct coord_fleet *f, const struct coord_shard *s, struct err *e,
                       const char *what, const char *otherwise)
{
    const char *why = coord_cluster_refused(f, s->server, s->index);
    if (why != NULL)
        return err_set(e, SHOAL_E_CONFIG, "server %s %s: it was not taken: %s", s->server, what,
                       why);
    return err_set(e, SHOAL_E_UNAVAILABLE, "server %s %s" AGAIN "; where it does not run, %s",
                   s->server, what, otherwise);
}

bool coord_held_begins(const struct coord_submit *submit)
{
    return submit->start && strcmp(submit->from, COORD_FROM_FLEET) == 0;
}

/* True when the servers hold rows of a former job of the space. j: the job that its slot had. */
static bool rows_here(const struct coord_job *j, const struct coord_space *s)
{
    const struct coord_members *m = &j->fleet->members;
    if (coord_spaces_held(j->fleet) > 1 || !coord_space_holds(j->fleet, s))
        return coord_space_holds(j->fleet, s);
    bool rows = j->at.phase == PHASE_DONE &&
                coord_cluster_made_check(j->fleet, &s->numbers, true, NULL) != SHOAL_E_NOINPUT;
    for (uint32_t i = 0; i < m->shards && !rows; i++)
        rows = m->shard[i].figures.rows > 0;
    return rows && j->fleet->cluster.map_epoch > 0;
}

/* Returns a shard that has not said yet whether it holds rows, since it recovers them or has not
 * come; NULL: all have. */
static const struct coord_shard *rows_awaited(const struct coord_fleet *f)
{
    const struct coord_members *m = &f->members;
    COORD_EACH_SHARD (m, i)
        if (f->cluster.map_epoch > 0 && (!m->shard[i].seen || !m->shard[i].ready))
            return &m->shard[i];
    return NULL;
}

int coord_held_choose(const struct coord_job *slot, const struct coord_submit *submit,
                      struct coord_job *j, struct err *e)
{
    struct coord_fleet *f = slot->fleet;
    uint32_t held = coord_spaces_held(f);
    struct coord_space *s = coord_space_find(f, j->spec.space);
    char names[ERR_TEXT_MAX / 2];
    coord_spaces_text(f, NULL, names, sizeof names);
    if (s == NULL && held > 0 && coord_held_begins(submit))
        return err_set(e, SHOAL_E_NOINPUT,
                       "start_from: fleet: space %s has no tables here, but %s: to go on with "
                       "those, set space: to that name; else take start_from away",
                       j->spec.space, names);
    if (s == NULL)
        s = coord_space_free(f, slot->space);
    if (s == NULL)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "space %s would be the fleet's %uth: a fleet has %u at most (%s): drop one "
                       "first (shoal drop SPACE)",
                       j->spec.space, LIMIT_SPACES + 1, LIMIT_SPACES, names);
    if (s->used && s != slot->space)
        return err_set(e, SHOAL_E_BUSY,
                       "a job of space %s is running: wait for its end or stop it first",
                       j->spec.space);
    j->space = s;
    return 0;
}

int coord_held_check(const struct coord_job *j, const struct coord_space *s,
                     const struct coord_submit *submit, const struct job *spec, struct err *e)
{
    const struct coord_made *made = s->made;
    bool fleet = coord_held_begins(submit);
    bool late = coord_cluster_known(&j->fleet->cluster) &&
                (!coord_cluster_ready(&j->fleet->cluster) || !coord_names_ready(&j->fleet->names));
    if ((submit->from[0] == 0 || spec->fresh_all) && late)
        return err_set(
            e, SHOAL_E_UNAVAILABLE,
            "the servers know of tables that this coordinator is still learning of" AGAIN);
    if (spec->fresh_all && fleet)
        return err_set(
            e, SHOAL_E_CONFIG,
            "fresh: all drops the tables of space %s, and start_from: fleet goes on with "
            "them: take one of the two away",
            spec->space);
    if (spec->fresh_all) /* a checkpoint of the rows that go is not disturbed */
        return coord_aside_check(j->fleet, s, e);
    if (coord_fresh_half(s))
        return err_set(e, SHOAL_E_EXISTS,
                       "a job was to drop the tables of space %s, and ended before all servers "
                       "had: say --set fresh=all, which drops the rest, without start_from: fleet",
                       spec->space);
    int rc = coord_space_whole(s, SHOAL_E_NOINPUT, e);
    if (rc == 0)
        rc = coord_aside_check(j->fleet, s, e);
    if (rc != 0)
        return rc;
    if (fleet && !coord_names_sure(j->fleet))
        return coord_names_unsure(e);
    if (fleet && j->fleet->cluster.map_epoch == 0)
        return err_set(e, SHOAL_E_NOINPUT,
                       "start_from: fleet: no job has made tables here yet: take it away");
    if (fleet)
        return coord_cluster_made_check(j->fleet, &s->numbers, true, e);
    /* the tables that are here belong to other spaces */
    bool beside = !table_set_any(s->numbers) && coord_spaces_held(j->fleet) > 0 &&
                  !coord_space_holds(j->fleet, s);
    if (submit->from[0] != 0 || beside)
        return 0;
    if (!rows_here(j, s)) {
        const struct coord_shard *awaited = rows_awaited(j->fleet);
        if (awaited == NULL)
            return 0;
        return coord_held_awaited(
            j->fleet, awaited, e, "has not said yet what it holds",
            "start it, or drop what it holds of this space for good with --set fresh=all");
    }
    if (coord_spaces_held(j->fleet) > 1)
        return err_set(e, SHOAL_E_EXISTS,
                       "the servers hold the tables of space %s: --start-from fleet begins with "
                       "them; --set fresh=all drops them for good, unless a checkpoint has them, "
                       "and begins with none; other spaces keep theirs",
                       s->name);
    return err_set(e, SHOAL_E_EXISTS,
                   "the servers hold the tables of %s%s: --start-from fleet begins with them; "
                   "--set fresh=all drops them for good, unless a checkpoint has them, and begins "
                   "with none",
                   made->number != 0 ? "job " : "jobs that this coordinator does not know",
                   text_if(made->number != 0, made->spec.name));
}
