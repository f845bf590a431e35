/* score_format.h: the file format of predictions. */
#ifndef PROTO_JOB_SCORE_FORMAT_H
#define PROTO_JOB_SCORE_FORMAT_H

#include "proto/base/err.h"
#include "proto/job/option.h"

enum score_format { SCORE_CSV, SCORE_TSV, SCORE_NPY };

/* The format's name in --format. */
const char *score_format_name(enum score_format format);
/* Takes the format from --format, else from the end of --out, else csv. USAGE: the end of --out
 * belongs to a file of another kind, a compressed one or one of another format. */
int score_format_of(const struct option_line *o, enum score_format *out, struct err *e);

#endif
