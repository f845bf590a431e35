/* checkpoint.c: one checkpoint, from its beginning to its name. checkpoint.h describes states and
 * invariants. */
#include "server/coord/keep/checkpoint.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/fleet/add.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/saved.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the longest time that pushes wait; within it one HOLD or its reply may get lost */
#define HOLD_MAX_NS UINT64_C(1000000000)
/* stored: the last job whose checkpoint of the end was made */
#define END_KEY "end"
#define SWEEPS_MAX 64u                /* about 4,000 files */
#define RETRY_NS UINT64_C(5000000000) /* delay before a failed automatic checkpoint begins again */

static const char *const state_names[] = {
    [CHECKPOINT_IDLE] = "idle",           [CHECKPOINT_MAKING] = "making",
    [CHECKPOINT_OPENING] = "opening",     [CHECKPOINT_CUTTING] = "cutting",
    [CHECKPOINT_EXPORTING] = "exporting", [CHECKPOINT_NAMING] = "naming"};
static const uint32_t moves[] = {
    [CHECKPOINT_IDLE] = SM_TO(CHECKPOINT_MAKING),
    [CHECKPOINT_MAKING] =
        SM_TO(CHECKPOINT_OPENING) | SM_TO(CHECKPOINT_CUTTING) | SM_TO(CHECKPOINT_IDLE),
    [CHECKPOINT_OPENING] = SM_TO(CHECKPOINT_CUTTING) | SM_TO(CHECKPOINT_IDLE),
    [CHECKPOINT_CUTTING] = SM_TO(CHECKPOINT_EXPORTING) | SM_TO(CHECKPOINT_IDLE),
    [CHECKPOINT_EXPORTING] = SM_TO(CHECKPOINT_NAMING) | SM_TO(CHECKPOINT_IDLE),
    [CHECKPOINT_NAMING] = SM_TO(CHECKPOINT_IDLE),
};
const struct sm coord_checkpoint_moves = SM("a checkpoint", state_names, moves);

static void cut_done(struct coord_job *j, int status, const char *text, uint64_t cut);

/* ---- the end of one -------------------------------------------------------------------------- */

static void forget(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    json_free(k->manifest);
    free(k->saved);
    free(k->part);
    k->manifest = NULL;
    k->saved = NULL;
    k->part = NULL;
    if (k->state != CHECKPOINT_IDLE)
        sm_move(&coord_checkpoint_moves, &k->state, CHECKPOINT_IDLE);
    if (k->making != NULL)
        coord_errand_leave(j->fleet, &k->making->errand);
    k->making = NULL;
}

/* Drops the run that was opened for a checkpoint of a job that is done. */
static void run_close(struct coord_job *j)
{
    if (j->checkpoint->reason == CHECKPOINT_OF_DONE)
        coord_cut_run_drop(j);
}

/* Tells the asker, the job's end and the replay's day why the checkpoint was not made. */
static void refused(struct coord_job *j, int status, const char *why)
{
    struct coord_checkpoint *k = j->checkpoint;
    enum coord_checkpoint_reason reason = k->reason;
    if (reason == CHECKPOINT_OF_END) {
        k->end_failed++;
        k->end_why.status = status;
        text_copy(k->end_why.text, sizeof k->end_why.text, why);
    }
    coord_checkpoint_answer(j, status, why, (struct wire_CHECKPOINT_reply){.rows = 0});
    if (reason == CHECKPOINT_OF_DAY)
        coord_replay_made(j, false);
}

void coord_checkpoint_begin_failed(struct coord_job *j, int status, const char *why)
{
    struct coord_checkpoint *k = j->checkpoint;
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE && status != 0);
    if (k->asker == 0) {
        static const char *const of[] = {"", " of the day's end", " of the job's end", "", ""};
        log_warn("no checkpoint%s could be begun: %s", of[k->reason], why);
        k->retry_ns = env_now_ns(j->fleet->env) + RETRY_NS;
        coord_checkpoint_failed(j, why);
    }
    refused(j, status, why);
}

