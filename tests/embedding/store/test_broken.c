/* test_broken.c: breaks the invariants of the row store on purpose: each breach must be caught by
 * its own assert. Wrappers (-Wl,--wrap, tests/CMakeLists.txt) replace functions of RocksDB and set
 * it up wrongly. */
#include "embedding/rows/table_cold.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"
#include "tests/lib/broken.h"
#include "tests/lib/embedding_rows.h"
#include "tests/lib/rig_dir.h"

#include <stdio.h>

static bool with_log, with_collection, with_compression, with_long_column;

/* `o` is a type of RocksDB, whose header only one file may include. */
void __real_rocksdb_writeoptions_disable_WAL(void *o, int off);
void __wrap_rocksdb_writeoptions_disable_WAL(void *o, int off);
void __wrap_rocksdb_writeoptions_disable_WAL(void *o, int off)
{
    __real_rocksdb_writeoptions_disable_WAL(o, with_log ? 0 : off);
}

void __real_rocksdb_options_set_enable_blob_gc(void *o, unsigned char on);
void __wrap_rocksdb_options_set_enable_blob_gc(void *o, unsigned char on);
void __wrap_rocksdb_options_set_enable_blob_gc(void *o, unsigned char on)
{
    __real_rocksdb_options_set_enable_blob_gc(o, with_collection ? 1 : on);
}

void __real_rocksdb_options_set_compression(void *o, int kind);
void __wrap_rocksdb_options_set_compression(void *o, int kind);
void __wrap_rocksdb_options_set_compression(void *o, int kind)
{
    __real_rocksdb_options_set_compression(o, with_compression ? 1 : kind);
}

size_t __real_runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet);
size_t __wrap_runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet);
size_t __wrap_runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet)
{
    size_t more = with_long_column ? sizeof(uint64_t) : 0;
    with_long_column = false;
    return __real_runs_column_bytes(r, table, tablet) + more;
}

static char dir[LIMIT_PATH];

static struct store *rocks(void)
{
    static char rows[LIMIT_PATH + 16];
    struct store *s;
    struct err e;
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_msg(store_rocks_open(rows, 0, &s, &e) == 0, "%s", e.text);
    return s;
}

static const struct store_item an_item = {
    .key = "k", .key_bytes = 1, .value = "v", .value_bytes = 1};

static void rocks_has_a_log(void)
{
    with_log = true;
    store_write(rocks(), &an_item, 1, NULL);
}

static void rocks_collects_garbage(void)
{
    with_collection = true;
    rocks();
}

static void rocks_compresses(void)
{
    with_compression = true;
    rocks();
}

static void a_copy_is_written(void)
{
    struct store *s = rocks();
    char copy[LIMIT_PATH + 16];
    snprintf(copy, sizeof copy, "%s/copy", dir);
    ck_assert_int_eq(store_checkpoint(s, copy, NULL), 0);
    ck_assert_int_eq(store_rocks_open_copy(copy, &s, NULL), 0);
    store_write(s, &an_item, 1, NULL);
}

static void a_key_is_too_long(void)
{
    struct store *s;
    struct store_item item = an_item;
    store_mem_open(&s);
    item.key_bytes = sizeof item.key + 1;
    store_write(s, &item, 1, NULL);
}

static void a_range_is_turned(void)
{
    struct store *s;
    struct store_item later = an_item;
    store_mem_open(&s);
    later.key[0]++;
    store_drop(s, &later, &an_item, NULL);
}

static void a_stored_tablet_lacks_marks(void)
{
    struct table_schema schema = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&schema);
    struct runs runs = {0};
    void *value = calloc(1, stored_tablet_bytes(r.table, &runs, 0) + 64);
    with_long_column = true;
    stored_tablet_write(r.table, &runs, 0, 1, value);
}

static void a_tablet_is_stored_that_the_table_has_not(void)
{
    struct table_schema schema = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&schema);
    struct runs runs = {0};
    char value[4096];
    stored_tablet_write(r.table, &runs, 1, 1, value);
}

static void control_state_is_older_than_its_floor(void)
{
    static struct table *none[LIMIT_TABLES];
    struct runs runs = {0};
    void *value;
    size_t bytes;
    stored_control_write(none, &runs, (struct stored_as_of){.sequence = 4, .floor = 5}, &value,
                         &bytes);
}

static void a_row_key_names_no_table(void)
{
    struct store_item item;
    stored_row_key(LIMIT_TABLES, 0, 0, 1, &item);
}

static void a_spill_gets_rows_that_it_has_no_room_for(void)
{
    struct table_schema schema = rows_schema(OPT_ADAGRAD, 4, 0);
    struct rows r = rows_open(&schema);
    struct spill s;
    struct store *store;
    struct err e;
    uint32_t count;
    store_mem_open(&store);
    spill_init(&s, store, 0);
    rows_push_one(&r, 1, 1, 0);
    spill_tablet(&s, r.table, 0, true, 1, &count, &e);
    s.batch = table_cold_bytes(r.table) - 1;
    spill_tablet(&s, r.table, 0, true, 1, &count, &e);
}

static const struct broken list[] = {
    {"embedding/store/store_rocks.c", 1, rocks_has_a_log,
     "!s->read_only && rocksdb_writeoptions_get_disable_WAL("},
    {"embedding/store/store_rocks.c", 2, rocks_collects_garbage,
     "!rocksdb_options_get_enable_blob_gc("},
    {"embedding/store/store_rocks.c", 3, rocks_compresses, "rocksdb_options_get_compression("},
    {"embedding/store/store_rocks.c", 0, a_copy_is_written, "!s->read_only && "},
    {"embedding/store.h", 0, a_key_is_too_long, "store_item_ok(&items[i])"},
    {"embedding/store.h", 0, a_range_is_turned, "store_range_ok(from, below)"},
    {"embedding/store/stored.c", 1, a_stored_tablet_lacks_marks,
     "h.column_bytes == runs_column_bytes("},
    {"embedding/store/stored.c", 0, a_tablet_is_stored_that_the_table_has_not, "tablet >> "},
    {"embedding/store/stored.c", 0, control_state_is_older_than_its_floor,
     "as_of.floor <= as_of.sequence"},
    {"embedding/store/stored.c", 0, a_row_key_names_no_table, "table < LIMIT_TABLES && tablet < "},
    {"embedding/store/spill.c", 0, a_spill_gets_rows_that_it_has_no_room_for,
     "s->value == NULL || row_bytes <= s->batch"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    rig_dir(dir);
    broken_check(list, sizeof list / sizeof list[0]);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return rows_main(suite);
}
