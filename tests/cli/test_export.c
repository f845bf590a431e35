/* test_export.c: the bytes of an export depend neither on the number of servers nor on how many
 * rows are read at a time; pieces of safetensors hold every row once; a disk that fails at any step
 * leaves no folder that counts. tests/e2e/test_export.py reads the formats. */
#include "deploy/cli/export.h"
#include "deploy/cli/reader_inner.h"
#include "proto/base/file.h"
#include "tests/lib/embedding_fleet.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = LIMIT_PATH + 64, WHOLE = 1 << 28 };

static char dir[LIMIT_PATH];
static struct fleet fleet;

static void setup(void)
{
    rig_dir(dir);
}

static void teardown(void)
{
    file_fault_set(NULL);
    rig_remove_dir(dir);
}

/* "DIR/NAME" */
static const char *at(const char *name)
{
    static char path[4][PATH];
    static uint32_t next;
    char *out = path[next++ % 4];
    (void)snprintf(out, PATH, "%s/%s", dir, name);
    return out;
}

/* Trains two tables on so many shards and makes a checkpoint of them. */
static void checkpoint_make(uint32_t shards, uint64_t batches, const char *name)
{
    char text[ERR_TEXT_MAX], data[PATH];
    (void)snprintf(data, sizeof data, "%s-data", at(name));
    ck_assert_int_eq(mkdir(data, 0700), 0);
    fleet_open(&fleet, shards, data, DURABLE_JOURNAL);
    fleet_tables(&fleet);
    fleet_run_open(&fleet, 1, 1, 1);
    fleet_train(&fleet, 1, 0, 0, batches);
    fleet_cut(&fleet, 5);
    ck_assert_msg(fleet_export(&fleet, 5, at(name), text) == 0, "%s", text);
    fleet_close(&fleet, false);
}

