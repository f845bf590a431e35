/* synth.h: synthetic click logs, each drawn from a known teacher.
 *
 * CRITEO: in the format of the Criteo challenge. A row has 13 integers (some empty) and 26
 * categories whose values follow Zipf's law (exponent 1.05), with 24 to a million values a field.
 * The teacher's logit is the sum of an effect of every value, products of hidden factors of a few
 * pairs of fields, and effects of the numbers; the label is drawn from it. So no model can exceed
 * the AUC, or beat the logloss, of the teacher's own probabilities on the file, except by luck.
 * Most of the signal lies in frequent values, so that a model can learn it.
 *
 * SEQUENCE: csv, label,user,item,history. The history is 4 to 20 items, "a|b|c", the latest one
 * last. Items have classes that the file does not show. A click is likely when the item's class is
 * among those of the last SYNTH_RECENT items. A model has to weigh the history by the item to find
 * that.
 *
 * TASKS: csv, click,buy and eight categories. Every purchase has a click; the teachers of the two
 * labels share a part of their effects.
 *
 * The bytes are a function of (seed, part, rows) alone, computed without libm. Part 0 is for
 * training, part 1 for validation: other rows of the same teacher. */
#ifndef DEPLOY_CLI_SYNTH_H
#define DEPLOY_CLI_SYNTH_H

#include "proto/base/err.h"

#include <stdint.h>

#define SYNTH_NUMBERS 13u
#define SYNTH_FIELDS 26u
#define SYNTH_RECENT 8u
#define SYNTH_LABELS 2u /* at most */

enum synth_kind { SYNTH_CRITEO, SYNTH_SEQUENCE, SYNTH_TASKS };

struct synth_field {
    uint64_t salt;
    double reach;    /* 1 - (values + 1)^(-1/20) */
    double weight;   /* weight of its values' effects */
    uint32_t values; /* number of values */
    uint32_t empty;  /* 1: the most frequent value is written as an empty cell */
};

struct synth_teacher {
    enum synth_kind kind;
    uint64_t seed;
    /* CRITEO only: */
    struct synth_field field[SYNTH_FIELDS];
    double scale[3]; /* scales of value effects, pairs, numbers */
    double bias;
};

struct synth_score {
    double rate;         /* share of positive labels */
    double auc, logloss; /* the teacher's, on these rows */
};

struct synth_result {
    uint64_t rows;
    uint32_t labels;
    struct synth_score label[SYNTH_LABELS];
};

/* Makes the teacher of a seed. It takes some 10 ms: scales are set from a sample, so that every
 * seed gives about the same label rate and AUC. */
void synth_teacher_make(enum synth_kind kind, uint64_t seed, struct synth_teacher *t);
/* The names of a csv kind's label columns; all kinds have the first one. */
const char *synth_label(enum synth_kind kind, uint32_t label);

#endif
