/* job.h: job.yaml as a plain value, for the coordinator, the workers and the command line, which
 * must agree on it.
 *
 * job_parse checks everything: an unknown key, a wrong type or a value out of range is refused with
 * file, line and the nearest known key (SHOAL_E_CONFIG). A job owns its lists; job_free releases
 * them. */
#ifndef PROTO_JOB_JOB_H
#define PROTO_JOB_JOB_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/partition.h"
#include "proto/base/zone.h"
#include "proto/job/format.h"
#include "proto/job/legend.h"
#include "proto/job/packed.h"
#include "proto/job/scale.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CROSS and MISSING (is a number missing?) are made of other columns: a job file gives no column
 * such a type, but an event file has such columns. */
enum column_type {
    COLUMN_SKIP,
    COLUMN_LABEL,
    COLUMN_CATEGORY,
    COLUMN_MULTI,
    COLUMN_NUMBER,
    COLUMN_CROSS,
    COLUMN_MISSING,
};
/* The unit of a time that is a number, counted from 1970. */
enum time_unit { TIME_SECONDS, TIME_MILLISECONDS, TIME_MICROSECONDS };
/* The form of event times in the input. */
struct time_form {
    enum time_unit unit; /* the unit of a time that is a number; default seconds */
    bool any;            /* the file names seconds: numbers before 1995 are accepted */
    uint32_t bytes;      /* the length that all times of the format have; 0: lengths differ */
    char format[64];     /* a format of strptime; empty: numbers, and ISO dates */
};
/* attention: the values are not pooled but stay in order, for a model that weighs them against a
 * target (din). */
enum pooling { POOL_SUM, POOL_MEAN, POOL_ATTENTION };
enum model_kind {
    MODEL_LR,
    MODEL_FM,
    MODEL_WIDE_DEEP,
    MODEL_DEEPFM,
    MODEL_PROBE,
    MODEL_FWFM,
    MODEL_IPNN,
    MODEL_DCNV2,
    MODEL_DLRM,
    MODEL_XDEEPFM,
    MODEL_AUTOINT,
    MODEL_FINALMLP,
    MODEL_DIN,
    MODEL_MMOE,
    MODEL_PLE,
    MODEL_EXTERNAL, /* the network is another program's (worker/train/outside.h) */
};
/* none: for a layer, not for a job */
enum activation { ACT_RELU, ACT_TANH, ACT_SIGMOID, ACT_NONE };
enum norm_kind { NORM_NONE, NORM_BATCH, NORM_LAYER };
enum interaction { INTERACT_DOT, INTERACT_CAT };
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISION_FP16 };
enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_STEP };
enum early_metric { METRIC_AUC, METRIC_LOGLOSS, METRIC_GAUC, METRIC_RMSE, METRIC_MAE };
/* The loss of a label: of 0 or 1 by a probability, or of a number by its prediction. */
enum loss_kind { LOSS_LOGLOSS, LOSS_MSE, LOSS_HUBER };
enum durability { DURABLE_MEMORY, DURABLE_JOURNAL, DURABLE_FSYNC };
enum backend_kind { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA };

struct string_list {
    char **item; /* owned */
    size_t count;
};

/* The entries of libsvm are values of the fields of their places, of one field, or of a field for
 * each index. auto: the tables or the first lines decide. */
enum libsvm_entries { LIBSVM_AUTO, LIBSVM_PLACES, LIBSVM_ONE, LIBSVM_INDEXES };

#define COLUMN_PADDING 16u   /* bytes, with NUL */
#define DELIMITER_BYTES 8u   /* with NUL */
#define LIMIT_CELL_WORDS 32u /* words of data.missing, data.label_positive, data.label_negative */

