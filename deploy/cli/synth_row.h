/* synth_row.h: one row of the made-up log, between the teacher (synth_teacher.c) and the writer (synth.c). */
#ifndef DEPLOY_CLI_SYNTH_ROW_H
#define DEPLOY_CLI_SYNTH_ROW_H

#include "deploy/cli/synth.h"

#include <stdbool.h>

#define SYNTH_PAIRS 6u

struct synth_row {
    int64_t number[SYNTH_NUMBERS];
    bool present[SYNTH_NUMBERS];
    uint32_t rank[SYNTH_FIELDS]; /* of the value in its field, from 1, the most frequent */
    double draw;                 /* uniform in [0, 1): the label is draw < probability */
    double logit;                /* of the teacher */
    bool label;
};

void synth_row_draw(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row, struct synth_row *row);
double synth_probability(double logit);

#endif
