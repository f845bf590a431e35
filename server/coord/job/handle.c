/* handle.c: requests of workers, except LANE_NEXT (grant.c). */
#include "server/coord/job/handle.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/bad_lines.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/notes.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/job/begin.h"
#include "server/coord/job/epoch.h"
#include "server/coord/job/sight.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/death.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/heard.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/pace.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/source.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the job with the request's error. The request itself is accepted. */
static int ends(struct coord_job *j, const struct coord_ask *a, int rc)
{
    (void)coord_end_fail(j, rc, "%s", a->e.text);
    return 0;
}

/* ---- coming, staying, leaving ---------------------------------------------------------------- */

static const char KERNEL_KEY[] = "kernel"; /* the job's number; a name (WIRE_KERNEL) */

/* True when a worker that left, or that an earlier coordinator had, may come again. */
static bool left_lately(const struct coord_job *j)
{
    return j->watch.left_ns != 0 && coord_now_ns(j) - j->watch.left_ns < 2 * coord_lease_ns(j);
}

/* Bitwise equal results need one type of kernel on all workers: of a BLAS, or for another device
 * than the CPU its version and the device. The first worker decides, and this is stored, since the
 * first worker after a restart is not the first of the job. Before training, a later worker may
 * decide anew when all earlier ones have failed or do not come again. */
static int kernel_check(struct coord_job *j, const struct wire_WORKER_JOIN *q, struct err *e)
{
    if (j->spec.train.mode != WIRE_BSP)
        return 0;
    bool alone = j->workers.count == 0 && !left_lately(j),
         first = j->kernel[0] == 0 || (alone && j->at.phase <= PHASE_INDEX);
    if (first && strcmp(j->kernel, q->kernel) != 0) {
        const struct coord_part name = {q->kernel, sizeof q->kernel};
        int rc = coord_job_put_parts(j, KERNEL_KEY, &name, 1, e);
        if (rc != 0)
            return rc;
        memcpy(j->kernel, q->kernel, sizeof j->kernel);
    }
    if (strcmp(j->kernel, q->kernel) == 0)
        return 0;
    return err_set(
        e, SHOAL_E_CONFIG,
        "worker %s computes on %s (%s), the others on %s: bsp needs one kind of device and one "
        "version of its library on all, of CPUs one type of kernels (OPENBLAS_CORETYPE)",
        q->name, q->kernel, q->backend, j->kernel);
}

int coord_handle_kernel_load(struct coord_job *j, struct err *e)
{
    char *value;
    size_t bytes, head = sizeof j->at.number;
    int rc = coord_job_get(j, KERNEL_KEY, &value, &bytes, e);
    if (rc != 0) /* an earlier release stored none */
        return coord_store_optional(rc);
    (void)snprintf(j->kernel, sizeof j->kernel, "%.*s", (int)(bytes - head), value + head);
    free(value);
    return 0;
}

/* Notes the worker's device, once: a join may be repeated, but it may also name another backend
 * under the same number. */
static void worker_computes(struct coord_job *j, struct coord_worker *w,
                            const struct wire_WORKER_JOIN *q)
{
    struct coord_compute by;
    coord_compute_of(q, &by);
    memcpy(j->backend, q->backend, sizeof j->backend);
    if (memcmp(&w->by, &by, sizeof by) == 0)
        return;
    w->by = by;
    j->at.workers_wanted += coord_roll_note(&j->roll, w->name, &by);
    log_info("worker %" PRIu64 ": %s, process %u, %s %s%s%s", w->number, q->name, q->pid,
             q->backend, q->kernel, text_if(q->why[0] != 0, "; "), q->why);
}

int coord_handle_visit(struct coord_fleet *f, struct coord_ask *a, const char *why)
{
    coord_sight_visit(f, &a->request->u.WORKER_JOIN, a->from, "");
    return err_set(&a->e, SHOAL_E_AGAIN, "%s", why);
}

