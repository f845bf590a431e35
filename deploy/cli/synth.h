/* synth.h: a made-up click log in the format of the Criteo challenge, drawn from a teacher that is known.
 *
 * A row has 13 integers (some empty) and 26 categories whose values follow Zipf's law (exponent 1.05) over 24 to a
 * million values a field. The teacher's logit is the sum of an effect of every value, products of hidden factors of a
 * few pairs of fields, and effects of the numbers; the label is drawn from it. So the AUC and logloss of the teacher's
 * own probabilities are the best that any model can reach on the file, but for luck. Most of the signal lies in values
 * that come often, so that a model can learn it.
 *
 * The bytes are a function of (seed, part, rows) alone: no libm on that way. Part 0 is for training, part 1 for
 * validation: other rows of the same teacher. */
#ifndef DEPLOY_CLI_SYNTH_H
#define DEPLOY_CLI_SYNTH_H

#include "proto/base/err.h"

#include <stdint.h>

#define SYNTH_NUMBERS 13u
#define SYNTH_FIELDS 26u

struct synth_field {
    uint64_t salt;
    double reach;    /* 1 - (values + 1)^(-1/20) */
    double weight;   /* of the effects of its values */
    uint32_t values; /* how many it has */
    uint32_t empty;  /* 1: the most frequent value is written as an empty cell */
};

struct synth_teacher {
    uint64_t seed;
    struct synth_field field[SYNTH_FIELDS];
    double scale[3]; /* of value effects, pairs, numbers */
    double bias;
};

struct synth_result {
    uint64_t rows;
    double label_rate;
    double auc, logloss; /* of the teacher on these rows */
};

/* The teacher of a seed. Costs some 10 ms: scales are set by a sample, so that every seed gives about the same label
 * rate and AUC. */
void synth_teacher_make(uint64_t seed, struct synth_teacher *t);
/* Writes PATH and PATH.teacher.json, each under a temporary name first. CANTCREATE, IO, NOMEM. */
int synth_write(const struct synth_teacher *t, uint64_t part, uint64_t rows, const char *path, struct synth_result *out,
                struct err *e);

#endif
