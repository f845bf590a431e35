/* test_checkpoint.c: checkpoints made by n shards and loaded by m: the same rows and marks for all
 * n and m; translation; reading by tools. For damaged files see test_checkpoint_damage.c, for kills
 * test_checkpoint_kill.c. */
#include "embedding/checkpoint.h"
#include "embedding/checkpoint/load.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/space.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/job/manifest.h"
#include "proto/job/signature.h"
#include "tests/lib/embedding_digest.h"
#include "tests/lib/embedding_fleet.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[LIMIT_PATH], save_dir[LIMIT_PATH + 8], load_dir[LIMIT_PATH + 8],
    path[LIMIT_PATH + 8];
static struct fleet from, to;

static void setup(void)
{
    rig_dir(dir);
    snprintf(save_dir, sizeof save_dir, "%s/a", dir);
    snprintf(load_dir, sizeof load_dir, "%s/b", dir);
    snprintf(path, sizeof path, "%s/c", dir);
    ck_assert_int_eq(mkdir(save_dir, 0700), 0);
    ck_assert_int_eq(mkdir(load_dir, 0700), 0);
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

struct at_cut {
    uint64_t digest[FLEET_TABLES], rows_digest[FLEET_TABLES], rows[FLEET_TABLES], low[2], high[2];
};

static void note(struct fleet *f, uint64_t run, struct at_cut *out)
{
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        out->digest[i] = fleet_digest(f, i);
        out->rows_digest[i] = fleet_rows_digest(f, i);
        out->rows[i] = fleet_rows(f, i);
    }
    for (uint32_t lane = 0; lane < 2; lane++)
        fleet_marks(f, run, lane, 0, &out->low[lane], &out->high[lane]);
}

struct load_answer {
    int calls, status;
    char text[ERR_TEXT_MAX];
};

static void load_answered(void *context, int status, const char *text, uint64_t rows)
{
    struct load_answer *a = context;
    (void)rows;
    a->calls++;
    a->status = status;
    snprintf(a->text, sizeof a->text, "%s", text);
}

static void check_same(const struct at_cut *a, const struct at_cut *b)
{
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        ck_assert_uint_eq(a->digest[i], b->digest[i]);
        ck_assert_uint_eq(a->rows_digest[i], b->rows_digest[i]);
        ck_assert_uint_eq(a->rows[i], b->rows[i]);
    }
    for (uint32_t lane = 0; lane < 2; lane++) {
        ck_assert_uint_eq(a->low[lane], b->low[lane]);
        ck_assert_uint_eq(a->high[lane], b->high[lane]);
    }
}

/* Makes a checkpoint of cut 5 in `path` from a cluster of `shards`: rows in images and in records,
 * two lanes at different batches, and one batch that only half of the shards have. Pushes go on
 * while it is made. */
static void save(uint32_t shards, const char *where, enum durability durability, uint64_t batches,
                 struct at_cut *out)
{
    char text[ERR_TEXT_MAX];
    fleet_open(&from, shards, where, durability);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, batches);
    fleet_train(&from, 1, 1, 0, batches / 2);
    if (shards > 1)
        ck_assert_int_eq(fleet_push_some(&from, 1, 0, 0, batches, batches + 1, 0, shards / 2), 0);
    note(&from, 1, out);
    fleet_cut(&from, 5);
    for (uint64_t batch = batches / 2; batch < batches / 2 + 3; batch++)
        for (uint32_t table = 0; table < FLEET_TABLES; table++)
            ck_assert_int_eq(fleet_push_some(&from, 1, table, 1, batch, batch + 1, 0, shards), 0);
    int rc = fleet_export(&from, 5, path, text);
    ck_assert_msg(rc == 0, "%s", text);
    fleet_train(&from, 1, 1, batches / 2 + 3, batches / 2 + 5);
}

static void load(uint32_t shards, const char *where, enum durability durability, uint64_t run,
                 struct at_cut *out)
{
    char notes[4096];
    uint64_t rows;
    fleet_open(&to, shards, where, durability);
    fleet_tables(&to);
    int rc = fleet_load(&to, path, run, notes, &rows);
    ck_assert_msg(rc == 0, "%s", notes);
    ck_assert_str_eq(notes, "");
    note(&to, run, out);
    ck_assert_uint_eq(rows, out->rows[0] + out->rows[1]);
}

static void cross(uint32_t n, uint32_t m, enum durability durability, bool on_disk)
{
    struct at_cut saved, got;
    save(n, on_disk ? save_dir : NULL, durability, 40, &saved);
    fleet_close(&from, false);
    load(m, on_disk ? load_dir : NULL, durability, 7, &got);
    check_same(&saved, &got);
    if (durability == DURABLE_JOURNAL) { /* an answered load survives a restart */
        fleet_close(&to, false);
        fleet_reopen(&to);
        note(&to, 7, &got);
        check_same(&saved, &got);
    }
    fleet_close(&to, false);
    teardown();
    setup();
}

/* With 1, 2, 3 and 8 shards; SHOAL_ALL_PAIRS: 1 to 8. */
START_TEST(saved_by_n_and_loaded_by_m_is_the_same)
{
    static const uint32_t some[] = {1, 2, 3, 8}, all[] = {1, 2, 3, 4, 5, 6, 7, 8};
    bool every = getenv("SHOAL_ALL_PAIRS") != NULL;
    uint32_t count = every ? 8 : 4;
    const uint32_t *shards = every ? all : some;
    cross(shards[(uint32_t)_i / count], shards[(uint32_t)_i % count], DURABLE_JOURNAL, true);
}
END_TEST

START_TEST(memory_is_saved_and_loaded_too)
{
    cross(2, 3, DURABLE_MEMORY, false);
    cross(3, 2, DURABLE_MEMORY, true);
}
END_TEST

START_TEST(the_loaded_run_goes_on_where_the_saved_one_would_have)
{
    struct at_cut saved, got;
    save(2, save_dir, DURABLE_JOURNAL, 40, &saved);
    fleet_close(&from, false);
    load(3, load_dir, DURABLE_JOURNAL, 7, &got);
    fleet_train(&to, 7, 0, 40, 60); /* batch 41 is skipped where it is present */
    fleet_train(&to, 7, 1, 20, 40);
    fleet_close(&to, false);
    fleet_reopen(&to);
    fleet_open(&from, 1, NULL, DURABLE_MEMORY);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 40);
    fleet_train(&from, 1, 1, 0, 20);
    fleet_train(&from, 1, 0, 40, 60);
    fleet_train(&from, 1, 1, 20, 40);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), fleet_digest(&from, i));
    fleet_close(&to, false);
    fleet_close(&from, false);
}
END_TEST

static void train_table(struct fleet *f, uint64_t run, uint32_t table, uint64_t batch,
                        uint64_t below)
{
    for (; batch < below; batch++)
        ck_assert_int_eq(fleet_push_some(f, run, table, 0, batch, batch + 1, 0, f->shards), 0);
    fleet_run(f);
}