void coord_checkpoint_give_up(struct coord_job *j, int status, const char *why)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->state == CHECKPOINT_IDLE)
        return;
    if (k->state == CHECKPOINT_MAKING) {
        forget(j);
        coord_checkpoint_begin_failed(j, status, why);
        return;
    }
    SHOAL_ASSERT(status != 0);
    bool trains = coord_phase_running(j) && !coord_phase_over(j) && status != SHOAL_E_STOPPED;
    log_event(CHECKPOINT_GIVEN_UP, k->name, "checkpoint %s is given up: %s%s", k->name, why,
              text_if(trains, "; training goes on"));
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_CUT_EXPORT, UINT64_MAX);
    if (k->state >= CHECKPOINT_EXPORTING)
        coord_cut_drop(j, k->cut);
    coord_checkpoint_coming_forget(j);
    forget(j);
    run_close(j);
    coord_checkpoint_sweep(j); /* removes the rest of a large checkpoint */
    if (k->reason != CHECKPOINT_OF_TABLES)
        coord_checkpoint_failed(j, why);
    k->retry_ns = env_now_ns(j->fleet->env) + RETRY_NS;
    refused(j, status, why);
    coord_cut_withdraw(j, cut_done); /* last: the next order may end the job, and come back here */
}

void coord_checkpoint_made_note(struct coord_job *j, const struct coord_checkpoint_record *record,
                                enum coord_checkpoint_reason reason, uint64_t age_ns)
{
    struct coord_checkpoint *k = j->checkpoint;
    uint32_t at = k->list->made++ % COORD_CHECKPOINTS_MAX;
    k->list->record[at] = *record;
    k->coming.number = 0; /* the list has it: coord_checkpoint_coming_open */
    coord_checkpoint_publish(j, at);
    (void)coord_checkpoint_list_note(j);
    coord_checkpoint_told_made(j, age_ns);
    if (reason == CHECKPOINT_OF_END) {
        k->end_made = true; /* stored, or the next coordinator would make another one */
        (void)coord_job_put(j, END_KEY, &j->at.number, sizeof j->at.number);
    }
    if (reason == CHECKPOINT_OF_DAY)
        coord_replay_made(j, true);
}

static void prune_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (!k->prune || k->keeper != NULL || k->state != CHECKPOINT_IDLE)
        return;
    k->prune = false;
    coord_checkpoint_keeper(j, false);
}

/* The checkpoint has its name. */
static void named(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_checkpoint *k = j->checkpoint;
    struct coord_checkpoint_record record = k->record;
    SHOAL_ASSERT(k->state == CHECKPOINT_NAMING && &k->making->errand == r);
    if (rc != 0) {
        k->making = NULL;
        coord_checkpoint_give_up(j, rc, e->text);
        return;
    }
    k->making->stays = true;
    log_event(CHECKPOINT_MADE, k->path,
              "checkpoint %s: %" PRIu64 " rows, %" PRIu64 " bytes, %.3f s, pushes held for %.3f s",
              k->path, record.rows, record.bytes, record.seconds, record.held_seconds);
    coord_cut_drop(j, k->cut);
    forget(j);
    run_close(j);
    if (k->reason != CHECKPOINT_OF_TABLES) {
        k->last_ns = k->begun_ns;
        k->last_batches = k->begun_batches;
        coord_checkpoint_made_note(j, &record, k->reason, env_now_ns(j->fleet->env) - k->begun_ns);
    }
    k->prune = true;
    prune_step(j);
    k->made = (struct wire_CHECKPOINT_reply){.rows = record.rows, .bytes = record.bytes};
    memcpy(k->made.lacks, k->lacks, sizeof k->made.lacks);
    text_copy(k->made.path, sizeof k->made.path, k->path);
    k->made_ns = env_now_ns(j->fleet->env);
    coord_checkpoint_answer_made(j, false);
}

static void finish(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct err e = {0};
    SHOAL_ASSERT(k->state == CHECKPOINT_EXPORTING && k->missing == 0);
    k->record = (struct coord_checkpoint_record){.rows = 0};
    int rc = coord_checkpoint_write(j, &k->record, named, &e);
    if (rc == 0)
        sm_move(&coord_checkpoint_moves, &k->state, CHECKPOINT_NAMING);
    else
        coord_checkpoint_give_up(j, rc, e.text);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void part_reply(void *context, const struct coord_call *call, uint32_t shard,
                       const struct wire *reply, const struct msg *m)
{
    struct coord_job *j = context;
    (void)m;
    SHOAL_ASSERT(j->checkpoint->state == CHECKPOINT_EXPORTING && j->checkpoint->missing > 0);
    SHOAL_ASSERT(shard == call->owner); /* each call asks one shard for its own part */
    j->checkpoint->part[shard].rows = reply->u.CUT_EXPORT_reply.rows;
    j->checkpoint->part[shard].bytes = reply->u.CUT_EXPORT_reply.bytes;
}

static void part_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    char why[ERR_TEXT_MAX];
    SHOAL_ASSERT(j->checkpoint->state == CHECKPOINT_EXPORTING && j->checkpoint->missing > 0);
    SHOAL_ASSERT(call->owner < j->fleet->members.shards);
    if (status != 0) {
        (void)snprintf(why, sizeof why, "server %s: %.400s",
                       j->fleet->members.shard[call->owner].server, text);
        coord_checkpoint_give_up(j, status, why);
    } else if (--j->checkpoint->missing == 0) {
        finish(j);
    }
}

