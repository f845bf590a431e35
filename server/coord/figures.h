/* figures.h: sentences on figures of an evaluation that are hardly ever what they seem: too good,
 * no better than nothing, or not finite any more. */
#ifndef SERVER_COORD_FIGURES_H
#define SERVER_COORD_FIGURES_H

#include "proto/base/json.h"
#include "proto/metric/metric.h"

#include <stdint.h>

/* Adds to `list` what is said of figures `m` of `where` ("data.valid"): at most one sentence.
 * passes: how often the tables have learnt the log; with 0 or 1 the sentence does not advise fewer
 * epochs. profile: of the input (worker/data/profile.h), or NULL. */
void coord_figures_note(const struct metric *m, const char *where, uint32_t passes,
                        const struct json *profile, struct json *list);
/* A logloss of training beyond what any model that learns has. */
void coord_figures_diverged(double logloss, struct json *list);
/* data.negatives: so few of the examples learnt were negatives that predictions are corrected by a
 * guess. */
void coord_figures_negatives(uint64_t negatives, uint64_t positives, double share,
                             struct json *list);

#endif