/* Run 1 pushes to table 0, run 2 to table 1: a checkpoint of run 2 contains only table 1. */
START_TEST(a_checkpoint_is_of_the_tables_of_its_run)
{
    bool on_disk = _i > 0;
    char text[4096];
    uint64_t rows;
    struct checkpoint *c;
    struct err e = {0};
    fleet_open(&from, 2, on_disk ? save_dir : NULL, on_disk ? DURABLE_JOURNAL : DURABLE_MEMORY);
    fleet_tables(&from);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(engine_run_open_tables(from.s[i % 2].g, 1 + i / 2, 2, 1,
                                                table_set_word(1u << i / 2), &e),
                         0);
    train_table(&from, 1, 0, 0, 20);
    train_table(&from, 2, 1, 0, 20);
    if (on_disk) { /* rows in images and in records */
        fleet_close(&from, true);
        fleet_reopen(&from);
        train_table(&from, 1, 0, 20, 22);
        train_table(&from, 2, 1, 20, 22);
    }
    fleet_cut(&from, 5); /* the cut of run 2, the newest */
    ck_assert_msg(fleet_export(&from, 5, path, text) == 0, "%s", text);
    ck_assert_msg(checkpoint_open(path, "", &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(checkpoint_facts(c)->tables, 1);
    ck_assert_uint_eq(checkpoint_table(c, 0)->table, 1);
    ck_assert_uint_eq(checkpoint_facts(c)->rows, fleet_rows(&from, 1));
    checkpoint_close(c);

    fleet_open(&to, 1, NULL, DURABLE_MEMORY);
    fleet_tables(&to);
    ck_assert_msg(fleet_load(&to, path, 7, text, &rows) == 0, "%s", text);
    ck_assert_uint_eq(fleet_digest(&to, 1), fleet_digest(&from, 1));
    ck_assert_uint_eq(fleet_rows(&to, 0), 0);
    fleet_close(&to, false);
    fleet_close(&from, false);
}
END_TEST

START_TEST(an_export_again_answers_again_and_another_one_is_refused)
{
    struct at_cut saved;
    char text[ERR_TEXT_MAX];
    save(2, save_dir, DURABLE_JOURNAL, 10, &saved);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), 0);
    fleet_cut(&from, 6);
    ck_assert_int_eq(fleet_export(&from, 6, path, text), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(text, "part-0000 holds part 0 of 2 of cut 5"));
    ck_assert_int_eq(fleet_export(&from, 77, path, text), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(fleet_export(&from, 6, "relative", text), SHOAL_E_MALFORMED);
    ck_assert_int_eq(fleet_export(&from, 6, "/proc/none/x", text), SHOAL_E_NOINPUT);
    fleet_close(&from, false);
}
END_TEST

struct outcome {
    int status;
    char text[ERR_TEXT_MAX];
};

static void keep(void *context, int status, const char *text, uint64_t rows)
{
    struct outcome *o = context;
    (void)rows;
    o->status = status;
    snprintf(o->text, sizeof o->text, "%s", text);
}

static void keep_clear(void *context, int status, const char *text)
{
    keep(context, status, text, 0);
}

static void keep_export(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)bytes;
    keep(context, status, text, rows);
}

START_TEST(a_cut_dropped_while_it_is_exported_goes_afterwards)
{
    struct at_cut saved, got;
    char text[ERR_TEXT_MAX];
    struct outcome out = {.status = 1};
    save(1, save_dir, DURABLE_JOURNAL, 20, &saved);
    rig_remove_dir(path);
    ck_assert_int_eq(engine_cut_export(from.s[0].g, 5, path, 0, 1, keep_export, &out, NULL), 0);
    fleet_run(&from);
    ck_assert_int_eq(out.status, SHOAL_E_NOINPUT); /* a folder that servers do not share */
    ck_assert_int_eq(mkdir(path, 0700), 0);
    out.status = 1;
    ck_assert_int_eq(engine_cut_export(from.s[0].g, 5, path, 0, 1, keep_export, &out, NULL), 0);
    ck_assert_int_eq(engine_cut_export(from.s[0].g, 5, path, 0, 1, keep_export, &out, NULL),
                     SHOAL_E_BUSY);
    fleet_close(&from, false); /* cancelled: `done` is not called */
    ck_assert_int_eq(out.status, 1);
    fleet_reopen(&from);
    ck_assert_int_eq(engine_cut_export(from.s[0].g, 5, path, 0, 1, keep_export, &out, NULL), 0);
    ck_assert_int_eq(engine_cut_drop(from.s[0].g, 5), 0);
    fleet_run(&from);
    ck_assert_int_eq(out.status, 0);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), SHOAL_E_NOT_FOUND);
    fleet_close(&from, false);
    load(1, load_dir, DURABLE_JOURNAL, 7, &got); /* the checkpoint needs no other file */
    check_same(&saved, &got);
    fleet_close(&to, false);
}
END_TEST

START_TEST(a_load_goes_into_empty_tables_only_and_answers_again)
{
    struct at_cut saved, got;
    char text[4096];
    uint64_t rows;
    save(2, save_dir, DURABLE_JOURNAL, 20, &saved);
    ck_assert_int_eq(fleet_load(&from, path, 9, text, NULL), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(text, "table-0"));
    fleet_close(&from, false);
    load(2, load_dir, DURABLE_JOURNAL, 7, &got);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(fleet_load(&to, path, 7, text, &rows), 0);
        ck_assert_uint_eq(rows, saved.rows[0] + saved.rows[1]);
        fleet_close(&to, false);
        fleet_reopen(&to);
    }
    ck_assert_int_eq(fleet_load(&to, path, 8, text, NULL), SHOAL_E_EXISTS);
    fleet_run_open(&to, 12, 1, 0);
    /* nothing was loaded as run 12 */
    ck_assert_int_eq(fleet_load(&to, path, 12, text, NULL), SHOAL_E_EXISTS);
    ck_assert_int_eq(fleet_load(&to, dir, 13, text, NULL), SHOAL_E_NOT_FOUND);
    fleet_close(&to, false);
}
END_TEST

/* A clear of another job's table leaves the load known: after a start its LOAD is answered from the
 * rows that are here. */
START_TEST(a_load_is_known_after_a_clear_of_others)
{
    struct at_cut saved, got;
    struct err e = {0};
    struct outcome out = {.status = 1};
    char text[4096];
    uint64_t rows;
    save(1, save_dir, DURABLE_JOURNAL, 20, &saved);
    fleet_close(&from, false);
    load(1, load_dir, DURABLE_JOURNAL, 7, &got);
    ck_assert_int_eq(
        engine_clear(to.s[0].g, 9, table_set_word(UINT64_C(1) << 9), keep_clear, &out, &e), 0);
    fleet_run(&to);
    ck_assert_int_eq(out.status, 0);
    fleet_close(&to, false);
    fleet_reopen(&to);
    ck_assert_msg(fleet_load(&to, path, 7, text, &rows) == 0, "%s", text);
    ck_assert_uint_eq(rows, saved.rows[0] + saved.rows[1]);
    fleet_close(&to, false);
}
END_TEST

/* Writes `value` into the first row of table 0 on shard 0, which no push could do. Returns its
 * key. */
static uint64_t row_spoil(struct fleet *f, float value)
{
    struct table *t = f->s[0].g->table[0].table;
    for (uint32_t k = 0; k < t->tablet_count; k++)
        for (uint32_t b = 0; b < t->tablets[k].bucket_count; b++)
            if (t->tablets[k].buckets[b].count > 0) {
                float *row = row_at(&t->shape, t->tablets[k].buckets[b].row[0]);
                row[0] = value;
                return t->tablets[k].buckets[b].key[0];
            }
    ck_abort_msg("no row");
}

/* The checksums fit, but no server could have made the rows: the load is refused with table and
 * key, and no row is loaded. */
START_TEST(rows_that_are_not_finite_are_refused)
{
    static const float bad[] = {NAN, INFINITY};
    struct at_cut saved;
    char text[4096], key[64];
    save(1, NULL, DURABLE_MEMORY, 5, &saved);
    uint64_t spoilt = row_spoil(&from, bad[_i % 2]);
    fleet_cut(&from, 6);
    snprintf(path + strlen(path), 8, "-bad");
    ck_assert_int_eq(fleet_export(&from, 6, path, text), 0);
    fleet_close(&from, false);
    fleet_open(&to, 1, _i < 2 ? load_dir : NULL, _i < 2 ? DURABLE_JOURNAL : DURABLE_MEMORY);
    fleet_tables(&to);
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_CORRUPT);
    snprintf(key, sizeof key, "%u:%012" PRIx64, (unsigned)(spoilt >> 48), spoilt & 0xffffffffffff);
    ck_assert_msg(strstr(text, "table table-0") != NULL && strstr(text, key) != NULL, "%s", text);
    ck_assert_uint_eq(fleet_rows(&to, 0), 0);
    fleet_close(&to, false);
}
END_TEST

/* A part is not written elsewhere, not even by a link in the middle of the path, and none is read
 * from elsewhere. */
