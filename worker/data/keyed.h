/* keyed.h: finds columns by name, for formats whose rows name their cells. Made once, then
 * read-only: any thread. */
#ifndef WORKER_DATA_KEYED_H
#define WORKER_DATA_KEYED_H

#include "proto/base/err.h"
#include "worker/data/format.h"

#include <stdint.h>

struct keyed {
    uint16_t *slot; /* owned; (mask + 1): a column + 1, or 0: free; found from the name's hash on */
    uint32_t mask;
    /* owned; (columns): between its values; KEYED_ONE: it has one value at most; KEYED_ANY: it is
     * no feature, and may have any; KEYED_SKIP: nothing needs its cell, which is empty */
    char *separator;
};
#define KEYED_ONE '\0'
#define KEYED_ANY '\n'
#define KEYED_SKIP '\r'

#define KEYED_NO_COLUMN UINT32_MAX

/* name: (columns), no two alike. NOMEM. All separators are KEYED_SKIP. */
int keyed_make(struct keyed *k, const struct cell *name, uint32_t columns, struct err *e);
void keyed_free(struct keyed *k);
/* Lets the cell of a column be read that is no feature. */
void keyed_want(struct keyed *k, uint32_t column);
/* KEYED_NO_COLUMN: no column has this name. */
uint32_t keyed_find(const struct keyed *k, const struct cell *names, const char *name,
                    uint32_t bytes);

#endif
