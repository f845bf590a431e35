/* labels.h: whether the labels of a split can teach anything, by a sample of its lines.
 *
 * A wrong data.label or data.label_above is no error of any line: all of them are good, and the
 * model learns to say always the same. So a job says it when its input is indexed. */
#ifndef WORKER_DATA_LABELS_H
#define WORKER_DATA_LABELS_H

#include "worker/data/feature.h"
#include "worker/data/index.h"

/* One sentence on what looks wrong and what to do; empty when nothing does, or nothing can be
 * read. */
void labels_look(const struct source *s, const struct index *x, const struct features *f,
                 char text[ERR_TEXT_MAX]);

#endif
