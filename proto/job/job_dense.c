/* job_dense.c: train.dense and the keys beside it: whether the servers or the workers keep the
 * network. */
#include "proto/job/job_inner.h"

#include <stddef.h>

/* False for a model whose only dense tensor, if it has one, is a bias. */
static bool has_network(enum model_kind kind)
{
    return kind != MODEL_LR && kind != MODEL_FM && kind != MODEL_PROBE;
}

/* A key beside train.dense that would do nothing without it. */
static int beside_check(const struct config *c, const char *path, struct err *e)
{
    if (!config_has_value(c, path))
        return 0;
    return job_refuse(c, path, e,
                      " is of train.dense: allreduce, and here the servers keep the network: take "
                      "it away, or set train.dense: allreduce");
}

int job_dense_take(const struct config *c, struct job *j, struct err *e)
{
    j->train.allreduce = config_enum(c, "train.dense") == 1;
    j->train.sharded = config_enum(c, "train.dense_state") == 1;
    j->train.publish_ms = (uint32_t)config_size(c, "train.dense_publish");
    j->net.dense = config_enum(c, "net.dense") == 1 ? VALUES_BF16 : VALUES_FP32;
    if (j->train.allreduce && !has_network(j->model.kind))
        return job_refuse(c, "train.dense", e,
                          ": allreduce needs a network, and model.kind %s has none: take the key "
                          "away, and the servers keep what there is",
                          job_model_name(j->model.kind));
    if (j->train.allreduce && config_has_value(c, "replay.pace"))
        return job_refuse(
            c, "replay.pace", e,
            " gives out tasks by the clock, and with train.dense: allreduce all lanes "
            "take each step together: take one of the two keys away");
    if (j->train.allreduce)
        return 0;
    int rc = beside_check(c, "train.dense_publish", e);
    if (rc == 0)
        rc = beside_check(c, "train.dense_state", e);
    if (rc != 0)
        return rc;
    return beside_check(c, "net.dense", e);
}

bool job_dealt(const struct job *j)
{
    return j->train.mode == 2 || j->train.allreduce; /* WIRE_BSP */
}
