/* experts.h: how many examples each expert of a mixture has computed, for jobs whose gates choose
 * some of their experts (model.top_k). Workers report the counts with each task (TASK_DONE); here
 * they are added up, since the coordinator's start. Pure. */
#ifndef SERVER_COORD_FIGURES_EXPERTS_H
#define SERVER_COORD_FIGURES_EXPERTS_H

#include "proto/base/json.h"
#include "proto/job/job.h"

#include <stdint.h>

struct coord_experts {
    uint64_t examples; /* examples of the tasks that reported them */
    uint64_t load[LIMIT_EXPERTS];
    uint32_t count; /* experts, level by level: the shared ones, then each task's own */
};

/* True where a task of so many examples can have these counts, (count) uint64_t. A task of which
 * the worker computed no batch has none. */
bool coord_experts_ok(const struct job *job, uint32_t count, const void *load, uint64_t examples);
void coord_experts_add(struct coord_experts *x, uint32_t count, const void *load,
                       uint64_t examples);
/* [{"level", "task", "examples", "share"}], the caller's; a shared expert has no task. NULL: none
 * were counted. */
struct json *coord_experts_json(const struct coord_experts *x, const struct job *job);

#endif
