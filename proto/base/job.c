/* job.c: job.yaml -> struct job: the known keys with their ranges, the defaults, and what must fit together. Tables are
 * in job_table.c. */
#include "proto/base/job.h"
#include "proto/base/config.h"
#include "proto/base/job_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct config_key job_keys[] = {
    {"job", CONFIG_STRING, 0, 0, NULL},
    {"space", CONFIG_STRING, 0, 0, NULL},
    {"data.format", CONFIG_ENUM, 0, 0, "criteo|libsvm|csv"},
    {"data.train", CONFIG_LIST, 0, 0, NULL},
    {"data.valid", CONFIG_LIST, 0, 0, NULL},
    {"data.test", CONFIG_LIST, 0, 0, NULL},
    {"data.label", CONFIG_LIST, 0, 0, NULL},
    {"data.weight", CONFIG_STRING, 0, 0, NULL},
    {"data.time", CONFIG_STRING, 0, 0, NULL},
    {"data.time_unit", CONFIG_ENUM, 0, 0, "s|ms|us"},
    {"data.negatives", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"data.label_above", CONFIG_FLOAT, 0, 0, NULL},
    {"data.header", CONFIG_BOOL, 0, 0, NULL},
    {"data.delimiter", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].name", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].type", CONFIG_ENUM, 0, 0, "skip|label|category|multi|number"},
    {"data.columns[].separator", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].pooling", CONFIG_ENUM, 0, 0, "sum|mean|attention"},
    {"data.columns[].share", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].attend", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].max", CONFIG_INT, 0, 65536, NULL},
    {"data.max_bad", CONFIG_FLOAT, 0, 1, NULL},
    {"data.cache", CONFIG_STRING, 0, 0, NULL},
    {"data.shuffle", CONFIG_BOOL, 0, 0, NULL},
    {"features.fields", CONFIG_LIST, 0, 0, NULL},
    {"features.number", CONFIG_ENUM, 0, 0, "none|log1p|bucket"},
    {"tables[].name", CONFIG_STRING, 0, 0, NULL},
    {"tables[].fields", CONFIG_LIST, 0, 0, NULL},
    {"tables[].dim", CONFIG_INT, 1, LIMIT_WIDTH - 1, NULL},
    {"tables[].tablets", CONFIG_INT, 16, LIMIT_TABLETS, NULL},
    {"tables[].init.kind", CONFIG_ENUM, 0, 0, "zero|uniform|normal|constant"},
    {"tables[].init.scale", CONFIG_FLOAT, -1e6, 1e6, NULL},
    {"tables[].init.seed", CONFIG_INT, 0, 0, NULL},
    {"tables[].optimizer.kind", CONFIG_ENUM, 0, 0, "sgd|adagrad|row_adagrad|adam|ftrl|ctr_adagrad"},
    {"tables[].optimizer.lr", CONFIG_FLOAT, 1e-12, 1e6, NULL},
    {"tables[].optimizer.beta1", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"tables[].optimizer.beta2", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"tables[].optimizer.eps", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.initial", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.l1", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.l2", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.beta", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.decay", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"tables[].values", CONFIG_ENUM, 0, 0, "fp32|fp16|bf16"},
    {"tables[].preset", CONFIG_ENUM, 0, 0, "none|paddle_ctr|monolith"},
    {"tables[].stats", CONFIG_BOOL, 0, 0, NULL},
    {"tables[].score.show", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].score.click", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].admit.min_count", CONFIG_INT, 1, 1 << 24, NULL},
    {"tables[].admit.probability", CONFIG_FLOAT, 0, 1, NULL},
    {"tables[].admit.min_score", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].admit.none", CONFIG_BOOL, 0, 0, NULL},
    {"tables[].admit.sketch", CONFIG_SIZE, 0, 1 << 24, NULL},
    {"tables[].admit.waiting", CONFIG_SIZE, 0, 1 << 24, NULL},
    {"tables[].evict.every_hours", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].evict.decay", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"tables[].evict.min_score", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].evict.ttl_days", CONFIG_FLOAT, 0, 49000, NULL},
    {"tables[].evict.capacity", CONFIG_SIZE, 0, 1e12, NULL},
    {"tables[].evict.by", CONFIG_ENUM, 0, 0, "lru|score"},
    {"tables[].vector_score", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].clamp", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].by_shows", CONFIG_BOOL, 0, 0, NULL},
    {"tables[].guard.norm", CONFIG_FLOAT, 0, 1e12, NULL},
    {"tables[].guard.action", CONFIG_ENUM, 0, 0, "clip|refuse"},
    {"tables[].rules[].field", CONFIG_STRING, 0, 0, NULL},
    {"tables[].rules[].init.kind", CONFIG_ENUM, 0, 0, "zero|uniform|normal|constant"},
    {"tables[].rules[].init.scale", CONFIG_FLOAT, -1e6, 1e6, NULL},
    {"tables[].rules[].admit.min_count", CONFIG_INT, 1, 1 << 24, NULL},
    {"tables[].rules[].admit.probability", CONFIG_FLOAT, 0, 1, NULL},
    {"tables[].rules[].admit.min_score", CONFIG_FLOAT, 0, 1e9, NULL},
    {"tables[].rules[].admit.none", CONFIG_BOOL, 0, 0, NULL},
    {"tables[].rules[].ttl_days", CONFIG_FLOAT, 0, 49000, NULL},
    {"model.kind", CONFIG_ENUM, 0, 0, "lr|fm|wide_deep|deepfm|probe|fwfm|ipnn|dcnv2|dlrm|xdeepfm|autoint|finalmlp|din|mmoe|ple"},
    {"model.hidden", CONFIG_LIST, 0, 0, NULL},
    {"model.hidden2", CONFIG_LIST, 0, 0, NULL},
    {"model.bottom", CONFIG_LIST, 0, 0, NULL},
    {"model.cin", CONFIG_LIST, 0, 0, NULL},
    {"model.tower", CONFIG_LIST, 0, 0, NULL},
    {"model.attention_hidden", CONFIG_LIST, 0, 0, NULL},
    {"model.gate_hidden", CONFIG_LIST, 0, 0, NULL},
    {"model.gate_fields", CONFIG_LIST, 0, 0, NULL},
    {"model.cross_layers", CONFIG_INT, 1, 16, NULL},
    {"model.heads", CONFIG_INT, 1, 64, NULL},
    {"model.attention_layers", CONFIG_INT, 1, 16, NULL},
    {"model.attention_dim", CONFIG_INT, 1, 1024, NULL},
    {"model.interaction", CONFIG_ENUM, 0, 0, "dot|cat"},
    {"model.experts", CONFIG_INT, 1, 64, NULL},
    {"model.own_experts", CONFIG_INT, 0, 64, NULL},
    {"model.levels", CONFIG_INT, 1, 16, NULL},
    {"model.top_k", CONFIG_INT, 0, 64, NULL},
    {"model.task_weights", CONFIG_LIST, 0, 0, NULL},
    {"model.dropout", CONFIG_FLOAT, 0, 0.95, NULL},
    {"model.norm", CONFIG_ENUM, 0, 0, "none|batch|layer"},
    {"model.activation", CONFIG_ENUM, 0, 0, "relu|tanh|sigmoid"},
    {"model.l2", CONFIG_FLOAT, 0, 1e6, NULL},
    {"model.l2_dense", CONFIG_FLOAT, 0, 1e6, NULL},
    {"dense_optimizer.kind", CONFIG_ENUM, 0, 0, "sgd|adagrad|row_adagrad|adam|ftrl"},
    {"dense_optimizer.lr", CONFIG_FLOAT, 1e-12, 1e6, NULL},
    {"dense_optimizer.beta1", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"dense_optimizer.beta2", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"dense_optimizer.eps", CONFIG_FLOAT, 0, 1e6, NULL},
    {"dense_optimizer.initial", CONFIG_FLOAT, 0, 1e6, NULL},
    {"dense_optimizer.l1", CONFIG_FLOAT, 0, 1e6, NULL},
    {"dense_optimizer.l2", CONFIG_FLOAT, 0, 1e6, NULL},
    {"dense_optimizer.beta", CONFIG_FLOAT, 0, 1e6, NULL},
    {"train.batch", CONFIG_INT, 1, LIMIT_BATCH, NULL},
    {"train.epochs", CONFIG_INT, 1, 100000, NULL},
    {"train.early_stop.metric", CONFIG_ENUM, 0, 0, "auc|logloss|gauc"},
    {"train.early_stop.patience", CONFIG_INT, 0, 1000, NULL},
    {"train.early_stop.lr_decay", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"train.consistency", CONFIG_ENUM, 0, 0, "async|ssp|bsp"},
    {"train.staleness", CONFIG_INT, 0, 1000000, NULL},
    {"train.prefetch", CONFIG_INT, 0, 64, NULL},
    {"train.lanes", CONFIG_INT, 1, LIMIT_LANES, NULL},
    {"train.precision", CONFIG_ENUM, 0, 0, "fp32|tf32|bf16|fp16"},
    {"train.deterministic", CONFIG_BOOL, 0, 0, NULL},
    {"train.read_ahead", CONFIG_INT, 0, 64, NULL},
    {"train.schedule.kind", CONFIG_ENUM, 0, 0, "constant|linear|cosine|step"},
    {"train.schedule.batches", CONFIG_INT, 1, 1e9, NULL},
    {"train.schedule.floor", CONFIG_FLOAT, 0, 1, NULL},
    {"train.schedule.factor", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"train.clip_dense", CONFIG_FLOAT, 0, 1e12, NULL},
    {"train.clip_row", CONFIG_FLOAT, 0, 1e12, NULL},
    {"train.cache.rows", CONFIG_SIZE, 0, 1e9, NULL},
    {"train.cache.batches", CONFIG_INT, 1, 1000000, NULL},
    {"evaluate.group", CONFIG_STRING, 0, 0, NULL},
    {"evaluate.by", CONFIG_LIST, 0, 0, NULL},
    {"evaluate.buckets", CONFIG_INT, 1, 1000, NULL},
    {"evaluate.exact", CONFIG_SIZE, 1, 1e9, NULL},
    {"warm_start", CONFIG_STRING, 0, 0, NULL},
    {"train.backend", CONFIG_ENUM, 0, 0, "auto|cpu|cuda"},
    {"train.seed", CONFIG_INT, 0, 0, NULL},
    {"train.task_batches", CONFIG_INT, 1, 65536, NULL},
    {"train.max_refused", CONFIG_FLOAT, 0, 1, NULL},
    {"train.warmup", CONFIG_INT, 0, 1000000, NULL},
    {"durability", CONFIG_ENUM, 0, 0, "memory|journal|fsync"},
    {"checkpoint.dir", CONFIG_STRING, 0, 0, NULL},
    {"checkpoint.every_batches", CONFIG_SIZE, 1, 1e15, NULL},
    {"checkpoint.every_minutes", CONFIG_FLOAT, 0.001, 1e6, NULL},
    {"checkpoint.keep", CONFIG_INT, 0, 100000, NULL},
    {"checkpoint.publish", CONFIG_LIST, 0, 0, NULL},
    {"checkpoint.publish_limit", CONFIG_SIZE, 1000, 8.64e7, NULL},
    {"coordinator.lease", CONFIG_SIZE, 500, 3.6e6, NULL},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL},
    {"net.resend", CONFIG_SIZE, 10, 60000, NULL},
    {"journal.max", CONFIG_SIZE, 1e6, 1e15, NULL},
    {"journal.keep", CONFIG_SIZE, 0, 1e15, NULL},
    {NULL, CONFIG_ANY, 0, 0, NULL},
};