int coord_handle_join(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_WORKER_JOIN *q = &a->request->u.WORKER_JOIN;
    struct coord_worker *w;
    if (!coord_phase_running(j) || j->at.phase == PHASE_FINISH)
        return coord_handle_visit(j->fleet, a, "there is no job to work on yet");
    int rc = kernel_check(j, q, &a->e);
    if (rc == 0 && q->endpoint[0] != 0 && !coord_cluster_endpoint_fits(q->endpoint))
        rc = err_set(&a->e, SHOAL_E_MALFORMED,
                     "worker %s joins with no endpoint that other workers could use", q->name);
    coord_sight_visit(j->fleet, q, a->from, rc != 0 ? a->e.text : NULL);
    if (rc != 0)
        return rc;
    const struct coord_caller caller = {a->from, coord_now_ns(j), env_random(j->fleet->env) | 1,
                                        a->who.key, a->who.address};
    const uint64_t next = j->fleet->members.next_worker;
    rc = coord_worker_join(&j->workers, &j->fleet->members, j->fleet->store, q, &caller, &w, &a->e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(w->number < j->fleet->members.next_worker); /* member.c, 1: the number is stored */
    if (w->number >= next) {
        w->failed_before = j->watch.failed_rounds;
        coord_pace_changed(j);
    }
    worker_computes(j, w, q);
    memcpy(w->endpoint, q->endpoint, sizeof w->endpoint);
    coord_heard_count(j);
    a->reply.u.WORKER_JOIN_reply =
        (struct wire_WORKER_JOIN_reply){.worker = w->number,
                                        .run = j->at.run,
                                        .lanes = j->tasks->lanes,
                                        .lease_ms = (uint32_t)(coord_lease_ns(j) / 1000000),
                                        .tables = j->at.tables,
                                        .shards = j->fleet->members.shards,
                                        .map_epoch = j->at.map_epoch,
                                        .pass = w->pass,
                                        .job = j->at.number,
                                        .wall_s = env_wall_s(j->fleet->env),
                                        .trace_every = j->fleet->traces.every};
    a->frame = j->yaml;
    a->frame_bytes = j->yaml_bytes;
    return 0;
}

static bool figures_ok(const struct wire_WORKER_BEAT *q)
{
    bool good = true;
#define FINITE(name) good = good && isfinite(q->name);
#define NONE(name)
    WIRE_WORKER_BEAT(NONE, NONE, NONE, NONE, FINITE, NONE, NONE)
#undef NONE
#undef FINITE
    return good;
}

/* Examples may come in jumps. The rate is that between two jumps, the first one that since the
 * worker's lane was granted; so the first beat with examples tells it. It becomes 0 once the next
 * jump is later than twice that time, and unknown when the worker begins again. A repeated beat is
 * no jump. */
static void rate_note(struct coord_worker *w, uint64_t now_ns, uint64_t lease_ns)
{
    uint64_t elapsed = now_ns - w->rate_ns, examples = w->figures.examples;
    if (examples <= w->rate_examples) {
        if (w->rate_span_ns != 0 && elapsed > 2 * w->rate_span_ns) {
            w->rate = 0;
            w->rate_ns = w->rate_span_ns = 0;
        }
        return;
    }
    if (elapsed == 0 || (w->rated && elapsed < lease_ns / 6))
        return;
    if (w->rate_ns == 0) {
        w->rated = false;
    } else {
        w->rated = true;
        w->rate = (double)(examples - w->rate_examples) / ((double)elapsed * 1e-9);
        w->rate_span_ns = elapsed;
    }
    w->rate_ns = now_ns;
    w->rate_examples = examples;
}

int coord_handle_beat(struct coord_job *j, struct coord_ask *a)
{
    if (!figures_ok(&a->request->u.WORKER_BEAT))
        return err_set(&a->e, SHOAL_E_MALFORMED, "a beat's times are finite numbers");
    if (a->request->u.WORKER_BEAT.examples > a->worker->figures.examples) {
        j->watch.failed_rounds = 0;
        j->watch.failed[0] = 0;
    }
    coord_stall_beat(a->worker, &a->request->u.WORKER_BEAT, coord_now_ns(j));
    coord_times_beat(j, a->worker, &a->request->u.WORKER_BEAT);
    coord_pace_beat(j, a->worker, &a->request->u.WORKER_BEAT);
    a->worker->figures = a->request->u.WORKER_BEAT;
    rate_note(a->worker, coord_now_ns(j), coord_lease_ns(j));
    a->reply.u.WORKER_BEAT_reply.state = coord_phase_state(j);
    a->reply.u.WORKER_BEAT_reply.lanes_held = coord_lane_held(j->tasks, a->worker->number);
    a->reply.u.WORKER_BEAT_reply.list = coord_grow_due(j, a->worker->number);
    a->reply.u.WORKER_BEAT_reply.trace_every = j->fleet->traces.every;
    return 0;
}

/* failed: the error that the worker gave when it left; NULL: it gave none. */
static void worker_gone(struct coord_job *j, uint64_t number, const char *failed)
{
    const struct coord_worker *worker = coord_worker_find(&j->workers, number);
    if (failed != NULL) {
        (void)snprintf(j->watch.failed, sizeof j->watch.failed, "%s: %.*s", worker->name,
                       (int)(sizeof j->watch.failed - sizeof worker->name - 3), failed);
    } else {
        j->watch.left_ns = coord_now_ns(j);
        memcpy(j->watch.left, worker->name, sizeof j->watch.left);
    }
    coord_worker_remove(&j->workers, number);
    coord_ring_gone(j, number);
    coord_grant_worker_gone(j, number);
    coord_pace_changed(j);
}

/* A service manager restarts a failed worker as a new process with a new name. So rounds are
 * counted, not names: the count of ended rounds becomes one more than it was when the failed worker
 * joined. A worker that learns resets the count. */
enum { FAILED_ROUNDS = 6 };

/* True when a failure of this worker does not end the job. Once the tables are there, others have
 * read the input. So a worker that has learnt nothing, and lacks something on its machine (a mount,
 * a right, the right file), fails alone. The job ends if no other worker has been here for two
 * leases, or if all others came after FAILED_ROUNDS such failures: otherwise the job would wait, or
 * its workers come and go, without end. */
static bool fails_alone(const struct coord_job *j, const struct coord_worker *worker, int status)
{
    bool here = status == SHOAL_E_NOINPUT || status == SHOAL_E_DENIED || status == SHOAL_E_IO ||
                status == SHOAL_E_CANTCREATE || status == SHOAL_E_CONFIG ||
                status == SHOAL_E_SCHEMA;
    /* its copy of the first file, which tells the input's shape; a lane's input is the same for
     * all */
    here = here || (status == SHOAL_E_DATA && worker->asked_id == 0);
    bool others = left_lately(j) && strcmp(j->watch.left, worker->name) != 0;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        others = others || (strcmp(w->name, worker->name) != 0 &&
                            (w->figures.examples > 0 || w->failed_before < FAILED_ROUNDS));
    }
    return here && others && j->at.phase >= PHASE_SETUP && worker->figures.examples == 0;
}

