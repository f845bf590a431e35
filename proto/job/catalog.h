/* catalog.h: the list of a fleet's spaces, as a text. A space is a model's tables under a name. The
 * coordinator writes the text, and every shard keeps it beside its rows, so that a coordinator
 * whose store is lost knows the spaces, and reads the keys of each correctly.
 *
 * A fleet with one space, whose tables are the map's only ones from its begin on, has the line of
 * its names alone (legend.h), which is the text of every earlier release. Any other has for each
 * space, by number, a line that describes it, and then its names, unless none are known; or,
 * without a space, the word none:
 *
 *   space: {"name": "ads", "number": 1, "tables": "0x0000000000000070",
 *           "left": "0x0000000000000000", "bits": [6, 6, 0], "first": [192, 256, 320]}
 *   names: {...}
 *
 * tables: the numbers by which shards know its tables (table_set_text); left: those of tables that
 * the shards have, and no job of the space uses any more; bits and first: for each of both, by
 * number, log2 of its tablets, and the first of them in the map. Where rows of a space are missing
 * its line has "state": "lost" or "half" (half dropped), and of one table alone "half": its name.
 * Pure; one thread at a time. */
#ifndef PROTO_JOB_CATALOG_H
#define PROTO_JOB_CATALOG_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/table_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOG_BYTES_MAX (4u << 20)

enum catalog_state { CATALOG_THERE, CATALOG_LOST, CATALOG_HALF };

struct catalog_space {
    uint32_t number; /* below LIMIT_SPACES */
    char name[LIMIT_NAME];
    enum catalog_state state;
    char half[LIMIT_NAME]; /* CATALOG_HALF: the table that is half dropped; "": all of them are */
    struct table_set tables, left;
    /* by the number of the table */
    uint8_t bits[LIMIT_TABLES];
    uint32_t first[LIMIT_TABLES];
    const char *line; /* its names (bytes), without an end; borrowed; NULL: none */
    size_t bytes;
};

struct catalog {
    struct catalog_space space[LIMIT_SPACES]; /* (count), by number */
    uint32_t count;
    /* the text is the line of the only space's names, which is all that is known of it */
    bool alone;
};

/* Reads a text, which `out` borrows. CONFIG: catalog_text would not write it so. */
int catalog_read(const char *text, size_t bytes, struct catalog *out, struct err *e);
/* Makes the text, without a final end of line. The caller frees *out. NOMEM, TOO_BIG. */
int catalog_text(const struct catalog *c, char **out, size_t *bytes, struct err *e);

#endif
