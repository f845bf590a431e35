/* task_figures.c: writes the figures of a task into a frame. */
#include "worker/train/task_figures.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

/* Room for the largest frame. */
struct room {
    struct metric_tally_sums sums[LIMIT_TASKS];
    struct metric_by_head head[LIMIT_BY];
    struct metric_by_told told[LIMIT_BY * METRIC_BY_TOLD];
    struct metric_by_task task[LIMIT_BY * METRIC_BY_TOLD * LIMIT_TASKS];
    struct metric_by_more more[LIMIT_BY * METRIC_BY_TOLD * LIMIT_TASKS];
    struct metric_by_entry value_entry[METRIC_BY_ENTRIES];
    struct metric_tally_entry entry[LIMIT_TASKS * METRIC_TALLY_CELLS];
};

static char *append(char *at, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(at, from, bytes);
    return at + bytes;
}

/* A batch without any row that has the label says nothing about its loss, so a mean is taken over
 * the rows of the task, not over its batches. */
static void losses_put(const struct lane_result *result, const struct job *job,
                       struct wire_TASK_DONE *w, double told[LIMIT_TASKS])
{
    bool whole = true;
    double sum = 0;
    for (uint32_t t = 0; t < w->tasks; t++) {
        double there = result->weight_task[t];
        told[t] = result->loss_task[t];
        if (there > 0 && there < result->weight_sum) {
            told[t] *= result->weight_sum / there;
            whole = false;
        }
        sum += (w->tasks > 1 ? job->model.task_weight[t] : 1) * told[t];
    }
    w->loss_sum = whole ? result->loss_sum : sum;
}

void *task_figures(const struct lane_result *result, const struct job *job,
                   struct wire_TASK_DONE *w, size_t *bytes)
{
    uint32_t by_count = (uint32_t)job->evaluate.by.count;
    double loss_task[LIMIT_TASKS];
    struct room *r = malloc(sizeof *r);
    if (r == NULL)
        return NULL;
    struct metric_by_part part = {.head = r->head,
                                  .told = r->told,
                                  .task = r->task,
                                  .more = r->more,
                                  .entry = r->value_entry};
    SHOAL_ASSERT(w->tasks >= 1 && w->tasks <= LIMIT_TASKS && by_count <= LIMIT_BY);
    losses_put(result, job, w, loss_task);
    w->cells = metric_tally_put(result->tally, w->tasks, r->sums, r->entry);
    for (uint32_t f = 0; f < by_count; f++)
        w->more |= metric_by_put(&result->by[f], &part);
    w->by_count = part.fields;
    w->values = part.values;
    w->value_cells = part.entries;
    const struct {
        const void *from;
        size_t bytes;
    } of[] = {{loss_task, w->tasks * sizeof loss_task[0]},
              {r->sums, w->tasks * sizeof r->sums[0]},
              {r->entry, w->cells * sizeof r->entry[0]},
              {r->head, part.fields * sizeof r->head[0]},
              {r->told, part.values * sizeof r->told[0]},
              {r->task, (size_t)part.values * w->tasks * sizeof r->task[0]},
              {r->value_entry, part.entries * sizeof r->value_entry[0]},
              {r->more, w->more ? (size_t)part.values * w->tasks * sizeof r->more[0] : 0},
              {result->load, w->experts * sizeof result->load[0]}};
    *bytes = 0;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        *bytes += of[i].bytes;
    char *frame = malloc(*bytes), *at = frame;
    for (size_t i = 0; frame != NULL && i < sizeof of / sizeof of[0]; i++)
        at = append(at, of[i].from, of[i].bytes);
    free(r);
    return frame;
}