int coord_handle_leave(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_WORKER_LEAVE *q = &a->request->u.WORKER_LEAVE;
    const struct coord_worker *worker = coord_worker_of_pass(&j->workers, q->pass, a->who.key);
    if (worker != NULL) {
        if (q->fail_status != 0)
            log_warn("worker %" PRIu64 " (%s) leaves: %s", worker->number, worker->name,
                     q->fail_text);
        else
            log_info("worker %" PRIu64 " (%s) leaves", worker->number, worker->name);
        bool alone = q->fatal && fails_alone(j, worker, q->fail_status);
        if (q->fatal && !alone)
            (void)ends(j, a, coord_worker_failed(worker, q->fail_status, q->fail_text, &a->e));
        else if (q->fail_status != 0 && j->at.workers_wanted > 0 &&
                 coord_roll_broken(&j->roll, worker->name))
            /* its device or its input failed: it may not come again; if it does, it counts again */
            j->at.workers_wanted--;
        if (q->fail_status != 0 && !q->fatal)
            coord_ring_unable(j, worker, q->fail_text);
        if (alone && worker->failed_before >= j->watch.failed_rounds)
            j->watch.failed_rounds = worker->failed_before + 1;
        worker_gone(j, worker->number, q->fail_status != 0 ? q->fail_text : NULL);
    }
    return 0;
}

