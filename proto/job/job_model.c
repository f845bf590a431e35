/* job_model.c: model and dense_optimizer of job.yaml: the networks' widths, the tasks' weights, and
 * the numbers of every kind of model. All keys are read whatever the kind is; dense decides which
 * of them it uses. */
#include "proto/job/job_inner.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a list of layer widths. */
static int widths_take(const struct config *c, const char *path, struct widths *out, struct err *e)
{
    struct string_list list = {0};
    int rc = 0;
    memset(out, 0, sizeof *out);
    if (config_list(c, path, &list) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (list.count > 16)
        rc = job_refuse(c, path, e, ": at most 16 layers");
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        char *end;
        long units = strtol(list.item[i], &end, 10);
        if (*end != 0 || end == list.item[i] || units < 1 || units > 16384)
            rc = job_refuse(c, path, e, ": %s is not a number of units (1 to 16384)", list.item[i]);
        out->at[out->count++] = (uint32_t)units;
    }
    config_list_free(&list);
    return rc;
}

static int task_weights_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list list = {0};
    int rc = 0;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        j->model.task_weight[t] = 1;
    if (config_list(c, "model.task_weights", &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count > 0 && list.count != j->data.label_count)
        rc = job_refuse(c, "model.task_weights", e, " has %zu numbers, data.label names %u labels",
                        list.count, j->data.label_count);
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        char *end;
        double weight = strtod(list.item[i], &end);
        if (*end != 0 || end == list.item[i] || !(weight >= 0 && weight <= 1e6))
            rc = job_refuse(c, "model.task_weights", e, ": %s is not a number from 0 to 1e6",
                            list.item[i]);
        j->model.task_weight[i] = weight;
    }
    config_list_free(&list);
    if (rc == 0 && j->data.label_count > 1 && job_task_weights(j) <= 0)
        rc = job_refuse(c, "model.task_weights", e,
                        " are all 0; give those above 0 that are to be learned");
    return rc;
}

static bool loss_named(const char *name, enum loss_kind *out)
{
    static const char *const names[] = {"logloss", "mse", "huber"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum loss_kind)i;
            return true;
        }
    return false;
}