START_TEST(a_checkpoint_lies_below_the_root)
{
    struct at_cut saved;
    char text[4096], notes[4096], root[LIMIT_PATH + 16], by_link[LIMIT_PATH + 32],
        above[LIMIT_PATH + 32], below[LIMIT_PATH + 32];
    struct stat st;
    snprintf(root, sizeof root, "%s/root", dir);
    snprintf(by_link, sizeof by_link, "%s/link/here", root);
    snprintf(above, sizeof above, "%s/../here", root);
    snprintf(below, sizeof below, "%s/below", root);
    save(1, NULL, DURABLE_MEMORY, 5, &saved);
    from.s[0].g->options.checkpoint_root = root;
    ck_assert_int_eq(fleet_export(&from, 5, below, text), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(text, "make the folder"));
    ck_assert(mkdir(root, 0700) == 0 && mkdir(below, 0700) == 0);
    snprintf(text, sizeof text, "%s/link", root);
    ck_assert_int_eq(symlink(dir, text), 0);
    snprintf(text, sizeof text, "%s/here", dir);
    ck_assert_int_eq(mkdir(text, 0700), 0);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), SHOAL_E_DENIED);
    ck_assert_int_eq(fleet_export(&from, 5, by_link, text), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(text, "checkpoint_root"));
    ck_assert_int_eq(fleet_export(&from, 5, above, text), SHOAL_E_MALFORMED);
    snprintf(text, sizeof text, "%s/here/part-0000", dir);
    ck_assert_int_ne(stat(text, &st), 0);
    ck_assert_int_eq(fleet_load(&from, path, 9, notes, NULL), SHOAL_E_DENIED);
    ck_assert_int_eq(fleet_load(&from, by_link, 9, notes, NULL), SHOAL_E_DENIED);
    int rc = fleet_export(&from, 5, below, text);
    ck_assert_msg(rc == 0, "%s", text);
    fleet_close(&from, false);
    fleet_open(&to, 1, NULL, DURABLE_MEMORY);
    to.s[0].g->options.checkpoint_root = root;
    fleet_tables(&to);
    ck_assert_int_eq(fleet_load(&to, below, 9, notes, NULL), 0);
    fleet_close(&to, false);
}
END_TEST

/* ---- signatures ---- */

static struct {
    char name[256][SIGNATURE_NAME];
    uint32_t count;
} files;

static int file_note(void *context, const char *name, struct err *e)
{
    (void)context;
    (void)e;
    ck_assert_uint_lt(files.count, 256);
    snprintf(files.name[files.count++], SIGNATURE_NAME, "%s", name);
    return 0;
}

/* Writes the part of the coordinator's manifest that a signature needs; lacks: one that names a
 * shard that is missing. */
static void manifest_write(bool lacks)
{
    char file[LIMIT_PATH + 32], *text;
    struct json *m = json_new_object();
    json_set_int(m, "format", MANIFEST_FORMAT);
    if (lacks) {
        struct json *list = json_new_array();
        json_append(list, json_new_object());
        json_set(m, "missing", list);
    }
    text = manifest_text(m);
    snprintf(file, sizeof file, "%s/" MANIFEST_FILE, path);
    FILE *f = fopen(file, "w");
    ck_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
    free(text);
    json_free(m);
}

static void manifest_put(void)
{
    manifest_write(false);
}

static int open_it(uint32_t *missing, uint64_t *rows, struct err *e)
{
    struct checkpoint *c;
    int rc = checkpoint_open(path, NULL, &c, e);
    if (rc != 0)
        return rc;
    *missing = checkpoint_facts(c)->missing;
    *rows = checkpoint_facts(c)->rows;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        sum += checkpoint_missing(c, i);
    ck_assert_uint_eq(sum, *missing);
    ck_assert(checkpoint_part_of(c, 0, 0) == 0 || checkpoint_part_of(c, 0, 0) == UINT32_MAX);
    checkpoint_close(c);
    return 0;
}

/* One of two shards is left out, as the coordinator does it: its tablets are in no part. */
START_TEST(tablets_may_be_missing_where_the_manifest_says_so)
{
    char text[4096];
    uint32_t missing;
    uint64_t rows, loaded;
    struct err e = {0};
    fleet_open(&from, 2, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 20);
    fleet_train(&from, 1, 1, 0, 20);
    fleet_cut(&from, 5);
    ck_assert_msg(fleet_export_one(&from, 5, 1, path, text) == 0, "%s", text);
    fleet_close(&from, false);
    ck_assert_int_eq(open_it(&missing, &rows, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "is in no part of"));
    manifest_write(false);
    ck_assert_int_eq(open_it(&missing, &rows, &e), SHOAL_E_CORRUPT);
    manifest_write(true);
    ck_assert_msg(open_it(&missing, &rows, &e) == 0, "%s", e.text);
    ck_assert(missing > 0 && rows > 0);
    fleet_open(&to, 2, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    ck_assert_msg(fleet_load(&to, path, 7, text, &loaded) == 0, "%s", text);
    ck_assert_uint_eq(loaded, rows);
    ck_assert_uint_eq(fleet_rows(&to, 0) + fleet_rows(&to, 1), rows);
    ck_assert_ptr_nonnull(strstr(text, "are not in the checkpoint"));
    fleet_close(&to, false);
    snprintf(text, sizeof text, "echo >> '%s/" MANIFEST_FILE "'", path);
    ck_assert_int_eq(system(text), 0);
    ck_assert_int_eq(open_it(&missing, &rows, &e), SHOAL_E_CORRUPT); /* its own checksum */
}
END_TEST

/* Signs the checkpoint in `path`; signers: the file with the list of keys. */
static void sign_all(const char *signers)
{
    uint8_t seed[SIGN_SEED], key[SIGN_KEY];
    char hex[SIGNATURE_KEY];
    struct checkpoint *c;
    struct err e = {0};
    files.count = 0;
    ck_assert_int_eq(checkpoint_open(path, NULL, &c, &e), 0);
    ck_assert_int_eq(checkpoint_files(c, file_note, NULL, &e), 0);
    checkpoint_close(c);
    sign_key_new(seed);
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    FILE *f = fopen(signers, "w");
    ck_assert(f != NULL && fprintf(f, "%s\n", hex) > 0 && fclose(f) == 0);
    manifest_put();
    ck_assert_msg(signature_write(path, files.name, files.count, seed, &e) == 0, "%s", e.text);
}

static void file_path(const char *name, char out[LIMIT_PATH + 256])
{
    snprintf(out, LIMIT_PATH + 256, "%s/%s", path, name);
}

/* Changes a byte in a file of rows, and makes the manifests' checksums fit, as an attacker
 * would. */
static void rows_change(const char *name)
{
    char file[LIMIT_PATH + 256], folder[LIMIT_PATH + 256];
    struct part p;
    struct err e = {0};
    file_path(name, file);
    FILE *f = fopen(file, "r+b");
    ck_assert_ptr_nonnull(f);
    int byte = fgetc(f);
    ck_assert(fseek(f, 0, SEEK_SET) == 0 && fputc(byte ^ 1, f) != EOF && fclose(f) == 0);
    snprintf(folder, sizeof folder, "%s/%.9s", path, name);
    ck_assert_int_eq(part_read(folder, NULL, &p, &e), 0);
    for (uint32_t i = 0; i < p.files; i++)
        if (strcmp(p.file[i].name, name + 10) == 0)
            ck_assert_int_eq(
                part_checksum(file, UINT64_MAX, false, &p.file[i].bytes, &p.file[i].checksum), 0);
    snprintf(file, sizeof file, "%s/%.9s/manifest", path, name);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_msg(part_write(folder, &p, &e) == 0, "%s", e.text);
    part_free(&p);
}

static void load_refused(const char *says)
{
    char text[4096];
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_DENIED);
    ck_assert_msg(strstr(text, says) != NULL, "%s", text);
    ck_assert_uint_eq(fleet_rows(&to, 0) + fleet_rows(&to, 1), 0);
}