/* A shard may have answered a fence before the loss of power, and acknowledged pushes may be lost.
 * No worker would push them again, and pulls would wait for them without end. */
void coord_handle_anew(struct coord_job *j, const char *server)
{
    enum coord_phase phase = j->at.phase;
    bool trains = phase == PHASE_LANES || phase == PHASE_TRAIN;
    if (!coord_phase_running(j) || (!trains && !coord_grant_marks_known(j)))
        return;
    log_warn("the machine of server %s has started again: lanes go on after what all servers have",
             server);
    coord_ring_anew(j);
    while (trains && j->workers.count > 0)
        worker_gone(j, j->workers.worker[j->workers.count - 1].number, NULL);
    coord_grant_fence_all(j);
}

void coord_handle_expire(struct coord_job *j)
{
    uint64_t number;
    while ((number = coord_worker_expired(&j->workers, coord_now_ns(j), coord_lease_ns(j))) != 0) {
        const char *name = coord_worker_find(&j->workers, number)->name;
        log_event(WORKER_DEAD, name,
                  "worker %" PRIu64 " (%s) is dead: not heard for %" PRIu64 " ms", number, name,
                  coord_lease_ns(j) / 1000000);
        if (coord_phase_running(j))
            j->at.worker_deaths++;
        coord_death_note(j, coord_worker_find(&j->workers, number));
        coord_sight_lost(j->fleet, coord_worker_find(&j->workers, number));
        worker_gone(j, number, NULL);
    }
}

/* ---- what the input and the tables are ------------------------------------------------------- */

static int index_take(struct coord_job *j, struct coord_ask *a, uint32_t number, uint64_t rows,
                      uint64_t digest, const char *warning)
{
    struct coord_split *split = &j->at.split[number];
    j->objects[number].item.worker = 0;
    if (split->known == 0) {
        *split = (struct coord_split){.rows = rows, .digest = digest, .used = 1, .known = 1};
        log_info("data.%s: %" PRIu64 " rows", coord_split_name[number], rows);
    }
    if (warning[0] != 0 && j->warning[0] == 0) {
        (void)snprintf(j->warning, sizeof j->warning, "%s", warning);
        log_warn("data.%s: %s", coord_split_name[number], warning);
    }
    if (split->rows != rows || split->digest != digest)
        return err_set(
            &a->e, SHOAL_E_DATA,
            "data.%s: worker %s reads %" PRIu64 " rows (digest %016" PRIx64 "), the others %" PRIu64
            " (%016" PRIx64 "): all workers must see the same files",
            coord_split_name[number], a->worker->name, rows, digest, split->rows, split->digest);
    return 0;
}

static bool objects_are(const struct coord_job *j, uint32_t split)
{
    return split < JOB_SPLITS && j->spec.data.objects.of[split].on;
}

int coord_handle_index(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_INDEX_DONE *q = &a->request->u.INDEX_DONE;
    if (q->split > WIRE_TEST || j->at.split[q->split].used == 0)
        return err_set(&a->e, SHOAL_E_MALFORMED, "split %u is none of this job's", q->split);
    if (objects_are(j, q->split))
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "split %u is one of objects, each of which is indexed by itself", q->split);
    if (q->fail_status != 0)
        return ends(j, a, coord_worker_failed(a->worker, q->fail_status, q->fail_text, &a->e));
    if (j->spec.replay.on && q->split == WIRE_TRAIN)
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "a replay needs the windows of data.train, and worker %s tells none",
                       a->worker->name);
    return index_take(j, a, q->split, q->rows, q->digest, q->warning);
}

int coord_handle_profile(struct coord_job *j, struct coord_ask *a)
{
    const struct frame *f = &a->m->frame[1];
    struct json *profile;
    if (j->profile != NULL || !coord_phase_running(j))
        return 0;
    int rc = json_parse(f->data, f->bytes, &profile, &a->e);
    if (rc != 0)
        return rc;
    const struct json *notes = json_get(profile, "notes");
    for (size_t i = 0; i < json_count(notes) && i < COORD_NOTES_MAX; i++)
        log_warn("data.train: %s", json_as_string(json_array_at(notes, i), "?"));
    j->profile = profile;
    return 0;
}