int job_name_take(const struct config *c, const char *path, const char *fallback, char out[LIMIT_NAME], struct err *e)
{
    const char *s = config_string(c, path, fallback);

    if (strlen(s) >= LIMIT_NAME || s[0] == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s must have 1 to %u bytes", config_line(c, path), path, LIMIT_NAME - 1);
    (void)snprintf(out, LIMIT_NAME, "%s", s);
    return 0;
}

static int character_take(const struct config *c, const char *path, char fallback, char *out, struct err *e)
{
    const char *s = config_string(c, path, NULL);

    *out = s == NULL ? fallback : strcmp(s, "\\t") == 0 || strcmp(s, "tab") == 0 ? '\t' : s[0];
    if (s != NULL && s[0] != '\\' && strcmp(s, "tab") != 0 && strlen(s) != 1)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s must be one character, or tab", config_line(c, path), path);
    return 0;
}

/* The column that `key` (share, attend) of column i names; another one, that can be a field. */
static int other_column(const struct config *c, const struct job *j, size_t i, const char *key, const char *name,
                        const struct column **out, struct err *e)
{
    char path[96];

    (void)snprintf(path, sizeof path, "data.columns[%zu].%s", i, key);
    *out = NULL;
    for (size_t k = 0; k < j->data.column_count; k++)
        if (strcmp(j->data.column[k].name, name) == 0)
            *out = &j->data.column[k];
    if (*out == NULL)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: data.columns has no column %s", config_line(c, path), path, name);
    if (*out == &j->data.column[i])
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s names the column itself", config_line(c, path), path);
    if ((*out)->type == COLUMN_SKIP || (*out)->type == COLUMN_LABEL)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: column %s is %s, not a field", config_line(c, path), path, name,
                       (*out)->type == COLUMN_LABEL ? "a label" : "skipped");
    return 0;
}

