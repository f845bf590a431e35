/* status.h: the status of a running job, as JSON text: phase, progress, lanes, workers,
 * servers. */
#ifndef SERVER_COORD_STATUS_H
#define SERVER_COORD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

/* Returns the text, which the caller frees; NULL when out of memory. */
char *coord_status_text(struct coord_job *j);

/* Missing servers and workers. A job waits for a server that is away as long as it takes, since the
 * server's rows are on its disk, and for a worker to come. The log says so once in 10 s, and the
 * status says it too. Under durability memory the rows are lost with the server: the job waits for
 * it only if it can go back to a checkpoint, and otherwise ends. */

/* True when the job is held up by a server, a disk or a request that shards put off: then no worker
 * is to blame. */
bool coord_status_held_up(const struct coord_job *j);
/* True when a shard has not been heard for longer than the coordinator's lease; *silent_ns: for how
 * long. */
bool coord_status_silent(const struct coord_job *j, uint32_t shard, uint64_t *silent_ns);
/* Called on every tick of the coordinator. */
void coord_watch_tick(struct coord_job *j);

/* Writes the job in one line for people (systemctl status). */
void coord_status_line(struct coord_job *j, char *text, size_t bytes);

#endif
