/* synth.h: made-up click logs, each drawn from a teacher that is known.
 *
 * CRITEO: in the format of the Criteo challenge. A row has 13 integers (some empty) and 26
 * categories whose values follow Zipf's law (exponent 1.05) over 24 to a million values a field.
 * The teacher's logit is the sum of an effect of every value, products of hidden factors of a few
 * pairs of fields, and effects of the numbers; the label is drawn from it. So the AUC and logloss
 * of the teacher's own probabilities are the best that any model can reach on the file, but for
 * luck. Most of the signal lies in values that come often, so that a model can learn it.
 *
 * SEQUENCE: csv, label,user,item,history. The history is 4 to 20 items, "a|b|c", the last one
 * latest. Items have classes that the file does not tell; a click is likely when the item's class
 * is among those of the last SYNTH_RECENT. A model has to weigh the history by the item to find
 * that.
 *
 * TASKS: csv, click,buy and eight categories. Who buys has clicked; the teachers of the two share a
 * part of their effects.
 *
 * The bytes are a function of (seed, part, rows) alone: no libm on that way. Part 0 is for
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
    double weight;   /* of the effects of its values */
    uint32_t values; /* how many it has */
    uint32_t empty;  /* 1: the most frequent value is written as an empty cell */
};

struct synth_teacher {
    enum synth_kind kind;
    uint64_t seed;
    /* CRITEO: */
    struct synth_field field[SYNTH_FIELDS];
    double scale[3]; /* of value effects, pairs, numbers */
    double bias;
};

struct synth_score {
    double rate;         /* of the label */
    double auc, logloss; /* of the teacher on these rows */
};

struct synth_result {
    uint64_t rows;
    uint32_t labels;
    struct synth_score label[SYNTH_LABELS];
};

/* The teacher of a seed. Costs some 10 ms: scales are set by a sample, so that every seed gives
 * about the same label rate and AUC. */
void synth_teacher_make(enum synth_kind kind, uint64_t seed, struct synth_teacher *t);
/* The columns of a csv kind that are labels; the first is that of every kind. */
const char *synth_label(enum synth_kind kind, uint32_t label);

#endif