static int share_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[96];

    if (k->share[0] == '\0')
        return 0;
    int status = other_column(c, j, i, "share", k->share, &other, e);
    (void)snprintf(path, sizeof path, "data.columns[%zu].share", i);
    if (status == 0 && other->share[0] != '\0')
        status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: column %s itself shares with %s: name that one", config_line(c, path), path,
                         k->share, other->share);
    return status;
}

static int attend_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[96];
    bool attention = k->pooling == POOL_ATTENTION;

    (void)snprintf(path, sizeof path, "data.columns[%zu].%s", i, attention ? "pooling" : "attend");
    if (attention != (k->attend[0] != '\0'))
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: pooling attention and attend (the column of the target) belong together",
                       config_line(c, path), path);
    if (!attention)
        return 0;
    if (k->type != COLUMN_MULTI)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: attention is for columns of type multi", config_line(c, path), path);
    int status = other_column(c, j, i, "attend", k->attend, &other, e);
    (void)snprintf(path, sizeof path, "data.columns[%zu].attend", i);
    if (status == 0 && other->type == COLUMN_MULTI)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: column %s has several values, a target has one", config_line(c, path), path,
                         k->attend);
    return status;
}

/* Columns that stand on other columns, which may come later in the list. */
static int columns_check(const struct config *c, const struct job *j, struct err *e)
{
    char path[96];
    int status = 0;

    for (size_t i = 0; i < j->data.column_count && status == 0; i++) {
        (void)snprintf(path, sizeof path, "data.columns[%zu].max", i);
        if (j->data.column[i].max > 0 && j->data.column[i].type != COLUMN_MULTI)
            status = err_set(e, SHOAL_E_CONFIG, "line %d: %s is for columns of type multi", config_line(c, path), path);
        if (status == 0)
            status = share_check(c, j, i, e);
        if (status == 0)
            status = attend_check(c, j, i, e);
    }
    return status;
}

