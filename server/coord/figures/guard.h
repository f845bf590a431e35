/* guard.h: batches whose gradients were refused: how many a job may have, and from which fields and
 * workers they came.
 *
 * Workers report refused batches with each task (TASK_DONE), so these counts are stored and survive
 * the workers and servers. Shards count fields, rows and clipped gradients since they were started;
 * the coordinator asks them from time to time while a job trains and once more at its end, and adds
 * the counts up. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FIGURES_GUARD_H
#define SERVER_COORD_FIGURES_GUARD_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "server/coord/figures/ages.h"

#include <stdbool.h>
#include <stdint.h>

/* Counts of keys and rows to which the rules of tables applied, summed over the shards for
 * report.json. Shards report them in SHARD_STATUS (`tables`). A shard counts since it was started,
 * across jobs; a shard that was started again counts anew, including the work that its recovery
 * repeats. Pure. */

#define COORD_RULES_COUNTS 8u

struct coord_rules {
    struct {
        char table[LIMIT_NAME];
        uint64_t count[COORD_RULES_COUNTS]; /* in the order of the names in guard.c */
    } table[LIMIT_TABLES];
    uint32_t tables;
};

#define COORD_GUARD_FIELDS 512u
#define COORD_GUARD_WORKERS 512u
/* refused batches that every job may have, unless train.max_refused is 0 */
#define COORD_GUARD_LEAST 10u

struct coord_job;

struct coord_guard_count {
    uint64_t refused, clipped;
};

/* The sums over shards. The last cell holds the counts for which there is no cell. */
struct coord_guard_sums {
    struct coord_guard_field {
        char table[LIMIT_NAME];
        uint32_t field;
        struct coord_guard_count of;
    } field[COORD_GUARD_FIELDS + 1];
    struct coord_guard_worker {
        uint64_t worker;
        struct coord_guard_count of; /* refused: pushes; a batch has several */
    } worker[COORD_GUARD_WORKERS + 1];
    uint32_t fields, workers;
    uint64_t lost;            /* lines that quarantines could not keep */
    struct coord_rules rules; /* these two come with the same reply */
    struct coord_ages ages;
};

struct coord_guard {
    struct coord_guard_sums *told, *next; /* owned; next: the sums of replies that are arriving */
    uint64_t asked_ns;
    bool final; /* told was asked for after the last push */
    bool ending;
};

void coord_guard_close(struct coord_guard *g);
/* Asks all shards, unless they were asked within ASK_NS. ending: asks at once, even if another
 * request is open. */
void coord_guard_ask(struct coord_job *j, bool ending);
/* Returns the refused batches of all epochs; *batches: out of how many, as far as tasks are
 * reported. */
uint64_t coord_guard_refused(const struct coord_job *j, uint64_t *batches);
/* Ends the job when too many batches were refused. where: the place of the first one in a task. */
void coord_guard_look(struct coord_job *j, const char *where);
/* Returns the counts of a table's rules that are not 0, {"not_admitted", "admitted", ...}; the
 * caller owns them. NULL: all are 0, the table is unknown, or no shard has replied. */
struct json *coord_guard_rules_json(const struct coord_job *j, const char *table);
/* As coord_ages_json. NULL also while no shard has replied. */
struct json *coord_guard_ages_json(const struct coord_job *j, const char *table);
/* {"batches", "lost", "by_field": [{"table", "field", "refused", "clipped"}], "by_worker":
 * [{"worker", "refused", "clipped"}]} */
struct json *coord_guard_json(const struct coord_job *job);

#endif