/* RocksDB 9 leaves an empty log among the files of rows. */
static bool has_bytes(const char *name)
{
    char file[LIMIT_PATH + 256];
    struct stat st;
    file_path(name, file);
    return stat(file, &st) == 0 && st.st_size > 0;
}

/* Returns a file that has bytes and whose name begins so. */
static const char *file_of(const char *begins)
{
    for (uint32_t i = 0; i < files.count; i++)
        if (strncmp(files.name[i], begins, strlen(begins)) == 0 && has_bytes(files.name[i]))
            return files.name[i];
    ck_abort_msg("no file %s", begins);
}

/* Each file of the checkpoint is changed and then restored; at the end the shard accepts all of
 * it. */
START_TEST(a_load_asks_for_a_signature)
{
    struct at_cut saved, got;
    char signers[LIMIT_PATH + 32], other[LIMIT_PATH + 32], file[LIMIT_PATH + 256],
        aside[LIMIT_PATH + 32], whole[4 * LIMIT_PATH], manifest[4 * LIMIT_PATH];
    snprintf(signers, sizeof signers, "%s/signers", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    save(2, save_dir, DURABLE_JOURNAL, 40, &saved);
    fleet_close(&from, false);
    sign_all(other);
    sign_all(signers);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    to.s[0].g->options.checkpoint_signers = other;
    load_refused("none of the keys that are good here");
    to.s[0].g->options.checkpoint_signers = signers;
    snprintf(whole, sizeof whole, "cp -r %s %s", path, aside);
    ck_assert_int_eq(system(whole), 0);
    snprintf(whole, sizeof whole, "rm -r %s && cp -r %s %s", path, aside, path);
    static const char *const rows[] = {"part-0000/rows/0", "part-0001/rows/MANIFEST",
                                       "part-0000/rows/CURRENT", "part-0001/journal/seg-"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows_change(file_of(rows[i]));
        load_refused("manifest is not the file that was signed");
        snprintf(manifest, sizeof manifest, "cp %s/%.9s/manifest %s/%.9s/manifest", aside, rows[i],
                 path, rows[i]);
        ck_assert_int_eq(system(manifest), 0);
        load_refused("is not the file that was signed");
        ck_assert_int_eq(system(whole), 0);
    }
    file_path("signature", file);
    ck_assert_int_eq(unlink(file), 0);
    load_refused("is not signed");
    ck_assert_int_eq(system(whole), 0);
    ck_assert_int_eq(unlink(signers), 0);
    char text[4096];
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_NOINPUT);
    sign_all(signers);
    int rc = fleet_load(&to, path, 7, text, NULL);
    ck_assert_msg(rc == 0, "%s", text);
    note(&to, 7, &got);
    check_same(&saved, &got);
    fleet_close(&to, false);
}
END_TEST

START_TEST(a_ticked_table_is_not_empty)
{
    struct at_cut saved;
    char text[4096];
    struct push_plan plan;
    static struct rig_push p;
    save(1, save_dir, DURABLE_JOURNAL, 5, &saved);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    fleet_run_open(&to, 3, 1, 0);
    rig_push_make(&p, 3, 0, 0, 0, 0, 1);
    p.record.key_count = 0;
    ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_EXISTS);
    fleet_close(&to, false);
}
END_TEST

