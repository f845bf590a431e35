/* fuzz_read_libsvm.c: any bytes as a libsvm line whose entries are fields by place, one field, or
 * fields by index, and as the first lines of a file. */
#include "tests/fuzz/fuzz_worker.h"

static void fuzz_as(enum libsvm_entries entries, struct features *f, const uint8_t *data,
                    size_t size)
{
    struct job job = {.data = {.format = DATA_LIBSVM, .libsvm = entries},
                      .features = {.fields_auto = true}};
    fuzz_features(f, &job, "1 3:1 57:1 539:1\n0 3:0.5\n");
    fuzz_line(format_libsvm.line, f, data, size);
    fuzz_head(&job, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features places, one, indexes;
    fuzz_as(LIBSVM_PLACES, &places, data, size);
    fuzz_as(LIBSVM_ONE, &one, data, size);
    fuzz_as(LIBSVM_INDEXES, &indexes, data, size);
    struct job job = {.data = {.format = DATA_LIBSVM}, .features = {.fields_auto = true}};
    fuzz_head(&job, data, size);
    return 0;
}
