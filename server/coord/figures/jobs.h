/* jobs.h: the jobs that have ended here: a line of each of the last hundred, and their reports.
 *
 *   key            value
 *   "jobs"         the lines, a JSON list, oldest first
 *   "report/N"     the report of job N, while all reports together are within COORD_JOBS_BYTES
 *
 * A job is kept by a step of the flow after its end is stored, and a job that is already in the
 * list is not kept again. So a coordinator that dies in between keeps it when it starts again.
 *
 * Invariants:
 *  1. The list has at most COORD_JOBS_MAX lines, and the reports have at most COORD_JOBS_BYTES, but
 *     for the newest one. [test: jobs_are_bounded_by_number, jobs_are_bounded_by_bytes]
 *  2. A restart loses neither. [test: jobs_survive_a_restart]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FIGURES_JOBS_H
#define SERVER_COORD_FIGURES_JOBS_H

#include "proto/base/err.h"
#include "proto/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_ask;

#define COORD_JOBS_MAX 100u
#define COORD_JOBS_BYTES (16u << 20)

struct coord_jobs {
    struct json *list; /* owned */
};

/* Reads the list; one that cannot be read is begun anew. NOMEM, IO. */
int coord_jobs_open(struct coord_fleet *f, struct err *e);
void coord_jobs_close(struct coord_jobs *j);
/* The job has ended, and j->report is its report: adds it to the list. False: the store failed, or
 * there is no memory; to be called again later. */
bool coord_jobs_keep(struct coord_job *j);
/* Adds the line of a job that has ended without having begun (queue.h), with its end: such a job
 * has no report. Takes line in any case. False: the store failed, or there is no memory. */
bool coord_jobs_add(struct coord_fleet *f, struct json *line, uint64_t wall_s);
/* Reads the report of job `number`; the caller frees *text. NOT_FOUND (without a text), NOMEM. */
int coord_jobs_text(const struct coord_fleet *f, uint64_t number, char **text, struct err *e);
/* Returns "running", "finished", "failed" or "stopped"; a job in FINISH is finished. */
const char *coord_jobs_state(const struct coord_job *j);

/* True when the job is in the list already. */
bool coord_jobs_kept(const struct coord_job *j);
/* Writes what became of a job that has ended; false: it is not in the list. */
bool coord_jobs_ended(const struct coord_fleet *f, uint64_t number, char said[ERR_TEXT_MAX]);

/* [line]: the ended jobs, those at hand (slots of them), and those that wait. The caller frees
 * it. */
struct json *coord_jobs_list(const struct coord_job *slot, uint32_t slots);

/* Handler of JOBS, with all slots. */
int coord_jobs_ask(const struct coord_job *slot, uint32_t slots, struct coord_ask *a);
int coord_jobs_report(struct coord_job *j, struct coord_ask *a);

#endif
