/* fuzz_catalog.c: any bytes as the list of a fleet's spaces. A list that is read comes back from
 * its text as it was. */
#include "proto/job/catalog.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct catalog *a, const struct catalog *b)
{
    SHOAL_ASSERT(a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct catalog_space *x = &a->space[i], *y = &b->space[i];
        SHOAL_ASSERT(x->number == y->number && x->number < LIMIT_SPACES);
        SHOAL_ASSERT(strcmp(x->name, y->name) == 0 && table_set_equal(x->tables, y->tables));
        SHOAL_ASSERT(memcmp(x->bits, y->bits, sizeof x->bits) == 0 && x->bytes == y->bytes);
        SHOAL_ASSERT((x->line == NULL) == (y->line == NULL));
        SHOAL_ASSERT(x->line == NULL || memcmp(x->line, y->line, x->bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct catalog c, again;
    struct err e = {0};
    char *text;
    size_t bytes;
    if (catalog_read((const char *)data, size, &c, &e) != 0) {
        SHOAL_ASSERT(e.text[0] != 0);
        return 0;
    }
    SHOAL_ASSERT(c.count <= LIMIT_SPACES); /* none: a fleet whose spaces are dropped */
    if (catalog_text(&c, &text, &bytes, &e) != 0)
        return 0;
    SHOAL_ASSERT(catalog_read(text, bytes, &again, &e) == 0);
    if (c.count == 1 && c.space[0].number == 0 && c.space[0].line != NULL) /* its names alone */
        SHOAL_ASSERT(bytes == c.space[0].bytes && memcmp(text, c.space[0].line, bytes) == 0);
    else
        same(&c, &again);
    free(text);
    return 0;
}
