/* job.c: job.yaml -> struct job: the known keys with their ranges, the defaults, and what must fit together. */
#include "proto/base/job.h"
#include "proto/base/config.h"

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
    {"data.label", CONFIG_STRING, 0, 0, NULL},
    {"data.label_above", CONFIG_FLOAT, 0, 0, NULL},
    {"data.header", CONFIG_BOOL, 0, 0, NULL},
    {"data.delimiter", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].name", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].type", CONFIG_ENUM, 0, 0, "skip|label|category|multi|number"},
    {"data.columns[].separator", CONFIG_STRING, 0, 0, NULL},
    {"data.columns[].pooling", CONFIG_ENUM, 0, 0, "sum|mean"},
    {"data.max_bad", CONFIG_FLOAT, 0, 1, NULL},
    {"data.cache", CONFIG_STRING, 0, 0, NULL},
    {"data.shuffle", CONFIG_BOOL, 0, 0, NULL},
    {"features.fields", CONFIG_LIST, 0, 0, NULL},
    {"features.number", CONFIG_ENUM, 0, 0, "none|log1p|bucket"},
    {"tables[].name", CONFIG_STRING, 0, 0, NULL},
    {"tables[].dim", CONFIG_INT, 1, LIMIT_WIDTH - 1, NULL},
    {"tables[].tablets", CONFIG_INT, 16, LIMIT_TABLETS, NULL},
    {"tables[].init.kind", CONFIG_ENUM, 0, 0, "zero|uniform|normal|constant"},
    {"tables[].init.scale", CONFIG_FLOAT, -1e6, 1e6, NULL},
    {"tables[].init.seed", CONFIG_INT, 0, 0, NULL},
    {"tables[].optimizer.kind", CONFIG_ENUM, 0, 0, "sgd|adagrad|row_adagrad|adam|ftrl"},
    {"tables[].optimizer.lr", CONFIG_FLOAT, 1e-12, 1e6, NULL},
    {"tables[].optimizer.beta1", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"tables[].optimizer.beta2", CONFIG_FLOAT, 0, 0.999999, NULL},
    {"tables[].optimizer.eps", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.initial", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.l1", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.l2", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].optimizer.beta", CONFIG_FLOAT, 0, 1e6, NULL},
    {"tables[].admit.min_count", CONFIG_INT, 1, 1, NULL},
    {"tables[].evict.ttl_days", CONFIG_ENUM, 0, 0, "0"},
    {"model.kind", CONFIG_ENUM, 0, 0, "lr|fm|wide_deep|deepfm|probe"},
    {"model.hidden", CONFIG_LIST, 0, 0, NULL},
    {"model.dropout", CONFIG_FLOAT, 0, 0.95, NULL},
    {"model.norm", CONFIG_ENUM, 0, 0, "none|batch"},
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
    {"train.early_stop.metric", CONFIG_ENUM, 0, 0, "auc|logloss"},
    {"train.early_stop.patience", CONFIG_INT, 0, 1000, NULL},
    {"train.early_stop.lr_decay", CONFIG_FLOAT, 1e-6, 1, NULL},
    {"train.consistency", CONFIG_ENUM, 0, 0, "async|ssp|bsp"},
    {"train.staleness", CONFIG_INT, 0, 1000000, NULL},
    {"train.prefetch", CONFIG_INT, 0, 64, NULL},
    {"train.lanes", CONFIG_INT, 1, LIMIT_LANES, NULL},
    {"train.precision", CONFIG_ENUM, 0, 0, "fp32"},
    {"train.backend", CONFIG_ENUM, 0, 0, "auto|cpu|cuda"},
    {"train.seed", CONFIG_INT, 0, 0, NULL},
    {"train.task_batches", CONFIG_INT, 1, 65536, NULL},
    {"train.warmup", CONFIG_INT, 0, 1000000, NULL},
    {"durability", CONFIG_ENUM, 0, 0, "memory|journal|fsync"},
    {"coordinator.lease", CONFIG_SIZE, 500, 3.6e6, NULL},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL},
    {"net.resend", CONFIG_SIZE, 10, 60000, NULL},
    {"journal.max", CONFIG_SIZE, 1e6, 1e15, NULL},
    {NULL, CONFIG_ANY, 0, 0, NULL},
};

