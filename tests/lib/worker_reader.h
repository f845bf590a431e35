/* worker_reader.h: passes one line through features and a reader, for the tests of the formats. */
#ifndef TESTS_LIB_WORKER_READER_H
#define TESTS_LIB_WORKER_READER_H

#include "worker/data/feature.h"

#include <string.h>

struct read_line {
    struct cell cell[CELLS_MAX];
    char text[65536];
    char reason[REASON_BYTES];
    float label[LIMIT_TASKS];
    float weight;
    float numeric[LIMIT_NUMERIC];
    uint32_t time;
    uint64_t key[65536];
    float value_weight[65536];
    uint32_t count[LIMIT_FIELDS];
    uint64_t *group, *by; /* NULL: not requested */
    bool positives_only;
    struct example example;
};

/* 0 or SHOAL_E_DATA, with the cause in r->reason. The text is copied: readers may change it. */
static inline int read_line_bytes(struct read_line *r, format_line read, const struct features *f,
                                  const char *text, size_t bytes)
{
    memcpy(r->text, text, bytes);
    r->reason[0] = '\0';
    r->example = (struct example){.label = r->label,
                                  .weight = &r->weight,
                                  .time = &r->time,
                                  .numeric = r->numeric,
                                  .key = r->key,
                                  .count = r->count,
                                  .value_weight = r->value_weight,
                                  .group = r->group,
                                  .by = r->by,
                                  .positives_only = r->positives_only};
    int rc = read(f, r->text, bytes, r->cell, r->reason);
    return rc == 0 ? features_example(f, r->cell, &r->example, r->reason) : rc;
}
static inline int read_line_text(struct read_line *r, format_line read, const struct features *f,
                                 const char *text)
{
    return read_line_bytes(r, read, f, text, strlen(text));
}

#endif
