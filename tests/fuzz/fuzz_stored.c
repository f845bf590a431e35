/* fuzz_stored.c: any bytes as a stored tablet (column of marks and image) or as the stored control
 * state (schemas and runs), as they are or with a valid checksum. First byte: bit 0: mend; bit 1:
 * control state. */
#include "tests/fuzz/fuzz_file.h"

#include "embedding/store/stored.h"
#include "proto/base/hash.h"

static struct table *table;
static struct runs known; /* one run with two lanes is open */

static void table_prepare(void)
{
    static const struct table_schema s = {.name = "emb",
                                          .width = 2,
                                          .tablet_bits = 1,
                                          .seed = 1,
                                          .optimizer = {.kind = OPT_SGD, .lr = 0.05f}};
    struct arena *arena;
    struct err e;
    SHOAL_ASSERT(arena_new(&arena) == 0 && table_new(&s, arena, &table, &e) == 0);
}

/* Both checksums cover the bytes from 16 on: a tablet's to the end of its column. */
static void value_mend(uint8_t *at, size_t size, bool control)
{
    uint64_t magic = control ? 0x334c5254434c4853ull : 0x314254454c424154ull, sum;
    uint32_t column = 0;
    if (size < 40)
        return;
    if (control && memcmp(at, "SHLCTRL", 7) == 0 && at[7] > '3' && at[7] <= '8')
        memcpy(&magic, at, sizeof magic); /* otherwise that of 0.2.0 */
    memcpy(at, &magic, sizeof magic);
    memcpy(&column, at + 32, sizeof column);
    column = column > size - 40 ? (uint32_t)(size - 40) : column;
    if (control) {
        sum = hash_bytes(at + 16, size - 16, magic);
    } else {
        memset(at + 24, 0, 8); /* table 0, tablet 0 */
        memcpy(at + 32, &column, sizeof column);
        sum = hash_bytes(at + 40, column, hash_bytes(at + 16, 24, magic));
    }
    memcpy(at + 8, &sum, sizeof sum);
}

static int visit(void *context, const struct table_schema *s, const struct table_past *past,
                 struct err *e)
{
    uint32_t *schemas = context;
    (void)past;
    (*schemas)++;
    return schema_check(s, e) == 0 ? 0 : (abort(), 0); /* a visited schema is valid */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct run *run;
    struct stored_as_of as_of;
    uint32_t schemas = 0;
    int rc;
    if (table == NULL)
        table_prepare();
    uint8_t mode = fuzz_mode(&data, &size);
    bool control = (mode & 2) != 0;
    uint8_t *copy = fuzz_copy(data, size);
    if ((mode & 1) != 0)
        value_mend(copy, size, control);
    known = (struct runs){0};
    SHOAL_ASSERT(runs_add(&known, 7, table_set_word(1), 2, RUN_SSP, &run) == 0);
    if (control) {
        rc = stored_control_read(copy, size, NULL, &as_of, visit, &schemas, &e);
        if (rc == 0 && stored_control_read(copy, size, &known, &as_of, visit, &schemas, &e) != 0 &&
            e.text[0] == '\0')
            abort();
    } else {
        rc = stored_tablet_read(copy, size, table, &known, 0, &e);
    }
    if (rc != 0 && e.text[0] == '\0')
        abort();
    runs_free(&known);
    free(copy);
    return 0;
}
