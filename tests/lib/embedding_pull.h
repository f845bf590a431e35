/* embedding_pull.h: pulls of fp32 rows, of two kinds. */
#ifndef TESTS_LIB_EMBEDDING_PULL_H
#define TESTS_LIB_EMBEDDING_PULL_H

#include "embedding/table.h"

/* The rows as they were before the clock was applied (table_undo_clock). */
static inline void pull_before(const struct table *t, const uint64_t *keys, size_t count,
                               uint64_t clock, float *rows)
{
    table_pull_as(t, &(struct pull_args){.before = clock}, keys, count, rows);
}

/* As a reader sees them, with TABLE_ABSENT. */
static inline void pull_reader(const struct table *t, const uint64_t *keys, size_t count,
                               float *rows)
{
    table_pull_as(t, &(struct pull_args){.reader = true}, keys, count, rows);
}

#endif
