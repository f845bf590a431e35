/* operator.h: the requests of people and of their tools that concern the coordinator as a whole:
 * jobs that are taken, stopped and listed, and orders about tables, checkpoints and servers. A
 * request that needs a look at a folder is handed in again when the errand has looked (dispatch.h).
 *
 * Each handler returns 0 or a status, with its sentence in a->e. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_OPERATOR_H
#define SERVER_COORD_OPERATOR_H

struct coord;
struct coord_ask;
struct coord_job;

int coord_operator_submit(struct coord *c, struct coord_ask *a);
int coord_operator_remove(struct coord *c, struct coord_ask *a); /* a checkpoint */
int coord_operator_moves(struct coord *c, struct coord_ask *a);
int coord_operator_replace(struct coord *c, struct coord_ask *a);
int coord_operator_status(struct coord *c, struct coord_ask *a);
int coord_operator_stop(struct coord *c, struct coord_ask *a);
int coord_operator_drop(struct coord *c, struct coord_ask *a);
int coord_operator_import(struct coord *c, struct coord_ask *a);
int coord_operator_jobs(struct coord *c, struct coord_ask *a);
/* Returns the job that may go back to a cut of which a shard of the server has a part; NULL:
 * none. */
const struct coord_job *coord_operator_needs(struct coord *c, const char *server);

#endif