static struct reader *opened(const char *name)
{
    struct err e = {0};
    struct reader *r = calloc(1, sizeof *r);
    ck_assert_msg(checkpoint_open(at(name), NULL, &r->checkpoint, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < checkpoint_facts(r->checkpoint)->tables; i++)
        ck_assert_int_eq(reader_schema_add(r, checkpoint_table(r->checkpoint, i), &e), 0);
    return r;
}

struct way {
    const struct export_format *format;
    uint64_t span, shard;
};

static int tables_write(struct export *x, struct reader *from, struct reader *since,
                        struct export_told *told, struct err *e)
{
    int rc = 0;
    export_told_begin(told, x);
    for (uint32_t i = 0; i < reader_tables(from) && rc == 0; i++) {
        struct export_counts c = {0};
        struct json *arrays = export_told_table(told, reader_schema(from, i));
        rc = export_rows(x, from, i, since, since == NULL ? UINT32_MAX : i, arrays, &c, e);
        export_told_rows(told, &c, since != NULL);
    }
    if (rc == 0 && x->format->finish != NULL)
        rc = x->format->finish(x, e);
    if (rc == 0)
        rc = export_told_write(told, x, e);
    return rc;
}

static int written(const struct way *how, const char *from, const char *since, const char *out,
                   struct err *e)
{
    struct reader *r = opened(from), *older = since == NULL ? NULL : opened(since);
    struct export x = {
        .format = how->format, .state = true, .span_bytes = how->span, .shard_bytes = how->shard};
    struct export_folder folder;
    struct export_told told = {.whole = NULL};
    int rc = export_folder_begin(&folder, at(out), e);
    (void)snprintf(x.folder, sizeof x.folder, "%s", folder.temporary);
    if (rc == 0)
        rc = tables_write(&x, r, older, &told, e);
    if (rc == 0)
        rc = export_folder_end(&folder, e);
    export_folder_free(&folder);
    export_told_free(&told);
    export_free(&x);
    reader_close(r);
    reader_close(older);
    return rc;
}

static void write_well(const struct way *how, const char *from, const char *since, const char *out)
{
    struct err e = {0};
    ck_assert_msg(written(how, from, since, out, &e) == 0, "%s", e.text);
}

static char *file_of(const char *folder, const char *name, size_t *bytes)
{
    char path[2 * PATH], *text;
    (void)snprintf(path, sizeof path, "%s/%s", at(folder), name);
    ck_assert_msg(file_read_whole(path, WHOLE, &text, bytes) == 0, "%s: %s", path, strerror(errno));
    return text;
}

/* Returns the number of files. */
static uint32_t same_files(const char *one, const char *other)
{
    struct file_walk w;
    const char *name;
    uint32_t files = 0, others = 0;
    ck_assert(file_walk_open(&w, at(one)));
    for (; (name = file_walk_next(&w)) != NULL; files++) {
        size_t bytes, other_bytes;
        char *a = file_of(one, name, &bytes), *b = file_of(other, name, &other_bytes);
        ck_assert_msg(bytes == other_bytes && memcmp(a, b, bytes) == 0, "%s differs", name);
        free(a);
        free(b);
    }
    file_walk_close(&w);
    ck_assert(file_walk_open(&w, at(other)));
    while (file_walk_next(&w) != NULL)
        others++;
    file_walk_close(&w);
    ck_assert_uint_eq(files, others);
    return files;
}

START_TEST(servers_and_spans_do_not_change_a_byte)
{
    static const struct export_format *const formats[] = {&export_npy, &export_safetensors,
                                                          &export_tsv, &export_csv};
    checkpoint_make(1, 30, "one");
    checkpoint_make(3, 30, "three");
    for (uint32_t i = 0; i < 4; i++) {
        char whole[32], spans[32], three[32];
        (void)snprintf(whole, sizeof whole, "whole-%u", i);
        (void)snprintf(spans, sizeof spans, "spans-%u", i);
        (void)snprintf(three, sizeof three, "three-%u", i);
        write_well(&(struct way){formats[i], WHOLE, WHOLE}, "one", NULL, whole);
        write_well(&(struct way){formats[i], 1, WHOLE}, "one", NULL, spans);
        write_well(&(struct way){formats[i], 3000, WHOLE}, "three", NULL, three);
        ck_assert_uint_ge(same_files(whole, spans), 2);
        same_files(whole, three);
    }
}
END_TEST

static uint64_t rows_told(const char *folder, uint32_t table, const char *member)
{
    size_t bytes;
    char *text = file_of(folder, EXPORT_TOLD, &bytes);
    struct json *j = NULL;
    ck_assert_int_eq(json_parse(text, bytes, &j, NULL), 0);
    int64_t rows = json_get_int(json_array_at(json_get(j, "tables"), table), member, -1);
    json_free(j);
    free(text);
    ck_assert_int_ge(rows, 0);
    return (uint64_t)rows;
}

START_TEST(differences_do_not_depend_on_spans)
{
    checkpoint_make(1, 10, "older");
    checkpoint_make(2, 14, "newer");
    write_well(&(struct way){&export_npy, WHOLE, WHOLE}, "newer", "older", "whole");
    write_well(&(struct way){&export_npy, 1, WHOLE}, "newer", "older", "spans");
    same_files("whole", "spans");
    write_well(&(struct way){&export_npy, WHOLE, WHOLE}, "newer", NULL, "all");
    ck_assert_uint_gt(rows_told("whole", 0, "rows"), 0);
    ck_assert_uint_lt(rows_told("whole", 0, "rows"), rows_told("all", 0, "rows"));
    ck_assert_uint_eq(rows_told("whole", 0, "erased"), 0);
    /* the other way round: keys that only the newer one has are erased, and the rows that changed
     * are all in the difference, whichever way it is taken */
    write_well(&(struct way){&export_npy, WHOLE, WHOLE}, "older", "newer", "back");
    write_well(&(struct way){&export_npy, 1, WHOLE}, "older", "newer", "back-spans");
    same_files("back", "back-spans");
    write_well(&(struct way){&export_npy, WHOLE, WHOLE}, "older", NULL, "all-older");
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        uint64_t came = rows_told("all", i, "rows") - rows_told("all-older", i, "rows"),
                 changed = rows_told("back", i, "rows");
        ck_assert_uint_gt(came, 0);
        ck_assert_uint_gt(changed, 0); /* rows of the older one alone: none of them is new */
        ck_assert_uint_eq(rows_told("back", i, "erased"), came);
        ck_assert_uint_eq(rows_told("whole", i, "rows"), came + changed);
    }
    write_well(&(struct way){&export_npy, 3000, WHOLE}, "newer", "newer", "none");
    ck_assert_uint_eq(rows_told("none", 0, "rows") + rows_told("none", 0, "erased"), 0);
}
END_TEST

/* ---- pieces ---- */

/* Appends an array's bytes, from the file that the index names, to out. Returns false when the
 * index has no such array. */
static bool piece_take(const char *folder, const struct json *map, const char *name, char *out,
                       size_t *used, uint64_t most)
{
    const char *file = NULL;
    for (size_t i = 0; i < json_members(map); i++)
        if (strcmp(json_member_name(map, i), name) == 0)
            file = json_as_string(json_member_at(map, i), NULL);
    if (file == NULL)
        return false;
    size_t bytes;
    char *data = file_of(folder, file, &bytes);
    uint64_t length;
    memcpy(&length, data, sizeof length);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert_uint_le(bytes - 8 - length, most);
    struct json *header = NULL;
    const struct json *offsets = NULL;
    ck_assert_int_eq(json_parse(data + 8, length, &header, NULL), 0);
    for (size_t i = 0; i < json_members(header); i++)
        if (strcmp(json_member_name(header, i), name) == 0)
            offsets = json_get(json_member_at(header, i), "data_offsets");
    int64_t begin = json_as_int(json_array_at(offsets, 0), -1),
            end = json_as_int(json_array_at(offsets, 1), -1);
    ck_assert(begin >= 0 && end >= begin && 8 + length + (uint64_t)end <= bytes);
    memcpy(out + *used, data + 8 + length + begin, (size_t)(end - begin));
    *used += (size_t)(end - begin);
    json_free(header);
    free(data);
    return true;
}

