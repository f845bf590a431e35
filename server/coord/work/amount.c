/* amount.c: how much there is to train, and how much is trained. */
#include "server/coord/work/amount.h"

#include "server/coord/work/grow.h"

struct coord_amount coord_source_amount(const struct coord_job *j, uint64_t rows, uint64_t batches)
{
    uint64_t before = j->at.epoch - 1;
    return (struct coord_amount){rows, batches, before * rows, before * batches};
}

struct coord_amount coord_epoch_amount(const struct coord_job *j)
{
    return j->source->amount(j);
}

struct coord_losses coord_epoch_losses(const struct coord_job *j)
{
    struct coord_losses sum = j->grow->at.before;
    uint32_t from = coord_grow_on(j) ? j->at.epoch : 1;
    for (uint32_t n = from; n >= 1 && n <= j->at.epoch; n++)
        coord_losses_add(&sum, &j->epoch[coord_epoch_slot(j, n)].train);
    return sum;
}

uint64_t coord_examples(const struct coord_job *j)
{
    uint64_t examples = j->at.train_rows;
    for (uint32_t i = 0; coord_epoch_open(j) && i < j->tasks->tasks; i++)
        if (j->tasks->task[i].pushed)
            examples += j->tasks->task[i].rows;
    return examples;
}
