/* objects_index.c: the index of each object, and the worker that makes it. */
#include "server/coord/work/objects_index.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"
#include "server/coord/work/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stored for each split: the job's number; struct coord_object_record (count); struct wire_window
 * (windows of all objects) */
static const char *const rows_key[JOB_SPLITS] = {"objects/rows", "objects/valid/rows",
                                                 "objects/test/rows"};

#define RETURN_LEASES 2u             /* a worker that has left may start again within them */
#define ROWS_MAX (UINT64_C(1) << 44) /* rows of an object: so that no sum wraps */

/* ---- in the store ---------------------------------------------------------------------------- */

size_t coord_objects_records_bytes(const struct coord_objects *o)
{
    return o->count * sizeof(struct coord_object_record) + o->windows * sizeof(struct wire_window);
}

void coord_objects_records(const struct coord_objects *o, void *to)
{
    char *at = to, *windows = at + o->count * sizeof(struct coord_object_record);
    for (uint32_t i = 0; i < o->count; i++) {
        const struct coord_object *of = &o->object[i];
        struct coord_object_record r = {of->rows, of->digest, of->left_out, of->windows};
        memcpy(at + i * sizeof r, &r, sizeof r);
        if (of->windows > 0)
            memcpy(windows, of->window, of->windows * sizeof *of->window);
        windows += of->windows * sizeof *of->window;
    }
    SHOAL_ASSERT(windows == (char *)to + coord_objects_records_bytes(o));
}

static int rows_put(struct coord_job *j, uint32_t split, struct err *e)
{
    const struct coord_objects *o = &j->objects[split];
    size_t bytes = coord_objects_records_bytes(o);
    char *records = malloc(bytes);
    if (records == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the index of %u objects", o->count);
    coord_objects_records(o, records);
    int rc = coord_job_put_parts(j, rows_key[split], &(struct coord_part){records, bytes}, 1, e);
    free(records);
    return rc;
}

static void bases_set(struct coord_objects *o)
{
    for (uint32_t i = 1; i < o->count; i++)
        o->object[i].base = o->object[i - 1].base + o->object[i - 1].rows;
}

/* Takes the stored record of an object. */
static bool row_load(struct coord_object *of, const struct coord_object_record *r,
                     const void *windows)
{
    size_t bytes = r->windows * sizeof *of->window;
    of->window = NULL;
    if (r->windows > 0) {
        of->window = malloc(bytes);
        if (of->window == NULL)
            return false;
        memcpy(of->window, windows, bytes);
    }
    of->known = true;
    of->windows = r->windows;
    of->rows = r->rows;
    of->digest = r->digest;
    of->left_out = r->left_out != 0;
    return r->rows < ROWS_MAX;
}

bool coord_objects_known(struct coord_objects *o, const void *from, size_t bytes)
{
    struct coord_object_record r;
    size_t at = o->count * sizeof r;
    if (bytes < at)
        return false;
    o->known = o->left_out = o->windows = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        memcpy(&r, (const char *)from + i * sizeof r, sizeof r);
        if (r.windows > (bytes - at) / sizeof(struct wire_window) ||
            !row_load(&o->object[i], &r, (const char *)from + at))
            return false;
        at += r.windows * sizeof(struct wire_window);
        o->windows += r.windows;
        o->left_out += r.left_out != 0;
        o->known++;
    }
    bases_set(o);
    return at == bytes;
}

int coord_objects_put_rows(struct coord_job *j, struct err *e)
{
    return rows_put(j, WIRE_TRAIN, e);
}

int coord_objects_rows_load(struct coord_job *j, uint32_t split, struct err *e)
{
    char *value;
    size_t bytes, head = sizeof j->at.number;
    int rc = coord_job_get(j, rows_key[split], &value, &bytes, e);
    if (rc != 0)
        return rc;
    bool good = coord_objects_known(&j->objects[split], value + head, bytes - head);
    free(value);
    if (!good)
        return SHOAL_E_NOT_FOUND;
    return 0;
}

/* ---- reports of workers ---------------------------------------------------------------------- */

