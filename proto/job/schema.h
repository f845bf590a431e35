/* schema.h: the schema of a table: its shape, initial values and optimizer. Plain values, the same
 * on every shard; a table's schema travels in TABLE_CREATE and is journalled. Two tables of one
 * name with different schemas are an error, except for the differences that schema_change
 * allows. */
#ifndef PROTO_JOB_SCHEMA_H
#define PROTO_JOB_SCHEMA_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/job/optimizer.h"

#include <stdint.h>

enum init_kind {
    INIT_ZERO = 0,
    INIT_UNIFORM = 1,  /* in (-scale, scale) */
    INIT_NORMAL = 2,   /* mean 0, deviation scale: sum of twelve uniforms less six */
    INIT_CONSTANT = 3, /* scale everywhere */
};

/* The stored form of a row's weights. State and statistics are always fp32, and so are the values
 * that are pulled and pushed. */
enum value_kind {
    VALUES_FP32 = 0,
    /* IEEE 754 binary16: 11 bits of precision, up to 65,504, steps of 2^-24 near 0 */
    VALUES_FP16 = 1,
    VALUES_BF16 = 2, /* the upper half of an fp32: 8 bits of precision, its range */
};

struct init_spec {
    enum init_kind kind;
    float scale;
};

struct optimizer_spec {
    enum optimizer_kind kind;
    float lr;
    float beta1, beta2, eps; /* adam; eps also adagrad */
    float initial;           /* adagrad, ftrl: the initial G */
    float l1, beta;          /* ftrl */
    /* adagrad, row_adagrad: G is multiplied by this before each g^2 is added; 1: plain */
    float decay;
    /* ftrl: its own l2. Others: decays a row's weights towards 0 for each batch of a lane, also for
     * batches that did not touch the row: the next touch makes up for them */
    float l2;
    uint32_t fixed_lr; /* 1: a push's lr_scale is ignored (running statistics) */
};

/* The rule for admitting a row. An appearance is an example that shows the key, where pushes carry
 * shows (`stats`); else a batch that has the key. A key without a row that is not admitted gives
 * zeros when pulled, and its gradients are dropped. */
enum admit_kind {
    ADMIT_ALL = 0,   /* at its first push */
    ADMIT_COUNT = 1, /* at its threshold-th appearance */
    /* at each appearance with probability threshold, drawn from (seed, key, lane, batch) */
    ADMIT_PROBABILITY = 2,
    ADMIT_SCORE = 3, /* once the score of its shows and clicks reaches threshold */
    ADMIT_NONE = 4,  /* never, except for keys that are allowed by name */
};
enum evict_by { EVICT_LRU = 0, EVICT_SCORE = 1 };

/* The rules for rows, beside their optimizer. They are one list, so that struct, wire, disk
 * (schema_field.h) and comparison always agree; all members have 4 bytes, and 0 means "off". A new
 * rule comes last: it needs a word here, a line in schema_field.c (its allowed change), limits in
 * schema_check, a key in keys_job.c and job_table.c, and its code in embedding/rows. The stored
 * form of tables that do not use it stays as it is. score_show, score_click  score of a row =
 * score_show * (show - click) + score_click * click admit_sketch    ADMIT_COUNT: cells of a
 * tablet's sketch, a power of two; 0: appearances are counted exactly, key by key admit_waiting
 * keys that one tablet counts at most while they wait; beyond it the oldest half is forgotten; 0:
 * 65,536, with a sketch a quarter of its cells age_every       seconds of event time between two
 * ageings of a tablet age_decay       at each ageing, show and click of a row are multiplied by
 * this; 0 counts as 1 age_score       an ageing then removes rows with a lower score age_ttl
 * and rows without a push for longer than so many seconds of event time age_capacity    rows that
 * one tablet may have; past it the least go at once, by age_by, down to 15/16 vector_score    a row
 * has its first-order weight alone until its score reaches this; then its vector begins weight_max
 * weights are kept within [-weight_max, weight_max] after each update by_shows        a row's
 * gradient is divided by the shows of the push norm_max        limit of the 2-norm of a row's
 * gradient: scaled down to it, or (norm_refuse) the push is refused */
/* not formatted, so that the list fills its lines */
/* clang-format off */
#define ROW_RULES(U32, F32) \
    U32(stats) F32(score_show) F32(score_click) U32(admit_kind) F32(admit_threshold) \
    U32(admit_sketch) U32(admit_waiting) U32(age_every) F32(age_decay) F32(age_score) U32(age_ttl) \
    U32(age_capacity) U32(age_by) F32(vector_score) F32(weight_max) U32(by_shows) F32(norm_max) \
    U32(norm_refuse) ROW_RULES_OWN(U32, F32)
/* clang-format on */
#ifndef ROW_RULES_OWN /* a program may add rules of its own */
#define ROW_RULES_OWN(U32, F32)
#endif
#define ROW_RULE_U32(n) uint32_t n;
#define ROW_RULE_F32(n) float n;
struct row_rules {
    ROW_RULES(ROW_RULE_U32, ROW_RULE_F32)
};

/* The statistics that a row keeps behind its optimizer's state where rules.stats is 1. Time is
 * event time in seconds since 1970. */
