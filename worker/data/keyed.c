/* keyed.c: a hash table of column names. */
#include "worker/data/keyed.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

int keyed_make(struct keyed *k, const struct cell *name, uint32_t columns, struct err *e)
{
    uint32_t slots = 16;
    SHOAL_ASSERT(columns <= CELLS_MAX && CELLS_MAX < UINT16_MAX);
    while (slots < 4 * columns)
        slots *= 2;
    *k = (struct keyed){.slot = calloc(slots, sizeof *k->slot),
                        .mask = slots - 1,
                        .separator = malloc(columns + 1)};
    if (k->slot == NULL || k->separator == NULL) {
        keyed_free(k);
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u column names; free some", columns);
    }
    memset(k->separator, KEYED_SKIP, columns);
    for (uint32_t i = 0; i < columns; i++) {
        uint32_t at = (uint32_t)hash_bytes(name[i].text, name[i].bytes, 0) & k->mask;
        while (k->slot[at] != 0)
            at = (at + 1) & k->mask;
        k->slot[at] = (uint16_t)(i + 1);
    }
    return 0;
}

void keyed_free(struct keyed *k)
{
    free(k->slot);
    free(k->separator);
    *k = (struct keyed){.slot = NULL};
}

void keyed_want(struct keyed *k, uint32_t column)
{
    if (k->separator[column] == KEYED_SKIP)
        k->separator[column] = KEYED_ANY;
}

uint32_t keyed_find(const struct keyed *k, const struct cell *names, const char *name,
                    uint32_t bytes)
{
    uint32_t at = (uint32_t)hash_bytes(name, bytes, 0) & k->mask;
    for (; k->slot[at] != 0; at = (at + 1) & k->mask) {
        uint32_t column = k->slot[at] - 1u;
        if (names[column].bytes == bytes && memcmp(names[column].text, name, bytes) == 0)
            return column;
    }
    return KEYED_NO_COLUMN;
}
