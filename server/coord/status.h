/* status.h: the status of a running job, as JSON text: phase, progress, lanes, workers,
 * servers. */
#ifndef SERVER_COORD_STATUS_H
#define SERVER_COORD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

/* The caller frees. NULL when out of memory. */
char *coord_status_text(struct coord_job *j);

/* Who is missing. A job waits for a server that is away as long as it takes (its
 * rows are on its disk), and for a worker to come; nobody shall have to guess that: it is in the
 * log once in 10 s, and in the status. Under durability memory there is nothing to wait for: the
 * job ends. */

/* Whether the job is held up by a server, a disk or what shards put off: then no worker is to
 * blame. */
bool coord_status_held_up(const struct coord_job *j);
/* A shard that has not been heard for longer than the coordinator's lease, and for how long. */
bool coord_status_silent(const struct coord_job *j, uint32_t shard, uint64_t *silent_ns);
/* On every tick of the coordinator. */
void coord_watch_tick(struct coord_job *j);

/* The job in one line for people (systemctl status). */
void coord_status_line(struct coord_job *j, char *text, size_t bytes);

#endif
