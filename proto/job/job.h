/* job.h: job.yaml as a plain value: what the coordinator, the workers and the command line must
 * agree on.
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
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum column_type { COLUMN_SKIP, COLUMN_LABEL, COLUMN_CATEGORY, COLUMN_MULTI, COLUMN_NUMBER };
enum time_unit { TIME_SECONDS, TIME_MILLISECONDS, TIME_MICROSECONDS }; /* of a number since 1970 */
/* How event times are written. */
struct time_form {
    enum time_unit unit; /* of a time that is a number; default seconds */
    bool any;            /* the file says seconds: numbers before 1995 are meant */
    uint32_t bytes;      /* of all times of the format; 0: they differ */
    char format[64];     /* strptime's; empty: numbers, and dates as ISO has them */
};
/* log1p: sign(x) log(1 + |x|); bucket: floor(log2) as a category */
enum number_transform { NUMBER_NONE, NUMBER_LOG1P, NUMBER_BUCKET };
/* attention: the values stay apart, in order, for a model that weighs them against a target
 * (din). */
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
};
enum activation { ACT_RELU, ACT_TANH, ACT_SIGMOID, ACT_NONE }; /* none: a layer's, not a job's */
enum norm_kind { NORM_NONE, NORM_BATCH, NORM_LAYER };
enum interaction { INTERACT_DOT, INTERACT_CAT };
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISION_FP16 };
enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_STEP };
enum early_metric { METRIC_AUC, METRIC_LOGLOSS, METRIC_GAUC };
enum durability { DURABLE_MEMORY, DURABLE_JOURNAL, DURABLE_FSYNC };
enum backend_kind { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA };

struct string_list {
    char **item; /* owned */
    size_t count;
};

#define COLUMN_PADDING 16u /* bytes, with NUL */

struct column {
    char name[LIMIT_NAME];
    enum column_type type;
    bool id;                      /* its values are whole numbers and stand in keys as they are */
    char separator;               /* of a MULTI value; '|' by default */
    enum pooling pooling;         /* of a MULTI field */
    char padding[COLUMN_PADDING]; /* of a MULTI: the value that fills cells up; empty: none does */
    /* another column whose rows this one uses: the same value is the same key; empty: its own */
    char share[LIMIT_NAME];
    char attend[LIMIT_NAME]; /* pooling attention: the column of the target; empty otherwise */
    uint32_t max;            /* of a MULTI: the last `max` values count; 0: all */
};

/* Widths of the layers of a network. */
struct widths {
    uint32_t at[16];
    uint32_t count;
};

/* Other rules for the keys of one field of a table. The field's number is known with the columns of
 * the input (model_shape.rule_field); rule.field is not filled. */
struct job_field_rule {
    char field[LIMIT_NAME];
    struct field_rule rule;
};

struct job_table {
    char name[LIMIT_NAME]; /* no two tables have one name */
    /* owned: columns whose rows lie here; none: all that no other table names */
    struct string_list fields;
    int fields_line; /* of the job file, for messages about them; without, the table's */
    uint32_t dim;
    uint32_t tablets; /* power of two; 0: 1024 */
    struct init_spec init;
    uint64_t seed;
    struct optimizer_spec optimizer;
    uint32_t values;        /* enum value_kind */
    struct row_rules rules; /* as in the schema, but for age_capacity, which is of a tablet: 0 */
    uint64_t capacity;      /* rows of the whole table; 0: any number */
    struct job_field_rule *rule; /* owned (rule_count); no field twice */
    size_t rule_count;
};

#define LIMIT_REPLAY_OUT 64u
struct job_span {
    uint32_t from, to; /* event time, seconds since 1970: up to `to`, not with it */
};

#define JOB_SPLITS 3u /* by enum wire_split: data.train, data.valid, data.test */

