/* output.h: files that the coordinator writes beside its store: the report of a job that is done,
 * and figures of the running one (options.write_report, options.write_scalars). Both are written by
 * errands (errand.h), so that a folder that does not answer stops nothing else.
 *
 *   figures: in the order in which they came, one errand at a time; those that come meanwhile wait
 *            for the next one
 *   report:  one errand; the end of the job waits for it, and for the figures
 *
 * A folder that does not answer in time counts as a failure, and each is told once: the job ends
 * with it (coord_missed). A clean end of the coordinator writes the figures that still wait. */
#ifndef SERVER_COORD_FIGURES_OUTPUT_H
#define SERVER_COORD_FIGURES_OUTPUT_H

#include "proto/base/err.h"
#include "server/coord/fleet/errand.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;
struct coord_scalar;
struct coord_output_batch;

#define COORD_OUTPUT_BATCHES 1024u /* batches that wait; more are a failure */

struct coord_output {
    struct coord_errand *report; /* the report that is being written; NULL: none */
    struct coord_errand *figures;
    struct coord_output_batch *head, **tail; /* figures that wait, owned */
    uint32_t waiting;
};

/* Begins to write the report of the job at hand. */
void coord_output_report(struct coord_job *j);
/* True while the report is being written. */
bool coord_output_report_waits(const struct coord_job *j);
/* Figures of the job at hand; run, step: as in options.write_scalars. A failure is told here. */
void coord_output_figures(struct coord_job *j, const char *run, uint64_t step,
                          const struct coord_scalar *scalar, uint32_t count);
/* True while figures are being written or wait to be. */
bool coord_output_figures_wait(const struct coord_job *j);
/* Writes what waits. Call it after coord_errand_end and before coord_errand_close. */
void coord_output_close(struct coord_job *j);

#endif
