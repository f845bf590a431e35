/* text.c: all rows are one segment, the same in every epoch. */
#include "server/coord/work/text.h"

#include "server/coord/work/amount.h"

static struct coord_amount amount(const struct coord_job *j)
{
    uint64_t rows = j->at.split[WIRE_TRAIN].rows, batch = job_batch_rows(&j->spec), batches = 0;
    if (batch > 0)
        batches = rows / batch + (rows % batch != 0);
    return coord_source_amount(j, rows, batches);
}

static int plan(struct coord_job *j, struct coord_plan *p, struct err *e)
{
    (void)j;
    (void)p;
    (void)e;
    return 0;
}

const struct coord_source coord_text_source = {.amount = amount, .plan = plan};
