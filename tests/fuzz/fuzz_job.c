/* fuzz_job.c: any text as a job file. */
#include "proto/job/job.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job j;
    struct err e;

    if (job_parse((const char *)data, size, "fuzz", NULL, &j, &e) == 0)
        job_free(&j);
    return 0;
}
