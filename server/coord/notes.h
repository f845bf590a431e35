/* notes.h: what a person should know of how a job ended, as sentences for the report: the kept
 * evaluation is clearly worse than another one in what early stopping does not look at; the best
 * one's tables are not there; the limit of epochs, or of minutes, ended it while it still gained;
 * a full disk held it up; not all examples of training were told of. What a worker saw of the input
 * (worker/data/profile.h) stands in front, what is likely to be wrong with the figures
 * (server/coord/figures.h) behind it. */
#ifndef SERVER_COORD_NOTES_H
#define SERVER_COORD_NOTES_H

#include "proto/base/json.h"
#include "server/coord/core.h"

#define COORD_NOTES_MAX 64u /* of a worker's profile */

/* A list, empty where there is nothing to say. */
struct json *coord_notes_json(const struct coord_job *j);

#endif
