/* fuzz_key_list.c: any bytes as a list of keys (first byte even) or of a field's values (odd). A
 * list that is taken has at most so many keys as lines, and they come back from their numbers. */
#include "deploy/cli/key_list.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096 };

static void field_add(struct legend *n, const char *name, const char *what, uint32_t number)
{
    struct err e;
    SHOAL_ASSERT(legend_add(n, LEGEND_FIELDS, name, "emb", what, &e) == 0);
    n->name[LEGEND_FIELDS][n->count[LEGEND_FIELDS] - 1].number = number;
}

/* No field whose keys a worker makes. */
static struct key_place *place(void)
{
    static struct key_place p;
    if (p.table != NULL)
        return &p;
    p.table = "emb";
    p.names.input = calloc(1, 1);
    field_add(&p.names, "user", "category", 3);
    field_add(&p.names, "tags", "multi", 5);
    field_add(&p.names, "page", "id", 511);
    return &p;
}

static int list_read(const void *text, size_t bytes, const char *field, struct key_list *out)
{
    struct err e;
    FILE *f = fmemopen((void *)(uintptr_t)text, bytes, "r");
    SHOAL_ASSERT(f != NULL);
    int rc = key_list_read(f, "list", place(), field, MOST, out, &e);
    fclose(f);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[MOST * 19 + 1];
    struct key_list k = {0}, again = {0};
    size_t lines = 1, bytes = 0;
    if (size < 2 || size > sizeof text)
        return 0;
    int rc = list_read(data + 1, size - 1, data[0] % 2 == 0 ? NULL : "page", &k);
    for (size_t i = 1; i < size; i++)
        lines += data[i] == '\n';
    SHOAL_ASSERT(k.count <= lines && k.count <= MOST);
    for (size_t i = 0; rc == 0 && i < k.count; i++)
        bytes += (size_t)snprintf(text + bytes, 20, "0x%016" PRIx64 "\n", k.key[i]);
    if (bytes > 0) {
        SHOAL_ASSERT(list_read(text, bytes, NULL, &again) == 0 && again.count == k.count);
        SHOAL_ASSERT(memcmp(again.key, k.key, k.count * sizeof *k.key) == 0);
    }
    key_list_free(&k);
    key_list_free(&again);
    return 0;
}
