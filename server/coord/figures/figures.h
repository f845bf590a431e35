/* figures.h: sentences about figures of an evaluation that usually point to a mistake: too good, no
 * better than chance, or not finite. */
#ifndef SERVER_COORD_FIGURES_FIGURES_H
#define SERVER_COORD_FIGURES_FIGURES_H

#include "proto/base/json.h"
#include "proto/metric/metric.h"

#include <stdint.h>

/* Adds to `list` at most one sentence about the figures `m` of `where` ("data.valid"). passes: how
 * often the tables have learnt the log; with 0 or 1 the sentence does not advise fewer epochs.
 * profile: that of the input (worker/data/profile.h), or NULL. */
void coord_figures_note(const struct metric *m, const char *where, uint32_t passes,
                        const struct json *profile, struct json *list);
/* "auc 0.812345, logloss 0.412345", or "rmse 3.14159, mae 2.71828". Returns out. */
#define COORD_FIGURES_TEXT 64
const char *coord_figures_text(const struct metric *m, char out[COORD_FIGURES_TEXT]);
/* Adds a sentence if training ended with a logloss that only a diverged model has. */
void coord_figures_diverged(double logloss, struct json *list);
/* data.negatives: adds a sentence if so few negatives were learnt that the correction of
 * predictions is a guess. */
void coord_figures_negatives(uint64_t negatives, uint64_t positives, double share,
                             struct json *list);

#endif