START_TEST(while_a_load_writes_others_go_on_and_its_tables_are_closed)
{
    struct at_cut saved, got;
    static struct rig_push p;
    struct push_plan plan;
    struct err e;
    uint64_t sequence;
    struct engine_load_options o = {.path = path, .run = 7, .tables = table_set_word(3)};
    save(1, save_dir, DURABLE_JOURNAL, 60, &saved);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct table_schema other = rig_schema(2);
    fleet_table(&to, &other);
    fleet_run_open(&to, 3, 1, 0);
    struct engine *g = to.s[0].g;
    struct outcome out = {.status = 1};
    ck_assert_int_eq(engine_load(g, &o, keep, &out, &e), 0);
    ck_assert_int_eq(engine_load(g, &o, keep, &out, &e), SHOAL_E_BUSY);
    ck_assert(embedding_env_step(&to.s[0].env)); /* built: the first images wait for their thread */
    ck_assert_int_eq(engine_hold(g, 1, engine_newest_run(g), &sequence), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_restore(g, 1, 30, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_run_open(g, 7, 2, 1, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_run_drop(g, 7, &e), SHOAL_E_AGAIN);
    uint64_t changed;
    ck_assert_int_eq(engine_keys(g, 0, KEY_BLOCK, &(uint64_t){5}, 1, &changed, &e), SHOAL_E_BUSY);
    rig_push_make(&p, 3, 0, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), SHOAL_E_BUSY);
    rig_push_make(&p, 3, 2, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    ck_assert_uint_eq(table_rows(engine_table(g, 0)), 0);
    embedding_env_run(&to.s[0].env);
    ck_assert_msg(out.status == 0, "%s", out.text);
    note(&to, 7, &got);
    check_same(&saved, &got);
    ck_assert_int_eq(engine_hold(g, 1, engine_newest_run(g), &sequence), 0);
    ck_assert_int_eq(engine_release(g, 1), 0);
    ck_assert_uint_eq(table_rows(engine_table(g, 2)), 512);
    fleet_close(&to, false);
    fleet_reopen(&to);
    note(&to, 7, &got);
    check_same(&saved, &got);
    uint32_t mode, lanes; /* the other job's run goes on, too */
    ck_assert_int_eq(engine_run_mode(to.s[0].g, 3, &mode, &lanes), 0);
    ck_assert_uint_eq(lanes, 1);
    ck_assert_uint_eq(table_rows(engine_table(to.s[0].g, 2)), 512);
    fleet_close(&to, false);
}
END_TEST

/* A loaded image is in the store before its rows are here: it does not count as waste, and a
 * rewriting because of waste must not replace it. *tablets: how many tablets of the load's tables
 * were to be rewritten. */
static void write_beside_a_load(struct engine *g, const struct outcome *out, uint64_t *tablets)
{
    *tablets = 0;
    while (out->status == 1) {
        if (table_set_any(g->loading))
            g->options.disk = space_taken(g) + (7u << 18); /* nearly used up */
        ck_assert(embedding_env_step(&to.s[0].env));
        for (uint32_t k = 0; out->status == 1 && k < g->table[0].scope.tablets; k++)
            *tablets += g->table[0].changed[k] > g->table[0].durable[k];
    }
    g->options.disk = 0;
}

START_TEST(a_load_outlasts_what_is_written_again)
{
    struct at_cut saved, got;
    static struct rig_push p;
    struct push_plan plan;
    struct err e;
    struct engine_load_options o = {.path = path, .run = 7, .tables = table_set_word(3)};
    save(1, save_dir, DURABLE_JOURNAL, 60, &saved);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct table_schema other = rig_schema(2);
    fleet_table(&to, &other);
    fleet_run_open(&to, 3, 1, 0);
    struct engine *g = to.s[0].g;
    struct outcome out = {.status = 1};
    for (uint64_t batch = 0; batch < 60; batch++) {
        rig_push_make(&p, 3, 2, 0, 0, batch, batch + 1);
        ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    }
    uint64_t written = g->flush.image_bytes, tablets;
    ck_assert_int_eq(engine_load(g, &o, keep, &out, &e), 0);
    write_beside_a_load(g, &out, &tablets);
    ck_assert_msg(out.status == 0, "%s", out.text);
    ck_assert_uint_gt(g->flush.image_bytes, written); /* other images were written, too */
    fleet_run(&to);
    note(&to, 7, &got);
    check_same(&saved, &got);
    fleet_close(&to, true);
    fleet_reopen(&to);
    note(&to, 7, &got);
    check_same(&saved, &got);
    ck_assert_uint_eq(tablets, 0);
    fleet_close(&to, false);
}
END_TEST

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
static size_t starved; /* no memory for one allocation of that size */

void *__wrap_calloc(size_t count, size_t bytes)
{
    return starved != 0 && count * bytes == starved ? NULL : __real_calloc(count, bytes);
}

/* During the read of a checkpoint, the last tablet of a table gets another leader, or a push: in
 * memory the push leaves a mark, on disk also a tablet to be written. */
START_TEST(what_changes_while_a_checkpoint_is_read_is_seen)
{
    static uint16_t map[1024];
    struct at_cut saved;
    struct err e;
    struct push_plan plan;
    struct engine_load_options o = {.path = path, .run = 7};
    const bool memory = _i == 2;
    uint64_t key = key_make(1, 0), changed;
    save(1, save_dir, DURABLE_JOURNAL, 5, &saved);
    fleet_close(&from, false);
    fleet_open(&to, 1, memory ? NULL : load_dir, memory ? DURABLE_MEMORY : DURABLE_JOURNAL);
    fleet_tables(&to);
    fleet_run_open(&to, 3, 1, 0);
    struct engine *g = to.s[0].g;
    const struct table_schema *s = table_schema_of(engine_table(g, 0));
    const uint32_t last = (1u << s->tablet_bits) - 1;
    struct push_record r = {
        .run = 3, .to = 1, .tablet_first = last, .tablet_count = 1, .lr_scale = 1};
    struct outcome out = {.status = 1};
    ck_assert_int_eq(engine_load(g, &o, keep, &out, &e), 0);
    if (_i == 0) {
        map[s->tablet_first + last] = 1;
        ck_assert_int_eq(engine_lead(g, map, 1024, 0), 0);
    } else if (_i == 3) { /* neither row nor mark */
        while (key_tablet(key_mix(key), s->tablet_bits) != last)
            key++;
        ck_assert_int_eq(engine_keys(g, 0, KEY_BLOCK, &key, 1, &changed, &e), 0);
    } else {
        ck_assert_int_eq(engine_admit_push(g, &r, &plan, &e), 0);
        ck_assert_int_eq(engine_commit(g), 0);
        ck_assert_int_eq(engine_apply_push(g, &r, &plan), 0);
    }
    fleet_run(&to);
    ck_assert_int_eq(out.status, _i == 0 ? SHOAL_E_AGAIN : SHOAL_E_EXISTS);
    fleet_close(&to, false);
}
END_TEST

START_TEST(a_load_that_cannot_begin_to_write_closes_nothing)
{
    struct at_cut saved, got;
    struct err e;
    uint64_t sequence;
    struct engine_load_options o = {.path = path, .run = 7};
    save(1, save_dir, DURABLE_JOURNAL, 20, &saved);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct engine *g = to.s[0].g;
    struct outcome out = {.status = 1};
    ck_assert_int_eq(engine_load(g, &o, keep, &out, &e), 0);
    starved = sizeof(struct load_write);
    ck_assert(embedding_env_step(&to.s[0].env)); /* built */
    engine_flush_step(g);
    ck_assert_int_eq(engine_hold(g, 1, engine_newest_run(g), &sequence), 0);
    ck_assert_int_eq(engine_release(g, 1), 0);
    starved = 0;
    engine_flush_step(g);
    ck_assert_int_eq(engine_hold(g, 1, engine_newest_run(g), &sequence), SHOAL_E_BUSY);
    embedding_env_run(&to.s[0].env);
    ck_assert_msg(out.status == 0, "%s", out.text);
    note(&to, 7, &got);
    check_same(&saved, &got);
    fleet_close(&to, false);
}
END_TEST

/* State that a load made durable stays durable when a clean stop has nothing to write. */
START_TEST(a_clean_stop_after_a_load_takes_nothing_back)
{
    struct at_cut saved, got;
    struct err e = {0};
    save(1, save_dir, DURABLE_JOURNAL, 20, &saved);
    fleet_close(&from, false);
    load(1, load_dir, DURABLE_JOURNAL, 7, &got);
    struct engine *g = to.s[0].g;
    uint64_t durable = g->control_durable;
    ck_assert_uint_gt(durable, 0);
    ck_assert_int_eq(flush_all(g, &e), 0);
    ck_assert_uint_ge(g->control_durable, durable);
    fleet_close(&to, true);
}
END_TEST

/* A load without a row leaves its tables unchanged, so another may follow; in memory there is room
 * for that many arenas. */
START_TEST(loads_without_rows_end_with_a_refusal)
{
    char text[4096];
    struct err e = {0};
    uint64_t run = 7, rows;
    fleet_open(&from, 1, NULL, DURABLE_MEMORY);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, NULL), 0);
    fleet_close(&from, false);
    fleet_open(&to, 1, NULL, DURABLE_MEMORY);
    fleet_tables(&to);
    for (; run < 7 + LIMIT_TABLES; run++) {
        int rc = fleet_load(&to, path, run, text, NULL);
        ck_assert_msg(rc == 0, "%s", text);
        ck_assert_int_eq(fleet_load(&to, path, run, text, &rows), 0); /* repeated */
        ck_assert_int_eq(engine_run_drop(to.s[0].g, run, &e), 0);
    }
    ck_assert_int_eq(fleet_load(&to, path, run, text, NULL), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(text, "restart"));
    fleet_close(&to, false);
}
END_TEST

/* ---- translation ---- */

static void save_for_translation(struct at_cut *saved)
{
    save(2, save_dir, DURABLE_JOURNAL, 30, saved);
    fleet_close(&from, false);
}

static void load_as(uint32_t shards, const struct table_schema *schema, uint32_t count, char *notes)
{
    fleet_open(&to, shards, load_dir, DURABLE_JOURNAL);
    for (uint32_t i = 0; i < count; i++)
        fleet_table(&to, &schema[i]);
    int rc = fleet_load(&to, path, 7, notes, NULL);
    ck_assert_msg(rc == 0, "%s", notes);
}

START_TEST(another_number_of_tablets)
{
    struct at_cut saved;
    char notes[4096];
    uint64_t low, high;
    save_for_translation(&saved);
    for (int bits = 2; bits <= 6; bits += 2) {
        struct table_schema schema[2] = {fleet_schema(0), fleet_schema(1)};
        schema[0].tablet_bits = (uint32_t)bits;
        schema[0].table = 3; /* and another number and place */
        schema[0].tablet_first = 100;
        load_as(2, schema, 2, notes);
        ck_assert_uint_eq(fleet_rows_digest(&to, 3), saved.rows_digest[0]);
        ck_assert_uint_eq(fleet_digest(&to, 1), saved.digest[1]);
        fleet_marks(&to, 7, 0, 3, &low, &high);
        ck_assert_uint_eq(low, saved.low[0]);
        ck_assert_uint_eq(high, saved.high[0]);
        ck_assert_int_eq(strstr(notes, "16 tablets become") != NULL, bits != 4);
        fleet_close(&to, false);
        fleet_reopen(&to);
        ck_assert_uint_eq(fleet_rows_digest(&to, 3), saved.rows_digest[0]);
        fleet_close(&to, false);
        rig_remove_dir(load_dir);
        ck_assert_int_eq(mkdir(load_dir, 0700), 0);
    }
}
END_TEST

/* Joined tablets get the highest marks of both, whichever has them: no batch is applied twice. */
START_TEST(joined_tablets_have_the_highest_marks)
{
    static struct rig_push p;
    struct push_plan plan;
    char notes[4096];
    struct table_schema schema = fleet_schema(0);
    fleet_open(&from, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 1);
    for (uint32_t tablet = 0; tablet <= 3; tablet += 3) { /* the first of a pair; the second */
        rig_push_make(&p, 1, 0, 0, 0, 1, 2);
        p.record.tablet_first = tablet;
        p.record.tablet_count = 1;
        p.record.key_count = 0;
        ck_assert_int_eq(rig_push(&from.s[0], &p, &plan), 0);
    }
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, NULL), 0);
    fleet_close(&from, false);
    schema.tablet_bits = SHARD_TABLET_BITS - 1;
    load_as(1, &schema, 1, notes);
    for (uint32_t tablet = 0; tablet < 3; tablet++)
        ck_assert_uint_eq(engine_mark_range(to.s[0].g, 7, 0, 0, tablet, 1), tablet < 2 ? 2 : 1);
    fleet_close(&to, false);
}
END_TEST