static int columns_take(const struct config *c, struct job *j, struct err *e)
{
    char path[96];
    int status = 0;

    j->data.column_count = config_count(c, "data.columns");
    if (j->data.column_count == 0)
        return 0;
    if (j->data.column_count > LIMIT_FIELDS + LIMIT_NUMERIC)
        return err_set(e, SHOAL_E_CONFIG, "data.columns: at most %u", LIMIT_FIELDS + LIMIT_NUMERIC);
    j->data.column = calloc(j->data.column_count, sizeof *j->data.column);
    if (j->data.column == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < j->data.column_count && status == 0; i++) {
        struct column *k = &j->data.column[i];
        (void)snprintf(path, sizeof path, "data.columns[%zu].name", i);
        status = job_name_take(c, path, "", k->name, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].type", i);
        k->type = (enum column_type)config_enum(c, path, COLUMN_CATEGORY);
        (void)snprintf(path, sizeof path, "data.columns[%zu].pooling", i);
        k->pooling = (enum pooling)config_enum(c, path, POOL_SUM);
        (void)snprintf(path, sizeof path, "data.columns[%zu].separator", i);
        if (status == 0)
            status = character_take(c, path, '|', &k->separator, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].max", i);
        k->max = (uint32_t)config_int(c, path, 0);
        (void)snprintf(path, sizeof path, "data.columns[%zu].share", i);
        if (status == 0 && config_has(c, path))
            status = job_name_take(c, path, "", k->share, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].attend", i);
        if (status == 0 && config_has(c, path))
            status = job_name_take(c, path, "", k->attend, e);
    }
    return status != 0 ? status : columns_check(c, j, e);
}

static int labels_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list labels = {0};
    int status = 0;

    if (config_list(c, "data.label", &labels) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (labels.count > LIMIT_TASKS)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: data.label: at most %u labels", config_line(c, "data.label"), LIMIT_TASKS);
    for (size_t i = 0; i < labels.count && status == 0; i++) {
        if (strlen(labels.item[i]) >= LIMIT_NAME || labels.item[i][0] == '\0')
            status = err_set(e, SHOAL_E_CONFIG, "line %d: data.label: a name must have 1 to %u bytes", config_line(c, "data.label"),
                             LIMIT_NAME - 1);
        (void)snprintf(j->data.label[i], LIMIT_NAME, "%s", labels.item[i]);
    }
    j->data.label_count = (uint32_t)labels.count;
    if (labels.count == 0) {
        j->data.label_count = 1;
        (void)snprintf(j->data.label[0], LIMIT_NAME, "0");
    }
    string_list_free(&labels);
    return status;
}