static void cut_done(struct coord_job *j, int status, const char *text, uint64_t cut)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct wire w = {.type = WIRE_TYPE_CUT_EXPORT};
    SHOAL_ASSERT(k->state == CHECKPOINT_CUTTING);
    SHOAL_ASSERT(status != 0 || (cut < j->fleet->counters.next_cut && k->saved_bytes > 0));
    k->cut = cut;
    if (status != 0) {
        coord_checkpoint_give_up(j, status, text);
        return;
    }
    sm_move(&coord_checkpoint_moves, &k->state, CHECKPOINT_EXPORTING);
    k->parts = 0;
    memset(k->part, 0, LIMIT_SHARDS * sizeof *k->part);
    COORD_EACH_SHARD (&j->fleet->members, s)
        if (!coord_checkpoint_leaves_out(j, s)) {
            k->part[s].number = k->parts++;
            k->part[s].asked = true;
        }
    k->missing = k->parts;
    COORD_EACH_SHARD (&j->fleet->members, s) {
        if (!k->part[s].asked)
            continue;
        w.u.CUT_EXPORT = (struct wire_CUT_EXPORT){.cut = cut,
                                                  .part = k->part[s].number,
                                                  .parts = k->parts,
                                                  WIRE_TABLES_IS(j->space->numbers)};
        text_copy(w.u.CUT_EXPORT.path, LIMIT_PATH, k->tmp);
        if (!coord_call_start(
                &j->fleet->calls,
                &(struct coord_call){.context = j,
                                     .request = w,
                                     .target = s,
                                     .owner = s,
                                     .set_up = coord_checkpoint_of_tables(j) ? NULL : &j->setup,
                                     .on_reply = part_reply,
                                     .on_done = part_done})) {
            coord_checkpoint_give_up(j, SHOAL_E_NOMEM,
                                     "no memory to ask the servers for their parts");
            return;
        }
    }
}

/* ---- the instant ----------------------------------------------------------------------------- */

/* Every shard holds, so the coordinator's state is that of the cut's instant (invariant 2). Called
 * again when the cut is repeated. */
