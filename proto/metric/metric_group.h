/* metric_group.h: group AUC (defined in metric.h) of one or several labels.
 *
 * A group's AUC needs all of its predictions, so they are kept: an example takes 4 bytes, and 4 for
 * each label. With more than `room` examples only a sample of the groups is kept: those whose hash
 * begins with `level` zero bits, one bit more whenever room runs out (Flajolet, "On adaptive
 * sampling", 1990). So the kept groups are always complete. Their number alone selects them, not
 * their content; gauc_share = 2^-level. A group that is larger than the room is left out.
 *
 * The result is a function of the examples in the order given. One thread. */
#ifndef PROTO_METRIC_METRIC_GROUP_H
#define PROTO_METRIC_METRIC_GROUP_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"

#include <stdint.h>

struct metric_group {
    uint32_t tasks, level;
    uint32_t count, room; /* examples kept */
    uint32_t *of;         /* owned (room): index of the example's group */
    /* owned (room): bits of p, shifted left, the label in the lowest bit */
    uint32_t *packed[LIMIT_TASKS];
    uint64_t *hash; /* owned (group_room): hash of each group */
    uint32_t groups, group_room;
    uint32_t *slot; /* owned (slots): index of a group + 1; 0: empty */
    uint32_t slots; /* a power of two */
    uint64_t salt;  /* salt of the slots */
};

/* room: the most examples that are kept. expected: how many will come. NOMEM. */
int metric_group_open(struct metric_group *g, uint32_t tasks, uint64_t room, uint64_t expected,
                      struct err *e);
void metric_group_close(struct metric_group *g);
/* Adds one example: p and y (tasks). A label that is missing (NaN) does not count. NOMEM. */
int metric_group_add(struct metric_group *g, uint64_t group, const float *p, const float *y);
/* Fills gauc, gauc_share and groups of out (tasks), but for labels that are numbers. NOMEM: it
 * needs as much again as is kept of one label. */
int metric_group_finish(struct metric_group *g, struct metric *out, struct err *e);

#endif
