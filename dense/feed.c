/* feed.c: names of a network's inputs and outputs. */
#include "dense/feed.h"

#include <stdio.h>

void feed_name(enum feed_kind kind, const char *name, char out[FEED_NAME])
{
    static const char *const end[] = {[FEED_VECTOR] = "vector",
                                      [FEED_VECTORS] = "vectors",
                                      [FEED_FIRST] = "first",
                                      [FEED_NUMBER] = "number"};
    (void)snprintf(out, FEED_NAME, "%s.%s", name, end[kind]);
}

void feed_score(const char *label, uint32_t tasks, char out[FEED_NAME])
{
    if (tasks == 1)
        (void)snprintf(out, FEED_NAME, "score");
    else
        (void)snprintf(out, FEED_NAME, "score_%s", label);
}
