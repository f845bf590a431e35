/* guard.h: batches whose gradients were refused: how many a job may have, and of which fields
 * and workers they were.
 *
 * Workers tell of refused batches with each task (TASK_DONE), so these counts are stored and
 * outlive everybody. Fields, rows and clipped gradients are counted by the shards, since they were
 * started; they are asked now and then while a job trains and once more at its end, and added up.
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_GUARD_H
#define SERVER_COORD_GUARD_H

#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* What the rules of tables did to keys and rows, as shards say it in SHARD_STATUS
 * (`tables`): added up over them, for report.json. Shards count since they were started, whichever
 * jobs they served; a shard that was started again counts anew, with what its recovery repeats.
 * Pure. */

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
/* refused batches that any job may have, unless train.max_refused is 0 */
#define COORD_GUARD_LEAST 10u

struct coord_job;

struct coord_guard_count {
    uint64_t refused, clipped;
};

/* What shards have said, added up. What there is no room for is in the last cell. */
struct coord_guard_sums {
    struct coord_guard_field {
        char table[LIMIT_NAME];
        uint32_t field;
        struct coord_guard_count of;
    } field[COORD_GUARD_FIELDS + 1];
    struct coord_guard_worker {
        uint64_t worker;
        struct coord_guard_count of; /* refused: pushes, of which a batch has several */
    } worker[COORD_GUARD_WORKERS + 1];
    uint32_t fields, workers;
    uint64_t lost;            /* lines that quarantines have not kept */
    struct coord_rules rules; /* asked for by the way */
};

struct coord_guard {
    struct coord_guard_sums *told, *next; /* owned; next: answers that come in now */
    uint64_t asked_ns;
    bool final; /* told is of after the last push */
    bool ending;
};

void coord_guard_close(struct coord_guard *g);
/* Asks all shards, unless they were within the last seconds. ending: now, whatever is under way. */
void coord_guard_ask(struct coord_job *j, bool ending);
/* Refused batches of all epochs; *batches: of how many, as far as tasks are reported. */
uint64_t coord_guard_refused(const struct coord_job *j, uint64_t *batches);
/* Ends the job when there are too many of them. where: of the first one in a task. */
void coord_guard_look(struct coord_job *j, const char *where);
/* What the rules of a table did, {"not_admitted", "admitted", ...}: those that are not 0, the
 * caller's; NULL: all are, or the table is not known, or no shard has said anything. */
struct json *coord_guard_rules_json(const struct coord_job *j, const char *table);
/* {"batches", "lost", "by_field": [{"table", "field", "refused", "clipped"}], "by_worker":
 * [{"worker", "refused", "clipped"}]} */
struct json *coord_guard_json(const struct coord_job *job);

#endif