/* Sums the rows of all known objects. */
static int sum_up(const struct coord_objects *o, struct coord_split *whole, struct err *e)
{
    *whole = (struct coord_split){.used = 1, .known = 1};
    for (uint32_t i = 0; i < o->count; i++) {
        /* rows of an object are drawn by its name */
        const char *name = o->object[i].line;
        whole->digest ^= hash_bytes(name, strcspn(name, "\t"), i);
        if (o->object[i].left_out)
            continue;
        if (o->object[i].rows >= ROWS_MAX)
            return err_set(e, SHOAL_E_MALFORMED, "object %s: %" PRIu64 " rows", o->object[i].line,
                           o->object[i].rows);
        whole->rows += o->object[i].rows;
        whole->digest = rng_mix(whole->digest ^ o->object[i].digest) + 1;
    }
    return 0;
}

/* All objects of a split are known: the split is. */
static int index_complete(struct coord_job *j, uint32_t split, struct err *e)
{
    struct coord_objects *o = &j->objects[split];
    bool train = split == WIRE_TRAIN;
    int rc = sum_up(o, &o->whole, e);
    bases_set(o);
    if (train)
        j->tasks->late = j->fleet->members.next_worker;
    if (rc != 0 || (train && j->at.phase == PHASE_GROW))
        return rc;
    if (o->whole.rows == 0)
        return err_set(e, SHOAL_E_DATA, "data.%s: %u objects, and no row in them%s%s",
                       coord_split_name[split], o->count, text_if(j->warning[0] != 0, ": "),
                       j->warning);
    if (train)
        rc = j->source->known(j, e);
    else
        rc = rows_put(j, split, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(j->at.split[split].known == 0); /* 1 */
    j->at.split[split] = o->whole;
    log_info("data.%s: %" PRIu64 " rows in %u objects, %u left out", coord_split_name[split],
             o->whole.rows, o->count - o->left_out, o->left_out);
    return 0;
}

/* True when the failure is the worker's own: every object would fail there, as fast as the worker
 * can ask for them. */
static bool fails_here(int status)
{
    return status > 0 ||
           (status != SHOAL_E_NOINPUT && status != SHOAL_E_DATA && status != SHOAL_E_UNAVAILABLE);
}

/* True while an object that could not be read is kept for another worker. Another worker that is
 * there tries it in any case. A worker that the job asked for and that has left may start again, so
 * it is waited for, within a limit. */
static bool kept(const struct coord_job *j, const struct coord_object *of)
{
    uint64_t passed = coord_now_ns(j) - of->failed_ns;
    return j->workers.count > 1 ||
           (coord_live_workers(j) > 1 && passed < RETURN_LEASES * coord_lease_ns(j));
}

bool coord_objects_waits(const struct coord_job *j, char *text, size_t bytes)
{
    for (uint32_t s = 0; s < JOB_SPLITS && j->workers.count <= 1; s++) {
        const struct coord_objects *o = &j->objects[s];
        if (o->waits == 0 || o->waits > o->count || o->object[o->waits - 1].known)
            continue;
        const char *line = o->object[o->waits - 1].line;
        size_t name = strcspn(line, "\t");
        (void)snprintf(text, bytes,
                       "waits for another worker to read object %.*s, which the one that is there "
                       "could not; without one it is left out",
                       (int)MIN(name, 400), line);
        return true;
    }
    return false;
}

/* Leaves the object out when a second worker could not read it either, or there is no other worker.
 * *again: neither is known yet. */
static int object_failed(struct coord_job *j, const struct coord_ask *a, bool *again, struct err *e)
{
    const struct wire_OBJECT_DONE *q = &a->request->u.OBJECT_DONE;
    struct coord_objects *o = &j->objects[q->split];
    struct coord_object *of = &o->object[q->object];
    if (!j->spec.data.objects.leave_out || fails_here(q->fail_status))
        return coord_worker_failed(a->worker, q->fail_status, q->fail_text, e);
    if (of->failed == 0)
        of->failed_ns = coord_now_ns(j);
    *again = kept(j, of) && (of->failed == 0 || of->failed == a->worker->number);
    of->failed = a->worker->number;
    if (*again) {
        log_info("object %s is to be tried by another worker than %s: %s", of->line,
                 a->worker->name, q->fail_text);
        o->waits = q->object + 1;
        o->holder[q->object] = of->item.worker = 0;
        if (q->object < o->first)
            o->first = q->object;
        return 0;
    }
    of->left_out = true;
    o->left_out++;
    log_warn("object %s is left out: %s", of->line, q->fail_text);
    if (j->warning[0] == 0)
        (void)snprintf(j->warning, sizeof j->warning, "an object is left out: %.*s",
                       (int)sizeof j->warning - 32, q->fail_text);
    return 0;
}

/* A repeated report. Another count means that the log changes, or is another log. */
static int object_again(const struct coord_object *of, struct coord_ask *a)
{
    const struct wire_OBJECT_DONE *q = &a->request->u.OBJECT_DONE;
    if (q->fail_status != 0 || (of->rows == q->rows && of->digest == q->digest))
        return 0;
    return err_set(&a->e, SHOAL_E_DATA,
                   "object %s: worker %s reads %" PRIu64 " rows (digest %016" PRIx64
                   "), another one read %" PRIu64 " (%016" PRIx64 ")",
                   of->line, a->worker->name, q->rows, q->digest, of->rows, of->digest);
}

/* Takes the windows of an object that was read. *ends: true when all objects together have too
 * many. */
static int windows_take(struct coord_job *j, struct coord_ask *a, bool *ends)
{
    const struct wire_OBJECT_DONE *q = &a->request->u.OBJECT_DONE;
    struct coord_objects *o = &j->objects[q->split];
    struct coord_object *of = &o->object[q->object];
    bool replay = j->spec.replay.on && q->split == WIRE_TRAIN;
    if (q->windows == 0 && (!replay || q->rows == 0))
        return 0;
    struct wire_window *window = malloc((q->windows + 1ull) * sizeof *window);
    if (window == NULL)
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory for %u windows", q->windows);
    if (q->windows > 0) /* a frame may be unaligned */
        memcpy(window, a->m->frame[1].data, q->windows * sizeof *window);
    int rc = 0;
    bool many = q->windows > COORD_OBJECT_WINDOWS_MAX - o->windows;
    if (!replay || !coord_replay_windows_ok(window, q->windows, q->rows))
        rc = err_set(&a->e, SHOAL_E_MALFORMED,
                     "worker %s: %u windows cannot be those of %" PRIu64 " rows of object %s",
                     a->worker->name, q->windows, q->rows, of->line);
    else if ((*ends = many))
        rc = err_set(&a->e, SHOAL_E_TOO_BIG,
                     "the objects of data.train have more than %u windows of %u s: raise "
                     "replay.window",
                     COORD_OBJECT_WINDOWS_MAX, j->spec.replay.window);
    if (rc != 0) {
        free(window);
        return rc;
    }
    of->window = window;
    of->windows = q->windows;
    o->windows += q->windows;
    return 0;
}

/* Takes an object that was read. */
static int object_take(struct coord_job *j, struct coord_ask *a, bool *ends)
{
    const struct wire_OBJECT_DONE *q = &a->request->u.OBJECT_DONE;
    struct coord_object *of = &j->objects[q->split].object[q->object];
    int rc = windows_take(j, a, ends);
    if (rc != 0)
        return rc;
    of->rows = q->rows;
    of->digest = q->digest;
    if (q->warning[0] != 0 && j->warning[0] == 0) {
        (void)snprintf(j->warning, sizeof j->warning, "%s", q->warning);
        log_warn("object %s: %s", of->line, q->warning);
    }
    return 0;
}

int coord_objects_done(struct coord_job *j, struct coord_ask *a, bool *ends)
{
    const struct wire_OBJECT_DONE *q = &a->request->u.OBJECT_DONE;
    struct coord_objects *o = &j->objects[q->split];
    bool again = false;
    *ends = false;
    if (q->object >= o->count)
        return err_set(&a->e, SHOAL_E_MALFORMED, "object %u is none of this job's", q->object);
    struct coord_object *of = &o->object[q->object];
    if (q->salt != hash_bytes(of->line, strcspn(of->line, "\t"), 1))
        return 0; /* an object of an earlier round */
    if (of->known)
        return object_again(of, a);
    int rc;
    if (q->fail_status == 0)
        rc = object_take(j, a, ends);
    else
        rc = object_failed(j, a, &again, &a->e);
    if (rc != 0 || again) {
        *ends = *ends || q->fail_status != 0;
        return rc;
    }
    *ends = true;
    of->known = true;
    of->item.worker = 0;
    if (++o->known != o->count)
        return 0;
    return index_complete(j, q->split, &a->e);
}

/* ---- holders --------------------------------------------------------------------------------- */

/* Returns how well the object suits the worker: 0 not at all, 4 best. */
static uint32_t suits(const struct coord_job *j, uint32_t split, uint32_t i, uint64_t worker,
                      bool more)
{
    const struct coord_objects *o = &j->objects[split];
    const struct coord_tasks *t = j->tasks;
    const struct coord_object *of = &o->object[i];
    uint64_t now = coord_now_ns(j);
    if (of->known || (o->holder[i] != 0 && o->holder[i] != worker) ||
        !coord_item_free(&of->item, worker, now) || (of->failed == worker && kept(j, of)))
        return 0;
    if (of->item.worker != 0) /* its answer may be lost; but objects not given yet come first */
        return 1;
    if (o->holder[i] != 0)
        return 4;
    if (!t->dealt || split != WIRE_TRAIN || of->failed != 0)
        return 4;
    uint64_t owner = t->lane[of->lane].owner;
    bool waits = now - o->listed_ns < COORD_AGAIN_NS; /* gives a slower worker time to take it */
    if (owner != 0)
        return owner == worker ? 4 : 0;
    if (more)
        return 3;
    return waits ? 0 : 2;
}

uint32_t coord_objects_next(struct coord_job *j, uint32_t split, uint64_t worker)
{
    struct coord_objects *o = &j->objects[split];
    struct coord_tasks *t = j->tasks;
    uint32_t live = coord_live_workers(j), owned = 0, best = COORD_NO_OBJECT, how = 0;
    for (uint32_t l = 0; l < t->lanes; l++)
        owned += t->lane[l].owner == worker;
    bool more = owned < (t->lanes + live - 1) / live;
    while (o->first < o->count && o->object[o->first].known)
        o->first++;
    for (uint32_t i = o->first; i < o->count && how < 4; i++) {
        uint32_t s = suits(j, split, i, worker, more);
        if (s > how) {
            best = i;
            how = s;
        }
    }
    if (best == COORD_NO_OBJECT)
        return best;
    o->holder[best] = worker;
    coord_item_give(&o->object[best].item, worker, coord_now_ns(j));
    struct coord_lane *lane = &t->lane[o->object[best].lane];
    if (split == WIRE_TRAIN && t->dealt && lane->owner == 0 && more)
        lane->owner = worker;
    return best;
}

static void worker_lost(struct coord_objects *o, uint64_t worker)
{
    coord_item_gone(&o->item, worker);
    for (uint32_t i = 0; i < o->count; i++)
        if (o->holder[i] == worker)
            o->holder[i] = o->object[i].item.worker = 0;
}

bool coord_objects_asked(const struct coord_job *j, uint64_t worker)
{
    bool asked = false;
    for (uint32_t s = 0; s < JOB_SPLITS && !asked; s++) {
        const struct coord_objects *o = &j->objects[s];
        asked = o->item.worker == worker;
        for (uint32_t i = 0; i < o->count && !asked; i++)
            asked = o->object[i].item.worker == worker;
    }
    return asked;
}

void coord_objects_worker_gone(struct coord_job *j, uint64_t worker)
{
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        worker_lost(&j->objects[s], worker);
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        if (j->tasks->lane[l].owner == worker)
            j->tasks->lane[l].owner = 0;
}
