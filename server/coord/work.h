/* work.h: what workers report: indexes, tables, finished tasks, scores, their leaving. Asking twice
 * is harmless. Those of a worker that must be known are called only when coord_work_known has said
 * so (the table of coord.c). Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_H
#define SERVER_COORD_WORK_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct coord_job;
struct coord_ask;

/* Finds the worker that shows this pass (a->worker) and renews its lease. UNAVAILABLE: there is
 * none, dead or never a worker. */
int coord_work_known(struct coord_job *j, struct coord_ask *a, uint64_t pass);
int coord_work_join(struct coord_job *j, struct coord_ask *a);
/* bsp: on what the job was begun, as a coordinator before this one stored it. */
int coord_work_kernel_load(struct coord_job *j, struct err *e);
int coord_work_beat(struct coord_job *j, struct coord_ask *a);
int coord_work_index(struct coord_job *j, struct coord_ask *a);
int coord_work_legend(struct coord_job *j, struct coord_ask *a);
int coord_work_profile(struct coord_job *j, struct coord_ask *a);
int coord_work_windows(struct coord_job *j, struct coord_ask *a);
int coord_work_objects(struct coord_job *j, struct coord_ask *a);
int coord_work_object(struct coord_job *j, struct coord_ask *a);
int coord_work_declare(struct coord_job *j, struct coord_ask *a);
int coord_work_task(struct coord_job *j, struct coord_ask *a);
int coord_work_eval(struct coord_job *j, struct coord_ask *a);
int coord_work_leave(struct coord_job *j, struct coord_ask *a);
/* Workers whose lease has run out are dead: what they had goes to others. */
/* The server's machine has started again, and power may have taken what was acknowledged there:
 * lanes go on after what all shards have, and workers, who know better, join again. */
void coord_work_anew(struct coord_job *j, const char *server);
void coord_work_expire(struct coord_job *j);

#endif
