/* fuzz_read_csv.c: any bytes as a csv line with quotes, numbers and multi-valued cells, and as a
 * header; then as a line with two labels, a weight, and a behaviour sequence that shares rows with
 * its target, and as a line of ids. */
#include "tests/fuzz/fuzz_worker.h"

static void sequence(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {{.name = "item", .type = COLUMN_CATEGORY},
                                     {.name = "history",
                                      .type = COLUMN_MULTI,
                                      .separator = '|',
                                      .pooling = POOL_ATTENTION,
                                      .share = "item",
                                      .attend = "item",
                                      .max = 3}};
    static char *by[] = {"user"};
    struct job job = {.data = {.format = DATA_CSV,
                               .header = true,
                               .delimiter = ",",
                               .label = {"click", "buy"},
                               .label_count = 2,
                               .weight = "w",
                               .column = column,
                               .column_count = 2},
                      .features = {.fields_auto = true},
                      .evaluate = {.group = "user", .by = {by, 1}}};
    fuzz_features(&f, &job, "user,item,history,w,click,buy");
    fuzz_line(format_csv.line, &f, data, size);
    fuzz_head(&job, data, size);
}

static void ids(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {
        {.name = "user", .type = COLUMN_CATEGORY, .id = true},
        {.name = "tags", .type = COLUMN_MULTI, .separator = '|', .id = true, .max = 2}};
    struct job job = {.data = {.format = DATA_CSV,
                               .header = true,
                               .delimiter = ",",
                               .label = {"click"},
                               .label_count = 1,
                               .column = column,
                               .column_count = 2},
                      .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "click,user,tags");
    fuzz_line(format_csv.line, &f, data, size);
}

static void weights(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {
        {.name = "tags", .type = COLUMN_MULTI, .separator = '|', .weighted = true, .max = 2}};
    struct job job = {.data = {.format = DATA_CSV,
                               .header = true,
                               .delimiter = ',',
                               .label = {"click"},
                               .label_count = 1,
                               .column = column,
                               .column_count = 1},
                      .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "click,user,tags");
    fuzz_line(format_csv.line, &f, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {{.name = "click", .type = COLUMN_LABEL},
                                     {.name = "user", .type = COLUMN_CATEGORY},
                                     {.name = "tags", .type = COLUMN_MULTI, .separator = '|'},
                                     {.name = "age", .type = COLUMN_NUMBER}};
    struct job job = {.data = {.format = DATA_CSV,
                               .header = true,
                               .delimiter = ",",
                               .label = {"0"},
                               .label_count = 1,
                               .column = column,
                               .column_count = 4},
                      .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "user,tags,age,click");
    fuzz_line(format_csv.line, &f, data, size);
    fuzz_head(&job, data, size);
    job.data.column_count = 0;
    fuzz_head(&job, data, size);
    sequence(data, size);
    ids(data, size);
    weights(data, size);
    return 0;
}
