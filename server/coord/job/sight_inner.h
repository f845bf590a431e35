/* sight_inner.h: shared by the files of the list of problems (sight.h). */
#ifndef SERVER_COORD_JOB_SIGHT_INNER_H
#define SERVER_COORD_JOB_SIGHT_INNER_H

#include "proto/base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

/* Adds a problem to the list. Its fact (since.h) is the problem and `of`; with "" the problem and
 * the beginning of the text. */
void coord_sight_say(struct json *list, const char *problem, const char *of, const char *form, ...)
    __attribute__((format(printf, 4, 5)));
/* The problem that was added last is this fact, whatever `of` says. */
void coord_sight_fact(struct json *list, const char *fact);

/* ---- sight_servers.c ---- */
/* Adds what is wrong with servers and copies: one sentence for all shards of a server that have the
 * same fault, and one for all shards whose copies lack the same. */
void coord_sight_servers(const struct coord_job *j, struct json *list);
/* True when the shard's server hangs, or is not heard. */
bool coord_sight_hung(const struct coord_job *j, uint32_t shard);
/* Adds a sentence on each server that was drained and still runs. */
void coord_sight_drained(const struct coord_job *j, struct json *notes);

#endif
