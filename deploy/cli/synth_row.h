/* synth_row.h: one row of a synthetic log, shared by the teachers (synth_teacher.c: criteo,
 * synth_kinds.c: the others) and the writer (synth.c). */
#ifndef DEPLOY_CLI_SYNTH_ROW_H
#define DEPLOY_CLI_SYNTH_ROW_H

#include "deploy/cli/synth.h"

#include <stdbool.h>

#define SYNTH_PAIRS 6u
#define SYNTH_ROW_BYTES 1024u

struct synth_row {
    int64_t number[SYNTH_NUMBERS];
    bool present[SYNTH_NUMBERS];
    uint32_t rank[SYNTH_FIELDS]; /* the value's rank in its field; 1 is the most frequent */
    double draw;                 /* uniform in [0, 1): the label is draw < probability */
    double logit;                /* the teacher's */
    bool label;
};

void synth_row_draw(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row,
                    struct synth_row *row);
double synth_row_probability(double logit);
double synth_row_normal(uint64_t hash); /* close to normal, mean 0, deviation 1 */
char *synth_row_put_number(char *to, int64_t x);

/* The teacher's knowledge of a row. */
struct synth_truth {
    double probability[SYNTH_LABELS];
    bool label[SYNTH_LABELS];
};
/* Writes a row of a csv kind as text, at most SYNTH_ROW_BYTES. Returns its end. */
char *synth_row_kind_put(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row,
                         char *to, struct synth_truth *truth);
/* The header line of a csv kind; empty for criteo. */
const char *synth_row_kind_head(enum synth_kind kind);

#endif
