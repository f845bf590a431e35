/* labels.h: checks by a sample of lines that the labels of a split can teach anything.
 *
 * A wrong data.label or data.label_above makes no line malformed: the model would learn a constant.
 * A job therefore warns when its input is indexed. */
#ifndef WORKER_DATA_LABELS_H
#define WORKER_DATA_LABELS_H

#include "worker/data/feature.h"
#include "worker/data/index.h"

/* Writes a sentence with a suspicion and its remedy, or "" when there is none or nothing can be
 * read. */
void labels_look(const struct source *s, const struct index *x, const struct features *f,
                 char text[ERR_TEXT_MAX]);

#endif