int coord_handle_windows(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_WINDOWS *q = &a->request->u.WINDOWS;
    bool over = false;
    int rc = coord_replay_windows(j, a, &over);
    if (rc != 0 && over)
        return ends(j, a, rc);
    if (rc != 0)
        return rc;
    return index_take(j, a, WIRE_TRAIN, q->rows, q->digest, q->warning);
}

/* Checks that the request's split is one of objects, in a job that runs. */
static int objects_check(const struct coord_job *j, struct coord_ask *a, uint32_t split)
{
    if (!coord_phase_running(j))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no job that reads objects");
    if (!objects_are(j, split))
        return err_set(&a->e, SHOAL_E_MALFORMED, "split %u is none of this job's of objects",
                       split);
    return 0;
}

int coord_handle_objects(struct coord_job *j, struct coord_ask *a)
{
    uint32_t split = a->request->u.OBJECTS.split;
    int rc = objects_check(j, a, split);
    if (rc == 0 && split == WIRE_TRAIN)
        rc = j->source->list(j, a);
    else if (rc == 0)
        rc = coord_objects_list(j, a);
    /* a job cannot go on with a list that is not stored */
    if (rc == SHOAL_E_NOMEM)
        return ends(j, a, rc);
    return rc;
}

int coord_handle_object(struct coord_job *j, struct coord_ask *a)
{
    bool over = false;
    int rc = objects_check(j, a, a->request->u.OBJECT_DONE.split);
    if (rc == 0)
        rc = coord_objects_done(j, a, &over);
    if (rc != 0 && over)
        return ends(j, a, rc);
    return rc;
}

/* Replaces the text that the job began with by the text with all names. */
static int legend_take(struct coord_job *j, const struct legend *is, struct err *e)
{
    int rc = coord_begin_name(j, is, j->spec.legend.learnt, e);
    if (rc != 0)
        return rc;
    j->told = true;
    if (!coord_job_put(j, "job", j->yaml, j->yaml_bytes))
        return SHOAL_E_IO;
    return 0;
}

/* `fresh: [all]` may be meant for a field called all: refuses it before anything is dropped. */
static int all_check(const struct legend *is, struct err *e)
{
    for (uint32_t l = 0; l < LEGEND_LISTS; l++)
        if (legend_find(is, (enum legend_list)l, "all") != LEGEND_NONE)
            return err_set(
                e, SHOAL_E_CONFIG,
                "fresh: all drops all tables of the job's space, and this job has a field "
                "called all: give the field another name, or take fresh away");
    return 0;
}

int coord_handle_legend(struct coord_job *j, struct coord_ask *a)
{
    size_t at = 0, bytes = a->m->frame[1].bytes, line = 0;
    const char *text = a->m->frame[1].data;
    struct legend is;
    if (!coord_phase_running(j))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no job to tell names for");
    while (bytes > 0 && text[bytes - 1] == '\n')
        bytes--;
    if (j->told && legend_line(j->yaml, j->yaml_bytes, &at, &line) && line == bytes &&
        memcmp(j->yaml + at, text, bytes) == 0)
        return 0;
    int rc = legend_parse(text, bytes, &is, &a->e);
    if (rc != 0)
        return rc;
    if (j->spec.fresh_all && (rc = all_check(&is, &a->e)) != 0) {
        legend_free(&is);
        return rc;
    }
    /* a worker of a job that resumes, or one that joins others, must have the names that are there;
     * before a restart they may have been told */
    bool told = j->told || j->at.tables > 0;
    bool same = told || coord_from_resumes(&j->at) || job_reads_only(&j->spec);
    rc = legend_agrees(&j->spec.legend, &is, j->spec.fresh.item, told ? 0 : j->spec.fresh.count,
                       same, &a->e);
    if (rc == 0 && !told)
        rc = legend_take(j, &is, &a->e);
    legend_free(&is);
    return rc;
}

