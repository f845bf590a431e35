/* bottleneck.c: the largest charge, and what would be next. */
#include "server/coord/bottleneck.h"

#include <math.h>
#include <stddef.h>

enum { READING, PULLING, COMPUTING, PUSHING, BOUND, STAGES };

struct stage {
    const char *name;
    double charge; /* lane time that it limits */
    double least;  /* lane time that it would take alone */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void coord_bottleneck_find(const struct wire_WORKER_BEAT *sum, struct coord_bottleneck *out)
{
    const struct stage stage[STAGES] = {
        [READING] = {sum->parse_busy_s > sum->file_busy_s ? "parse" : "read", sum->read_s,
                     sum->read_least_s},
        [PULLING] = {"pull", sum->pull_s, sum->pull_least_s},
        [COMPUTING] = {"compute", sum->compute_s, sum->compute_busy_s},
        [PUSHING] = {"push", sum->push_s, sum->push_least_s},
        [BOUND] = {"bound", sum->held_s, sum->held_s},
    };
    double worked = 0, least = 0;
    int first = 0, next = -1;
    *out = (struct coord_bottleneck){0};
    for (int i = 0; i < STAGES; i++) {
        worked += stage[i].charge;
        if (stage[i].charge > stage[first].charge)
            first = i;
    }
    if (!(worked > 0))
        return;
    for (int i = 0; i < STAGES; i++) {
        if (i == first)
            continue;
        least = larger(least, stage[i].least);
        if (next < 0 ||
            larger(stage[i].charge, stage[i].least) > larger(stage[next].charge, stage[next].least))
            next = i;
    }
    double rest = larger(worked - stage[first].charge, least);
    out->stage = stage[first].name;
    out->next = stage[next].name;
    out->share = stage[first].charge / worked;
    out->speedup_if_free = rest > 0 ? larger(1.0, worked / rest) : (double)INFINITY;
}