struct weights {
    uint64_t sum;
    uint32_t width;
};

static void add_weights(void *context, const void *row)
{
    struct weights *w = context;
    w->sum += hash_bytes(row, sizeof(uint64_t) + w->width * sizeof(float), 1);
}

static uint64_t weights_of(struct fleet *f, uint32_t table)
{
    struct weights w = {.width = SHARD_WIDTH};
    for (uint32_t i = 0; i < f->shards; i++)
        for (uint32_t k = 0; k < 16; k++)
            table_visit(engine_table(f->s[i].g, table), k, add_weights, &w);
    return w.sum;
}

START_TEST(another_optimizer_keeps_weights_and_begins_its_state)
{
    char notes[4096];
    fleet_open(&from, 2, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 30);
    uint64_t weights[2] = {weights_of(&from, 0), weights_of(&from, 1)};
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, notes), 0);
    fleet_close(&from, false);
    struct table_schema schema[2] = {fleet_schema(0), fleet_schema(1)};
    schema[0].optimizer = (struct optimizer_spec){
        .kind = OPT_ADAM, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
    schema[1].optimizer =
        (struct optimizer_spec){.kind = OPT_FTRL, .lr = 0.1f, .beta = 1, .l1 = 0.01f, .l2 = 0.02f};
    load_as(3, schema, 2, notes);
    ck_assert_uint_eq(weights_of(&to, 0), weights[0]);
    ck_assert_uint_eq(weights_of(&to, 1), weights[1]);
    ck_assert_ptr_nonnull(
        strstr(notes, "table table-0: its optimizer was adagrad and is adam now"));
    ck_assert_ptr_nonnull(strstr(notes, "table table-1: its optimizer was sgd and is ftrl now"));
    /* ftrl computes weights from its state: a push without a gradient must not change them, except
     * for rounding */
    static struct rig_push p;
    float before[SHARD_KEYS * SHARD_WIDTH], after[SHARD_KEYS * SHARD_WIDTH];
    rig_push_make(&p, 7, 1, 0, 0, 30, 31);
    memset(p.gradients, 0, sizeof p.gradients);
    for (uint32_t i = 0; i < 3; i++) {
        struct engine *g = to.s[i].g;
        struct table *t = engine_table(g, 1);
        table_pull(t, p.keys, SHARD_KEYS, before);
        struct push_args args = {.lr_scale = 1, .batch = 1, .step = 1};
        ck_assert_int_eq(table_push(t, p.keys, p.gradients, SHARD_KEYS, &args), 0);
        table_pull(t, p.keys, SHARD_KEYS, after);
        for (uint32_t k = 0; k < SHARD_KEYS * SHARD_WIDTH; k++)
            ck_assert_float_eq_tol(before[k], after[k], 1e-6f);
    }
    fleet_close(&to, false);
}
END_TEST

START_TEST(other_settings_of_the_optimizer_keep_its_state)
{
    struct at_cut saved;
    char notes[4096];
    save_for_translation(&saved);
    struct table_schema schema[2] = {fleet_schema(0), fleet_schema(1)};
    schema[0].optimizer.lr = 0.01f;
    schema[0].seed = 99;
    load_as(2, schema, 2, notes);
    ck_assert_uint_eq(fleet_rows_digest(&to, 0), saved.rows_digest[0]);
    ck_assert_ptr_nonnull(strstr(notes, "settings of adagrad differ"));
    ck_assert_ptr_nonnull(strstr(notes, "initial values, seed or rules of rows differ"));
    fleet_close(&to, false);
}
END_TEST

static uint32_t bare_rows;
static void check_stats(void *context, const void *row)
{
    const struct table_schema *s = context;
    struct row_stats stats;
    memcpy(&stats, (const char *)row + sizeof(uint64_t) + schema_stats_at(s) * sizeof(float),
           sizeof stats);
    bare_rows +=
        stats.show == 0 && stats.click == 0 && stats.time == 0 && stats.flags == ROW_HAS_VECTOR;
}

START_TEST(statistics_are_added_and_dropped)
{
    struct at_cut saved;
    char notes[4096];
    save_for_translation(&saved);
    struct table_schema schema[2] = {fleet_schema(0), fleet_schema(1)};
    schema[0].rules.stats = schema[1].rules.stats = 1;
    load_as(2, schema, 2, notes);
    ck_assert_ptr_nonnull(strstr(notes, "table table-0: statistics are new"));
    bare_rows = 0;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 16; k++)
            table_visit(engine_table(to.s[i].g, 0), k, check_stats, &schema[0]);
    ck_assert_uint_eq(bare_rows, saved.rows[0]);
    fleet_cut(&to, 8); /* removed again: as if they had never existed */
    char second[LIMIT_PATH + 16];
    snprintf(second, sizeof second, "%s/d", dir);
    ck_assert_int_eq(fleet_export(&to, 8, second, notes), 0);
    fleet_close(&to, false);
    fleet_open(&to, 3, NULL, DURABLE_MEMORY);
    fleet_tables(&to);
    ck_assert_int_eq(fleet_load(&to, second, 9, notes, NULL), 0);
    ck_assert_ptr_nonnull(strstr(notes, "statistics of rows are dropped"));
    ck_assert_uint_eq(fleet_digest(&to, 0), saved.digest[0]);
    ck_assert_uint_eq(fleet_digest(&to, 1), saved.digest[1]);
    fleet_close(&to, false);
}
END_TEST

START_TEST(a_table_more_and_a_table_less)
{
    struct at_cut saved;
    char notes[4096];
    uint64_t low, high;
    save_for_translation(&saved);
    struct table_schema schema[2] = {fleet_schema(0), rig_schema(2)};
    load_as(3, schema, 2, notes);
    ck_assert_uint_eq(fleet_digest(&to, 0), saved.digest[0]);
    ck_assert_uint_eq(fleet_rows(&to, 2), 0);
    ck_assert_ptr_nonnull(
        strstr(notes, "table table-2: it is not in the checkpoint and begins empty"));
    ck_assert_ptr_nonnull(
        strstr(notes, "table table-1: the job has none of this name; its rows are passed over"));
    fleet_marks(&to, 7, 0, 2, &low, &high); /* the lane's lowest mark: the next batch fits */
    ck_assert_uint_eq(low, saved.low[0]);
    ck_assert_uint_eq(high, saved.low[0]);
    ck_assert_int_eq(fleet_push_some(&to, 7, 2, 0, low, low + 1, 0, 3), 0);
    ck_assert_uint_eq(fleet_rows(&to, 2), 512);
    fleet_close(&to, false);
    fleet_reopen(&to);
    ck_assert_uint_eq(fleet_rows(&to, 2), 512);
    fleet_marks(&to, 7, 1, 2, &low, &high);
    ck_assert_uint_eq(low, saved.low[1]);
    fleet_close(&to, false);
}
END_TEST

START_TEST(another_width_is_refused)
{
    struct at_cut saved;
    char text[4096];
    save_for_translation(&saved);
    struct table_schema schema = fleet_schema(0);
    schema.width = 5;
    fleet_open(&to, 2, load_dir, DURABLE_JOURNAL);
    fleet_table(&to, &schema);
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_SCHEMA);
    ck_assert_ptr_nonnull(
        strstr(text, "vectors of 4 numbers in the checkpoint and of 5 in the job"));
    fleet_close(&to, false);
}
END_TEST

/* Manifests as an older release wrote them. */
static void sizes_forget(uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        char where[LIMIT_PATH], manifest[LIMIT_PATH + 16];
        struct part p;
        struct err e = {0};
        part_path(path, i, "", where);
        ck_assert_int_eq(part_read(where, NULL, &p, &e), 0);
        ck_assert(p.facts.sized);
        p.facts.sized = false;
        snprintf(manifest, sizeof manifest, "%s/manifest", where);
        ck_assert_int_eq(unlink(manifest), 0);
        ck_assert_int_eq(part_write(where, &p, &e), 0);
        part_free(&p);
    }
}

