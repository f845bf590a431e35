/* feed.h: names of a network's inputs in a graph of operators: what a service feeds it, and what it
 * gives back. */
#ifndef DENSE_FEED_H
#define DENSE_FEED_H

#include "proto/base/limits.h"
#include "proto/job/legend.h"

#include <stdint.h>

/* An input by the name of its field or column. */
enum feed_kind {
    FEED_VECTOR,  /* "user.vector": (batch, dim), pooled */
    FEED_VECTORS, /* "history.vectors": (batch, length, dim), of a field with pooling attention */
    FEED_FIRST,   /* "user.first": (batch, 1), the pooled first-order weight */
    FEED_NUMBER   /* "age.number": (batch, 1) */
};
#define FEED_NAME (LEGEND_NAME + 16u)

/* Names of the inputs of a model, in the order of its shape; borrowed. */
struct feed_names {
    const char *field[LIMIT_FIELDS];
    const char *numeric[LIMIT_NUMERIC];
};

void feed_name(enum feed_kind kind, const char *name, char out[FEED_NAME]);
/* The score of a task: "score", or with several labels "score_LABEL", as columns of `shoal predict`
 * are called. */
void feed_score(const char *label, uint32_t tasks, char out[FEED_NAME]);

#endif
