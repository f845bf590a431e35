/* fuzz_read_libsvm.c: any bytes as a libsvm line, and as the first line of a file. */
#include "tests/fuzz/fuzz_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features f;
    struct job job = {.data = {.format = DATA_LIBSVM}, .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "1 3:1 957:1 5039:1");
    fuzz_line(format_libsvm.line, &f, data, size);
    fuzz_head(&job, data, size);
    return 0;
}