/* A dense table with rows of 512 floats beside many narrow rows: a load asks for the room of each
 * table's rows by its own width, also with a manifest of an older release (_i 1). */
START_TEST(a_load_asks_for_room_by_table)
{
    struct table_schema wide = rig_schema(2);
    struct engine_load_options o = {.path = path, .run = 7};
    struct load_answer out = {0};
    struct err e = {0};
    char text[ERR_TEXT_MAX];
    uint64_t bytes = 0;
    wide.dense = 1;
    wide.width = 512;
    fleet_open(&from, 2, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_table(&from, &wide);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 40);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), 0);
    for (uint32_t i = 0; i < 2; i++)
        bytes += fleet_rows(&from, i) * table_row_bytes(engine_table(from.s[0].g, i));
    fleet_close(&from, false);
    if (_i == 1)
        sizes_forget(2);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    fleet_table(&to, &wide);
    ck_assert_int_eq(engine_load(to.s[0].g, &o, load_answered, &out, &e), 0);
    while (load_of(to.s[0].g) != NULL && load_of(to.s[0].g)->arena == NULL)
        ck_assert(embedding_env_step(&to.s[0].env));
    const struct load *l = load_of(to.s[0].g);
    ck_assert_ptr_nonnull(l);
    ck_assert_uint_ge(l->need, bytes);
    ck_assert_uint_le(l->need, bytes + bytes / 4 + (3u << SHARD_TABLET_BITS) * 256);
    fleet_run(&to);
    ck_assert_int_eq(out.status, 0);
    fleet_close(&to, false);
}
END_TEST

START_TEST(undo_of_bsp_goes_by_the_new_run)
{
    static struct rig_push p;
    struct push_plan plan;
    char text[4096];
    float before[SHARD_KEYS * SHARD_WIDTH], then[SHARD_KEYS * SHARD_WIDTH],
        now[SHARD_KEYS * SHARD_WIDTH];
    fleet_open(&from, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 1, 2);
    fleet_train(&from, 1, 0, 0, 2);
    rig_push_make(&p, 1, 0, 0, 0, 2, 3);
    table_pull(engine_table(from.s[0].g, 0), p.keys, SHARD_KEYS, before);
    ck_assert_int_eq(rig_push(&from.s[0], &p, &plan), 0);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), 0);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), 0);
    for (int again = 0; again < 2; again++) {
        struct table *t = engine_table(to.s[0].g, 0);
        table_pull(t, p.keys, SHARD_KEYS, now);
        pull_before(t, p.keys, SHARD_KEYS, table_undo_clock(7, 3), then);
        ck_assert_int_ne(memcmp(now, before, sizeof now), 0);
        ck_assert_int_eq(memcmp(then, before, sizeof then), 0);
        fleet_close(&to, false);
        fleet_reopen(&to);
    }
    fleet_close(&to, false);
}
END_TEST

/* A new run has other clocks, even if their numbers are equal. */
START_TEST(a_run_that_begins_takes_no_undo_along)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    struct load_answer got = {0};
    float then[SHARD_KEYS * SHARD_WIDTH], now[SHARD_KEYS * SHARD_WIDTH];
    fleet_open(&from, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 1, 2);
    fleet_train(&from, 1, 0, 0, 2);
    rig_push_make(&p, 1, 0, 0, 0, 2, 3);
    ck_assert_int_eq(rig_push(&from.s[0], &p, &plan), 0);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, NULL), 0);
    fleet_close(&from, false);
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct engine_load_options o = {.path = path, .run = 7, .lanes = 1, .mode = 2};
    ck_assert_int_eq(engine_load(to.s[0].g, &o, load_answered, &got, &e), 0);
    fleet_run(&to);
    ck_assert_msg(got.calls == 1 && got.status == 0, "%s", got.text);
    struct table *t = engine_table(to.s[0].g, 0);
    table_pull(t, p.keys, SHARD_KEYS, now);
    pull_before(t, p.keys, SHARD_KEYS, table_undo_clock(7, 3), then);
    ck_assert_int_eq(memcmp(then, now, sizeof then), 0);
    fleet_close(&to, false);
}
END_TEST

/* ---- what a load leaves alone ---- */

/* Makes a checkpoint of one shard with both tables. */
static void save_one(void)
{
    fleet_open(&from, 1, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 3);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, NULL), 0);
    fleet_close(&from, false);
}

static void load_one(uint64_t run, uint64_t tables)
{
    struct load_answer got = {0};
    struct err e = {0};
    struct engine_load_options o = {.path = path, .run = run, .tables = set_of(tables)};
    ck_assert_int_eq(engine_load(to.s[0].g, &o, load_answered, &got, &e), 0);
    fleet_run(&to);
    ck_assert_msg(got.calls == 1 && got.status == 0, "%s", got.text);
}

/* An empty table beside others, as after a failed setup: when the store rewrites those, the table
 * stays as it was made. A restore changes it, and the refusal says that its advice costs the other
 * tables, too. */
START_TEST(a_table_beside_others_stays_as_it_was_made)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    char text[4096];
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct table_schema other = rig_schema(2);
    fleet_table(&to, &other);
    fleet_run_open(&to, 3, 1, 0);
    struct engine *g = to.s[0].g;
    for (uint64_t batch = 0; batch < 3; batch++) {
        rig_push_make(&p, 3, 2, 0, 0, batch, batch + 1);
        ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    }
    flush_touch_images(g);
    ck_assert_uint_eq(flush_dirty(g), 16); /* the tablets of the table with rows */
    ck_assert_int_eq(flush_all(g, &e), 0);
    if (_i == 0) {
        load_one(7, 3);
    } else {
        fleet_cut(&to, 5);
        ck_assert_int_eq(engine_restore(g, 5, 4, &e), 0);
        ck_assert_int_eq(fleet_load(&to, path, 7, text, NULL), SHOAL_E_EXISTS);
        ck_assert_ptr_nonnull(strstr(text, "drops the tables of the job's space for good"));
    }
    ck_assert_uint_gt(table_rows(engine_table(g, 2)), 0);
    fleet_close(&to, false);
}
END_TEST

