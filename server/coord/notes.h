/* notes.h: what a person should know of how a job ended, as sentences for the report: the kept
 * evaluation is clearly worse than another one in what early stopping does not look at; the best
 * one's tables are not there; the limit of epochs, or of minutes, ended it while it still gained;
 * a full disk held it up; not all examples of training were told of. */
#ifndef SERVER_COORD_NOTES_H
#define SERVER_COORD_NOTES_H

#include "proto/base/json.h"
#include "server/coord/core.h"

/* A list, empty where there is nothing to say. */
struct json *coord_notes_json(const struct coord_job *j);

#endif
