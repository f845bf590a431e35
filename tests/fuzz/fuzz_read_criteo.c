/* fuzz_read_criteo.c: any bytes as a line of the Criteo log, with numbers as inputs and as
 * buckets. */
#include "tests/fuzz/fuzz_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features log, bucket;
    struct job job = {.data = {.format = DATA_CRITEO},
                      .features = {.fields_auto = true, .number = NUMBER_LOG1P}};
    fuzz_features(&log, &job, NULL);
    job.features.number = NUMBER_BUCKET;
    fuzz_features(&bucket, &job, NULL);
    fuzz_line(format_criteo.line, &log, data, size);
    fuzz_line(format_criteo.line, &bucket, data, size);
    return 0;
}