static int name_take(const struct config *c, const char *path, const char *fallback, char out[LIMIT_NAME], struct err *e)
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
        status = name_take(c, path, "", k->name, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].type", i);
        k->type = (enum column_type)config_enum(c, path, COLUMN_CATEGORY);
        (void)snprintf(path, sizeof path, "data.columns[%zu].pooling", i);
        k->pooling = (enum pooling)config_enum(c, path, POOL_SUM);
        (void)snprintf(path, sizeof path, "data.columns[%zu].separator", i);
        if (status == 0)
            status = character_take(c, path, '|', &k->separator, e);
    }
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
    (void)snprintf(j->data.label, sizeof j->data.label, "%s", config_string(c, "data.label", "0"));
    j->data.label_above = config_float(c, "data.label_above", 0);
    j->data.header = config_bool(c, "data.header", true);
    j->data.max_bad = config_float(c, "data.max_bad", 0.001);
    j->data.shuffle = config_bool(c, "data.shuffle", true);
    (void)snprintf(j->data.cache, sizeof j->data.cache, "%s", config_string(c, "data.cache", ""));
    int status = character_take(c, "data.delimiter", ',', &j->data.delimiter, e);
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

static double optimizer_float(const struct config *c, const char *prefix, const char *key, double fallback)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s.%s", prefix, key);
    return config_float(c, path, fallback);
}

static struct optimizer_spec optimizer_take(const struct config *c, const char *prefix, enum optimizer_kind fallback)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s.kind", prefix);
    struct optimizer_spec o = {.kind = (enum optimizer_kind)config_enum(c, path, (int)fallback)};
    o.lr = (float)optimizer_float(c, prefix, "lr", o.kind == OPT_ADAM ? 0.001 : 0.05);
    o.beta1 = (float)optimizer_float(c, prefix, "beta1", o.kind == OPT_ADAM ? 0.9 : 0);
    o.beta2 = (float)optimizer_float(c, prefix, "beta2", o.kind == OPT_ADAM ? 0.999 : 0);
    o.eps = (float)optimizer_float(c, prefix, "eps", 1e-8);
    o.initial = (float)optimizer_float(c, prefix, "initial", 0);
    o.l1 = (float)optimizer_float(c, prefix, "l1", 0);
    o.l2 = (float)optimizer_float(c, prefix, "l2", 0);
    o.beta = (float)optimizer_float(c, prefix, "beta", o.kind == OPT_FTRL ? 1 : 0);
    return o;
}