static int held(struct coord_job *j, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    SHOAL_ASSERT(j->cut->state == CUT_HOLDING && j->cut->order.held == held); /* 2, 3 */
    SHOAL_ASSERT(k->state == CHECKPOINT_CUTTING);
    if (k->reason < CHECKPOINT_OF_DONE && !coord_saved_phase(j->at.phase))
        return err_set(e, SHOAL_E_AGAIN, "the job is in %s by now", coord_phase_name(j));
    free(k->saved);
    k->saved = NULL;
    json_free(k->manifest);
    k->held_for_ns = env_now_ns(j->fleet->env) - j->cut->since_ns;
    k->manifest = coord_checkpoint_facts(j);
    if (k->manifest == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the manifest");
    return coord_saved_make(j, &k->saved, &k->saved_bytes, e);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void cut_begin(struct coord_job *j)
{
    struct coord_cut_order order = {.hold_max_ns = HOLD_MAX_NS,
                                    .lean = true,
                                    .tables = coord_checkpoint_of_tables(j),
                                    .held = held,
                                    .done = cut_done};
    sm_move(&coord_checkpoint_moves, &j->checkpoint->state, CHECKPOINT_CUTTING);
    memcpy(order.without, j->checkpoint->left_out, sizeof order.without);
    coord_cut_order(j, &order);
}

/* The job is done: the shards are set up with a new run. The run is stored first, so that a
 * coordinator that dies drops it. */
static void run_open(struct coord_job *j)
{
    j->checkpoint->reason = CHECKPOINT_OF_DONE;
    j->at.run = j->fleet->counters.next_run++;
    sm_move(&coord_checkpoint_moves, &j->checkpoint->state, CHECKPOINT_OPENING);
    if (!coord_put(j->fleet, "counters", &j->fleet->counters, sizeof j->fleet->counters) ||
        !coord_grow_run(j) || !coord_phase_put(j))
        return;
    coord_setup_forget(j);
}

bool coord_checkpoint_leaves_out(const struct coord_job *j, uint32_t shard)
{
    return (j->checkpoint->left_out[shard / 8] >> (shard % 8) & 1) != 0;
}

bool coord_checkpoint_opening(const struct coord_job *j)
{
    return j->checkpoint->state == CHECKPOINT_OPENING;
}

/* The errand has made the checkpoint's folder. */
static void made(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_checkpoint *k = j->checkpoint;
    struct err why = *e;
    bool tables;
    SHOAL_ASSERT(k->state == CHECKPOINT_MAKING && &k->making->errand == r);
    if (rc != 0)
        k->making = NULL;
    else if ((rc = coord_checkpoint_ready(j, &tables, &why)) == 0 &&
             tables != coord_checkpoint_of_tables(j))
        rc = err_set(&why, SHOAL_E_BUSY, "another job has begun: ask again in a moment");
    if (rc == 0)
        k->part = calloc(LIMIT_SHARDS, sizeof *k->part);
    if (rc == 0 && k->part == NULL)
        rc = err_set(&why, SHOAL_E_NOMEM, "no memory for a checkpoint");
    if (rc != 0) {
        coord_checkpoint_give_up(j, rc, why.text);
        return;
    }
    memcpy(k->dir, k->making->dir, sizeof k->dir);
    memcpy(k->name, k->making->name, sizeof k->name);
    k->number = k->making->number;
    memcpy(k->path, k->making->path, sizeof k->path);
    memcpy(k->tmp, k->making->tmp, sizeof k->tmp);
    coord_checkpoint_sweep(j);
    k->begun_batches = coord_checkpoint_batches(j);
    if (coord_phase_running(j) || tables)
        cut_begin(j);
    else
        run_open(j);
}

int coord_checkpoint_begin(struct coord_job *j, const char *name, const char *without,
                           enum coord_checkpoint_reason reason, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    bool tables;
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE && k->making == NULL); /* 3 */
    coord_checkpoint_answer_made(j, true);
    text_copy(k->without, sizeof k->without, without);
    int rc = coord_checkpoint_ready(j, &tables, e);
    k->reason = reason;
    if (rc == 0 && tables)
        k->reason = CHECKPOINT_OF_TABLES;
    const struct job *spec = coord_checkpoint_spec(j);
    if (rc == 0 && j->fleet->options.folder == NULL)
        rc = err_set(e, SHOAL_E_CONFIG, "this coordinator keeps no checkpoints");
    else if (rc == 0 && spec->checkpoint.dir[0] == 0)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "job %s has no checkpoint.dir: name the folder in the job file, one that "
                     "coordinator and servers share",
                     spec->name);
    if (rc == 0)
        rc = coord_checkpoint_make(j, name, made, e);
    if (rc != 0)
        return rc;
    text_copy(k->name, sizeof k->name, text_unless_empty(name, "of the next number"));
    k->begun_ns = env_now_ns(j->fleet->env);
    SHOAL_ASSERT(k->begun_ns >= k->last_ns);
    sm_move(&coord_checkpoint_moves, &k->state, CHECKPOINT_MAKING);
    return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* True while the shards work on the checkpoint. */
static bool of_shards(const struct coord_job *j)
{
    return j->checkpoint->state > CHECKPOINT_MAKING && j->checkpoint->state < CHECKPOINT_NAMING;
}

/* A shard that does not beat cannot report its part either. A shard that comes back has forgotten
 * its part. */
static void silence_look(struct coord_job *j)
{
    char why[ERR_TEXT_MAX + LIMIT_NAME + 64], ways[ERR_TEXT_MAX];
    for (uint32_t s = 0; s < j->fleet->members.shards && of_shards(j); s++) {
        const struct coord_shard *shard = &j->fleet->members.shard[s];
        bool joined = j->checkpoint->state == CHECKPOINT_EXPORTING && !j->checkpoint->part[s].asked;
        if (shard->retired || joined || coord_checkpoint_leaves_out(j, s))
            continue;
        if (shard->seen && env_now_ns(j->fleet->env) - shard->beat_ns <=
                               j->fleet->options.lease_ms * UINT64_C(1000000))
            continue;
        (void)snprintf(why, sizeof why, "server %s is not heard any more: start it again; %s",
                       shard->server, coord_add_ways(j->fleet, shard->server, ways));
        coord_checkpoint_give_up(j, SHOAL_E_UNAVAILABLE, why);
    }
}

void coord_checkpoint_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    coord_checkpoint_answer_made(j, false);
    coord_checkpoint_sweep_step(j);
    coord_checkpoint_publish_step(j);
    silence_look(j);
    coord_checkpoint_coming_step(j);
    if (k->state == CHECKPOINT_OPENING && coord_setup_all(j))
        cut_begin(j);
    if (coord_phase_running(j))
        coord_checkpoint_automatic_step(j);
    prune_step(j);
    if (!coord_phase_running(j) && k->state == CHECKPOINT_IDLE)
        (void)coord_checkpoint_disclaim(j);
}