/* Both structs come from one list, so a declaration begins as a creation up to declared_total,
 * whichever field ends the list. */
_Static_assert(offsetof(struct wire_TABLE_DECLARE, declared_total) <=
                   sizeof(struct wire_TABLE_CREATE),
               "a declaration begins as a creation");

int coord_handle_declare(struct coord_job *j, struct coord_ask *a)
{
    struct wire_TABLE_CREATE create;
    if (!coord_phase_running(j))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no job to declare tables for");
    memcpy(&create, &a->request->u.TABLE_DECLARE,
           offsetof(struct wire_TABLE_DECLARE, declared_total));
    /* zeroed: the struct is stored and compared byte by byte, with its padding */
    struct table_schema *schema = calloc(1, sizeof *schema);
    if (schema == NULL) {
        a->silent = true; /* the worker sends it again */
        return 0;
    }
    char difference[SCHEMA_DIFFERENCE_MAX];
    uint32_t total = a->request->u.TABLE_DECLARE.declared_total;
    int rc = wire_schema_from(&create, &a->m->frame[1], schema, &a->e);
    if (rc == 0 && (total == 0 || total > LIMIT_TABLES || schema->table >= total))
        rc = err_set(&a->e, SHOAL_E_SCHEMA, "table %u of %u: a job has 1 to %u tables",
                     schema->table, total, LIMIT_TABLES);
    if (rc == 0 && j->declared_total != 0 && j->declared_total != total)
        rc = err_set(&a->e, SHOAL_E_SCHEMA, "%u tables are declared, another worker declared %u",
                     total, j->declared_total);
    if (rc == 0 && j->declared[schema->table] && !schema_equal(schema, &j->table[schema->table]))
        rc = err_set(&a->e, SHOAL_E_SCHEMA,
                     "table %s differs from what another worker declared (%s): run the same "
                     "release on the same data",
                     schema->name, schema_difference(&j->table[schema->table], schema, difference));
    if (rc == 0 && !j->declared[schema->table]) {
        j->table[schema->table] = *schema;
        j->declared[schema->table] = true;
        j->declared_total = total;
    }
    free(schema);
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

static void staleness_add(struct coord_job *j, const uint64_t *histogram)
{
    for (uint32_t i = 0; i < COORD_HISTOGRAM; i++)
        j->at.staleness[i] += histogram[i];
}

/* Ends the job for many malformed lines before the epoch is over, once the rest of the epoch cannot
 * make up for them: a log may have its bad hour. */
static void bad_lines_look(struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    const struct coord_losses so_far = {.bad_lines = t->bad_lines, .drawn = t->drawn};
    uint64_t rows = coord_epoch_amount(j).rows;
    (void)coord_epoch_bad_train(j, &so_far, SAT_SUB(rows, t->drawn));
}

/* Keeps the first few different places in file order: every epoch meets the same lines again. */
static void bad_where_note(struct coord_job *j, const char *where)
{
    bool full = j->bad_told == COORD_BAD_TOLD;
    if (where[0] == 0 || (full && !bad_lines_before(where, j->bad_where[j->bad_told - 1])))
        return;
    for (uint32_t i = 0; i < j->bad_told; i++)
        if (strcmp(j->bad_where[i], where) == 0)
            return;
    if (!full)
        j->bad_told++;
    uint32_t at = j->bad_told - 1;
    for (; at > 0 && bad_lines_before(where, j->bad_where[at - 1]); at--)
        memcpy(j->bad_where[at], j->bad_where[at - 1], sizeof j->bad_where[0]);
    (void)snprintf(j->bad_where[at], sizeof j->bad_where[0], "%s", where);
    if (!full)
        log_warn("left out: %s", where);
}

/* Takes the figures of a task if they are valid: all are finite, and sums of non-negative values
 * are not negative. The sums of norms need not be finite: coord_trace_task then leaves them out. */
static bool losses_take(const struct coord_job *j, const struct wire_TASK_DONE *q,
                        const double *loss_task, struct coord_losses *out)
{
    uint32_t labels = MAX(j->spec.data.label_count, 1);
    bool good = q->tasks == labels && isfinite(q->loss_sum) && q->weight_sum >= 0 &&
                isfinite(q->weight_sum) && !(q->dense_norm_sum < 0) && !(q->row_norm_sum < 0) &&
                isfinite(q->lr_scale) && q->skipped <= q->batches && q->measured <= q->batches;
    SHOAL_ASSERT(labels <= LIMIT_TASKS);
    *out = (struct coord_losses){.examples = q->examples,
                                 .bad_lines = q->bad_lines,
                                 .drawn = q->drawn,
                                 .refused = q->refused,
                                 .loss_sum = q->loss_sum / job_task_weights(&j->spec),
                                 .weight_sum = q->weight_sum};
    for (uint32_t t = 0; t < labels && good; t++) {
        out->loss_task[t] = loss_task[t];
        good = isfinite(loss_task[t]);
    }
    return good;
}

int coord_handle_traces(struct coord_job *j, struct coord_ask *a)
{
    return coord_traces_take(j->fleet, a);
}

int coord_handle_task(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_TASK_DONE *q = &a->request->u.TASK_DONE;
    struct coord_tasks *t = j->tasks;
    struct coord_losses sum;
    const struct coord_lane *lane = NULL;
    if (q->lane < t->lanes)
        lane = &t->lane[q->lane];
    uint32_t index = coord_task_index(t, q->task);
    if (lane == NULL || lane->worker != a->worker->number || lane->generation != q->generation ||
        index == COORD_NO_TASK || j->at.phase != PHASE_TRAIN || t->task[index].lane != q->lane ||
        t->task[index].first_batch == 0)
        return err_set(&a->e, SHOAL_E_FENCED, "lane %u generation %" PRIu64 " is not yours",
                       q->lane, q->generation);
    if (!losses_take(j, q, a->m->frame[2].data, &sum) || q->examples > t->task[index].rows ||
        q->drawn > t->task[index].rows || q->bad_lines > q->drawn ||
        q->refused > t->task[index].batch_count ||
        !coord_progressive_told(j, q, a->m->frame[2].data) ||
        !coord_experts_ok(&j->spec, q->experts, j->windows->load, q->examples))
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "task %" PRIu64 " cannot have %" PRIu64 " examples of %u labels, %" PRIu64
                       " bad lines of %" PRIu64 ", loss %g and weights of %g",
                       q->task, q->examples, q->tasks, q->bad_lines, q->drawn, q->loss_sum,
                       q->weight_sum);
    SHOAL_ASSERT(lane->state == LANE_HELD || lane->state == LANE_GRANTING); /* it has a worker */
    t->lane[q->lane].used = true;
    if (coord_task_report(t, index, &sum)) {
        staleness_add(j, a->m->frame[1].data);
        coord_trace_task(j, q, a->m->frame[2].data, a->m->frame[1].data);
        coord_experts_add(&j->trace->experts, q->experts, j->windows->load, q->examples);
        bad_where_note(j, q->bad_where);
        if (!coord_grant_task_put(j, index, false) || !coord_progressive_count(j, index))
            return 0;
        struct metric_by *day = coord_replay_count(j, index, j->windows->told);
        if (day != NULL)
            coord_progressive_by(j->windows, day);
        struct err late = {0};
        if (coord_times_task(j, q, &late) != 0)
            coord_end_fail(j, late.code, "%s", late.text);
        if (q->bad_lines > 0)
            bad_lines_look(j);
        if (q->refused > 0) {
            a->worker->refused += q->refused;
            coord_guard_look(j, q->refused_where);
        }
    }
    return 0;
}

int coord_handle_eval(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_EVAL_DONE *q = &a->request->u.EVAL_DONE;
    if (j->at.phase != PHASE_EVAL && j->at.phase != PHASE_TEST)
        return 0;
    int rc = coord_eval_done(j->eval, q, a->m->frame[1].data, a->m->frame[2].data, &a->e);
    if (rc != 0 && rc != SHOAL_E_MALFORMED) /* diverged, or no memory: the rest would be in vain */
        (void)ends(j, a, rc);
    return rc;
}
