/* fuzz_legend.c: any bytes as the line of names of fields and tensors (first byte even), or as a
 * job's text with such a line (odd). Names that are read come back from the text that they are put
 * into. */
#include "proto/job/legend.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct legend *a, const struct legend *b)
{
    for (int l = 0; l < LEGEND_LISTS; l++) {
        SHOAL_ASSERT(a->count[l] == b->count[l]);
        for (uint32_t i = 0; i < a->count[l]; i++) {
            const struct legend_name *x = &a->name[l][i];
            const uint32_t at = legend_find(b, (enum legend_list)l, x->name);
            SHOAL_ASSERT(at != LEGEND_NONE);
            const struct legend_name *y = &b->name[l][at];
            SHOAL_ASSERT(x->number == y->number && x->here == y->here);
            SHOAL_ASSERT(strcmp(x->table, y->table) == 0 && strcmp(x->what, y->what) == 0);
        }
    }
}

/* Puts the names into a text, and reads them there. */
static void put_and_read(const struct legend *n, const char *text, size_t bytes)
{
    struct legend again;
    struct err e = {0};
    char *made = NULL;
    size_t made_bytes, at, line_bytes;
    if (legend_put(text, bytes, n, &made, &made_bytes, &e) != 0)
        return;
    if (legend_known(n)) {
        SHOAL_ASSERT(legend_line(made, made_bytes, &at, &line_bytes));
        SHOAL_ASSERT(at + line_bytes <= made_bytes);
        SHOAL_ASSERT(legend_parse(made + at, line_bytes, &again, &e) == 0);
        same(n, &again);
        legend_free(&again);
    }
    free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char job[] = "job: one\n";
    struct legend n;
    struct err e = {0};
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1, *line = text;
    size_t bytes = size - 1, at, line_bytes = bytes;
    if (data[0] % 2 != 0) {
        if (!legend_line(text, bytes, &at, &line_bytes))
            return 0;
        SHOAL_ASSERT(at <= bytes && line_bytes <= bytes - at);
        line = text + at;
    }
    if (legend_parse(line, line_bytes, &n, &e) != 0)
        return 0;
    put_and_read(&n, job, sizeof job - 1);
    if (data[0] % 2 != 0)
        put_and_read(&n, text, bytes);
    legend_free(&n);
    return 0;
}
