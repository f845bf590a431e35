/* score_format.h: which kind of file predictions become. */
#ifndef PROTO_JOB_SCORE_FORMAT_H
#define PROTO_JOB_SCORE_FORMAT_H

#include "proto/base/err.h"
#include "proto/job/option.h"

enum score_format { SCORE_CSV, SCORE_TSV, SCORE_NPY };

/* As --format calls it. */
const char *score_format_name(enum score_format format);
/* By --format, else by the end of --out, else csv. USAGE: --out ends as a file does that this would
 * not be, a packed one or one of another format. */
int score_format_of(const struct option_line *o, enum score_format *out, struct err *e);

#endif