struct job {
    char name[LIMIT_NAME];
    char space[LIMIT_NAME]; /* by default the job's name */
    struct {
        enum data_format format;
        /* files, globs, or "-"; "cmd:" prefix for {cmd: "..."} inputs */
        struct string_list train, valid, test;
        /* Of a split: its files, or what commands list and open, one by one; each is opened by who
         * trains or scores it. */
        struct {
            struct {
                bool on;
                char *list, *open; /* owned; commands; NULL: of files */
            } of[JOB_SPLITS];
            uint32_t quiet_s; /* without a byte of a command */
            uint32_t tries;
            bool leave_out;   /* what cannot be read */
            uint32_t grow_ms; /* between two lists; 0: what is listed at the start is all */
            bool all_new;     /* the tables have learnt nothing of it but what they know of */
        } objects;
        char *head; /* owned; of objects: the first line of one; no part of the file. Or NULL */
        /* columns by name or number; one, "0", by default; several: a task each */
        char label[LIMIT_TASKS][LIMIT_NAME];
        uint32_t label_count;
        double label_above;      /* label = value > label_above; default 0 */
        bool label_parted;       /* the job gives it */
        char weight[LIMIT_NAME]; /* column of the examples' weights; empty: all weigh 1 */
        char time[LIMIT_NAME];   /* column of the examples' event times; empty: none is known */
        /* of names, which tell the times of rows where `time` is empty; step 0: there is none */
        struct partition partition;
        struct time_form time_form;
        uint32_t time_limit; /* later event times are clamped to it; 0: none are */
        struct zone zone;    /* of times without one, and of windows of event time; default UTC */
        /* of one label: share of the examples without a positive one that training keeps; 1: all.
         * Predictions are corrected for it */
        double negatives;
        bool header;    /* csv: first line names the columns; default true */
        char delimiter; /* csv; default ',' */
        /* owned; csv: names and types; columns not in it are categories, but for the label */
        struct column *column;
        size_t column_count;
        double max_bad; /* share of malformed lines allowed; default 0.001 */
        /* folder for decoded input and indexes; default "shoal-cache" under the run folder or
         * TMPDIR */
        char cache[LIMIT_PATH];
        /* bytes of parsed rows in it, if the job names it; 0: none are kept */
        uint64_t cache_max;
        bool shuffle; /* default true: rows of an epoch in an order drawn from (seed, epoch) */
        uint32_t shuffle_within; /* seconds of event time; 0: over the whole input */
        bool shuffle_said;       /* the file says which */
        /* Labels that come late: the files above are impressions without one, clicks name them. */
        struct {
            bool on;
            struct string_list clicks;
            char id[LIMIT_NAME], click_id[LIMIT_NAME], click_time[LIMIT_NAME]; /* columns */
            uint32_t window, keep, disorder; /* seconds of event time */
            bool learn;                      /* late clicks: else they are counted */
            uint64_t memory, checkpoint;     /* bytes */
        } join;
    } data;
    struct {
        bool fields_auto;             /* `fields: auto` */
        struct string_list fields;    /* else names of columns used */
        enum number_transform number; /* default log1p for criteo, none else */
    } features;
    /* owned; the sparse tables: 1 to LIMIT_JOB_TABLES, at most one of them without `fields` */
    struct job_table *table;
    size_t table_count;
    struct {
        enum model_kind kind;
        struct widths hidden;  /* the network; default 400, 400, 400 */
        struct widths hidden2; /* finalmlp: the second stream; default: as hidden */
        /* dlrm: the network over the numbers, without its last layer, which has dim outputs */
        struct widths bottom;
        struct widths cin;              /* xdeepfm: feature maps of each layer; default 100, 100 */
        struct widths tower;            /* mmoe, ple: a task's own network; default 64 */
        struct widths attention_hidden; /* din: the network that weighs a value; default 80, 40 */
        struct widths gate_hidden;      /* finalmlp: of the feature gates; default: no gates */
        /* finalmlp: columns whose vectors the gates look at; default: empty, a learned vector */
        char gate_field[2][LIMIT_NAME];
        uint32_t cross_layers;                    /* dcnv2; default 3 */
        uint32_t heads;                           /* autoint, finalmlp; default 2 */
        uint32_t attention_layers, attention_dim; /* autoint; default 3, 64 (all heads together) */
        enum interaction interaction;             /* dlrm; default dot */
        uint32_t experts;                         /* mmoe: all; ple: shared; default 4 */
        uint32_t own_experts;                     /* ple: of each task; default 2 */
        uint32_t levels;                 /* ple: of experts and gates, one on another; default 1 */
        uint32_t top_k;                  /* mmoe, ple: experts that a gate lets through; 0: all */
        double task_weight[LIMIT_TASKS]; /* of the tasks' losses; default 1; not all 0 */
        double dropout;
        enum norm_kind norm;
        enum activation activation;
        double l2;       /* on touched rows of the sparse tables: gradient += l2 * weight */
        double l2_dense; /* on weights of the network, not biases */
    } model;
    struct optimizer_spec dense_optimizer;
    struct {
        uint32_t batch;
        uint32_t epochs;
        bool skip;          /* only load a checkpoint's tables and evaluate data.test */
        double max_minutes; /* of training; 0: no limit */
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
        uint32_t lanes; /* 0: one a worker slot, 2 by default */
        enum backend_kind backend;
        uint64_t seed;
        uint32_t task_batches; /* batches of a task; 0: chosen by the coordinator */
        /* share of batches that may be refused for their gradients, 10 in any case; 0: none */
        double max_refused;
        /* learning rates rise evenly over the first `warmup` batches of a lane; 0: at once */
        uint32_t warmup;
        struct {
            enum schedule_kind kind; /* after the warm-up; default constant */
            /* of a lane: linear, cosine: when the floor is reached; step: between steps */
            uint32_t batches;
            double floor;  /* share of the rate that is left; default 0 */
            double factor; /* step: what a step multiplies by; default 0.1 */
        } schedule;
        /* the dense gradients of a batch are scaled to this norm where theirs is larger; 0:
         * never */
        double clip_dense;
        double clip_row;          /* likewise the gradient of each sparse row */
        enum precision precision; /* of matrix products; weights, sums and gradients are fp32 */
        bool deterministic;       /* default true: the same bits at every run of the same kernels */
        uint32_t read_ahead; /* batches a lane reads and parses ahead; 0: chosen from the cores */
        struct {
            /* of a lane's cache of hot rows, in the memory of the backend; 0: none */
            uint64_t rows;
            /* async: how long a cached row may serve; under a bound the bound says it */
            uint32_t batches;
        } cache;
    } train;
    struct {
        /* field by whose values AUC is also taken group by group; empty: none */
        char group[LIMIT_NAME];
        struct string_list by; /* fields by whose values calibration is told */
        uint32_t buckets;      /* of the calibration curve; default 20 */
        /* examples up to which AUC is exact; beyond it is taken from buckets of scores; default 20
         * million */
        uint64_t exact;
        /* data.valid within epochs: batches of all lanes, minutes of training; 0: not by these */
        uint64_t every_batches;
        double every_minutes;
    } evaluate;
    /* A log taken in the order in which things happened, its epoch cut at the ends of days. */
    struct {
        bool on;         /* the file has such a section */
        bool checkpoint; /* one at each end of a day */
        uint32_t window; /* seconds: no batch is of two windows, and all of one are given out
                            * before those of the next */
        uint32_t every;  /* seconds from one end of a day to the next: whole windows */
        struct job_span range, out[LIMIT_REPLAY_OUT]; /* range.to 0: no end */
        uint32_t outs;
        double pace; /* seconds of event time to one of the clock; 0: as fast as it goes */
    } replay;
    /* No keys of the file, for it is no matter of training: whose data.test is scored without need
     * of labels (worker/train/evaluator.h). */
    struct {
        bool on;
        struct string_list columns; /* passed on as they stand */
    } predict;
    /* where a checkpoint is, as the job's author names it: the job goes on from it, or begins with
     * its tables; empty: none */
    char resume[LIMIT_PATH], start_from[LIMIT_PATH];
    /* names of fields and tensors that begin anew although the tables of start_from have them */
    struct string_list fresh;
    bool fresh_all;       /* what the servers hold goes first; then there are no names */
    struct legend legend; /* what the numbers in the tables' keys mean, as far as they are known */
    enum durability durability;
    bool durability_given; /* in the text: a fleet whose servers say otherwise is refused */
    struct {
        /* folder of the checkpoints, the same one for coordinator and servers; empty: none are
         * made */
        char dir[LIMIT_PATH];
        bool at_end;            /* one of the tables that the job ends with */
        uint64_t every_batches; /* of all lanes together; 0: not by batches */
        double every_minutes;   /* 0: not by time */
        uint32_t keep;          /* so many of those without a name; default 3; 0: all */
        uint32_t keep_named;    /* of those with one; default 0: all */
        /* a command and its arguments, run with a finished one's folder behind them; may be
         * empty */
        struct string_list publish;
        uint32_t publish_limit_ms; /* the command is ended when it takes longer; default 600000 */
    } checkpoint;
    struct {
        uint32_t lease_ms; /* default 10000 */
    } coordinator;
    struct {
        /* share of replies lost on purpose, for tests; servers read it from their own file too */
        double drop;
        uint32_t resend_ms; /* default 1000 */
    } net;
    struct {
        uint64_t max;  /* bytes; 0: max(1 GiB, row bytes) */
        uint64_t keep; /* bytes of the journal's archive, for blame; 0: none */
    } journal;
};

