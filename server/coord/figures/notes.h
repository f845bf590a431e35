/* notes.h: sentences for the report on how a job ended that a person should know. The kept
 * evaluation is clearly worse than another one in a figure that early stopping ignores; the tables
 * of the best evaluation are not there; the limit of epochs or of minutes ended the job while it
 * still gained; a full disk held it up; there were more workers than lanes; some examples of
 * training were not reported. Notes on the input that a worker saw (worker/data/profile.h) come
 * first, notes on figures that are probably wrong (server/coord/figures/figures.h) last. */
#ifndef SERVER_COORD_FIGURES_NOTES_H
#define SERVER_COORD_FIGURES_NOTES_H

#include "proto/base/json.h"
#include "server/coord/core/core.h"

#define COORD_NOTES_MAX 64u /* notes from a worker's profile */

/* Adds a note when the job has fewer lanes than so many workers: those beyond them do nothing. */
void coord_notes_lanes(const struct coord_job *j, uint32_t workers, struct json *list);
/* Returns the list, empty when there is nothing to say. */
struct json *coord_notes_json(const struct coord_job *j);

#endif