struct row_stats {
    float show, click;
    float delta_score; /* sum of its pushes' scores: in files, digests and exports, not shown */
    uint32_t time;     /* event time of the last push; 0: the push had none */
    uint32_t flags;    /* ROW_HAS_VECTOR */
};
_Static_assert(sizeof(struct row_stats) == 20, "row_stats is a disk format");
#define ROW_HAS_VECTOR 1u

/* Rules for the keys of one field, in place of the table's (a dense tensor is a field).
 * Little-endian, also on the wire. */
#define FIELD_HAS_INIT 1u
#define FIELD_HAS_ADMIT 2u
#define FIELD_HAS_TTL 4u
struct field_rule {
    uint32_t field;
    uint32_t has;  /* FIELD_HAS_*: the members below that count */
    uint32_t kind; /* enum init_kind */
    float scale;
    uint32_t admit_kind;
    float admit_threshold;
    uint32_t ttl;
};
_Static_assert(sizeof(struct field_rule) == 28, "field_rule is a wire format");

struct table_schema {
    char name[LIMIT_NAME];
    uint32_t table;        /* number, 0..LIMIT_TABLES-1, given by the coordinator */
    uint32_t dense;        /* 1: rows are blocks of dense tensors */
    uint32_t width;        /* floats of a row's weights, 1..LIMIT_WIDTH */
    uint32_t zero_first;   /* this many leading floats start at 0 (first-order weights) */
    uint32_t tablet_bits;  /* the table has 2^tablet_bits tablets */
    uint32_t tablet_first; /* the number of its tablet 0 in the numbering over all tables */
    uint64_t seed;         /* initial values are a function of (seed, key) */
    struct init_spec init;
    struct optimizer_spec optimizer;
    struct row_rules rules;
    uint32_t field_rule_count;                  /* at most LIMIT_FIELDS */
    struct field_rule field_rule[LIMIT_FIELDS]; /* sorted by field */
    uint32_t values;                            /* enum value_kind */
};

/* 0, or SHOAL_E_SCHEMA with the reason: every number within limits, floats finite, lr > 0, betas in
 * [0, 1). */
int schema_check(const struct table_schema *s, struct err *e);
/* A row's weights are its first-order weights (zero_first of them), then its vector, and the
 * optimizer's state by element has the same two parts in each of its blocks. So two tables with the
 * same number of floats in a row need not have the same meaning. struct schema_part is a part that
 * rows of both schemas have, in the same length: its offset in the weights of `from` and of `to`;
 * floats 0: they have no such part. */
struct schema_part {
    uint32_t from, to, floats;
};
uint32_t schema_vector(const struct table_schema *s); /* the vector's length */
struct schema_part schema_first_part(const struct table_schema *from,
                                     const struct table_schema *to);
struct schema_part schema_vector_part(const struct table_schema *from,
                                      const struct table_schema *to);
/* True when both describe the same table, bit for bit. */
int schema_equal(const struct table_schema *a, const struct table_schema *b);
/* For people: the first difference, with both values ("optimizer.lr is 0.1, not 0.2": a has 0.1);
 * empty when they are equal. The schemas are checked. Returns text. */
#define SCHEMA_DIFFERENCE_MAX 192
const char *schema_difference(const struct table_schema *a, const struct table_schema *b,
                              char text[SCHEMA_DIFFERENCE_MAX]);
/* The allowed change of a field in a table that has rows. Rows keep their bytes, so fields that
 * determine those bytes, or the names and places of tablets, must stay; all other fields count from
 * the change on. */
enum schema_change {
    SCHEMA_STAYS = 0, /* it may not change */
    /* while no row is in the store: a stored row ages by the schema of the day on which it is
     * loaded */
    SCHEMA_AGES = 1,
    SCHEMA_TURNS = 2, /* at any time */
    SCHEMA_SAME = 3,  /* it does not change */
};
/* The kind of a change from one checked schema to another: that of the field that may change least,
 * which `text` names as in schema_difference. Beside the rules of the fields (schema_field.c):
 * settings from which weights are computed (optimizer.h) must stay, and so must schema_has_last. */
enum schema_change schema_change(const struct table_schema *was, const struct table_schema *is,
                                 char text[SCHEMA_DIFFERENCE_MAX]);
/* "fp32", "fp16", "bf16". The schema is checked. */
const char *schema_values_name(const struct table_schema *s);
/* True when rows keep the last batch that touched them, for l2: a float behind the optimizer's own
 * state. */
int schema_has_last(const struct table_schema *s);
/* The floats of a row behind its weights: optimizer state (optimizer.h), one more with
 * schema_has_last, struct row_stats with rules.stats. */
uint32_t schema_state_floats(const struct table_schema *s);
/* The size of a row's weights as they are stored, in places of 4 bytes: width, or half of it
 * rounded up; and the size of the whole row. */
uint32_t schema_weight_floats(const struct table_schema *s);
uint32_t schema_row_floats(const struct table_schema *s);
/* The offset of struct row_stats in a stored row, in places of 4 bytes. Only with rules.stats. */
uint32_t schema_stats_at(const struct table_schema *s);
/* The floats of one key in a push: its gradient (width), then with rules.stats its shows and clicks
 * in the batch. */
uint32_t schema_push_floats(const struct table_schema *s);
/* The rule of a field, or NULL. */
const struct field_rule *schema_field_rule(const struct table_schema *s, uint32_t field);
/* True when an absent key gives zeros when pulled: a rule, and not the first push, decides about
 * its row. */
int schema_absent_zero(const struct table_schema *s, uint32_t field);

#endif
