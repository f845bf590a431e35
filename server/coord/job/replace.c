/* replace.c: see replace.h. */
#include "server/coord/job/replace.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/back.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/amount.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the errand ------------------------------------------------------------------------------ */

static struct coord_replacing *replacing_of(struct coord_errand *r)
{
    return container_of(r, struct coord_replacing, errand);
}

static int read_run(struct coord_errand *r, struct err *e)
{
    struct coord_replacing *m = replacing_of(r);
    return coord_from_open(&m->options, m->path, m->start, &m->spec, &m->from, e);
}

static void read_undo(struct coord_errand *r)
{
    struct coord_replacing *m = replacing_of(r);
    coord_from_close(&m->options, &m->from);
}

static void read_free(struct coord_errand *r)
{
    struct coord_replacing *m = replacing_of(r);
    job_free(&m->spec);
    free(m);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* The order's checkpoint is of one job, j. */
static int others_check(struct coord *c, const struct coord_job *j, struct err *e)
{
    COORD_EACH_JOB (c, other)
        if (other != j && coord_phase_running(other))
            return err_set(
                e, SHOAL_E_BUSY,
                "job %s runs beside job %s, and has lost rows, too, which the checkpoint "
                "of one of them does not have: stop the other one first (shoal stop %" PRIu64
                " or %" PRIu64 ")",
                other->spec.name, j->spec.name, other->at.number, j->at.number);
    return 0;
}

/* True when no job goes on from the checkpoint, and it has not the rows of all spaces, or the
 * newest job j has none: each space begins anew with its own. */
static bool is_bare(const struct coord *c, const struct coord_job *j)
{
    const struct coord_fleet *f = &c->fleet;
    return !coord_phase_running(j) && coord_spaces_held(f) > 0 &&
           (coord_spaces_held(f) > 1 || !coord_space_holds(f, j->space));
}

static int phase_check(const struct coord_job *j, struct err *e)
{
    if (coord_phase_running(j) && j->at.phase < PHASE_SETUP)
        return err_set(e, SHOAL_E_BUSY,
                       "job %s is %s and has made no tables yet: stop it first (shoal stop)",
                       j->spec.name, coord_phase_name(j));
    if (coord_goes_back(j) || j->at.phase == PHASE_FINISH ||
        (!coord_phase_running(j) && j->checkpoint->state != CHECKPOINT_IDLE))
        return err_set(e, SHOAL_E_BUSY, "job %s is busy with its checkpoints or its end: ask again",
                       j->spec.name);
    return 0;
}

/* The job whose tables these are has made the checkpoint, or has gone on from it. */
static int job_check(const struct coord_job *j, const struct coord_from *f, struct err *e)
{
    if (f->saved.at.number == j->at.number ||
        (coord_from_resumes(&j->at) && strcmp(f->path, j->at.from_path) == 0))
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "checkpoint %s is of job number %" PRIu64 ", and the servers hold the tables of "
                   "%s, number %" PRIu64 ": name a checkpoint of that one",
                   f->path, f->saved.at.number, j->spec.name, j->at.number);
}

static int begin(struct coord *c, struct coord_ask *a, coord_errand_done done)
{
    struct coord_job *j = coord_slot_newest(c);
    const char *text = j->yaml;
    size_t bytes = j->yaml_bytes;
    if (text == NULL) {
        text = j->space->made->yaml;
        bytes = j->space->made->yaml_bytes;
    }
    if (text == NULL)
        return err_set(&a->e, SHOAL_E_NOINPUT,
                       "no job has made tables here, so there is nothing to go back to: start the "
                       "server again, then shoal submit JOB --resume %.900s",
                       a->request->u.REPLACE.from);
    struct coord_replacing *m = calloc(1, sizeof *m);
    if (m == NULL)
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory to read a checkpoint");
    int rc = job_parse(text, bytes, "job", NULL, &m->spec, &a->e);
    if (rc != 0) {
        free(m);
        return rc;
    }
    m->errand.run = read_run;
    m->errand.undo = read_undo;
    m->errand.free = read_free;
    m->options = c->fleet.options;
    m->start = !coord_phase_running(j); /* else the job goes on from it */
    m->from.hold = COORD_FOLDER_NONE;
    m->asker = a->from;
    m->who = a->who;
    m->request = *a->request;
    text_copy(m->path, sizeof m->path, a->request->u.REPLACE.from);
    text_copy(m->errand.folder, sizeof m->errand.folder, m->path);
    rc = coord_errand_start(&c->fleet, &m->errand, c, done, &a->e);
    if (rc == 0)
        c->replacing = m;
    return rc;
}

