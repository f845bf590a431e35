/* handle.h: handlers of workers' reports: indexes, tables, finished tasks, scores, leaving. A
 * repeated report is harmless. The handlers for known workers are called only after
 * coord_heard has accepted the pass (the table of dispatch.c). Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_HANDLE_H
#define SERVER_COORD_JOB_HANDLE_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct coord_fleet;
struct coord_job;
struct coord_ask;

int coord_handle_join(struct coord_job *j, struct coord_ask *a);
/* Answers a WORKER_JOIN for which no job has a place: the worker stays a visitor. Returns AGAIN. */
int coord_handle_visit(struct coord_fleet *f, struct coord_ask *a, const char *why);
/* bsp: loads the kernel with which the job was begun, as an earlier coordinator stored it. */
int coord_handle_kernel_load(struct coord_job *j, struct err *e);
int coord_handle_beat(struct coord_job *j, struct coord_ask *a);
int coord_handle_index(struct coord_job *j, struct coord_ask *a);
int coord_handle_legend(struct coord_job *j, struct coord_ask *a);
int coord_handle_profile(struct coord_job *j, struct coord_ask *a);
int coord_handle_windows(struct coord_job *j, struct coord_ask *a);
int coord_handle_objects(struct coord_job *j, struct coord_ask *a);
int coord_handle_object(struct coord_job *j, struct coord_ask *a);
int coord_handle_declare(struct coord_job *j, struct coord_ask *a);
int coord_handle_traces(struct coord_job *j, struct coord_ask *a);
int coord_handle_task(struct coord_job *j, struct coord_ask *a);
int coord_handle_eval(struct coord_job *j, struct coord_ask *a);
int coord_handle_leave(struct coord_job *j, struct coord_ask *a);
/* The server's machine has started again, and a loss of power may have taken acknowledged pushes.
 * Lanes go on after what all shards have. The workers, which know of later batches, must join
 * again. */
void coord_handle_anew(struct coord_job *j, const char *server);
/* Workers whose lease has run out are dead: their work goes to others. */
void coord_handle_expire(struct coord_job *j);

#endif
