/* status.h: the status of a running job, as JSON: phase, progress, lanes, workers, servers, what is
 * wrong. */
#ifndef SERVER_COORD_JOB_STATUS_H
#define SERVER_COORD_JOB_STATUS_H

#include "proto/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

/* The caller frees it; NULL when out of memory. */
struct json *coord_status_json(struct coord_job *j);
/* Returns its text, which the caller frees; NULL when out of memory. */
char *coord_status_text(struct coord_job *j);

/* Sums the rates of the workers that are heard, each by its own beats; NaN: the job trains, and no
 * rate is known yet. */
double coord_status_rate(const struct coord_job *j);
/* Writes one sentence on what the job waits for; false, and an empty text: nothing. */
bool coord_status_waits(const struct coord_job *j, char *text, size_t bytes);

/* Missing servers and workers. A job waits for a server that is away as long as it takes, since the
 * server's rows are on its disk, and for a worker to come. The log says so once in 10 s, and the
 * status says it too. Under durability memory the rows are lost with the server: the job waits for
 * it only if it can go back to a checkpoint, and otherwise ends. */

/* Called on every tick of the coordinator. */
void coord_watch_tick(struct coord_job *j);

/* Writes the job in one line for people (systemctl status). */
void coord_status_line(struct coord_job *j, char *text, size_t bytes);

#endif