START_TEST(pieces_hold_every_row_once)
{
    enum { MOST = 3000 };
    static const char *const columns[] = {"keys", "vectors", "state"};
    checkpoint_make(2, 30, "it");
    write_well(&(struct way){&export_npy, WHOLE, WHOLE}, "it", NULL, "npy");
    write_well(&(struct way){&export_safetensors, 2000, MOST}, "it", NULL, "pieces");
    size_t bytes, index_bytes;
    char *text = file_of("pieces", "model.safetensors.index.json", &index_bytes);
    struct json *index = NULL;
    ck_assert_int_eq(json_parse(text, index_bytes, &index, NULL), 0);
    free(text);
    const struct json *map = json_get(index, "weight_map");
    for (uint32_t c = 0; c < 3; c++) {
        char name[64], file[64];
        (void)snprintf(file, sizeof file, "table-0.%s.npy", columns[c]);
        char *expected = file_of("npy", file, &bytes), *found = malloc(bytes + MOST);
        size_t used = 0;
        uint32_t piece = 0;
        do {
            (void)snprintf(name, sizeof name, "table-0.%s.%05u", columns[c], piece++);
            ck_assert_uint_lt(used, bytes);
        } while (piece_take("pieces", map, name, found, &used, MOST));
        ck_assert_uint_gt(piece, 3);
        ck_assert_uint_eq(used, bytes - NPY_HEAD);
        ck_assert_mem_eq(found, expected + NPY_HEAD, used);
        free(expected);
        free(found);
    }
    json_free(index);
}
END_TEST

/* ---- a disk that fails ---- */

static bool there(const char *name)
{
    struct stat st;
    return lstat(at(name), &st) == 0;
}

/* At every step, the one call alone and all from there on. A folder under its name is whole even
 * then; PATH.tmp stays only where it could not be removed. */
static void fails_everywhere(const struct export_format *format, bool dead)
{
    struct way how = {format, WHOLE, 12000};
    int rc = 1;
    uint64_t steps = 0;
    checkpoint_make(1, 6, "it");
    write_well(&how, "it", NULL, "good");
    while (rc != 0) {
        struct err e = {0};
        file_fault_set(&(struct file_fault){.at = ++steps, .why = ENOSPC, .dead = dead});
        rc = written(&how, "it", NULL, "out", &e);
        file_fault_set(NULL);
        if (rc != 0)
            ck_assert_msg(e.text[0] != 0 && err_exit_status(rc) >= 70, "%s", e.text);
        if (there("out"))
            same_files("good", "out");
        ck_assert(!there("out.tmp") || dead || rc == 0 || there("out"));
        (void)file_remove_tree(at("out"));
        ck_assert_uint_lt(steps, 1000);
    }
    ck_assert_uint_gt(steps, 20);
}

START_TEST(a_disk_that_fails_leaves_nothing_that_counts)
{
    fails_everywhere(_i / 2 == 0 ? &export_npy : &export_safetensors, _i % 2 == 1);
}
END_TEST

START_TEST(a_full_disk_is_no_other_failure)
{
    struct err e = {0};
    checkpoint_make(1, 6, "it");
    for (uint64_t step = 5; step < 8; step++) {
        file_fault_set(&(struct file_fault){.at = step, .why = ENOSPC});
        int rc = written(&(struct way){&export_tsv, WHOLE, WHOLE}, "it", NULL, "out", &e);
        file_fault_set(NULL);
        ck_assert_msg(rc == SHOAL_E_CANTCREATE && strstr(e.text, "No space left") != NULL,
                      "step %" PRIu64 ": %s", step, e.text);
    }
}
END_TEST

START_TEST(names_of_files_are_plain_and_differ)
{
    char a[EXPORT_FILE], b[EXPORT_FILE];
    export_file_name("tower.buy it/now.0.weight", a);
    ck_assert_str_eq(a, "tower.buy%20it%2Fnow.0.weight");
    export_file_name("tower.buy%20it/now.0.weight", b);
    ck_assert_str_ne(a, b);
    export_file_name("..", a);
    ck_assert_str_eq(a, "%2E.");
    export_file_name("experts.0.0.2+3.gate#2", a);
    ck_assert_str_eq(a, "experts.0.0.2+3.gate#2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("export");
    TCase *tc = suite_case(suite, "export", 100, setup, teardown);
    tcase_add_test(tc, servers_and_spans_do_not_change_a_byte);
    tcase_add_test(tc, differences_do_not_depend_on_spans);
    tcase_add_test(tc, pieces_hold_every_row_once);
    tcase_add_loop_test(tc, a_disk_that_fails_leaves_nothing_that_counts, 0, 4);
    tcase_add_test(tc, a_full_disk_is_no_other_failure);
    tcase_add_test(tc, names_of_files_are_plain_and_differ);
    return suite_main(suite);
}
