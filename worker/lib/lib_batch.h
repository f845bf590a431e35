/* lib_batch.h: a batch in the form of shoal.h: it points into the arrays of the lane, or of a batch
 * that was read, and copies none of them. */
#ifndef WORKER_LIB_LIB_BATCH_H
#define WORKER_LIB_LIB_BATCH_H

#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "worker/data/batch.h"
#include "worker/lib/shoal.h"
#include "worker/train/outside.h"

/* What all batches of a job have in common, and one of them. Reused from batch to batch. */
struct lib_batch {
    struct shoal_batch batch; /* first: the caller's pointer is the struct's */
    struct shoal_batch_table *table;
    struct shoal_batch_tensor *tensor;
    struct shoal_batch_field *field;
    struct hand_batch *hand; /* NULL: the batch is not out */
    struct lib_batch *next;
};

/* The parts that job and shape decide. NOMEM. */
int lib_batch_new(const struct job *job, const struct model_shape *shape, struct lib_batch **out);
void lib_batch_free(struct lib_batch *b);
/* Points it at a batch whose rows a lane has. */
void lib_batch_of_lane(struct lib_batch *b, const struct outside_batch *from);
/* Points it at a batch that was read, without rows. */
void lib_batch_of_read(struct lib_batch *b, const struct batch *from);

#endif
