/* names_job.c: the names of a job become the fleet's. */
#include "server/coord/core/names_job.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/phase.h"

/* Stores the names of the job at hand. */
static int job_put(struct coord_job *j, struct err *e)
{
    return coord_names_store(j->fleet, j->space, &j->spec.legend, j->at.number, e);
}

void coord_names_adopt(struct coord_job *j)
{
    struct err e = {0};
    if (j->fleet->names.version == 0 && j->at.phase == PHASE_DONE &&
        legend_known(&j->spec.legend) && job_put(j, &e) != 0)
        log_warn("names of the last job's tables: %s", e.text);
}

static void told(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    if (j->at.phase != PHASE_SETUP)
        return;
    /* another job's names have followed, and a repeated request came behind them: told anew */
    if (status == SHOAL_E_CONFIG && j->fleet->names.version > call->request.u.NAMES_SET.version)
        return;
    if (status != 0)
        coord_end_fail(j, status, "a server refused the names of the job's fields: %s", text);
    else
        j->names_told = call->request.u.NAMES_SET.version;
}

bool coord_names_settled(struct coord_job *j)
{
    struct err e = {0};
    SHOAL_ASSERT(j->at.phase == PHASE_SETUP);
    if (!legend_known(&j->spec.legend))
        return true; /* an older release's job */
    if (j->names_told > 0)
        return true;
    if (coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_NAMES_SET))
        return false;
    int rc = job_put(j, &e);
    if (rc == 0)
        (void)coord_names_tell(j->fleet, &(struct coord_call){.context = j,
                                                              .set_up = &j->setup,
                                                              .target = COORD_NOBODY,
                                                              .owner = COORD_NOBODY,
                                                              .on_done = told});
    else if (rc != SHOAL_E_NOMEM)
        coord_end_fail(j, rc, "%s", e.text);
    return false;
}

int coord_names_unsure(struct err *e)
{
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "start_from: fleet: not all servers have said yet what the fields of their "
                   "tables are called: submit again when `shoal doctor --cluster` finds all of "
                   "them");
}

int coord_names_of_fleet(const struct coord_job *j, const struct legend **out, struct err *e)
{
    if (!coord_names_sure(j->fleet))
        return coord_names_unsure(e);
    *out = j->space->named ? &j->space->legend : &j->space->made->spec.legend;
    return 0;
}