/* text: YAML, `bytes` long; name: for messages; set: "dotted.key=value" overrides, applied over the
 * file (a value is YAML: lists as [a, b]). On success *out is filled and the caller calls
 * job_free. */
int job_parse(const char *text, size_t bytes, const char *name, const struct string_list *set,
              struct job *out, struct err *e);
/* Reads a file first: NOINPUT when it is missing. Relative paths in data.* are taken from the
 * current folder. */
int job_load(const char *path, const struct string_list *set, struct job *out, struct err *e);
/* The YAML text of the file with `set` applied, checked as by job_parse: what is submitted. *text
 * owned by the caller (free). */
int job_text(const char *path, const struct string_list *set, char **text, struct err *e);
/* The text for those who read tables alone: without the line of names, and with the word "hidden"
 * in the place of each command, of the input's and of checkpoint.publish. *out owned by the caller
 * (free). CONFIG, NOMEM; TOO_BIG: a text of aliases, each written out. */
int job_text_bare(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e);
void job_free(struct job *j);
/* "2026-03-04", "2026-03-04T05", "..T05:30", "..:59" in the zone, seconds since 1970, or "A..B",
 * from A up to B: whether it is one. An hour that comes twice is both, one left out is none. */
bool job_span_parse(const char *text, const struct zone *zone, struct job_span *out);
/* Whether rows and layers of `was` mean the same to `is`: 0, or CONFIG, which names the first key
 * of input, tables or network that decides otherwise. */
int job_same_model(const struct job *was, const struct job *is, struct err *e);
/* Whether rows have event times: of data.time, or of the partitions that they lie in. */
bool job_timed(const struct job *j);
/* Nothing is trained and nothing begins anew: the job is of the very model of the tables. */
bool job_reads_only(const struct job *j);
/* Of tables alone, names and dims: where the fields are known by name (proto/job/legend.h). */
int job_same_tables(const struct job *was, const struct job *is, struct err *e);
/* Sum of the weights of the tasks' losses, above 0: what divides the loss of several labels to make
 * it a mean. */
double job_task_weights(const struct job *j);
/* Lanes that the coordinator opens: train.lanes, or 2. */
uint32_t job_lanes(const struct job *j);
/* The key of the first input that is or has a command (data.train: {cmd: ...}), or NULL. */
const char *job_command(const struct job *j);
/* The files of a split; *what: their key. */
const struct string_list *job_input(const struct job *j, uint32_t split, const char **what);
const char *job_durability_name(enum durability d); /* "journal" */
const char *job_model_name(enum model_kind kind);   /* as in model.kind: "deepfm" */

#endif