struct column {
    char name[LIMIT_NAME];
    enum column_type type;
    bool id;                      /* its values are whole numbers, which keys hold as they are */
    bool whole;                   /* CATEGORY: 123.0 is the value 123 */
    char separator;               /* MULTI: between two values of a cell; '|' by default */
    enum pooling pooling;         /* MULTI: how the values are pooled */
    char padding[COLUMN_PADDING]; /* MULTI: the value that pads cells; empty: none does */
    bool weighted;                /* MULTI: values have weights, as in "12:0.5|7:1.2" */
    bool weighted_said;           /* the job file says whether they have */
    /* another column whose rows this one uses, so that the same value is the same key; empty: the
     * column has its own rows */
    char share[LIMIT_NAME];
    char attend[LIMIT_NAME]; /* pooling attention: the target column; empty otherwise */
    uint32_t max;            /* MULTI: only the last `max` values count; 0: all */
    struct scale scale;      /* NUMBER; with `scaled` */
    bool scaled;             /* the column has a transform of its own, not features.number */
    bool filled,
        indicator;  /* NUMBER: `scale.fill` is given; a number more says where it is missing */
    uint32_t entry; /* its entry in data.columns: a range of names is one entry */
    uint32_t cross; /* CROSS, of an event file: the hash of its parts */
};

#define CROSS_PARTS 3u    /* columns of a cross at most */
#define LIMIT_CROSSES 64u /* crosses of a job */

/* A field whose values are those of its columns together: features.crosses. */
struct job_cross {
    char column[CROSS_PARTS][LIMIT_NAME];
    uint32_t columns; /* 2 or 3 */
};

#define LIMIT_JOB_TENSORS 256u /* tensors of an external network that servers keep */
#define JOB_TENSOR_RANK 4u

/* A tensor of an external network: model.tensors. */
struct job_tensor {
    char name[LIMIT_NAME];
    uint32_t shape[JOB_TENSOR_RANK]; /* (rank), each above 0 */
    uint32_t rank;                   /* 1 to 4 */
    struct init_spec init;
};

/* Widths of the layers of a network. */
struct widths {
    uint32_t at[16];
    uint32_t count;
};

/* Rules for the keys of one field of a table, in place of the table's. The field's number is known
 * once the columns of the input are (model_shape.rule_field); rule.field is not filled. */
struct job_field_rule {
    char field[LIMIT_NAME];
    struct field_rule rule;
};

struct job_table {
    char name[LIMIT_NAME]; /* no two tables have one name */
    /* owned: columns whose rows lie here; empty: all columns that no other table names */
    struct string_list fields;
    /* line of `fields` in the job file, for messages; without `fields`, the table's line */
    int fields_line;
    uint32_t dim;
    uint32_t tablets; /* power of two; 0: 1024 */
    struct init_spec init;
    uint64_t seed;
    struct optimizer_spec optimizer;
    uint32_t values; /* enum value_kind */
    /* as in the schema, except for age_capacity, which is set for each tablet: 0 here */
    struct row_rules rules;
    uint64_t capacity;           /* rows of the whole table; 0: any number */
    struct job_field_rule *rule; /* owned (rule_count); no field twice */
    size_t rule_count;
};

#define LIMIT_REPLAY_OUT 64u
struct job_span {
    uint32_t from, to; /* event time, seconds since 1970: from `from` up to and without `to` */
};

#define JOB_LANES 2u  /* lanes while lanes_there is 0, and places of a worker that states none */
#define JOB_SPLITS 3u /* indexed by enum wire_split: data.train, data.valid, data.test */

enum kafka_from { KAFKA_EARLIEST, KAFKA_LATEST, KAFKA_TIME };

