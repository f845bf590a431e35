/* job_external.c: model.kind: external: the tensors that the servers keep for it, and the keys that
 * mean nothing to it. */
#include "proto/job/job_inner.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 64
#define TENSOR_FLOATS_MAX (UINT64_C(1) << 28) /* of a dense table */

static int shape_take(const struct config *c, const char *path, struct job_tensor *t, struct err *e)
{
    struct string_list list = {0};
    uint64_t floats = 1;
    int rc = 0;
    if (config_list(c, path, &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count == 0 || list.count > JOB_TENSOR_RANK)
        rc = job_refuse(c, path, e, " has %zu sizes; a tensor has 1 to %u, as in [400, 390]",
                        list.count, JOB_TENSOR_RANK);
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        char *end;
        long size = strtol(list.item[i], &end, 10);
        if (*end != 0 || end == list.item[i] || size < 1 || (uint64_t)size > TENSOR_FLOATS_MAX)
            rc = job_refuse(c, path, e, ": %.40s is not a size (1 to %" PRIu64 ")", list.item[i],
                            TENSOR_FLOATS_MAX);
        else if ((floats *= (uint64_t)size) > TENSOR_FLOATS_MAX)
            rc = job_refuse(c, path, e,
                            ": more than %" PRIu64 " numbers; cut the tensor into several",
                            TENSOR_FLOATS_MAX);
        else
            t->shape[t->rank++] = (uint32_t)size;
    }
    config_list_free(&list);
    return rc;
}

static int tensor_take(const struct config *c, const struct job *j, size_t index, struct err *e)
{
    struct job_tensor *t = &j->model.tensor[index];
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "model.tensors[%zu].name", index);
    const char *name = config_string_or(c, path, "");
    if (name[0] == 0 || strlen(name) >= LIMIT_NAME)
        return job_refuse(c, path, e, ": a name must have 1 to %u bytes", LIMIT_NAME - 1);
    text_copy(t->name, sizeof t->name, name);
    for (size_t i = 0; i < index; i++)
        if (strcmp(j->model.tensor[i].name, name) == 0)
            return job_refuse(c, path, e, ": %s is there twice", name);
    (void)snprintf(path, sizeof path, "model.tensors[%zu].init.kind", index);
    t->init.kind = (enum init_kind)config_enum(c, path);
    (void)snprintf(path, sizeof path, "model.tensors[%zu].init.scale", index);
    if (t->init.kind != INIT_ZERO)
        t->init.scale = (float)config_float(c, path);
    (void)snprintf(path, sizeof path, "model.tensors[%zu].shape", index);
    return shape_take(c, path, t, e);
}

static int tensors_take(const struct config *c, struct job *j, struct err *e)
{
    size_t count = config_count(c, "model.tensors");
    int rc = 0;
    if (count > LIMIT_JOB_TENSORS)
        return job_refuse(c, "model.tensors", e, ": %zu tensors, at most %u are possible", count,
                          LIMIT_JOB_TENSORS);
    if (count == 0)
        return 0;
    j->model.tensor = calloc(count, sizeof *j->model.tensor);
    if (j->model.tensor == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    j->model.tensors = (uint32_t)count;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = tensor_take(c, j, i, e);
    return rc;
}

/* Keys of the built-in networks, and ways of training that need the network here. */
static int others_check(const struct config *c, const struct job *j, struct err *e)
{
    static const char *const network[] = {"model.hidden",
                                          "model.hidden2",
                                          "model.bottom",
                                          "model.cin",
                                          "model.tower",
                                          "model.attention_hidden",
                                          "model.gate_hidden",
                                          "model.gate_fields",
                                          "model.cross_layers",
                                          "model.heads",
                                          "model.attention_layers",
                                          "model.attention_dim",
                                          "model.interaction",
                                          "model.experts",
                                          "model.own_experts",
                                          "model.levels",
                                          "model.top_k",
                                          "model.balance",
                                          "model.stages",
                                          "model.split",
                                          "model.split_above",
                                          "model.dropout",
                                          "model.norm",
                                          "model.activation",
                                          "model.l2",
                                          "train.precision",
                                          "train.micro_batches",
                                          "train.deterministic",
                                          "train.clip_dense",
                                          "train.clip_row",
                                          "model.l2_dense"};
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
        if (config_has(c, network[i]))
            return job_refuse(c, network[i], e,
                              " is of the built-in networks, and with model.kind: external the "
                              "network is a program's, which decides that: take the key away");
    if (j->train.allreduce)
        return job_refuse(c, "train.dense", e,
                          ": allreduce adds up the gradients of a built-in network; a program with "
                          "its own network does that by itself, as with torch.distributed: take "
                          "the key away");
    if (j->train.window > 1)
        return job_refuse(c, "train.window", e,
                          " cuts a batch into slices for a built-in network; for model.kind: "
                          "external raise train.batch instead");
    if (j->data.negatives < 1)
        return job_refuse(c, "data.negatives", e,
                          " has predictions corrected for the rows that were left out, which a "
                          "built-in network does: with model.kind: external leave them out before, "
                          "or use data.sample");
    return 0;
}

int job_external_take(const struct config *c, struct job *j, struct err *e)
{
    j->model.first_order = config_bool(c, "model.first_order");
    if (j->model.kind == MODEL_EXTERNAL) {
        int rc = others_check(c, j, e);
        return rc != 0 ? rc : tensors_take(c, j, e);
    }
    if (config_has(c, "model.tensors"))
        return job_refuse(c, "model.tensors", e,
                          " is for model.kind: external; a built-in network makes its tensors by "
                          "itself");
    if (config_has_value(c, "model.first_order"))
        return job_refuse(
            c, "model.first_order", e,
            " is for model.kind: external; a built-in network has first-order weights "
            "or not by itself");
    return 0;
}
