/* metric_group.h: group AUC (its definition is in metric.h) of one or several labels.
 *
 * A group's AUC needs all of its predictions, so they are kept: 4 bytes, and 4 for each label, an
 * example. Where more than `room` examples come, only the groups of a sample stay: those whose hash
 * begins with `level` zero bits, one bit more whenever room runs out (Flajolet, "On adaptive
 * sampling", 1990). So what is kept is always whole groups, drawn by their number alone and not by
 * what is in them; gauc_share = 2^-level. A group that is larger than the room counts nowhere.
 *
 * A function of the examples in the order given. One thread. */
#ifndef PROTO_METRIC_METRIC_GROUP_H
#define PROTO_METRIC_METRIC_GROUP_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"

#include <stdint.h>

struct metric_group {
    uint32_t tasks, level;
    uint32_t count, room;          /* examples kept */
    uint32_t *of;                  /* owned (room): number of the example's group */
    uint32_t *packed[LIMIT_TASKS]; /* owned (room): bits of p above, the label in the lowest bit */
    uint64_t *hash;                /* owned (group_room): of each group */
    uint32_t groups, group_room;
    uint32_t *slot; /* owned (slots): number of a group + 1; 0: empty */
    uint32_t slots; /* a power of two */
    uint64_t salt;  /* of slots */
};

/* room: at most as many examples are kept. expected: how many will come. NOMEM. */
int metric_group_open(struct metric_group *g, uint32_t tasks, uint64_t room, uint64_t expected,
                      struct err *e);
void metric_group_close(struct metric_group *g);
/* One example: p and y (tasks). NOMEM. */
int metric_group_add(struct metric_group *g, uint64_t group, const float *p, const float *y);
/* gauc, gauc_share and groups of out (tasks). NOMEM: as much again as is kept of one label. */
int metric_group_finish(struct metric_group *g, struct metric *out, struct err *e);

#endif