static int losses_take(const struct config *c, struct job *j, struct err *e)
{
    const char *path = "model.loss";
    struct string_list list = {0};
    int rc = 0;
    j->model.huber_delta = config_float(c, "model.huber_delta");
    if (config_list(c, path, &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count > 1 && list.count != j->data.label_count)
        rc = job_refuse(c, path, e, " names %zu losses, data.label names %u labels", list.count,
                        j->data.label_count);
    for (uint32_t t = 0; t < j->data.label_count && list.count > 0 && rc == 0; t++) {
        const char *name = list.item[list.count > 1 ? t : 0];
        if (!loss_named(name, &j->model.loss[t]))
            rc = job_refuse(c, path, e, ": %s is none of logloss, mse, huber", name);
    }
    config_list_free(&list);
    return rc;
}

/* Refuses keys that only labels of 0 and 1 give a meaning. */
static int losses_check(const struct config *c, const struct job *j, struct err *e)
{
    bool huber = false, clicks = job_real_labels(j) != (1u << j->data.label_count) - 1;
    for (uint32_t t = 0; t < j->data.label_count; t++)
        huber |= j->model.loss[t] == LOSS_HUBER;
    if (config_has(c, "model.huber_delta") && !huber)
        return job_refuse(c, "model.huber_delta", e,
                          " is for model.loss: huber, and no label has it; take it out");
    if (clicks)
        return 0;
    static const char *const binary[] = {"data.label_above", "data.label_positive",
                                         "data.label_negative"};
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        if (config_has(c, binary[i]))
            return job_refuse(c, binary[i], e,
                              " makes a label 0 or 1, and with model.loss mse or huber it is a "
                              "number; take one of the two out");
    if (j->data.negatives < 1)
        return job_refuse(c, "data.negatives", e,
                          " leaves out rows whose label is 0, and with model.loss mse or huber "
                          "nothing corrects the predictions for it; data.sample takes a share of "
                          "all rows");
    if (j->data.join.on)
        return job_refuse(c, "data.join", e,
                          " makes a label that says whether a click came, and model.loss mse or "
                          "huber needs a number; take one of the two out");
    return 0;
}

uint32_t job_real_labels(const struct job *j)
{
    uint32_t real = 0;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        real |= (uint32_t)(j->model.loss[t] != LOSS_LOGLOSS) << t;
    return real;
}

const char *job_loss_name(const struct job *j)
{
    return job_real_labels(j) == 0 ? "logloss" : "loss";
}

/* Reads two columns, for the first and the second gate; the input's columns are known only when it
 * is opened. */
static int gate_fields_take(const struct config *c, struct job *j, struct err *e)
{
    const char *path = "model.gate_fields";
    struct string_list list = {0};
    int rc = 0;
    if (!config_has(c, path))
        return 0;
    if (config_list(c, path, &list) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (list.count != 2)
        rc = job_refuse(c, path, e,
                        " names %zu columns; it takes two, of the first network's gate and of the "
                        "second's, as in [user, item]",
                        list.count);
    else if (j->model.gate_hidden.count == 0)
        rc =
            job_refuse(c, path, e,
                       ": without model.gate_hidden there are no gates; give that too, as in [64]");
    for (size_t i = 0; i < list.count && rc == 0; i++)
        if (list.item[i][0] == '\0' || strlen(list.item[i]) >= LIMIT_NAME)
            rc = job_refuse(c, path, e, ": a column's name has 1 to %u characters", LIMIT_NAME - 1);
        else
            text_copy(j->model.gate_field[i], sizeof j->model.gate_field[i], list.item[i]);
    config_list_free(&list);
    return rc;
}

static int networks_take(const struct config *c, struct job *j, struct err *e)
{
    const struct {
        const char *path;
        struct widths *out;
    } network[] = {{"model.hidden", &j->model.hidden},
                   {"model.hidden2", &j->model.hidden2},
                   {"model.bottom", &j->model.bottom},
                   {"model.cin", &j->model.cin},
                   {"model.tower", &j->model.tower},
                   {"model.attention_hidden", &j->model.attention_hidden},
                   {"model.gate_hidden", &j->model.gate_hidden}};
    int rc = 0;
    for (size_t i = 0; i < sizeof network / sizeof network[0] && rc == 0; i++)
        rc = widths_take(c, network[i].path, network[i].out, e);
    if (!config_has(c, "model.hidden2"))
        j->model.hidden2 = j->model.hidden;
    if (rc != 0)
        return rc;
    return gate_fields_take(c, j, e);
}

int job_model_take(const struct config *c, struct job *j, struct err *e)
{
    static const struct optimizer_spec adam = {.kind = OPT_ADAM};
    SHOAL_ASSERT(j->data.label_count > 0 && j->table_count > 0); /* job.c, 1 */
    int rc = networks_take(c, j, e);
    j->model.kind = (enum model_kind)config_enum(c, "model.kind");
    j->model.cross_layers = (uint32_t)config_int(c, "model.cross_layers");
    j->model.heads = (uint32_t)config_int(c, "model.heads");
    j->model.attention_layers = (uint32_t)config_int(c, "model.attention_layers");
    j->model.attention_dim = (uint32_t)config_int(c, "model.attention_dim");
    j->model.interaction = (enum interaction)config_enum(c, "model.interaction");
    j->model.experts = (uint32_t)config_int(c, "model.experts");
    j->model.own_experts = (uint32_t)config_int(c, "model.own_experts");
    j->model.levels = (uint32_t)config_int(c, "model.levels");
    j->model.top_k = (uint32_t)config_int(c, "model.top_k");
    j->model.balance = config_float(c, "model.balance");
    j->model.stages = (uint32_t)config_int(c, "model.stages");
    j->model.split = (uint32_t)config_int(c, "model.split");
    j->model.split_above = (uint32_t)config_int(c, "model.split_above");
    j->model.dropout = config_float(c, "model.dropout");
    j->model.norm = (enum norm_kind)config_enum(c, "model.norm");
    j->model.activation = (enum activation)config_enum(c, "model.activation");
    j->model.l2 = config_float(c, "model.l2");
    j->model.l2_dense = config_float(c, "model.l2_dense");
    j->dense_optimizer = job_optimizer_take(c, "dense_optimizer", &adam);
    if (rc == 0)
        rc = task_weights_take(c, j, e);
    if (rc == 0)
        rc = losses_take(c, j, e);
    if (rc == 0)
        rc = losses_check(c, j, e);
    if (rc == 0 && j->data.label_count > 1 && j->model.kind != MODEL_MMOE &&
        j->model.kind != MODEL_PLE && j->model.kind != MODEL_EXTERNAL)
        rc = job_refuse(c, "data.label", e,
                        " names %u labels; only the models mmoe and ple, and external ones, have a "
                        "task for each",
                        j->data.label_count);
    return rc;
}

double job_task_weights(const struct job *j)
{
    double sum = 0;
    for (uint32_t t = 0; t < j->data.label_count && j->data.label_count > 1; t++)
        sum += j->model.task_weight[t];
    return j->data.label_count > 1 ? sum : 1;
}

const char *job_model_name(enum model_kind kind)
{
    static const char *const name[] = {[MODEL_LR] = "lr",
                                       [MODEL_FM] = "fm",
                                       [MODEL_WIDE_DEEP] = "wide_deep",
                                       [MODEL_DEEPFM] = "deepfm",
                                       [MODEL_PROBE] = "probe",
                                       [MODEL_FWFM] = "fwfm",
                                       [MODEL_IPNN] = "ipnn",
                                       [MODEL_DCNV2] = "dcnv2",
                                       [MODEL_DLRM] = "dlrm",
                                       [MODEL_XDEEPFM] = "xdeepfm",
                                       [MODEL_AUTOINT] = "autoint",
                                       [MODEL_FINALMLP] = "finalmlp",
                                       [MODEL_DIN] = "din",
                                       [MODEL_MMOE] = "mmoe",
                                       [MODEL_PLE] = "ple",
                                       [MODEL_EXTERNAL] = "external"};
    if ((size_t)kind >= sizeof name / sizeof name[0])
        return "unknown";
    return name[kind];
}