static int data_take(const struct config *c, struct job *j, struct err *e)
{
    if (!config_has(c, "data.train"))
        return err_set(e, SHOAL_E_CONFIG, "data.train is missing: name the files to train on");
    j->data.format = (enum data_format)config_enum(c, "data.format", DATA_CRITEO);
    if (config_list(c, "data.train", &j->data.train) != 0 || config_list(c, "data.valid", &j->data.valid) != 0 ||
        config_list(c, "data.test", &j->data.test) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->data.train.count == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: data.train is empty: name the files to train on", config_line(c, "data.train"));
    j->data.negatives = config_float(c, "data.negatives", 1);
    if (config_has(c, "data.weight") && job_name_take(c, "data.weight", "", j->data.weight, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_has(c, "data.time") && job_name_take(c, "data.time", "", j->data.time, e) != 0)
        return SHOAL_E_CONFIG;
    j->data.time_unit = (enum time_unit)config_enum(c, "data.time_unit", TIME_SECONDS);
    j->data.label_above = config_float(c, "data.label_above", 0);
    j->data.header = config_bool(c, "data.header", true);
    j->data.max_bad = config_float(c, "data.max_bad", 0.001);
    j->data.shuffle = config_bool(c, "data.shuffle", true);
    (void)snprintf(j->data.cache, sizeof j->data.cache, "%s", config_string(c, "data.cache", ""));
    int status = character_take(c, "data.delimiter", ',', &j->data.delimiter, e);
    if (status == 0)
        status = labels_take(c, j, e);
    if (status == 0 && j->data.negatives < 1 && j->data.label_count > 1)
        status = err_set(e, SHOAL_E_CONFIG,
                         "line %d: data.negatives is for one label, data.label names %u: a line is left out only where no label is "
                         "positive, so no constant corrects the predictions of a task; leave it out",
                         config_line(c, "data.negatives"), j->data.label_count);
    return status != 0 ? status : columns_take(c, j, e);
}

static int features_take(const struct config *c, struct job *j, struct err *e)
{
    if (config_list(c, "features.fields", &j->features.fields) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->features.fields.count == 1 && strcmp(j->features.fields.item[0], "auto") == 0)
        string_list_free(&j->features.fields);
    j->features.fields_auto = j->features.fields.count == 0;
    j->features.number = (enum number_transform)config_enum(c, "features.number", j->data.format == DATA_CRITEO ? NUMBER_LOG1P : NUMBER_NONE);
    return 0;
}

/* A list of layer widths; the fallback, (fallback_count), where the job says nothing. */
static int widths_take(const struct config *c, const char *path, const struct widths *fallback, struct widths *out, struct err *e)
{
    struct string_list list = {0};
    int status = 0;

    *out = *fallback;
    if (!config_has(c, path))
        return 0;
    memset(out, 0, sizeof *out);
    if (config_list(c, path, &list) != 0)
        status = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (list.count > 16)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: at most 16 layers", config_line(c, path), path);
    for (size_t i = 0; i < list.count && status == 0; i++) {
        char *end;
        long units = strtol(list.item[i], &end, 10);
        if (*end != 0 || end == list.item[i] || units < 1 || units > 16384)
            status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: %s is not a number of units (1 to 16384)", config_line(c, path), path,
                             list.item[i]);
        out->at[out->count++] = (uint32_t)units;
    }
    string_list_free(&list);
    return status;
}

static int task_weights_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list list = {0};
    int status = 0;

    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        j->model.task_weight[t] = 1;
    if (config_list(c, "model.task_weights", &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count > 0 && list.count != j->data.label_count)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: model.task_weights has %zu numbers, data.label names %u labels",
                         config_line(c, "model.task_weights"), list.count, j->data.label_count);
    for (size_t i = 0; i < list.count && status == 0; i++) {
        char *end;
        double weight = strtod(list.item[i], &end);
        if (*end != 0 || end == list.item[i] || !(weight >= 0 && weight <= 1e6))
            status = err_set(e, SHOAL_E_CONFIG, "line %d: model.task_weights: %s is not a number from 0 to 1e6",
                             config_line(c, "model.task_weights"), list.item[i]);
        j->model.task_weight[i] = weight;
    }
    string_list_free(&list);
    if (status == 0 && j->data.label_count > 1 && job_task_weights(j) <= 0)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: model.task_weights are all 0; give those above 0 that are to be learned",
                         config_line(c, "model.task_weights"));
    return status;
}

