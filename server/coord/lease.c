/* lease.c: a ring of leases. */
#include "server/coord/lease.h"

#include "proto/base/assert.h"
#include "proto/base/json.h"
#include "proto/base/plant.h"
#include "server/coord/core.h"

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
        l->serial = in.serial > l->serial ? in.serial : l->serial;
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
    const struct coord_tasks *t = &j->tasks;
    const struct coord_lane *at = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && at->state == LANE_HELD && at->task < t->tasks);
    const struct coord_task *task = &t->task[at->task];
    const struct coord_worker *worker = coord_worker_find(&j->workers, at->worker);
    const struct wire_batch_name newest = {at->generation, coord_task_last(task), lane, 0};
    struct coord_leases *l = &j->leases;
    char key[COORD_KEY_MAX];
    if (coord_lease_find(l, j->at.run, &newest) != NULL || ring_make(l) != 0)
        return true;
    SHOAL_ASSERT(task->lane == lane);
    uint64_t first = at->mark + 1 > task->first_batch ? at->mark + 1 : task->first_batch;
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
            (at->generation == of->generation || PLANTED("lease_of_the_former")) &&
            at->first <= of->batch && of->batch <= at->last)
            return at;
    }
    return NULL;
}

/* ---- WHO: all names in one go over the log --------------------------------------------------- */

struct asked {
    struct wire_batch_name name;
    uint32_t place; /* in the request */
    const struct coord_lease *lease;
};

static int by_name(const void *a, const void *b)
{
    const struct wire_batch_name *x = &((const struct asked *)a)->name,
                                 *y = &((const struct asked *)b)->name;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

static int by_place(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* The first name that is not before (lane, generation, batch). */
static uint32_t lower_bound(const struct asked *asked, uint32_t count,
                            const struct wire_batch_name *name)
{
    struct asked key = {.name = *name};
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (by_name(&asked[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void match(const struct coord_leases *l, uint64_t run, struct asked *asked, uint32_t count)
{
    for (uint32_t i = 0; l->entry != NULL && i < COORD_LEASES; i++) {
        const struct coord_lease *at = &l->entry[i];
        const struct wire_batch_name from = {at->generation, at->first, at->lane, 0};
        if (at->serial == 0 || (at->run != run && !PLANTED("who_of_another_run")))
            continue;
        for (uint32_t k = lower_bound(asked, count, &from);
             k < count && asked[k].name.lane == at->lane &&
             asked[k].name.generation == at->generation && asked[k].name.batch <= at->last;
             k++)
            asked[k].lease = at;
    }
}

/* A position leads to an object through the list that it was counted in: of a log that grows each
 * round has one of its own, which is let go before the next is made. */
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
    uint64_t left = skipped < at->rows ? at->rows - skipped : 0;
    json_set_int(j, "worker", (int64_t)at->worker);
    json_set_string(j, "name", at->name);
    json_set_int(j, "task", at->task);
    json_set_int(j, "epoch", at->epoch);
    uint64_t position = at->position + (skipped < at->rows ? skipped : at->rows);
    if (object_known(job, at) && left > 0) {
        const char *object;
        position = coord_objects_at(job, position, &object);
        json_set_string(j, "object", object);
    }
    json_set_int(j, "position", (int64_t)position);
    json_set_int(j, "rows", (int64_t)(left < at->batch ? left : at->batch));
    return j;
}

int coord_lease_who(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_WHO *q = &a->request->u.WHO;
    const struct wire_batch_name *name = a->m->frame[1].data;
    struct asked *asked = calloc(q->count + 1, sizeof *asked);
    struct json *list = json_new_array();
    for (uint32_t i = 0; asked != NULL && i < q->count; i++) {
        memcpy(&asked[i].name, &name[i], sizeof *name);
        asked[i].place = i;
    }
    if (asked != NULL && q->count > 0) {
        qsort(asked, q->count, sizeof *asked, by_name);
        match(&j->leases, q->run, asked, q->count);
        qsort(asked, q->count, sizeof *asked, by_place);
    }
    for (uint32_t i = 0; asked != NULL && i < q->count; i++)
        (void)json_append(list, lease_json(j, asked[i].lease, asked[i].name.batch));
    char *text = asked != NULL ? json_text(list, 0) : NULL;
    a->silent = text != NULL && coord_send_frame(j->fleet, a->from, &a->reply, text, strlen(text));
    free(text);
    json_free(list);
    free(asked);
    return a->silent
               ? 0
               : err_set(&a->e, SHOAL_E_NOMEM, "no memory for the answer; ask for fewer batches");
}