/* Tables of the run that the checkpoint lacks may have been trained before: they stay unchanged. */
START_TEST(a_load_passes_over_a_trained_table)
{
    static struct rig_push p;
    struct push_plan plan;
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct table_schema other = rig_schema(2);
    fleet_table(&to, &other);
    fleet_run_open(&to, 3, 1, 0);
    rig_push_make(&p, 3, 2, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    uint64_t digest = fleet_digest(&to, 2);
    load_one(7, 7);
    ck_assert_uint_gt(fleet_rows(&to, 1), 0);
    ck_assert_uint_eq(fleet_digest(&to, 2), digest);
    fleet_close(&to, false);
}
END_TEST

/* A new run also pushes to the tables that the load skips: its lanes are no further than these
 * tables. */
START_TEST(a_run_that_begins_has_all_tables_that_it_names)
{
    static struct rig_push p;
    struct push_plan plan;
    struct load_answer got = {0};
    struct err e = {0};
    uint64_t mark;
    struct engine_load_options o = {
        .path = path, .run = 7, .lanes = 2, .mode = RUN_SSP, .tables = table_set_word(7)};
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    struct table_schema other = rig_schema(2);
    fleet_table(&to, &other);
    fleet_run_open(&to, 3, 1, 0);
    rig_push_make(&p, 3, 2, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
    ck_assert_int_eq(engine_load(to.s[0].g, &o, load_answered, &got, &e), 0);
    fleet_run(&to);
    ck_assert_msg(got.calls == 1 && got.status == 0, "%s", got.text);
    ck_assert_int_eq(engine_fence(to.s[0].g, 7, 0, 1, true, NULL, &mark, NULL), 0);
    for (uint32_t table = 0; table < 3; table++) {
        rig_push_make(&p, 7, table, 0, 1, 0, 1);
        ck_assert_int_eq(rig_push(&to.s[0], &p, &plan), 0);
        ck_assert_int_eq(engine_fence(to.s[0].g, 7, 0, 1, true, NULL, &mark, NULL), 0);
        ck_assert_uint_eq(mark, table == 2 ? 1 : 0);
    }
    fleet_close(&to, false);
}
END_TEST

/* A fence right after the load returns the loaded marks. */
START_TEST(a_loaded_run_tells_its_marks_at_once)
{
    uint64_t mark;
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    load_one(7, 0);
    ck_assert_int_eq(engine_fence(to.s[0].g, 7, 0, 1, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 3);
    fleet_close(&to, false);
}
END_TEST

/* Its pushes are still in the journal, but its begin is not. */
START_TEST(a_run_that_was_dropped_before_a_load_is_known_after_it)
{
    struct err e = {0};
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    fleet_run_open(&to, 1, 2, 1);
    fleet_close(&to, false);
    fleet_reopen(&to); /* a segment of its own */
    for (uint64_t batch = 0; batch < 3; batch++)
        ck_assert_int_eq(fleet_push_some(&to, 1, 1, 0, batch, batch + 1, 0, 1), 0);
    ck_assert_int_eq(engine_run_drop(to.s[0].g, 1, &e), 0);
    uint64_t digest = fleet_digest(&to, 1), first = journal_first(to.s[0].g->journal);
    load_one(7, 1);
    ck_assert_uint_gt(journal_first(to.s[0].g->journal), first);
    fleet_close(&to, false);
    fleet_reopen(&to);
    ck_assert_uint_eq(fleet_digest(&to, 1), digest);
    fleet_close(&to, false);
}
END_TEST

/* Any flush of the store may make other tablets' images durable, so their journal records must be
 * durable first. */
START_TEST(a_load_asks_for_the_journal_first)
{
    struct load_answer got = {0};
    struct err e = {0};
    struct engine_load_options o = {.path = path, .run = 7};
    save_one();
    fleet_open(&to, 1, load_dir, DURABLE_JOURNAL);
    fleet_tables(&to);
    ck_assert_int_eq(engine_load(to.s[0].g, &o, load_answered, &got, &e), 0);
    while (!table_set_any(to.s[0].g->loading))
        ck_assert(embedding_env_step(&to.s[0].env));
    file_fault_set(&(struct file_fault){.at = 1, .why = EIO});
    fleet_run(&to);
    ck_assert_uint_ge(file_fault_calls(), 1);
    file_fault_set(NULL);
    ck_assert_int_eq(got.status, SHOAL_E_IO);
    ck_assert_uint_eq(to.s[0].fatal, 1);
    fleet_close(&to, false);
}
END_TEST

/* ---- reading by tools ---- */

static void count_row(void *context, const void *row)
{
    (void)row;
    ++*(uint64_t *)context;
}

static int count_rows(void *context, const struct table *t, uint32_t tablet)
{
    table_visit(t, tablet, count_row, context);
    return 0;
}

START_TEST(tools_read_what_the_shards_had)
{
    struct at_cut saved;
    struct checkpoint *c;
    struct err e = {0};
    save(3, save_dir, DURABLE_JOURNAL, 40, &saved);
    fleet_close(&from, false);
    ck_assert_msg(checkpoint_open(path, NULL, &c, &e) == 0, "%s", e.text);
    const struct checkpoint_facts *f = checkpoint_facts(c);
    ck_assert_uint_eq(f->cut, 5);
    ck_assert_uint_eq(f->run, 1);
    ck_assert_uint_eq(f->lanes, 2);
    ck_assert_uint_eq(f->parts, 3);
    ck_assert_uint_eq(f->tables, 2);
    ck_assert_uint_eq(f->rows, saved.rows[0] + saved.rows[1]);
    ck_assert_uint_eq(checkpoint_mark(c, 0), saved.low[0]);
    ck_assert_uint_eq(checkpoint_mark(c, 1), saved.low[1]);
    ck_assert_uint_eq(checkpoint_find(c, "nobody"), UINT32_MAX);
    ck_assert_int_eq(checkpoint_verify(c, NULL, NULL, &e), 0);
    for (uint32_t i = 0; i < f->tables; i++) {
        uint64_t digest[16], rows, seen = 0;
        const struct table_schema *s = checkpoint_table(c, i);
        ck_assert_uint_eq(checkpoint_find(c, s->name), i);
        ck_assert_int_eq(checkpoint_digest(c, i, digest, &rows, &e), 0);
        ck_assert_uint_eq(hash_bytes(digest, sizeof digest, 0), saved.digest[i]);
        ck_assert_uint_eq(rows, saved.rows[i]);
        ck_assert_int_eq(checkpoint_tablets(c, i, count_rows, &seen, &e), 0);
        ck_assert_uint_eq(seen, rows);
        struct arena *arena;
        struct table *t;
        ck_assert_int_eq(arena_new(&arena), 0);
        ck_assert_int_eq(checkpoint_table_read(c, i, UINT32_MAX, arena, &t, &e), 0);
        ck_assert_uint_eq(table_rows(t), rows);
        ck_assert_uint_eq(table_row_bytes(t), checkpoint_row_bytes(s));
        table_free(t);
        arena_free(arena);
    }
    checkpoint_close(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *t = tcase_create("checkpoint");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, saved_by_n_and_loaded_by_m_is_the_same, 0,
                        getenv("SHOAL_ALL_PAIRS") != NULL ? 64 : 16);
    tcase_add_test(t, memory_is_saved_and_loaded_too);
    tcase_add_test(t, the_loaded_run_goes_on_where_the_saved_one_would_have);
    tcase_add_loop_test(t, a_checkpoint_is_of_the_tables_of_its_run, 0, 2);
    tcase_add_test(t, an_export_again_answers_again_and_another_one_is_refused);
    tcase_add_test(t, tablets_may_be_missing_where_the_manifest_says_so);
    tcase_add_test(t, a_cut_dropped_while_it_is_exported_goes_afterwards);
    tcase_add_test(t, a_load_goes_into_empty_tables_only_and_answers_again);
    tcase_add_test(t, a_load_is_known_after_a_clear_of_others);
    tcase_add_loop_test(t, rows_that_are_not_finite_are_refused, 0, 4);
    tcase_add_test(t, a_checkpoint_lies_below_the_root);
    tcase_add_test(t, a_load_asks_for_a_signature);
    tcase_add_test(t, a_ticked_table_is_not_empty);
    tcase_add_test(t, while_a_load_writes_others_go_on_and_its_tables_are_closed);
    tcase_add_test(t, a_load_outlasts_what_is_written_again);
    tcase_add_loop_test(t, what_changes_while_a_checkpoint_is_read_is_seen, 0, 4);
    tcase_add_test(t, a_load_that_cannot_begin_to_write_closes_nothing);
    tcase_add_test(t, a_clean_stop_after_a_load_takes_nothing_back);
    tcase_add_test(t, loads_without_rows_end_with_a_refusal);
    tcase_add_test(t, another_number_of_tablets);
    tcase_add_test(t, another_optimizer_keeps_weights_and_begins_its_state);
    tcase_add_test(t, other_settings_of_the_optimizer_keep_its_state);
    tcase_add_test(t, statistics_are_added_and_dropped);
    tcase_add_test(t, a_table_more_and_a_table_less);
    tcase_add_test(t, another_width_is_refused);
    tcase_add_loop_test(t, a_load_asks_for_room_by_table, 0, 2);
    tcase_add_test(t, undo_of_bsp_goes_by_the_new_run);
    tcase_add_test(t, a_run_that_begins_takes_no_undo_along);
    tcase_add_test(t, joined_tablets_have_the_highest_marks);
    tcase_add_loop_test(t, a_table_beside_others_stays_as_it_was_made, 0, 2);
    tcase_add_test(t, a_load_passes_over_a_trained_table);
    tcase_add_test(t, a_run_that_begins_has_all_tables_that_it_names);
    tcase_add_test(t, a_loaded_run_tells_its_marks_at_once);
    tcase_add_test(t, a_run_that_was_dropped_before_a_load_is_known_after_it);
    tcase_add_test(t, a_load_asks_for_the_journal_first);
    tcase_add_test(t, tools_read_what_the_shards_had);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
