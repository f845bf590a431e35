/* fuzz_read_libffm.c: any bytes as a libffm line, one of whose fields has its last values alone,
 * and as the first lines of a file. */
#include "tests/fuzz/fuzz_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {
        {.name = "2", .type = COLUMN_MULTI, .pooling = POOL_MEAN, .max = 2}};
    struct job job = {.data = {.format = DATA_LIBFFM, .column = column, .column_count = 1},
                      .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "1 0:3:1 1:57:0.5 2:539:1\n0 17:3:0.5\n");
    fuzz_line(format_libffm.line, &f, data, size);
    fuzz_head(&job, data, size);
    return 0;
}