/* Two columns, of the first gate and of the second; which columns there are is known once the input is. */
static int gate_fields_take(const struct config *c, struct job *j, struct err *e)
{
    const char *path = "model.gate_fields";
    struct string_list list = {0};
    int status = 0;

    if (!config_has(c, path))
        return 0;
    if (config_list(c, path, &list) != 0)
        status = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (list.count != 2)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: %s names %zu columns; it takes two, of the first network's gate and of the "
                         "second's, as in [user, item]", config_line(c, path), path, list.count);
    else if (j->model.gate_hidden.count == 0)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: without model.gate_hidden there are no gates; give that too, as in [64]",
                         config_line(c, path), path);
    for (size_t i = 0; i < list.count && status == 0; i++)
        if (list.item[i][0] == '\0' || strlen(list.item[i]) >= LIMIT_NAME)
            status = err_set(e, SHOAL_E_CONFIG, "line %d: %s: a column's name has 1 to %u characters", config_line(c, path), path,
                             LIMIT_NAME - 1);
        else
            (void)snprintf(j->model.gate_field[i], sizeof j->model.gate_field[i], "%s", list.item[i]);
    string_list_free(&list);
    return status;
}

static int networks_take(const struct config *c, struct job *j, struct err *e)
{
    static const struct widths none, three = {{400, 400, 400}, 3}, maps = {{100, 100}, 2}, tower = {{64}, 1}, weigh = {{80, 40}, 2};
    int status = widths_take(c, "model.hidden", &three, &j->model.hidden, e);

    if (status == 0)
        status = widths_take(c, "model.hidden2", &j->model.hidden, &j->model.hidden2, e);
    if (status == 0)
        status = widths_take(c, "model.bottom", &none, &j->model.bottom, e);
    if (status == 0)
        status = widths_take(c, "model.cin", &maps, &j->model.cin, e);
    if (status == 0)
        status = widths_take(c, "model.tower", &tower, &j->model.tower, e);
    if (status == 0)
        status = widths_take(c, "model.attention_hidden", &weigh, &j->model.attention_hidden, e);
    if (status == 0)
        status = widths_take(c, "model.gate_hidden", &none, &j->model.gate_hidden, e);
    return status == 0 ? gate_fields_take(c, j, e) : status;
}

static int model_take(const struct config *c, struct job *j, struct err *e)
{
    static const struct optimizer_spec adam = {.kind = OPT_ADAM};
    int status = networks_take(c, j, e);

    j->model.kind = (enum model_kind)config_enum(c, "model.kind", MODEL_DEEPFM);
    j->model.cross_layers = (uint32_t)config_int(c, "model.cross_layers", 3);
    j->model.heads = (uint32_t)config_int(c, "model.heads", 2);
    j->model.attention_layers = (uint32_t)config_int(c, "model.attention_layers", 3);
    j->model.attention_dim = (uint32_t)config_int(c, "model.attention_dim", 64);
    j->model.interaction = (enum interaction)config_enum(c, "model.interaction", INTERACT_DOT);
    j->model.experts = (uint32_t)config_int(c, "model.experts", 4);
    j->model.own_experts = (uint32_t)config_int(c, "model.own_experts", 2);
    j->model.levels = (uint32_t)config_int(c, "model.levels", 1);
    j->model.top_k = (uint32_t)config_int(c, "model.top_k", 0);
    j->model.dropout = config_float(c, "model.dropout", 0);
    j->model.norm = (enum norm_kind)config_enum(c, "model.norm", NORM_NONE);
    j->model.activation = (enum activation)config_enum(c, "model.activation", ACT_RELU);
    j->model.l2 = config_float(c, "model.l2", 0);
    j->model.l2_dense = config_float(c, "model.l2_dense", 0);
    j->dense_optimizer = job_optimizer_take(c, "dense_optimizer", &adam);
    if (status == 0)
        status = task_weights_take(c, j, e);
    if (status == 0 && j->data.label_count > 1 && j->model.kind != MODEL_MMOE && j->model.kind != MODEL_PLE)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: data.label names %u labels; only the models mmoe and ple have a task for each",
                         config_line(c, "data.label"), j->data.label_count);
    return status;
}

static int evaluate_take(const struct config *c, struct job *j, struct err *e)
{
    if (config_has(c, "evaluate.group") && job_name_take(c, "evaluate.group", "", j->evaluate.group, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_list(c, "evaluate.by", &j->evaluate.by) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->evaluate.by.count > LIMIT_BY)
        return err_set(e, SHOAL_E_CONFIG, "line %d: evaluate.by: at most %u fields", config_line(c, "evaluate.by"), LIMIT_BY);
    j->evaluate.buckets = (uint32_t)config_int(c, "evaluate.buckets", 20);
    j->evaluate.exact = config_size(c, "evaluate.exact", 20000000);
    if (j->train.early_stop.metric == METRIC_GAUC && j->evaluate.group[0] == '\0')
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.early_stop.metric is gauc: evaluate.group must name the field of the groups",
                       config_line(c, "train.early_stop.metric"));
    (void)snprintf(j->warm_start, sizeof j->warm_start, "%s", config_string(c, "warm_start", ""));
    return 0;
}