/* ---- the order ------------------------------------------------------------------------------- */

/* Stores the order. Other spaces with rows of the server have lost these; j's goes back as a
 * whole. */
static int put(struct coord *c, struct coord_ask *a, const struct coord_job *j)
{
    struct coord_fleet *f = &c->fleet;
    const struct wire_REPLACE *w = &a->request->u.REPLACE;
    struct wire_REPLACE_reply *to = &a->reply.u.REPLACE_reply;
    const struct coord_space *stays = coord_phase_running(j) ? j->space : NULL;
    char names[ERR_TEXT_MAX / 2], how[LIMIT_NAME + 80];
    bool others = coord_spaces_held(f) > 1 || is_bare(c, j);
    (void)snprintf(how, sizeof how, "server %s is replaced, whose disk is lost with its rows",
                   w->server);
    if (!coord_replace_put(f, w->server, w->from))
        return SHOAL_E_IO;
    coord_spaces_replaced_text(f, stays, names, sizeof names);
    if (others && !coord_spaces_replaced(f, stays, how))
        return SHOAL_E_IO;
    size_t at = strlen(to->told);
    if (others && names[0] != 0)
        (void)snprintf(to->told + at, sizeof to->told - at,
                       "; shoal drop, then begin with a checkpoint of its own, each space that has "
                       "lost rows with it: %s",
                       names);
    log_warn("server %s is replaced: %s", w->server, to->told);
    c->replaced = (struct coord_replaced){a->from, a->request->id, *to};
    return 0;
}

/* Writes what comes, and what is lost. */
static void tell(const struct coord *c, const struct coord_job *j, const struct coord_from *from,
                 const char *server, char told[WIRE_TOLD])
{
    char lost[160] = "what came after the checkpoint is lost; how much is not known any more";
    const char *then =
        "no job runs, so shoal submit JOB --resume CHECKPOINT --set fresh=all goes on "
        "from it";
    uint64_t now = coord_back_batches(j), examples = coord_examples(j);
    uint32_t shards = coord_member_count(&c->fleet.members);
    bool tables = from->saved.at.phase == PHASE_TABLES;
    if (coord_phase_running(j))
        then = "the job goes on from the checkpoint";
    else if (tables)
        then =
            "no job runs, so shoal submit JOB --start-from CHECKPOINT --set fresh=all begins one "
            "with its tables";
    if (j->parsed && !tables) /* else the job had ended before this coordinator started */
        (void)snprintf(lost, sizeof lost,
                       "%" PRIu64 " batches after the checkpoint are lost (%" PRIu64
                       " examples; each batch is a push to each of %u shards)",
                       SAT_SUB(now, from->batches), SAT_SUB(examples, from->examples), shards);
    (void)snprintf(told, WIRE_TOLD,
                   "the next server with an empty data_dir takes the shards of %s (%u of %u); %s; "
                   "%s",
                   server, coord_replace_shards(&c->fleet, server), shards, then, lost);
}

