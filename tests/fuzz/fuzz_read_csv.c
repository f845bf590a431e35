/* fuzz_read_csv.c: any bytes as a csv line with quotes, numbers and multi-valued cells, and as a
 * header; then as a line with two labels, a weight, and a behaviour sequence that shares rows with
 * its target, as a line of ids, and as one of scaled numbers and crosses. */
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
                               .delimiter = ",",
                               .label = {"click"},
                               .label_count = 1,
                               .column = column,
                               .column_count = 1},
                      .features = {.fields_auto = true}};
    fuzz_features(&f, &job, "click,user,tags");
    fuzz_line(format_csv.line, &f, data, size);
}

static void scaled(const uint8_t *data, size_t size)
{
    static struct features f;
    static struct column column[] = {
        {.name = "age", .type = COLUMN_NUMBER, .scaled = true, .filled = true, .indicator = true},
        {.name = "price", .type = COLUMN_NUMBER, .scaled = true},
        {.name = "hour", .type = COLUMN_NUMBER, .scaled = true}};
    static struct job_cross cross[] = {{.column = {"site", "hour"}, .columns = 2},
                                       {.column = {"hour", "site", "ad"}, .columns = 3}};
    struct job job = {.data = {.format = DATA_CSV,
                               .header = true,
                               .delimiter = ",",
                               .label = {"click"},
                               .label_count = 1,
                               .column = column,
                               .column_count = 3},
                      .features = {.fields_auto = true, .cross = cross, .cross_count = 2}};
    SHOAL_ASSERT(scale_parse("standard 3 0.5, fill 1e300", &column[0].scale) &&
                 scale_parse("none, fill -7", &column[1].scale) &&
                 scale_parse("bucket of 4 at -1 0 1e9", &column[2].scale));
    column[0].scale.fill = 2;
    column[1].filled = true;
    fuzz_features(&f, &job, "click,age,price,hour,site,ad");
    fuzz_line(format_csv.line, &f, data, size);
    fuzz_head(&job, data, size);
}

/* Any bytes as the text of a scale: refused, or one that comes back. */
static void scale(const uint8_t *data, size_t size)
{
    char text[SCALE_TEXT * 2], again[SCALE_TEXT];
    struct scale s, back;
    if (size >= sizeof text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!scale_parse(text, &s))
        return;
    scale_text(&s, again);
    SHOAL_ASSERT(scale_parse(again, &back) && back.borders == s.borders &&
                 back.transform == s.transform && back.known == s.known &&
                 memcmp(back.border, s.border, s.borders * sizeof s.border[0]) == 0);
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
    scaled(data, size);
    scale(data, size);
    return 0;
}
