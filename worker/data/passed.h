/* passed.h: cells that a prediction passes on as they stand: texts, one after the other, so many a
 * row. A plain value; zeroed it is empty. */
#ifndef WORKER_DATA_PASSED_H
#define WORKER_DATA_PASSED_H

#include "worker/data/format.h"

struct passed {
    char *text;   /* owned */
    size_t *end;  /* owned (count): where each text ends */
    size_t count; /* texts */
    size_t text_capacity, end_capacity;
};

void passed_free(struct passed *p);
/* Forgets the texts, keeps the memory. */
void passed_clear(struct passed *p);
/* NOMEM: nothing has changed. */
int passed_add(struct passed *p, const struct cell *cell);
int passed_append(struct passed *to, const struct passed *from);
/* Text i; good until it changes. */
struct cell passed_at(const struct passed *p, size_t i);

#endif
