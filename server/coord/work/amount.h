/* amount.h: how much there is to train, and how much is trained. */
#ifndef SERVER_COORD_WORK_AMOUNT_H
#define SERVER_COORD_WORK_AMOUNT_H

#include "server/coord/work/source.h"

#include <stdint.h>

/* Returns the amount of a source that has these rows and batches in every epoch. */
struct coord_amount coord_source_amount(const struct coord_job *j, uint64_t rows, uint64_t batches);
/* Returns the amount to train in the current epoch, and in all before it. */
struct coord_amount coord_epoch_amount(const struct coord_job *j);
/* Sums of all finished epochs. */
struct coord_losses coord_epoch_losses(const struct coord_job *j);
/* rows of all epochs so far, in finished tasks */
uint64_t coord_examples(const struct coord_job *j);

#endif