static int order(struct coord *c, struct coord_ask *a)
{
    const struct coord_replacing *m = c->replacing;
    struct coord_job *j = coord_slot_newest(c);
    struct wire_REPLACE_reply *to = &a->reply.u.REPLACE_reply;
    const char *server = a->request->u.REPLACE.server;
    if (m->rc != 0 && m->from.saved.at.phase == PHASE_TABLES && coord_phase_running(j))
        return err_set(&a->e, m->rc, "%s. For that, stop the job first (shoal stop)", m->e.text);
    if (m->rc != 0)
        return err_set(&a->e, m->rc, "%s", m->e.text);
    int rc = job_check(j, &m->from, &a->e);
    if (rc != 0)
        return rc;
    tell(c, j, &m->from, server, to->told);
    rc = put(c, a, j);
    if (rc == 0 && coord_phase_running(j))
        coord_back_replaced(j);
    return rc;
}

/* The order is given without a look at the checkpoint. */
static int order_bare(struct coord *c, struct coord_ask *a, const struct coord_job *j)
{
    const char *server = a->request->u.REPLACE.server;
    (void)snprintf(a->reply.u.REPLACE_reply.told, WIRE_TOLD,
                   "the next server with an empty data_dir takes the shards of %s (%u of %u)",
                   server, coord_replace_shards(&c->fleet, server),
                   coord_member_count(&c->fleet.members));
    return put(c, a, j);
}

int coord_replace_ask(struct coord *c, struct coord_ask *a, coord_errand_done done)
{
    const struct wire_REPLACE *w = &a->request->u.REPLACE;
    struct coord_job *j = coord_slot_newest(c);
    if (c->replaced.peer == a->from && c->replaced.id == a->request->id && a->request->id != 0) {
        a->reply.u.REPLACE_reply = c->replaced.reply;
        return 0;
    }
    int rc = coord_replace_check(&c->fleet, w->server, j->watch.begun_ns, &a->e);
    if (rc == 0 && w->from[0] != '/')
        rc = err_set(&a->e, SHOAL_E_USAGE,
                     "replicas: 1, so the rows of server %s are in a checkpoint alone: say --from "
                     "and its absolute path",
                     w->server);
    if (rc == 0)
        rc = others_check(c, j, &a->e);
    if (rc == 0)
        rc = phase_check(j, &a->e);
    if (rc != 0)
        return rc;
    if (is_bare(c, j))
        return order_bare(c, a, j);
    if (c->replacing != NULL && c->replacing->over)
        return order(c, a);
    if (c->replacing == NULL)
        rc = begin(c, a, done);
    else if (c->replacing->asker != a->from || c->replacing->request.id != a->request->id)
        rc = err_set(&a->e, SHOAL_E_BUSY, "a server is being replaced: ask again in a moment");
    a->later = rc == 0;
    return rc;
}

const struct coord_replacing *coord_replace_read(struct coord *c, int rc, const struct err *e)
{
    struct coord_replacing *m = c->replacing;
    SHOAL_ASSERT(m != NULL && !m->over);
    m->over = true;
    m->rc = rc;
    if (rc != 0)
        m->e = *e;
    return m;
}

void coord_replace_end(struct coord *c, int rc)
{
    struct coord_replacing *m = c->replacing;
    SHOAL_ASSERT(m != NULL && m->over);
    c->replacing = NULL;
    if (rc == 0)
        coord_errand_leave(&c->fleet, &m->errand);
}

/* ---- without a job --------------------------------------------------------------------------- */

void coord_replace_step(struct coord *c)
{
    struct coord_job *j = coord_slot_newest(c);
    char from[LIMIT_PATH];
    if (c->fleet.replace.from[0] == 0 || coord_phase_running(j))
        return;
    memcpy(from, c->fleet.replace.from, sizeof from);
    if (is_bare(c, j)) { /* the job that was to go back has ended before it did */
        if (coord_spaces_replaced(&c->fleet, NULL, "no job has gone back to the checkpoint"))
            (void)coord_replace_done(&c->fleet);
        return;
    }
    if (coord_made_forget(j) && coord_fresh_again(&c->fleet, j->space, 0) &&
        coord_replace_done(&c->fleet))
        log_warn(
            "no job runs: what the servers hold belongs to no job until the next one goes on "
            "from %s, or begins with its tables: shoal submit JOB --resume %s --set fresh=all, "
            "or --start-from",
            from, from);
}
