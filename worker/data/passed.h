/* passed.h: cells that a prediction copies to its output: a list of texts, a fixed number for each
 * row. A plain value; zero-initialized it is empty. */
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
/* On NOMEM nothing has changed. */
int passed_add(struct passed *p, const struct cell *cell);
int passed_append(struct passed *to, const struct passed *from);
/* Text i; valid until the list changes. */
struct cell passed_at(const struct passed *p, size_t i);

#endif