static int checkpoint_take(const struct config *c, struct job *j, struct err *e)
{
    const char *dir = config_string(c, "checkpoint.dir", "");
    int status = config_list(c, "checkpoint.publish", &j->checkpoint.publish);

    if (status != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (strlen(dir) >= LIMIT_PATH / 2) /* names are put behind it */
        return err_set(e, SHOAL_E_CONFIG, "line %d: checkpoint.dir has at most %u bytes", config_line(c, "checkpoint.dir"), LIMIT_PATH / 2 - 1);
    if (j->checkpoint.publish.count > 32)
        return err_set(e, SHOAL_E_CONFIG, "line %d: checkpoint.publish: a command has at most 32 words", config_line(c, "checkpoint.publish"));
    (void)snprintf(j->checkpoint.dir, sizeof j->checkpoint.dir, "%s", dir);
    j->checkpoint.every_batches = config_size(c, "checkpoint.every_batches", 0);
    j->checkpoint.every_minutes = config_float(c, "checkpoint.every_minutes", 0);
    j->checkpoint.keep = (uint32_t)config_int(c, "checkpoint.keep", 3);
    j->checkpoint.publish_limit_ms = (uint32_t)config_size(c, "checkpoint.publish_limit", 600000);
    return 0;
}

static int train_take(const struct config *c, struct job *j, struct err *e)
{
    j->train.batch = (uint32_t)config_int(c, "train.batch", 4096);
    j->train.epochs = (uint32_t)config_int(c, "train.epochs", 1);
    j->train.early_stop.metric = (enum early_metric)config_enum(c, "train.early_stop.metric", METRIC_AUC);
    j->train.early_stop.patience = (uint32_t)config_int(c, "train.early_stop.patience", 0);
    j->train.early_stop.lr_decay = config_float(c, "train.early_stop.lr_decay", 1);
    j->train.mode = (uint32_t)config_enum(c, "train.consistency", 1);
    j->train.staleness = (uint32_t)config_int(c, "train.staleness", 2);
    j->train.prefetch = (uint32_t)config_int(c, "train.prefetch", 2);
    j->train.lanes = (uint32_t)config_int(c, "train.lanes", 0);
    j->train.backend = (enum backend_kind)config_enum(c, "train.backend", BACKEND_AUTO);
    j->train.seed = (uint64_t)config_int(c, "train.seed", 2026);
    j->train.task_batches = (uint32_t)config_int(c, "train.task_batches", 0);
    j->train.max_refused = config_float(c, "train.max_refused", 0.01);
    j->train.warmup = (uint32_t)config_int(c, "train.warmup", 0);
    j->train.schedule.kind = (enum schedule_kind)config_enum(c, "train.schedule.kind", SCHEDULE_CONSTANT);
    j->train.schedule.batches = (uint32_t)config_int(c, "train.schedule.batches", 0);
    j->train.schedule.floor = config_float(c, "train.schedule.floor", 0);
    j->train.schedule.factor = config_float(c, "train.schedule.factor", 0.1);
    j->train.clip_dense = config_float(c, "train.clip_dense", 0);
    j->train.clip_row = config_float(c, "train.clip_row", 0);
    j->train.precision = (enum precision)config_enum(c, "train.precision", PRECISION_FP32);
    j->train.deterministic = config_bool(c, "train.deterministic", true);
    j->train.read_ahead = (uint32_t)config_int(c, "train.read_ahead", 0);
    j->train.cache.rows = config_size(c, "train.cache.rows", 0);
    j->train.cache.batches = (uint32_t)config_int(c, "train.cache.batches", 1);
    j->durability = (enum durability)config_enum(c, "durability", DURABLE_JOURNAL);
    j->coordinator.lease_ms = (uint32_t)config_size(c, "coordinator.lease", 10000);
    j->net.drop = config_float(c, "net.drop", 0);
    j->net.resend_ms = (uint32_t)config_size(c, "net.resend", 1000);
    j->journal.max = config_size(c, "journal.max", 0);
    j->journal.keep = config_size(c, "journal.keep", 0);
    if (j->train.early_stop.patience > 0 && j->data.valid.count == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.early_stop needs data.valid", config_line(c, "train.early_stop"));
    if (j->train.schedule.kind != SCHEDULE_CONSTANT && j->train.schedule.batches == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.schedule needs batches: over how many batches of a lane the rate falls",
                       config_line(c, "train.schedule.kind"));
    if (j->train.cache.rows > 0 && j->train.mode == 2) /* WIRE_BSP */
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.cache: under bsp a pull sees all pushes of the clocks before, so no cached row could "
                       "ever serve; take the cache away, or use ssp or async", config_line(c, "train.cache.rows"));
    if (j->train.precision == PRECISION_FP16 && j->train.mode == 2) /* WIRE_BSP */
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.precision fp16 finds a loss scale for each lane where it runs, so a lane that moves "
                       "to another worker would round differently, and bsp promises the same bits; use bf16",
                       config_line(c, "train.precision"));
    return evaluate_take(c, j, e);
}