void coord_checkpoint_shard_lost(struct coord_job *j, uint32_t shard)
{
    char why[ERR_TEXT_MAX];
    SHOAL_ASSERT(shard < j->fleet->members.shards);
    if (!of_shards(j) || coord_checkpoint_leaves_out(j, shard))
        return;
    (void)snprintf(why, sizeof why, "server %s has started again",
                   j->fleet->members.shard[shard].server);
    coord_checkpoint_give_up(j, SHOAL_E_UNAVAILABLE, why);
}

/* ---- life ------------------------------------------------------------------------------------ */

int coord_checkpoint_open(struct coord_job *j, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    k->list = calloc(1, sizeof *k->list);
    if (k->list == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of checkpoints");
    int rc = coord_store_get_fixed(j->store, "checkpoints", k->list, sizeof *k->list, e);
    if (rc == SHOAL_E_CORRUPT) /* the folders count, not the list: the job goes on */
        log_warn("which checkpoints the job has made is not known any more: %s", e->text);
    else if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    if (rc != 0 || k->list->number != j->at.number)
        *k->list = (struct coord_checkpoint_list){.number = j->at.number};
    rc = coord_checkpoint_told_open(j, e);
    if (rc == 0)
        rc = coord_checkpoint_coming_open(j, e);
    if (rc != 0)
        return rc;
    uint64_t ended = 0;
    rc = coord_store_get_fixed(j->store, END_KEY, &ended, sizeof ended, e);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND && rc != SHOAL_E_CORRUPT)
        return rc;
    k->end_made = rc == 0 && ended == j->at.number;
    coord_checkpoint_publish_lost(j);
    if (coord_phase_running(j) && j->spec.checkpoint.dir[0] != 0 &&
        j->fleet->options.folder != NULL)
        coord_checkpoint_keeper(j, true);
    return 0;
}

/* The coordinator may not come back to the folder soon, so the removed checkpoints' files go now,
 * within bounds. */
static void sweep_all(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    for (uint32_t i = 0; i < SWEEPS_MAX && k->sweep; i++)
        k->sweep = j->fleet->options.folder->sweep(k->swept);
}

void coord_checkpoint_close(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->list == NULL)
        return;
    if (k->making != NULL)
        coord_checkpoint_sweep(j);
    /* no thread works on it any more: it has its name, or will not get it (5) */
    if (k->state == CHECKPOINT_NAMING)
        k->making->stays = k->making->named;
    forget(j);
    (void)coord_checkpoint_disclaim(j);
    coord_errand_close(j->fleet);
    sweep_all(j);
    free(k->list);
    k->list = NULL;
}

int coord_checkpoint_check(const struct coord_fleet *f, const struct job *spec, struct err *e)
{
    if (spec->checkpoint.publish.count > 0 && f->options.hook_start == NULL)
        return err_set(e, SHOAL_E_DENIED,
                       "checkpoint.publish: this coordinator runs no commands; publish: true in "
                       "its coordinator.yaml allows it");
    if (spec->checkpoint.dir[0] == 0 &&
        (spec->checkpoint.every_batches > 0 || spec->checkpoint.every_minutes > 0 ||
         spec->checkpoint.at_end))
        return err_set(
            e, SHOAL_E_CONFIG,
            "checkpoint: at_end, every_batches and every_minutes need checkpoint.dir, a folder "
            "that coordinator and servers share");
    if (spec->checkpoint.dir[0] == 0 && spec->replay.on && spec->replay.checkpoint)
        return err_set(e, SHOAL_E_CONFIG,
                       "replay: a checkpoint at each day's end needs checkpoint.dir, a folder that "
                       "coordinator and servers share; replay.checkpoint: false goes without");
    if (spec->checkpoint.dir[0] != 0 && f->options.folder == NULL)
        return err_set(e, SHOAL_E_CONFIG, "checkpoint.dir: this coordinator keeps no checkpoints");
    return 0;
}

void coord_checkpoint_job(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    SHOAL_ASSERT(k->state == CHECKPOINT_IDLE && k->asker == 0);
    k->dir[0] = 0; /* a sweep goes on */
    k->prune = false;
    k->last_ns = k->last_batches = k->retry_ns = 0;
    k->end_made = false;
    k->end_failed = 0;
    k->end_why.status = 0;
    k->end_why.text[0] = 0;
    k->hook.next[0] = 0;
    k->hook.foreign = k->hook.running;
    k->coming.number = 0;
    *k->list = (struct coord_checkpoint_list){.number = j->at.number};
    k->told = (struct coord_checkpoint_told){.number = j->at.number};
}