struct job {
    char name[LIMIT_NAME];
    char space[LIMIT_NAME]; /* by default the job's name */
    struct {
        enum data_format format;
        enum libsvm_entries libsvm;
        /* files, globs, or "-"; "cmd:" prefix for {cmd: "..."} inputs */
        struct string_list train, valid, test;
        /* For each split: whether its files, or what commands list and open, are objects. An object
         * is opened by the worker that trains on it or scores it. */
        struct {
            struct {
                bool on;
                char *list, *open; /* owned; commands; NULL: the objects are files */
            } of[JOB_SPLITS];
            uint32_t quiet_s; /* a command that writes no byte for so long has failed */
            uint32_t tries;
            bool leave_out; /* objects that cannot be read are left out */
            /* pause between two listings; 0: the objects listed at the start are all */
            uint32_t grow_ms;
            /* the tables have learnt no objects except those that their record names */
            bool all_new;
        } objects;
        /* A topic of Kafka: its ranges of messages are objects of data.train, behind the files that
         * data.train names. */
        struct {
            bool on;
            /* owned; config: a file of librdkafka's properties; NULL: none */
            char *brokers, *topic, *config;
            enum kafka_from from; /* where a partition begins that is not known */
            /* seconds since 1970; from_s: of KAFKA_TIME; until_s: 0: the log has no end */
            uint32_t from_s, until_s;
            uint32_t range; /* offsets of an object, at most */
        } kafka;
        /* owned; objects: the first line of one, which is no part of the job file; may be NULL */
        char *head;
        /* columns by name or number; by default one, "0"; each of several labels is a task */
        char label[LIMIT_TASKS][LIMIT_NAME];
        uint32_t label_count;
        double label_above; /* label = value > label_above; default 0 */
        bool label_parted;  /* the job file gives label_above */
        /* owned; texts of labels that are 1, and of those that are 0 (empty: all others); both
         * empty: labels are numbers */
        struct string_list label_positive, label_negative;
        struct string_list missing; /* owned; texts of cells that count as empty */
        bool decimal_comma;         /* csv: numbers have a comma before their fraction */
        char weight[LIMIT_NAME];    /* column of the examples' weights; empty: all weights are 1 */
        char time[LIMIT_NAME]; /* column of the examples' event times; empty: times are not known */
        /* partitions in file names, from which rows get their times where `time` is empty; step 0:
         * none */
        struct partition partition;
        struct time_form time_form;
        uint32_t time_limit; /* later event times are set to it; 0: no limit */
        struct zone zone; /* zone of times without one, and of windows of event time; default UTC */
        /* with one label: the share of the negative examples that training keeps; 1: all.
         * Predictions are corrected for it */
        double negatives;
        /* the share of the examples that is trained on; 1: all */
        double sample;
        /* a column: `sample` is the share of its values, each with all its examples; empty: of the
         * examples */
        char sample_by[LIMIT_NAME];
        bool header;                     /* csv: the first line names the columns; default true */
        char delimiter[DELIMITER_BYTES]; /* csv; empty: "," */
        /* owned; csv: names and types; a column that is not listed is a category, unless it is the
         * label */
        struct column *column;
        size_t column_count;
        /* the entry called "*": type and use of csv columns that no other entry names */
        struct column rest;
        bool rest_said;
        double max_bad; /* share of malformed lines allowed; default 0.001 */
        /* folder for decoded input and indexes; default "shoal-cache" under the run folder or
         * TMPDIR */
        char cache[LIMIT_PATH];
        /* bytes of parsed rows in `cache`, if the job names it; 0: none are kept */
        uint64_t cache_max;
        /* default true: the rows of an epoch come in an order drawn from (seed, epoch) */
        bool shuffle;
        uint32_t shuffle_within; /* seconds of event time; 0: over the whole input */
        bool shuffle_said;       /* the file sets `shuffle` */
        /* Labels that come late: the files above hold impressions without a label, `clicks` name
         * the clicked ones. */
        struct {
            bool on;
            struct string_list clicks;
            char id[LIMIT_NAME], click_id[LIMIT_NAME], click_time[LIMIT_NAME]; /* columns */
            uint32_t window, keep, disorder; /* seconds of event time */
            bool learn;                      /* late clicks are learnt; else they are counted */
            uint64_t memory, checkpoint;     /* bytes */
        } join;
    } data;
    struct {
        bool fields_auto;             /* `fields: auto` */
        struct string_list fields;    /* else the names of the columns used */
        enum number_transform number; /* default log1p for criteo, else none */
        struct job_cross *cross;      /* owned (cross_count) */
        uint32_t cross_count;
    } features;
    /* owned; the sparse tables: 1 to LIMIT_JOB_TABLES, at most one of them without `fields` */
    struct job_table *table;
    size_t table_count;
    struct {
        enum model_kind kind;
        struct widths hidden;  /* the network; default 400, 400, 400 */
        struct widths hidden2; /* finalmlp: the second stream; default: the same as hidden */
        /* dlrm: the network over the numbers, without its last layer, which has dim outputs */
        struct widths bottom;
        struct widths cin;              /* xdeepfm: feature maps of each layer; default 100, 100 */
        struct widths tower;            /* mmoe, ple: the network of each task; default 64 */
        struct widths attention_hidden; /* din: the network that weighs a value; default 80, 40 */
        /* finalmlp: the network of the feature gates; default: no gates */
        struct widths gate_hidden;
        /* finalmlp: columns whose vectors the gates read; default: empty, a learned vector */
        char gate_field[2][LIMIT_NAME];
        uint32_t cross_layers;                    /* dcnv2; default 3 */
        uint32_t heads;                           /* autoint, finalmlp; default 2 */
        uint32_t attention_layers, attention_dim; /* autoint; default 3, 64 (all heads together) */
        enum interaction interaction;             /* dlrm; default dot */
        uint32_t experts;     /* mmoe: number of experts; ple: number of shared ones; default 4 */
        uint32_t own_experts; /* ple: experts of each task; default 2 */
        uint32_t levels;      /* ple: levels of experts and gates; default 1 */
        uint32_t top_k;       /* mmoe, ple: number of experts that a gate selects; 0: all */
        double balance;       /* with top_k: factor of the balancing loss; default 0 */
        uint32_t stages;      /* groups of layers, each on devices of its own; 0 counts as 1 */
        uint32_t split;       /* devices that a stage's wide layers are cut over; 0 counts as 1 */
        uint32_t split_above; /* outputs; wider linear layers are cut */
        double task_weight[LIMIT_TASKS];  /* weights of the tasks' losses; default 1; not all 0 */
        enum loss_kind loss[LIMIT_TASKS]; /* loss of each label */
        double huber_delta; /* huber: an error above it counts by its size, not its square */
        double dropout;
        enum norm_kind norm;
        enum activation activation;
        double l2;       /* on touched rows of the sparse tables: gradient += l2 * weight */
        double l2_dense; /* on weights of the network, not biases */
        struct job_tensor *tensor; /* external: owned (tensors): those that the servers keep */
        uint32_t tensors;
        bool first_order; /* external: rows begin with a first-order weight */
    } model;
    struct optimizer_spec dense_optimizer;
    struct {
        uint32_t batch;
        uint32_t window;        /* slices of a lane's batch, of `batch` rows each; 0 counts as 1 */
        uint32_t micro_batches; /* parts of a batch, in the stages at once; 0 counts as 1 */
        bool allreduce;         /* the workers keep the network in step (worker/ring) */
        bool sharded;           /* allreduce: each worker has a part of the optimizer's state */
        uint32_t publish_ms;    /* allreduce: the tables get the network so often */
        uint32_t epochs;
        bool skip;          /* only load a checkpoint's tables and evaluate data.test */
        double max_minutes; /* limit of the training time; 0: no limit */
        struct {
            enum early_metric metric;
            uint32_t patience; /* evaluations without gain before the end; 0: no early stopping */
            /* learning rates are multiplied by lr_decay at each lr_patience-th miss in a row;
             * default 1, 1 */
            double lr_decay;
            uint32_t lr_patience;
            double min_delta; /* a gain is more than this; default 1e-6 */
        } early_stop;
        uint32_t mode; /* enum wire_mode */
        uint32_t staleness;
        uint32_t prefetch;
        uint32_t lanes;       /* default 2; 0: as the workers have places for, then `lanes_there` */
        uint32_t lanes_there; /* lanes that the coordinator found; 0: not yet */
        enum backend_kind backend;
        uint64_t seed;
        uint32_t task_batches; /* batches in a task; 0: the coordinator chooses */
        /* share of batches that may be refused for their gradients, but at least 10 may; 0: none
         * may */
        double max_refused;
        /* learning rates rise evenly over the first `warmup` batches of a lane; 0: at once */
        uint32_t warmup;
        struct {
            enum schedule_kind kind; /* after the warm-up; default constant */
            /* batches of a lane: linear, cosine: until the floor; step: between two steps */
            uint32_t batches;
            double floor;  /* the share of the rate that is always left; default 0 */
            double factor; /* step: the factor of each step; default 0.1 */
        } schedule;
        /* the norm to which larger dense gradients of a batch are scaled down; 0: none */
        double clip_dense;
        double clip_row; /* the same limit for the gradient of each sparse row */
        /* precision of matrix products; weights, sums and gradients are fp32 */
        enum precision precision;
        bool deterministic;  /* default true: the same bits in every run with the same kernels */
        uint32_t read_ahead; /* batches a lane reads and parses ahead; 0: chosen from the cores */
    } train;
    struct {
        /* the field whose values group the examples for group AUC; empty: none */
        char group[LIMIT_NAME];
        struct string_list by; /* fields for whose values the calibration is reported */
        uint32_t buckets;      /* buckets of the calibration curve; default 20 */
        /* up to so many examples AUC is exact; above, it is computed from buckets of scores;
         * default 20 million */
        uint64_t exact;
        /* evaluates data.valid within epochs: after so many batches of all lanes, or minutes of
         * training; 0: no */
        uint64_t every_batches;
        double every_minutes;
    } evaluate;
    /* Replay: the log in order of event time, with the epoch cut at the ends of days. */
    struct {
        bool on;         /* the file has such a section */
        bool checkpoint; /* makes a checkpoint at each end of a day */
        /* seconds: no batch has rows of two windows, and all batches of a window are given out
         * before those of the next */
        uint32_t window;
        uint32_t every; /* seconds between two ends of a day: whole windows */
        struct job_span range, out[LIMIT_REPLAY_OUT]; /* range.to 0: no end */
        uint32_t outs;
        double pace; /* seconds of event time to a second of the clock; 0: as fast as possible */
    } replay;
    /* Not from keys of the file, for prediction is no part of training: when `on`, data.test is
     * scored and needs no labels (worker/train/evaluator.h). */
    struct {
        bool on;
        struct string_list columns; /* columns copied to the output unchanged */
    } predict;
    /* the place of a checkpoint, as the author of the job names it: the job resumes from it, or
     * starts with its tables; empty: none */
    char resume[LIMIT_PATH], start_from[LIMIT_PATH];
    /* names of fields and tensors that begin anew although the tables of start_from have them */
    struct string_list fresh;
    bool fresh_all;       /* all rows on the servers are removed first; then `fresh` has no names */
    struct legend legend; /* meaning of the numbers in the tables' keys, as far as it is known */
    enum durability durability;
    bool durability_given; /* the text sets it: a fleet with another durability refuses the job */
    struct {
        /* folder of the checkpoints, the same for coordinator and servers; empty: no checkpoints */
        char dir[LIMIT_PATH];
        bool at_end;            /* makes a checkpoint of the final tables */
        uint64_t every_batches; /* interval in batches of all lanes together; 0: not by batches */
        double every_minutes;   /* interval in minutes; 0: not by time */
        uint32_t keep;          /* number of unnamed checkpoints to keep; default 3; 0: all */
        uint32_t keep_named;    /* number of named ones to keep; default 0: all */
        /* a command and its arguments, run with the folder of a finished checkpoint as the last
         * argument; may be empty */
        struct string_list publish;
        uint32_t publish_limit_ms; /* a longer run of the command is stopped; default 600000 */
    } checkpoint;
    struct {
        uint32_t lease_ms; /* default 10000 */
    } coordinator;
    struct {
        /* share of replies that are lost on purpose, for tests; servers have this key in their own
         * file, too */
        double drop;
        uint32_t resend_ms;          /* default 1000 */
        enum value_kind values;      /* form of fp32 tables' rows on their way to a worker */
        enum packed_width gradients; /* width of sparse tables' gradients */
        enum value_kind dense;       /* form of a ring's sums (train.allreduce) */
    } net;
    struct {
        uint64_t max;  /* bytes; 0: max(1 GiB, row bytes) */
        uint64_t keep; /* bytes of the journal's archive, for blame; 0: no archive */
    } journal;
};

