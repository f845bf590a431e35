/* experts.c: the examples of each expert of a mixture; experts.h. */
#include "server/coord/figures/experts.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <string.h>

/* Experts of one task, and of a level. */
static uint32_t own(const struct job *job)
{
    if (job->model.kind == MODEL_PLE)
        return job->model.own_experts;
    return 0;
}

static uint32_t of_level(const struct job *job)
{
    return job->model.experts + own(job) * MAX((uint32_t)job->data.label_count, 1);
}

/* The number of experts that are counted; 0: the gates choose all of them. */
static uint32_t counted(const struct job *job)
{
    bool mixes = job->model.kind == MODEL_MMOE || job->model.kind == MODEL_PLE;
    if (!mixes || job->model.top_k == 0 || job->model.top_k >= job->model.experts + own(job))
        return 0;
    if (job->model.kind == MODEL_MMOE)
        return of_level(job);
    return of_level(job) * MAX(job->model.levels, 1);
}

static uint64_t count_at(const void *load, uint32_t expert)
{
    uint64_t n;
    memcpy(&n, (const char *)load + expert * sizeof n, sizeof n);
    return n;
}

bool coord_experts_ok(const struct job *job, uint32_t count, const void *load, uint64_t examples)
{
    bool good = count == 0 || (count == counted(job) && count <= LIMIT_EXPERTS);
    for (uint32_t e = 0; e < count && good; e++)
        good = count_at(load, e) <= examples;
    return good;
}

void coord_experts_add(struct coord_experts *x, uint32_t count, const void *load, uint64_t examples)
{
    SHOAL_ASSERT(count <= LIMIT_EXPERTS);
    if (count == 0)
        return;
    x->count = count;
    x->examples += examples;
    for (uint32_t e = 0; e < count; e++)
        x->load[e] += count_at(load, e);
}

struct json *coord_experts_json(const struct coord_experts *x, const struct job *job)
{
    uint32_t level = of_level(job);
    if (x->examples == 0)
        return NULL;
    struct json *list = json_new_array();
    for (uint32_t e = 0; e < x->count; e++) {
        struct json *item = json_new_object();
        uint32_t at = e % level;
        json_set_int(item, "level", e / level + 1);
        if (at >= job->model.experts)
            json_set_string(item, "task", job->data.label[(at - job->model.experts) / own(job)]);
        json_set_int(item, "examples", (int64_t)x->load[e]);
        json_set_number(item, "share", (double)x->load[e] / (double)x->examples);
        json_append(list, item);
    }
    return list;
}
