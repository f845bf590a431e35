/* rules.h: what the rules of tables did to keys and rows, as shards say it in SHARD_STATUS
 * (`tables`): added up over them, for report.json. Shards count since they were started, whichever
 * jobs they served; a shard that was started again counts anew, with what its recovery repeats.
 * Pure. */
#ifndef SERVER_COORD_RULES_H
#define SERVER_COORD_RULES_H

#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdint.h>

#define COORD_RULES_COUNTS 8u

struct coord_rules {
    struct {
        char table[LIMIT_NAME];
        uint64_t count[COORD_RULES_COUNTS]; /* in the order of the names in rules.c */
    } table[LIMIT_TABLES];
    uint32_t tables;
};

/* Adds the list of a shard; tables past LIMIT_TABLES, and what is no number from 0, are left
 * out. */
void coord_rules_add(struct coord_rules *r, const struct json *tables);
/* {"not_admitted", "admitted", ...}: those that are not 0, the caller's; NULL: all are, or the
 * table is not known. */
struct json *coord_rules_json(const struct coord_rules *r, const char *table);

#endif
