/* source.c: the source of a job. */
#include "server/coord/work/source.h"

#include "server/coord/work/grow.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/text.h"

const struct coord_source *coord_source_of(const struct job *job)
{
    bool objects = job->data.objects.of[WIRE_TRAIN].on;
    if (objects && job->data.objects.grow_ms > 0 && !job->train.skip)
        return &coord_grow_source;
    if (job->replay.on)
        return objects ? &coord_replay_objects_source : &coord_replay_source;
    return objects ? &coord_objects_source : &coord_text_source;
}