static int job_take(const struct config *c, struct job *j, struct err *e)
{
    int status = job_name_take(c, "job", "job", j->name, e);

    if (status == 0)
        status = job_name_take(c, "space", j->name, j->space, e);
    if (status == 0)
        status = data_take(c, j, e);
    if (status == 0)
        status = features_take(c, j, e);
    if (status == 0)
        status = job_tables_take(c, j, e);
    if (status == 0)
        status = model_take(c, j, e);
    if (status == 0)
        status = train_take(c, j, e);
    if (status == 0)
        status = checkpoint_take(c, j, e);
    return status;
}

static int job_from(struct config *c, const char *name, struct job *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    int status = job_take(c, out, e);
    config_free(c);
    if (status != 0) {
        job_free(out);
        return err_wrap(e, status, "%s", name);
    }
    return 0;
}

int job_parse(const char *text, size_t bytes, const char *name, const struct string_list *set, struct job *out, struct err *e)
{
    struct config *c;
    int status = config_parse(text, bytes, name, set, job_keys, &c, e);

    return status != 0 ? status : job_from(c, name, out, e);
}

int job_load(const char *path, const struct string_list *set, struct job *out, struct err *e)
{
    struct config *c;
    int status = config_load(path, set, job_keys, &c, e);

    return status != 0 ? status : job_from(c, path, out, e);
}

int job_text(const char *path, const struct string_list *set, char **text, struct err *e)
{
    struct config *c;
    struct job j;
    int status = config_load(path, set, job_keys, &c, e);

    if (status != 0)
        return status;
    *text = config_text(c);
    status = job_from(c, path, &j, e);
    if (status != 0) {
        free(*text);
        return status;
    }
    job_free(&j);
    return *text == NULL ? err_set(e, SHOAL_E_NOMEM, "%s: out of memory", path) : 0;
}

double job_task_weights(const struct job *j)
{
    double sum = 0;
    for (uint32_t t = 0; t < j->data.label_count && j->data.label_count > 1; t++)
        sum += j->model.task_weight[t];
    return j->data.label_count > 1 ? sum : 1;
}

uint32_t job_lanes(const struct job *j)
{
    return j->train.lanes == 0 ? 2 : j->train.lanes;
}

const char *job_model_name(enum model_kind kind)
{
    static const char *const name[] = {
        [MODEL_LR] = "lr",         [MODEL_FM] = "fm",         [MODEL_WIDE_DEEP] = "wide_deep",
        [MODEL_DEEPFM] = "deepfm", [MODEL_PROBE] = "probe",   [MODEL_FWFM] = "fwfm",
        [MODEL_IPNN] = "ipnn",     [MODEL_DCNV2] = "dcnv2",   [MODEL_DLRM] = "dlrm",
        [MODEL_XDEEPFM] = "xdeepfm", [MODEL_AUTOINT] = "autoint", [MODEL_FINALMLP] = "finalmlp",
        [MODEL_DIN] = "din",       [MODEL_MMOE] = "mmoe",     [MODEL_PLE] = "ple"};

    return (size_t)kind < sizeof name / sizeof name[0] ? name[kind] : "unknown";
}

void job_free(struct job *j)
{
    string_list_free(&j->data.train);
    string_list_free(&j->data.valid);
    string_list_free(&j->data.test);
    string_list_free(&j->features.fields);
    string_list_free(&j->evaluate.by);
    string_list_free(&j->checkpoint.publish);
    free(j->data.column);
    for (size_t i = 0; i < j->table_count && j->table != NULL; i++) {
        string_list_free(&j->table[i].fields);
        free(j->table[i].rule);
    }
    free(j->table);
    memset(j, 0, sizeof *j);
}