static int table_take(const struct config *c, size_t i, struct job_table *t, struct err *e)
{
    char path[96];

    (void)snprintf(path, sizeof path, "tables[%zu].name", i);
    int status = name_take(c, path, "emb", t->name, e);
    if (status != 0)
        return status;
    if (strcmp(t->name, "dense") == 0 || strcmp(t->name, "dense_stats") == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: the name %s is taken by the network's own table", config_line(c, path), t->name);
    (void)snprintf(path, sizeof path, "tables[%zu].dim", i);
    t->dim = (uint32_t)config_int(c, path, 16);
    (void)snprintf(path, sizeof path, "tables[%zu].tablets", i);
    t->tablets = (uint32_t)config_int(c, path, 0);
    if ((t->tablets & (t->tablets - 1)) != 0 && t->tablets != 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: %u is no power of two", config_line(c, path), path, t->tablets);
    (void)snprintf(path, sizeof path, "tables[%zu].init.kind", i);
    t->init.kind = (enum init_kind)config_enum(c, path, INIT_UNIFORM);
    (void)snprintf(path, sizeof path, "tables[%zu].init.scale", i);
    t->init.scale = (float)config_float(c, path, 0.01);
    (void)snprintf(path, sizeof path, "tables[%zu].init.seed", i);
    t->seed = (uint64_t)config_int(c, path, 1);
    (void)snprintf(path, sizeof path, "tables[%zu].optimizer", i);
    t->optimizer = optimizer_take(c, path, OPT_ADAGRAD);
    return 0;
}

static int tables_take(const struct config *c, struct job *j, struct err *e)
{
    int status = 0;

    j->table_count = config_count(c, "tables");
    if (j->table_count == 0)
        j->table_count = 1; /* one table with every default */
    if (j->table_count > LIMIT_TABLES / 2)
        return err_set(e, SHOAL_E_CONFIG, "line %d: at most %u tables", config_line(c, "tables"), LIMIT_TABLES / 2);
    j->table = calloc(j->table_count, sizeof *j->table);
    if (j->table == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < j->table_count && status == 0; i++)
        status = table_take(c, i, &j->table[i], e);
    return status;
}

static int model_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list hidden = {0};
    int status = 0;

    j->model.kind = (enum model_kind)config_enum(c, "model.kind", MODEL_DEEPFM);
    if (config_list(c, "model.hidden", &hidden) != 0)
        status = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else if (hidden.count > 16)
        status = err_set(e, SHOAL_E_CONFIG, "line %d: model.hidden: at most 16 layers", config_line(c, "model.hidden"));
    for (size_t i = 0; i < hidden.count && status == 0; i++) {
        char *end;
        long units = strtol(hidden.item[i], &end, 10);
        if (*end != 0 || end == hidden.item[i] || units < 1 || units > 16384)
            status = err_set(e, SHOAL_E_CONFIG, "line %d: model.hidden: %s is not a number of units (1 to 16384)",
                             config_line(c, "model.hidden"), hidden.item[i]);
        j->model.hidden[i] = (uint32_t)units;
    }
    j->model.hidden_count = (uint32_t)hidden.count;
    if (!config_has(c, "model.hidden")) {
        j->model.hidden_count = 3;
        j->model.hidden[0] = j->model.hidden[1] = j->model.hidden[2] = 400;
    }
    string_list_free(&hidden);
    j->model.dropout = config_float(c, "model.dropout", 0);
    j->model.norm = (enum norm_kind)config_enum(c, "model.norm", NORM_NONE);
    j->model.activation = (enum activation)config_enum(c, "model.activation", ACT_RELU);
    j->model.l2 = config_float(c, "model.l2", 0);
    j->model.l2_dense = config_float(c, "model.l2_dense", 0);
    j->dense_optimizer = optimizer_take(c, "dense_optimizer", OPT_ADAM);
    return status;
}

static int train_take(const struct config *c, struct job *j, struct err *e)
{
    j->train.batch = (uint32_t)config_int(c, "train.batch", 4096);
    j->train.epochs = (uint32_t)config_int(c, "train.epochs", 1);
    j->train.early_stop.metric = config_enum(c, "train.early_stop.metric", METRIC_AUC) == METRIC_LOGLOSS ? METRIC_LOGLOSS : METRIC_AUC;
    j->train.early_stop.patience = (uint32_t)config_int(c, "train.early_stop.patience", 0);
    j->train.early_stop.lr_decay = config_float(c, "train.early_stop.lr_decay", 1);
    j->train.mode = (uint32_t)config_enum(c, "train.consistency", 1);
    j->train.staleness = (uint32_t)config_int(c, "train.staleness", 2);
    j->train.prefetch = (uint32_t)config_int(c, "train.prefetch", 2);
    j->train.lanes = (uint32_t)config_int(c, "train.lanes", 0);
    j->train.backend = (enum backend_kind)config_enum(c, "train.backend", BACKEND_AUTO);
    j->train.seed = (uint64_t)config_int(c, "train.seed", 2026);
    j->train.task_batches = (uint32_t)config_int(c, "train.task_batches", 0);
    j->train.warmup = (uint32_t)config_int(c, "train.warmup", 0);
    j->durability = (enum durability)config_enum(c, "durability", DURABLE_JOURNAL);
    j->coordinator.lease_ms = (uint32_t)config_size(c, "coordinator.lease", 10000);
    j->net.drop = config_float(c, "net.drop", 0);
    j->net.resend_ms = (uint32_t)config_size(c, "net.resend", 1000);
    j->journal.max = config_size(c, "journal.max", 0);
    if (j->train.early_stop.patience > 0 && j->data.valid.count == 0)
        return err_set(e, SHOAL_E_CONFIG, "line %d: train.early_stop needs data.valid", config_line(c, "train.early_stop"));
    return 0;
}

static int job_take(const struct config *c, struct job *j, struct err *e)
{
    int status = name_take(c, "job", "job", j->name, e);

    if (status == 0)
        status = name_take(c, "space", j->name, j->space, e);
    if (status == 0)
        status = data_take(c, j, e);
    if (status == 0)
        status = features_take(c, j, e);
    if (status == 0)
        status = tables_take(c, j, e);
    if (status == 0)
        status = model_take(c, j, e);
    if (status == 0)
        status = train_take(c, j, e);
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

void job_free(struct job *j)
{
    string_list_free(&j->data.train);
    string_list_free(&j->data.valid);
    string_list_free(&j->data.test);
    string_list_free(&j->features.fields);
    free(j->data.column);
    free(j->table);
    memset(j, 0, sizeof *j);
}
