/* fuzz_layout.c: any bytes as the first lines of a file of which nothing is known; their head is
 * cut for the reader of the format that is found. Then, cut at line ends, as the cells of a column.
 */
#include "proto/base/assert.h"
#include "worker/data/column_form.h"
#include "worker/data/guess.h"
#include "worker/data/layout.h"
#include "worker/data/survey.h"

#include <string.h>

static void cells(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size;
    struct column_form f;
    column_form_init(&f, 64);
    for (uint32_t i = 0; p < end; i++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        struct cell c = {p, (uint32_t)(stop - p)};
        SHOAL_ASSERT(column_form_add(&f, &c, i % 2 != 0) == 0);
        (void)guess_is_name(c.text, c.bytes);
        p = stop + 1;
    }
    SHOAL_ASSERT(column_form_values(&f) <= f.cells && column_form_time(&f) <= FORM_TIMES);
    column_form_free(&f);
}

static void head(const struct layout *l, const char *text, size_t bytes)
{
    const char *at;
    size_t n;
    struct err e = {0};
    if (survey_head(format_of(l->format), text, bytes, &at, &n, &e) == 0)
        SHOAL_ASSERT(at >= text && n <= bytes && (size_t)(at - text) <= bytes - n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct layout l;
    struct err e = {0};
    if (layout_of("a.csv", (const char *)data, size, size % 2 != 0, &l, &e) == 0) {
        SHOAL_ASSERT(layout_same(&l, &l) && l.columns <= LAYOUT_COLUMNS);
        head(&l, (const char *)data, size);
    }
    cells(data, size);
    return 0;
}
