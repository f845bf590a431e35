/* made.h: the tables of a space that the servers hold, for every reader of them: their schemas, and
 * the text of the job that made them. They belong to the last job of the space that all servers
 * were set up for, whatever became of that job and of jobs submitted after it:
 *
 *     a job's servers are all set up -> stored -> its tables are read (MAP_GET, TABLE_GET,
 *                                                JOB_TEXT) and are what a checkpoint holds
 *     a job is about to drop all tables (fresh.h) -> forgotten
 *     the space is dropped (fleet/drop.h) -> forgotten
 *
 * So a job that fails earlier, is stopped or waits for workers takes nothing from readers, and a
 * checkpoint of the tables can be made meanwhile (checkpoint.h).
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_CORE_MADE_H
#define SERVER_COORD_CORE_MADE_H

#include "proto/base/err.h"
#include "proto/base/table_set.h"
#include "proto/job/job.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_space;
struct coord_ask;

struct coord_made {
    uint64_t number; /* the job's; 0: no tables are known */
    uint32_t tables, tablets;
    /* numbers of its tables; the next job's may differ before it has made any */
    struct table_set numbers;
    struct table_schema *table; /* owned, (tables) */
    char *yaml;                 /* owned, (yaml_bytes) */
    size_t yaml_bytes;
    struct job spec; /* the text, parsed; its legend is the text's */
};

/* True when tables are known and the map has them. */
bool coord_made_known(const struct coord_fleet *f, const struct coord_space *s);
/* Reads it back. In a store of a release that kept none it stays empty: see coord_made_adopt.
 * NOMEM, IO. */
int coord_made_open(const struct coord_space *s, struct err *e);
void coord_made_close(struct coord_made *m);
/* The job at hand has made its tables, and all servers have them. False: the store failed, or
 * memory is short; the caller tries again in a moment. */
bool coord_made_take(struct coord_job *j);
/* Takes the tables of the last job, which is over, when the store knows none. */
void coord_made_adopt(struct coord_job *j);
/* All tables of the job's space are about to be dropped. False: the store failed. */
bool coord_made_forget(struct coord_job *j);
/* Forgets a space that was dropped, or of which the servers know better: its numbers may be given
 * away. False: the store failed. */
bool coord_made_gone(struct coord_fleet *f, struct coord_space *s);
/* Returns the job's text with the names that the tables have now. `whole` false: a placeholder word
 * replaces each command, since commands often hold passwords. The caller frees *text. NOMEM,
 * TOO_BIG. */
int coord_made_text(const struct coord_space *s, bool whole, char **text, size_t *bytes,
                    struct err *e);

/* [{"space", "state", "tables": [name], "job", "number", "runs"}] of all spaces with tables: state:
 * "there", "lost" or "half" (half dropped); job and number: those that made them; runs: a job
 * does. */
struct json *coord_made_json(const struct coord_fleet *f);

/* Handlers of JOB_TEXT and TABLE_GET, for the space that the request names. */
int coord_made_job_text(struct coord_job *j, struct coord_ask *a);
int coord_made_table_get(struct coord_job *j, struct coord_ask *a);
/* The same for MAP_GET. Answers also the workers of the job at hand, which wait for its own
 * tables. */
int coord_made_map_get(struct coord_job *j, struct coord_ask *a);

#endif