/* text: YAML, `bytes` long; name: for messages; set: "dotted.key=value" overrides, applied over the
 * file (a value is YAML: lists as [a, b]). On success *out is filled and the caller calls
 * job_free. */
int job_parse(const char *text, size_t bytes, const char *name, const struct string_list *set,
              struct job *out, struct err *e);
/* Reads a file first: NOINPUT when it is missing. Relative paths in data.* start at the current
 * folder. */
int job_load(const char *path, const struct string_list *set, struct job *out, struct err *e);
/* The YAML text of the file with `set` applied, checked as by job_parse: the text to submit. Keys
 * without effect are warned of here alone. *text owned by the caller (free). */
int job_text(const char *path, const struct string_list *set, char **text, struct err *e);
/* The text for programs that only read tables: without the line of names, and with the word
 * "hidden" in place of each command, of the input's and of checkpoint.publish. *out owned by the
 * caller (free). CONFIG, NOMEM; TOO_BIG: the text uses aliases and is too long when they are
 * written out. */
int job_text_bare(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e);
void job_free(struct job *j);
/* Parses "2026-03-04", "2026-03-04T05", "..T05:30", "..:59" in the zone, or "A..B", from A up to B,
 * into seconds since 1970. Returns false for other text. An hour that comes twice means both; an
 * hour that the zone leaves out is refused. */
