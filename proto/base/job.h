/* job.h: job.yaml as a plain value: what the coordinator, the workers and the command line must agree on.
 *
 * job_parse checks everything: an unknown key, a wrong type or a value out of range is refused with file, line and the nearest
 * known key (SHOAL_E_CONFIG). A job owns its lists; job_free releases them. */
#ifndef PROTO_BASE_JOB_H
#define PROTO_BASE_JOB_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum data_format { DATA_CRITEO, DATA_LIBSVM, DATA_CSV };
enum column_type { COLUMN_SKIP, COLUMN_LABEL, COLUMN_CATEGORY, COLUMN_MULTI, COLUMN_NUMBER };
enum number_transform { NUMBER_NONE, NUMBER_LOG1P, NUMBER_BUCKET }; /* log1p: sign(x) log(1 + |x|); bucket: floor(log2) as a category */
enum pooling { POOL_SUM, POOL_MEAN };
enum model_kind { MODEL_LR, MODEL_FM, MODEL_WIDE_DEEP, MODEL_DEEPFM, MODEL_PROBE };
enum activation { ACT_RELU, ACT_TANH, ACT_SIGMOID };
enum norm_kind { NORM_NONE, NORM_BATCH };
enum durability { DURABLE_MEMORY, DURABLE_JOURNAL, DURABLE_FSYNC };
enum backend_kind { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA };

struct string_list {
    char **item; /* owned */
    size_t count;
};

struct column {
    char name[LIMIT_NAME];
    enum column_type type;
    char separator;         /* of a MULTI value; '|' by default */
    enum pooling pooling;   /* of a MULTI field */
};

struct job_table {
    char name[LIMIT_NAME];
    uint32_t dim;
    uint32_t tablets; /* power of two; 0: 1024 */
    struct init_spec init;
    uint64_t seed;
    struct optimizer_spec optimizer;
};

struct job {
    char name[LIMIT_NAME];
    char space[LIMIT_NAME]; /* by default the job's name */
    struct {
        enum data_format format;
        struct string_list train, valid, test; /* files, globs, or "-"; "cmd:" prefix for {cmd: "..."} inputs */
        char label[LIMIT_NAME];                /* column by name or number; default "0" */
        double label_above;                    /* label = value > label_above; default 0 */
        bool header;                           /* csv: first line names the columns; default true */
        char delimiter;                        /* csv; default ',' */
        struct column *column;                 /* owned; csv: names and types; may be empty: all but the label are categories */
        size_t column_count;
        double max_bad;                        /* share of malformed lines allowed; default 0.001 */
        char cache[LIMIT_PATH];                /* folder for decoded input and indexes; default "shoal-cache" under the run folder or TMPDIR */
        bool shuffle;                          /* default true: rows of an epoch in an order drawn from (seed, epoch) */
    } data;
    struct {
        bool fields_auto;                      /* `fields: auto` */
        struct string_list fields;             /* else names of columns used */
        enum number_transform number;          /* default log1p for criteo, none else */
    } features;
    struct job_table *table; /* owned; the sparse tables: at least one */
    size_t table_count;
    struct {
        enum model_kind kind;
        uint32_t hidden[16];
        uint32_t hidden_count;
        double dropout;
        enum norm_kind norm;
        enum activation activation;
        double l2;        /* on touched rows of the sparse tables: gradient += l2 * weight */
        double l2_dense;  /* on weights of the network, not biases */
    } model;
    struct optimizer_spec dense_optimizer;
    struct {
        uint32_t batch;
        uint32_t epochs;
        struct {
            enum { METRIC_AUC, METRIC_LOGLOSS } metric;
            uint32_t patience; /* epochs without gain before the end; 0: no early stopping */
            double lr_decay;   /* learning rates are multiplied by this at each miss; default 1 */
        } early_stop;
        uint32_t mode;      /* enum wire_mode */
        uint32_t staleness;
        uint32_t prefetch;
        uint32_t lanes;     /* 0: one a worker slot, 2 by default */
        enum backend_kind backend;
        uint64_t seed;
        uint32_t task_batches; /* batches of a task; 0: chosen by the coordinator */
        uint32_t warmup;       /* learning rates rise evenly over the first `warmup` batches of a lane; 0: at once */
    } train;
    enum durability durability;
    struct {
        uint32_t lease_ms; /* default 10000 */
    } coordinator;
    struct {
        double drop;        /* share of replies lost on purpose, for tests; servers read it from their own file too */
        uint32_t resend_ms; /* default 1000 */
    } net;
    struct {
        uint64_t max; /* bytes; 0: max(1 GiB, row bytes) */
    } journal;
};

/* text: YAML, `bytes` long; name: for messages; set: "dotted.key=value" overrides, applied over the file (a value is YAML: lists as [a, b]).
 * On success *out is filled and the caller calls job_free. */
int job_parse(const char *text, size_t bytes, const char *name, const struct string_list *set, struct job *out, struct err *e);
/* Reads a file first: NOINPUT when it is missing. Relative paths in data.* are taken from the current folder. */
int job_load(const char *path, const struct string_list *set, struct job *out, struct err *e);
/* The YAML text of the file with `set` applied, checked as by job_parse: what is submitted. *text owned by the caller (free). */
int job_text(const char *path, const struct string_list *set, char **text, struct err *e);
void job_free(struct job *j);

#endif
