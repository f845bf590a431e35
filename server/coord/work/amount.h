/* amount.h: how much there is to train, and how much is trained. */
#ifndef SERVER_COORD_WORK_AMOUNT_H
#define SERVER_COORD_WORK_AMOUNT_H

#include "server/coord/core/core.h"

#include <stdint.h>

/* The amount to train in an epoch, and in all epochs before the current one. */
struct coord_amount {
    uint64_t rows, batches, rows_before, batches_before;
};
struct coord_amount coord_epoch_amount(const struct coord_job *j);
/* Sums of all finished epochs. */
struct coord_losses coord_epoch_losses(const struct coord_job *j);
/* rows of all epochs so far, in finished tasks */
uint64_t coord_examples(const struct coord_job *j);

#endif
