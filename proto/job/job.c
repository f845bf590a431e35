/* job.c: job.yaml -> struct job: a job is opened, read part by part, and freed; this file reads the
 * keys of training, evaluation and checkpoints. The known keys are in keys_job.c, data and features
 * in job_data.c, tables in job_table.c, the model in job_model.c.
 *
 * 1. Parts are read in the order of job_take: a later part may use an earlier one (tables use
 *    data.time), never the other way. [assert: job_data_take, job_tables_take, job_model_take]
 * 2. An absent key has its default afterwards: no code outside depends on which keys the file has.
 *    [assert: value_of] [test: job_training_has_defaults_and_ranges]
 * 3. A part that refuses leaves what it has read to job_free, so a job is freed whole or not at
 *    all. [test: job_tables_that_cannot_be_told_apart_are_refused, fuzz_job] */
#include "proto/job/job.h"
#include "proto/job/job_inner.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int job_name_take(const struct config *c, const char *path, const char *fallback,
                  char out[LIMIT_NAME], struct err *e)
{
    const char *s = fallback != NULL ? config_string_or(c, path, fallback) : config_string(c, path);
    if (strlen(s) >= LIMIT_NAME || s[0] == 0)
        return job_refuse(c, path, e, " must have 1 to %u bytes", LIMIT_NAME - 1);
    (void)snprintf(out, LIMIT_NAME, "%s", s);
    return 0;
}

/* `all` is about the rows on the servers, the other words about the tables that the job starts
 * with. */
static int fresh_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list words = {0};
    int rc = config_list(c, "fresh", &words);
    for (size_t i = 0; i < words.count && rc == 0; i++) {
        bool all = strcmp(words.item[i], "all") == 0;
        j->fresh_all |= all;
        if (!all)
            rc = config_list_add(&j->fresh, words.item[i]);
    }
    config_list_free(&words);
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (!j->fresh_all)
        return 0;
    if (j->resume[0] != 0 || strcmp(j->start_from, "fleet") == 0)
        return job_refuse(c, "fresh", e,
                          " is all, which drops the tables of its space, and %s goes on with them: "
                          "take one of the two away",
                          j->resume[0] != 0 ? "resume" : "start_from: fleet");
    return 0;
}

