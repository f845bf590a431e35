/* lease_log.c: a ring of leases. */
#include "server/coord/work/lease_log.h"

#include "proto/base/assert.h"
#include "proto/base/json.h"
#include "proto/base/minmax.h"
#include "server/coord/core/core.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void key_of(uint64_t serial, char out[COORD_KEY_MAX])
{
    (void)snprintf(out, COORD_KEY_MAX, "lease/%u", (unsigned)(serial % COORD_LEASES));
}

static int ring_make(struct coord_leases *l)
{
    if (l->entry == NULL)
        l->entry = calloc(COORD_LEASES, sizeof *l->entry);
    return l->entry == NULL ? SHOAL_E_NOMEM : 0;
}

int coord_lease_open(struct coord_leases *l, struct coord_store *store, struct err *e)
{
    struct coord_lease in;
    char key[COORD_KEY_MAX];
    *l = (struct coord_leases){0};
    for (uint32_t slot = 0; slot < COORD_LEASES; slot++) {
        key_of(slot, key);
        if (coord_store_get_fixed(store, key, &in, sizeof in, NULL) != 0 || in.serial == 0 ||
            in.serial % COORD_LEASES != slot || in.batch == 0)
            continue;
        if (ring_make(l) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the log of leases");
        in.name[sizeof in.name - 1] = 0;
        l->entry[slot] = in;
        l->serial = MAX(in.serial, l->serial);
    }
    return 0;
}

void coord_lease_close(struct coord_leases *l)
{
    free(l->entry);
    *l = (struct coord_leases){0};
}

bool coord_lease_note(struct coord_job *j, uint32_t lane)
{
    const struct coord_tasks *t = j->tasks;
    const struct coord_lane *at = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && at->state == LANE_HELD && at->task < t->tasks);
    const struct coord_task *task = &t->task[at->task];
    const struct coord_worker *worker = coord_worker_find(&j->workers, at->worker);
    const struct wire_batch_name newest = {at->generation, coord_task_last(task), lane, 0};
    struct coord_leases *l = j->leases;
    char key[COORD_KEY_MAX];
    if (coord_lease_find(l, j->at.run, &newest) != NULL || ring_make(l) != 0)
        return true;
    SHOAL_ASSERT(task->lane == lane);
    uint64_t first = MAX(at->mark + 1, task->first_batch);
    struct coord_lease *out = &l->entry[++l->serial % COORD_LEASES];
    *out = (struct coord_lease){.serial = l->serial,
                                .run = j->at.run,
                                .generation = at->generation,
                                .first = first,
                                .last = coord_task_last(task),
                                .worker = at->worker,
                                .task_first = task->first_batch,
                                .position = task->position + coord_objects_base(j, task->object),
                                .rows = task->rows,
                                .lane = lane,
                                .epoch = t->epoch,
                                .task = at->task,
                                .batch = (uint32_t)t->batch};
    if (worker != NULL)
        memcpy(out->name, worker->name, sizeof out->name);
    key_of(l->serial, key);
    return coord_job_note(j, key, out, sizeof *out);
}

const struct coord_lease *coord_lease_find(const struct coord_leases *l, uint64_t run,
                                           const struct wire_batch_name *of)
{
    for (uint64_t i = 0; l->entry != NULL && i < COORD_LEASES && i < l->serial; i++) {
        const struct coord_lease *at = &l->entry[(l->serial - i) % COORD_LEASES];
        if (at->serial == l->serial - i && at->run == run && at->lane == of->lane &&
            at->generation == of->generation && at->first <= of->batch && of->batch <= at->last)
            return at;
    }
    return NULL;
}

/* ---- WHO ------------------------------------------------------------------------------------- */

/* Orders by lane, generation and batches. Two leases of one run do not overlap, and a batch equals
 * the lease that contains it. */
static int by_batches(const void *a, const void *b)
{
    const struct coord_lease *x = *(const struct coord_lease *const *)a,
                             *y = *(const struct coord_lease *const *)b;
    if (x->lane != y->lane)
        return (x->lane > y->lane) - (x->lane < y->lane);
    if (x->generation != y->generation)
        return (x->generation > y->generation) - (x->generation < y->generation);
    return (x->first > y->last) - (x->last < y->first);
}

/* Returns the leases of a run, sorted; the caller frees the array. NULL: no memory. */
static const struct coord_lease **leases_of(const struct coord_leases *l, uint64_t run,
                                            uint32_t *count)
{
    const struct coord_lease **sorted = calloc(COORD_LEASES, sizeof *sorted);
    *count = 0;
    if (sorted == NULL)
        return NULL;
    for (uint32_t i = 0; l->entry != NULL && i < COORD_LEASES; i++) {
        const struct coord_lease *at = &l->entry[i];
        if (at->serial != 0 && at->run == run)
            sorted[(*count)++] = at;
    }
    qsort(sorted, *count, sizeof *sorted, by_batches);
    return sorted;
}

/* True when the list is there in which the lease's position was counted: a position leads to an
 * object only through it. Each round of a log that grows has its own list, which is freed before
 * the next is made. */
static bool object_known(const struct coord_job *job, const struct coord_lease *at)
{
    bool listed = job->objects[WIRE_TRAIN].count > 0 && at->run == job->at.run;
    return listed &&
           (!coord_grow_on(job) || (at->epoch == job->at.epoch && job->at.phase != PHASE_GROW));
}

static struct json *lease_json(const struct coord_job *job, const struct coord_lease *at,
                               uint64_t batch)
{
    if (at == NULL)
        return json_new_null();
    struct json *j = json_new_object();
    uint64_t skipped = (batch - at->task_first) * at->batch;
    /* bsp pads lanes with empty batches */
    uint64_t left = SAT_SUB(at->rows, skipped);
    json_set_int(j, "worker", (int64_t)at->worker);
    json_set_string(j, "name", at->name);
    json_set_int(j, "task", at->task);
    json_set_int(j, "epoch", at->epoch);
    uint64_t position = at->position + MIN(skipped, at->rows);
    if (object_known(job, at) && left > 0) {
        const char *object;
        position = coord_objects_at(job, position, &object);
        json_set_string(j, "object", object);
    }
    json_set_int(j, "position", (int64_t)position);
    json_set_int(j, "rows", (int64_t)MIN(left, at->batch));
    return j;
}

int coord_lease_who(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_WHO *q = &a->request->u.WHO;
    const struct wire_batch_name *name = a->m->frame[1].data;
    uint32_t count;
    const struct coord_lease **sorted = leases_of(j->leases, q->run, &count);
    struct json *list = json_new_array();
    for (uint32_t i = 0; sorted != NULL && i < q->count; i++) {
        struct wire_batch_name of; /* a frame may be unaligned */
        memcpy(&of, &name[i], sizeof of);
        const struct coord_lease batch = {
            .lane = of.lane, .generation = of.generation, .first = of.batch, .last = of.batch};
        const struct coord_lease *key = &batch,
                                 **at = bsearch(&key, sorted, count, sizeof *sorted, by_batches);
        (void)json_append(list, lease_json(j, at != NULL ? *at : NULL, of.batch));
    }
    char *text = sorted != NULL ? json_text(list, 0) : NULL;
    a->silent = text != NULL;
    if (text != NULL) /* when it is dropped, the client asks again */
        (void)coord_send_frame(j->fleet, a->from, &a->reply, text, strlen(text));
    free(text);
    json_free(list);
    free(sorted);
    if (!a->silent)
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory for the answer; ask for fewer batches");
    return 0;
}