bool job_span_parse(const char *text, const struct zone *zone, struct job_span *out);
/* 0 when rows and layers of `was` mean the same to `is`; else CONFIG, which names the first key of
 * input, tables or network that differs. */
int job_same_model(const struct job *was, const struct job *is, struct err *e);
/* True when rows have event times: from data.time, or from their partitions. */
bool job_timed(const struct job *j);
/* True when nothing is trained and nothing begins anew: the job must have exactly the model of the
 * tables. */
bool job_reads_only(const struct job *j);
/* Compares the tables alone, names and dims: for jobs whose fields are known by name
 * (proto/job/legend.h). */
int job_same_tables(const struct job *was, const struct job *is, struct err *e);
/* Compares the losses of the labels alone: a label that was 0 or 1 must not be read as a number. */
int job_same_losses(const struct job *was, const struct job *is, struct err *e);
/* The sum of the weights of the tasks' losses, above 0: the loss of several labels is divided by it
 * to make it a mean. */
double job_task_weights(const struct job *j);
/* The labels that are numbers, with the loss mse or huber: bit i is label i. */
uint32_t job_real_labels(const struct job *j);
/* The name of the loss of all labels together, as a key of the report: "logloss" where all have it,
 * else "loss". */
const char *job_loss_name(const struct job *j);
/* The name of train.early_stop.metric: "auc". */
const char *job_metric_name(enum early_metric m);
/* True where a smaller value of the metric is the better one. */
bool job_metric_falls(enum early_metric m);
/* True when training leaves out rows of data.train: by data.sample or data.negatives. */
bool job_draws(const struct job *j);
/* The number of lanes that the coordinator opens: train.lanes, or what it found there, or 2. */
uint32_t job_lanes(const struct job *j);
/* True when the rows of every batch of every lane are known before the epoch begins, whatever
 * workers are there: under bsp, and with train.dense: allreduce, where a lane's batch number is the
 * step of the network. */
bool job_dealt(const struct job *j);
/* The slices of a lane's batch: train.window. */
uint32_t job_window(const struct job *j);
/* Devices that a worker's lane computes on: stages times split. */
uint32_t job_sites(const struct job *j);
/* The rows of a lane's batch, the unit that is dealt, pulled, pushed and numbered: train.window
 * times train.batch, at most LIMIT_BATCH. */
uint32_t job_batch_rows(const struct job *j);
/* The key of the first input that is a command or has one (data.train: {cmd: ...}), or NULL. */
const char *job_command(const struct job *j);
/* The files of a split; *what: the key that names them. */
const struct string_list *job_input(const struct job *j, uint32_t split, const char **what);
const char *job_durability_name(enum durability d); /* "journal" */
const char *job_model_name(enum model_kind kind);   /* as in model.kind: "deepfm" */

#endif