static int evaluate_take(const struct config *c, struct job *j, struct err *e)
{
    if (config_has(c, "evaluate.group") &&
        job_name_take(c, "evaluate.group", "", j->evaluate.group, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_list(c, "evaluate.by", &j->evaluate.by) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->evaluate.by.count > LIMIT_BY)
        return job_refuse(c, "evaluate.by", e, ": at most %u fields", LIMIT_BY);
    j->evaluate.buckets = (uint32_t)config_int(c, "evaluate.buckets");
    j->evaluate.exact = config_size(c, "evaluate.exact");
    j->evaluate.every_batches = config_size(c, "evaluate.every_batches");
    j->evaluate.every_minutes = config_float(c, "evaluate.every_minutes");
    bool blind = j->data.valid.count == 0 && !j->train.skip;
    if (blind && j->evaluate.every_batches > 0)
        return job_refuse(c, "evaluate.every_batches", e, " needs data.valid");
    if (blind && j->evaluate.every_minutes > 0)
        return job_refuse(c, "evaluate.every_minutes", e, " needs data.valid");
    if (j->evaluate.group[0] != '\0' && j->train.early_stop.metric >= METRIC_RMSE)
        return job_refuse(c, "evaluate.group", e,
                          " is for AUC within groups, and every label has model.loss mse or huber; "
                          "take it out");
    if (j->train.early_stop.metric == METRIC_GAUC && j->evaluate.group[0] == '\0')
        return job_refuse(c, "train.early_stop.metric", e,
                          " is gauc: evaluate.group must name the field of the groups");
    (void)snprintf(j->resume, sizeof j->resume, "%s", config_string(c, "resume"));
    (void)snprintf(j->start_from, sizeof j->start_from, "%s", config_string(c, "start_from"));
    return fresh_take(c, j, e);
}

static int checkpoint_take(const struct config *c, struct job *j, struct err *e)
{
    const char *dir = config_string(c, "checkpoint.dir");
    int rc = config_list(c, "checkpoint.publish", &j->checkpoint.publish);
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (strlen(dir) >= LIMIT_PATH / 2) /* file names are appended to it */
        return job_refuse(c, "checkpoint.dir", e, " has at most %u bytes", LIMIT_PATH / 2 - 1);
    if (j->checkpoint.publish.count > 32)
        return job_refuse(c, "checkpoint.publish", e, ": a command has at most 32 words");
    (void)snprintf(j->checkpoint.dir, sizeof j->checkpoint.dir, "%s", dir);
    j->checkpoint.at_end = config_bool(c, "checkpoint.at_end");
    j->checkpoint.every_batches = config_size(c, "checkpoint.every_batches");
    j->checkpoint.every_minutes = config_float(c, "checkpoint.every_minutes");
    j->checkpoint.keep = (uint32_t)config_int(c, "checkpoint.keep");
    j->checkpoint.keep_named = (uint32_t)config_int(c, "checkpoint.keep_named");
    j->checkpoint.publish_limit_ms = (uint32_t)config_size(c, "checkpoint.publish_limit");
    return 0;
}

/* Refuses the keys that make no sense in a job without an end. */
static int grow_check(const struct config *c, struct job *j, struct err *e)
{
    if (j->train.skip) /* without training there is nothing to wait for */
        j->data.objects.grow_ms = 0;
    if (j->data.objects.grow_ms == 0)
        return 0;
    if (j->train.epochs != 1)
        return job_refuse(c, "train.epochs", e,
                          ": of a log that grows each object is trained once (data.objects.grow)");
    if (j->train.early_stop.patience > 0)
        return job_refuse(c, "train.early_stop.patience", e,
                          ": with a log that grows (data.objects.grow) no evaluation is the last, "
                          "and older tables would come back; leave it out");
    if (j->train.schedule.kind == SCHEDULE_LINEAR || j->train.schedule.kind == SCHEDULE_COSINE)
        return job_refuse(c, "train.schedule.kind", e,
                          ": it falls towards an end, and a log that grows (data.objects.grow) has "
                          "none; take constant or step");
    if (j->replay.on)
        return job_refuse(
            c, "replay", e,
            ": a replay's windows are all known when it begins, and this log grows "
            "(data.objects.grow); train it without, as it comes, and replay it later");
    return 0;
}

const char *job_metric_name(enum early_metric m)
{
    static const char *const name[] = {"auc", "logloss", "gauc", "rmse", "mae"};
    SHOAL_ASSERT((size_t)m < sizeof name / sizeof name[0]);
    return name[m];
}

bool job_metric_falls(enum early_metric m)
{
    return m == METRIC_LOGLOSS || m == METRIC_RMSE || m == METRIC_MAE;
}

/* A metric of one kind of labels; over both kinds together no mean has a meaning. */
static int metric_take(const struct config *c, struct job *j, struct err *e)
{
    const char *path = "train.early_stop.metric";
    uint32_t real = job_real_labels(j);
    bool all_real = real == (1u << j->data.label_count) - 1;
    j->train.early_stop.metric = (enum early_metric)config_enum(c, path);
    if (!config_has(c, path) && all_real)
        j->train.early_stop.metric = METRIC_RMSE;
    bool of_real = j->train.early_stop.metric >= METRIC_RMSE;
    if (of_real == all_real)
        return 0;
    if (of_real)
        return job_refuse(c, path, e,
                          " is %s: it judges numbers, and %s; take auc, logloss or gauc",
                          job_metric_name(j->train.early_stop.metric),
                          real == 0 ? "no label has model.loss mse or huber"
                                    : "some labels have model.loss logloss, which decide then");
    return job_refuse(c, path, e,
                      " is %s: it judges labels of 0 and 1, and every label has model.loss mse or "
                      "huber; take rmse or mae",
                      job_metric_name(j->train.early_stop.metric));
}

const char *job_durability_name(enum durability d)
{
    static const char *const name[] = {"memory", "journal", "fsync"};
    SHOAL_ASSERT((size_t)d < sizeof name / sizeof name[0]);
    return name[d];
}

static int train_take(const struct config *c, struct job *j, struct err *e)
{
    static const enum packed_width packed[] = {PACKED_NOT, PACKED_BF16, PACKED_INT8};
    char where[CONFIG_WHERE];
    j->train.batch = (uint32_t)config_int(c, "train.batch");
    j->train.window = (uint32_t)config_int(c, "train.window");
    j->train.micro_batches = (uint32_t)config_int(c, "train.micro_batches");
    j->train.epochs = (uint32_t)config_int(c, "train.epochs");
    j->train.skip = config_bool(c, "train.skip");
    j->train.max_minutes = config_float(c, "train.max_minutes");
    j->train.early_stop.patience = (uint32_t)config_int(c, "train.early_stop.patience");
    j->train.early_stop.lr_decay = config_float(c, "train.early_stop.lr_decay");
    j->train.early_stop.lr_patience = (uint32_t)config_int(c, "train.early_stop.lr_patience");
    j->train.early_stop.min_delta = config_float(c, "train.early_stop.min_delta");
    j->train.mode = (uint32_t)config_enum(c, "train.consistency");
    j->train.staleness = (uint32_t)config_int(c, "train.staleness");
    j->train.prefetch = (uint32_t)config_int(c, "train.prefetch");
    j->train.lanes = (uint32_t)config_int(c, "train.lanes");
    j->train.lanes_there = (uint32_t)config_int(c, "train.lanes_there");
    j->train.backend = (enum backend_kind)config_enum(c, "train.backend");
    j->train.seed = (uint64_t)config_int(c, "train.seed");
    j->train.task_batches = (uint32_t)config_int(c, "train.task_batches");
    j->train.max_refused = config_float(c, "train.max_refused");
    j->train.warmup = (uint32_t)config_int(c, "train.warmup");
    j->train.schedule.kind = (enum schedule_kind)config_enum(c, "train.schedule.kind");
    j->train.schedule.batches = (uint32_t)config_int(c, "train.schedule.batches");
    j->train.schedule.floor = config_float(c, "train.schedule.floor");
    j->train.schedule.factor = config_float(c, "train.schedule.factor");
    j->train.clip_dense = config_float(c, "train.clip_dense");
    j->train.clip_row = config_float(c, "train.clip_row");
    j->train.precision = (enum precision)config_enum(c, "train.precision");
    j->train.deterministic = config_bool(c, "train.deterministic");
    j->train.read_ahead = (uint32_t)config_int(c, "train.read_ahead");
    j->durability = (enum durability)config_enum(c, "durability");
    j->durability_given = config_has_value(c, "durability");
    j->coordinator.lease_ms = (uint32_t)config_size(c, "coordinator.lease");
    j->net.drop = config_float(c, "net.drop");
    j->net.resend_ms = (uint32_t)config_size(c, "net.resend");
    j->net.values = (enum value_kind)config_enum(c, "net.values");
    j->net.gradients = packed[config_enum(c, "net.gradients")];
    j->journal.max = config_size(c, "journal.max");
    j->journal.keep = config_size(c, "journal.keep");
    if (metric_take(c, j, e) != 0)
        return SHOAL_E_CONFIG;
    if ((uint64_t)j->train.window * j->train.batch > LIMIT_BATCH)
        return job_refuse(c, "train.window", e,
                          ": %u batches of %u rows (train.batch) are more than the %u rows that a "
                          "lane reads at once; lower one of the two",
                          j->train.window, j->train.batch, LIMIT_BATCH);
    if (j->train.micro_batches > 1 && j->model.stages <= 1)
        return job_refuse(c, "train.micro_batches", e,
                          " are for a model in stages: in one stage nothing overlaps; give it "
                          "model.stages, or leave train.micro_batches out");
    if (j->train.early_stop.patience > 0 && j->data.valid.count == 0)
        return job_refuse(c, "train.early_stop", e, " needs data.valid");
    if (j->train.schedule.kind != SCHEDULE_CONSTANT && j->train.schedule.batches == 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "%strain.schedule needs batches: over how many batches of a lane the rate falls",
            config_where(c, "train.schedule.kind", where));
    if (j->train.precision == PRECISION_FP16 && j->train.mode == 2) /* WIRE_BSP */
        return job_refuse(
            c, "train.precision", e,
            " fp16 finds a loss scale for each lane where it runs, so a lane that moves to another "
            "worker would round differently, and bsp promises the same bits; use bf16");
    return 0;
}

static int key_names_take(const struct config *c, struct job *j, struct err *e)
{
    int rc = job_name_take(c, "job", NULL, j->name, e);
    bool odd = j->name[0] == '.' || j->name[0] == '-'; /* folders are named after the job */
    for (const unsigned char *p = (const unsigned char *)j->name; *p != 0; p++)
        odd |= *p == '/' || *p < 0x20 || *p == 0x7f;
    if (rc == 0 && odd)
        rc = job_refuse(c, "job", e,
                        " is no name: it must not begin with . or -, nor hold / or control "
                        "characters");
    if (rc != 0)
        return rc;
    return job_name_take(c, "space", j->name, j->space, e);
}

static int job_take(const struct config *c, struct job *j, struct err *e)
{
    static int (*const part[])(const struct config *, struct job *, struct err *) = {
        key_names_take,  job_data_take,   job_join_take,  job_features_take, job_tables_take,
        job_model_take,  train_take,      job_dense_take, job_external_take, evaluate_take,
        checkpoint_take, job_replay_take, grow_check};
    int rc = 0;
    for (size_t i = 0; i < sizeof part / sizeof part[0] && rc == 0; i++)
        rc = part[i](c, j, e);
    return rc;
}

static int job_from(struct config *c, const char *name, struct job *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    int rc = job_take(c, out, e);
    config_free(c);
    if (rc != 0) {
        job_free(out);
        return err_wrap(e, rc, "%s", name);
    }
    return 0;
}

/* Splits the line of names from the text, for it is no YAML that a user wrote. Its line is left
 * empty in *rest, so that the other lines keep their numbers. */
static int names_part(const char *text, size_t bytes, const char *name, struct legend *names,
                      char **rest, struct err *e)
{
    size_t at = 0, line = 0;
    *rest = NULL;
    memset(names, 0, sizeof *names);
    if (!legend_line(text, bytes, &at, &line))
        return 0;
    int rc = legend_parse(text + at, line, names, e);
    if (rc != 0)
        return err_wrap(e, rc, "%s", name);
    *rest = malloc(bytes + 1);
    if (*rest == NULL) {
        legend_free(names);
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", name);
    }
    memcpy(*rest, text, bytes);
    memset(*rest + at, ' ', line);
    return 0;
}

/* *made: the text of the file with `set` applied; made NULL: not wanted. */
static int job_of_text(const char *text, size_t bytes, const char *name,
                       const struct string_list *set, struct job *out, char **made, struct err *e)
{
    struct config *c;
    struct legend names;
    char *rest;
    int rc = names_part(text, bytes, name, &names, &rest, e);
    if (rc != 0)
        return rc;
    rc = config_parse(text_or(rest, text), bytes, name, set, keys_job, &c, e);
    free(rest);
    if (rc == 0 && made != NULL) {
        *made = config_text(c);
        config_gone_say(c);
    }
    if (rc == 0)
        rc = job_from(c, name, out, e);
    if (rc != 0)
        legend_free(&names);
    else
        out->legend = names;
    return rc;
}

int job_parse(const char *text, size_t bytes, const char *name, const struct string_list *set,
              struct job *out, struct err *e)
{
    return job_of_text(text, bytes, name, set, out, NULL, e);
}

int job_load(const char *path, const struct string_list *set, struct job *out, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = config_read(path, &text, &bytes, e);
    if (rc != 0)
        return rc;
    rc = job_of_text(text, bytes, path, set, out, NULL, e);
    free(text);
    return rc;
}

int job_text(const char *path, const struct string_list *set, char **text, struct err *e)
{
    char *file;
    size_t bytes;
    struct job j;
    int rc = config_read(path, &file, &bytes, e);
    if (rc != 0)
        return rc;
    *text = NULL;
    rc = job_of_text(file, bytes, path, set, &j, text, e);
    free(file);
    if (rc != 0) {
        free(*text);
        *text = NULL;
        return rc;
    }
    job_free(&j);
    if (*text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", path);
    return 0;
}

static int bare_make(struct config *c, char **out, size_t *out_bytes, struct err *e)
{
    int rc = config_commands_hide(c, "checkpoint.publish", e);
    if (rc != 0)
        return rc;
    *out = config_text(c);
    if (*out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job's text");
    *out_bytes = strlen(*out);
    if (*out_bytes <= LIMIT_CONFIG_BYTES)
        return 0;
    free(*out);
    return err_set(e, SHOAL_E_TOO_BIG, "the job's text has %zu bytes written out, at most %u",
                   *out_bytes, LIMIT_CONFIG_BYTES);
}

int job_text_bare(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e)
{
    struct config *c;
    struct legend names;
    char *rest;
    int rc = names_part(text, bytes, "job", &names, &rest, e);
    if (rc != 0)
        return rc;
    legend_free(&names);
    rc = config_parse(text_or(rest, text), bytes, "job", NULL, keys_job, &c, e);
    free(rest);
    if (rc != 0)
        return rc;
    rc = bare_make(c, out, out_bytes, e);
    config_free(c);
    return rc;
}

bool job_draws(const struct job *j)
{
    /* 0: a job that is not parsed */
    return (j->data.sample > 0 && j->data.sample < 1) ||
           (j->data.negatives > 0 && j->data.negatives < 1);
}

uint32_t job_lanes(const struct job *j)
{
    if (j->train.lanes > 0)
        return j->train.lanes;
    if (j->train.lanes_there > 0)
        return j->train.lanes_there;
    return JOB_LANES;
}

uint32_t job_window(const struct job *j)
{
    return MAX(j->train.window, 1);
}

uint32_t job_sites(const struct job *j)
{
    return MAX(j->model.stages, 1) * MAX(j->model.split, 1);
}

uint32_t job_batch_rows(const struct job *j)
{
    SHOAL_ASSERT((uint64_t)job_window(j) * j->train.batch <= LIMIT_BATCH);
    return job_window(j) * j->train.batch;
}

bool job_timed(const struct job *j)
{
    return j->data.time[0] != '\0' || j->data.partition.step > 0;
}

bool job_reads_only(const struct job *j)
{
    return j->train.skip && j->fresh.count == 0;
}

const char *job_command(const struct job *j)
{
    const struct {
        const char *key;
        const struct string_list *list;
    } input[] = {{"data.train", &j->data.train},
                 {"data.valid", &j->data.valid},
                 {"data.test", &j->data.test},
                 {"data.join.clicks", &j->data.join.clicks}};
    for (size_t i = 0; i < sizeof input / sizeof input[0]; i++)
        for (size_t k = 0; k < input[i].list->count; k++)
            if (strcmp(config_item_shown(input[i].list->item[k]), input[i].list->item[k]) != 0)
                return input[i].key;
    return NULL;
}

const struct string_list *job_input(const struct job *j, uint32_t split, const char **what)
{
    static const char *const key[JOB_SPLITS] = {"data.train", "data.valid", "data.test"};
    const struct string_list *const list[JOB_SPLITS] = {&j->data.train, &j->data.valid,
                                                        &j->data.test};
    SHOAL_ASSERT(split < JOB_SPLITS);
    *what = key[split];
    return list[split];
}

void job_free(struct job *j)
{
    config_list_free(&j->data.train);
    config_list_free(&j->data.valid);
    config_list_free(&j->data.test);
    config_list_free(&j->data.join.clicks);
    config_list_free(&j->data.label_positive);
    config_list_free(&j->data.label_negative);
    config_list_free(&j->data.missing);
    config_list_free(&j->features.fields);
    config_list_free(&j->evaluate.by);
    config_list_free(&j->checkpoint.publish);
    config_list_free(&j->fresh);
    legend_free(&j->legend);
    free(j->data.column);
    free(j->features.cross);
    free(j->model.tensor);
    for (uint32_t s = 0; s < JOB_SPLITS; s++) {
        free(j->data.objects.of[s].list);
        free(j->data.objects.of[s].open);
    }
    free(j->data.head);
    free(j->data.kafka.brokers);
    free(j->data.kafka.topic);
    free(j->data.kafka.config);
    for (size_t i = 0; i < j->table_count && j->table != NULL; i++) {
        config_list_free(&j->table[i].fields);
        free(j->table[i].rule);
    }
    free(j->table);
    memset(j, 0, sizeof *j);
}
