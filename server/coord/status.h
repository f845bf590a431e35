/* status.h: the status of a running job, as JSON text: phase, progress, lanes, workers,
 * servers. */
#ifndef SERVER_COORD_STATUS_H
#define SERVER_COORD_STATUS_H

struct coord;

/* The caller frees. NULL when out of memory. */
char *coord_status_text(struct coord *c);

#endif
