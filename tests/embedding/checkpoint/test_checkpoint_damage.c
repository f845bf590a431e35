/* test_checkpoint_damage.c: files of a checkpoint are truncated, flipped, swapped, removed or
 * added: tools and shards refuse all of them by name, and nothing changes. SHOAL_DAMAGES (200) is
 * the number for each of three checkpoints: of fp32 rows, of 16-bit rows, and of rows of which half
 * are in the store; tests/long does 1,000. */
#include "embedding/checkpoint.h"
#include "embedding/rows/cold.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_fleet.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 512u
#define PARTS 3u

static char dir[LIMIT_PATH], save_dir[LIMIT_PATH + 8], path[LIMIT_PATH + 8];
static struct fleet from, to;
static struct file {
    char name[128]; /* part-0000/rows/000012.sst */
} file[FILES];
static uint32_t files;

static void list(const char *folder)
{
    char inner[2 * LIMIT_PATH];
    snprintf(inner, sizeof inner, "%s/%s", path, folder);
    DIR *d = opendir(inner);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        char name[512];
        struct stat st;
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, "LO", 2) == 0)
            continue;
        snprintf(name, sizeof name, "%s%s%s", folder, folder[0] == '\0' ? "" : "/", entry->d_name);
        snprintf(inner, sizeof inner, "%s/%s", path, name);
        ck_assert_int_eq(stat(inner, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            list(name);
        } else {
            ck_assert_uint_lt(files, FILES);
            snprintf(file[files++].name, sizeof file[0].name, "%.120s", name);
        }
    }
    closedir(d);
}

/* Kind of the tables: fp32 in memory; 16-bit values; rows of which half are in the store. */
static enum source { PLAIN, HALF, COLD, SOURCES } source;
static const char *const source_name[] = {"fp32", "16 bits", "cold rows"};

static void tables(struct fleet *f)
{
    if (source != HALF) {
        fleet_tables(f);
        return;
    }
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        struct table_schema s = fleet_schema(i);
        s.values = i == 0 ? VALUES_FP16 : VALUES_BF16;
        fleet_table(f, &s);
    }
}

/* Moves half of table 0's rows to the store. */
static void cool(void)
{
    uint64_t cold = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        cool_table(&from.s[i], 0, 8);
        cold += table_cold_rows(engine_table(from.s[i].g, 0));
    }
    ck_assert_uint_gt(cold, 1000);
}

/* Makes a checkpoint of three shards, with images, blobs and records in all of them, as plain
 * copies. */
static void make(enum source kind)
{
    char text[ERR_TEXT_MAX], command[8 * LIMIT_PATH];
    source = kind;
    log_set_level(LOG_LEVEL_ERROR);
    rig_dir(dir);
    snprintf(save_dir, sizeof save_dir, "%s/a", dir);
    snprintf(path, sizeof path, "%s/c", dir);
    ck_assert_int_eq(mkdir(save_dir, 0700), 0);
    fleet_open(&from, PARTS, save_dir, DURABLE_JOURNAL);
    tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 60);
    if (source == COLD)
        cool();
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, text), 0);
    fleet_close(&from, false);
    snprintf(command, sizeof command, "cp -r '%s' '%s.copy' && rm -rf '%s' && mv '%s.copy' '%s'",
             path, path, path, path, path);
    ck_assert_int_eq(system(command), 0);
    files = 0;
    list("");
    ck_assert_uint_gt(files, 6 * PARTS);
    fleet_open(&to, 1, NULL, DURABLE_MEMORY);
    tables(&to);
}

static void setup(void)
{
    make(PLAIN);
}

static void teardown(void)
{
    fleet_close(&to, false);
    rig_remove_dir(dir);
}

static const char *full(const struct file *f, char *out)
{
    snprintf(out, 2 * LIMIT_PATH, "%s/%s", path, f->name);
    return out;
}

static size_t content(const struct file *f, char **bytes)
{
    char name[2 * LIMIT_PATH];
    struct stat st;
    int fd = open(full(f, name), O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    *bytes = malloc((size_t)st.st_size + 1);
    ck_assert_int_eq(read(fd, *bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    return (size_t)st.st_size;
}

static void put(const struct file *f, const char *bytes, size_t count)
{
    char name[2 * LIMIT_PATH];
    int fd = open(full(f, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

/* Damage of a manifest is reported with its part; damage of any other file with the file's name. */
static bool named(const char *text, const struct file *f)
{
    char part[16];
    snprintf(part, sizeof part, "%.9s", f->name);
    return strstr(text, strstr(f->name, "/manifest") != NULL ? part : f->name) != NULL;
}

/* Tools and a shard refuse the checkpoint with one of the two names, and the shard is unchanged. */
static void check_refused(const struct file *a, const struct file *b, const char *what)
{
    struct checkpoint *c;
    struct err e = {0};
    char text[4096] = "";
    uint32_t mode, lanes;
    int rc = checkpoint_open(path, NULL, &c, &e);
    if (rc == 0) {
        rc = checkpoint_verify(c, NULL, NULL, &e);
        checkpoint_close(c);
    }
    ck_assert_msg(rc != 0, "%s %s: not found out", what, a->name);
    ck_assert_msg(named(e.text, a) || (b != NULL && named(e.text, b)), "%s %s: %s", what, a->name,
                  e.text);
    rc = fleet_load(&to, path, 7, text, NULL);
    ck_assert_msg(rc != 0 && strcmp(text, e.text) == 0, "%s %s: load said %s", what, a->name, text);
    ck_assert_uint_eq(fleet_rows(&to, 0) + fleet_rows(&to, 1), 0);
    ck_assert_int_eq(engine_run_mode(to.s[0].g, 7, &mode, &lanes), SHOAL_E_NOT_FOUND);
}

enum kind { TRUNCATED, FLIPPED, SWAPPED, MISSING, KINDS };

/* Damages one file, checks, and repairs it; false: there was nothing to damage (an empty file, or
 * two equal ones). */
static bool damage_one(struct rng *r, enum kind kind, const struct file *f)
{
    const struct file *other = &file[rng_below(r, files)];
    char name[2 * LIMIT_PATH], *bytes, *other_bytes;
    size_t count = content(f, &bytes), other_count = content(other, &other_bytes);
    bool alike = count == other_count && memcmp(bytes, other_bytes, count) == 0;
    bool able = kind == SWAPPED ? !alike : kind == MISSING || count > 0;
    if (able && kind == TRUNCATED) {
        put(f, bytes, rng_below(r, count));
        check_refused(f, NULL, "truncated");
    } else if (able && kind == FLIPPED) {
        size_t at = rng_below(r, count);
        char bit = (char)(1 << rng_below(r, 8));
        bytes[at] ^= bit;
        put(f, bytes, count);
        bytes[at] ^= bit;
        check_refused(f, NULL, "flipped");
    } else if (able && kind == SWAPPED) {
        put(f, other_bytes, other_count);
        put(other, bytes, count);
        check_refused(f, other, "swapped");
        put(other, other_bytes, other_count);
    } else if (able) {
        ck_assert_int_eq(unlink(full(f, name)), 0);
        check_refused(f, NULL, "missing");
    }
    put(f, bytes, count);
    free(bytes);
    free(other_bytes);
    return able;
}

static void check_whole(uint64_t run)
{
    char text[4096];
    int rc = fleet_load(&to, path, run, text, NULL);
    ck_assert_msg(rc == 0, "%s", text);
    ck_assert_uint_gt(fleet_rows(&to, 0), 0);
}

/* Damages every file in every way once, then by chance. */
START_TEST(every_damage_is_refused_by_name)
{
    make((enum source)_i);
    const char *wanted = getenv("SHOAL_DAMAGES");
    uint64_t count = wanted != NULL ? strtoull(wanted, NULL, 10) : 200, done = 0;
    struct rng r = rng_of(2026, 11, 21);
    for (uint32_t i = 0; i < files; i++)
        for (enum kind kind = 0; kind < KINDS; kind++)
            done += damage_one(&r, kind, &file[i]);
    while (done < count)
        done += damage_one(&r, (enum kind)rng_below(&r, KINDS), &file[rng_below(&r, files)]);
    ck_assert_uint_ge(done, 200);
    printf("%s: %" PRIu64 " damages of %u files refused\n", source_name[source], done, files);
    fflush(stdout);
    check_whole(7); /* once repaired it is accepted: the damage was the reason */
}
END_TEST

static void command(const char *format)
{
    char text[8 * LIMIT_PATH];
    snprintf(text, sizeof text, "cd '%s' && %s", path, format);
    ck_assert_int_eq(system(text), 0);
}

START_TEST(parts_that_do_not_belong_together_are_refused)
{
    static const struct {
        const char *make, *undo, *name;
    } way[] = {
        {"mv part-0001 x", "mv x part-0001", "part-0001"},
        {"mv part-0002 x", "mv x part-0002", "part-0002"},
        {"cp -r part-0002 part-0003", "rm -r part-0003", "part-0003"},
        {"mv part-0000 x && mv part-0001 part-0000 && mv x part-0001",
         "mv part-0000 x && mv part-0001 part-0000 && mv x part-0001", "part-0000"},
        {"rm -rf x && mv part-0002 x && cp -r part-0001 part-0002",
         "rm -r part-0002 && mv x part-0002", "part-0002"},
        {"touch part-0001/journal/seg-00000000000000ff",
         "rm part-0001/journal/seg-00000000000000ff", "part-0001/journal/seg-00000000000000ff"},
        {"touch part-0000/rows/999999.sst", "rm part-0000/rows/999999.sst",
         "part-0000/rows/999999.sst"},
        {"mv part-0001/rows x", "mv x part-0001/rows", "part-0001/rows"},
    };
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        struct file f;
        command(way[i].make);
        snprintf(f.name, sizeof f.name, "%s", way[i].name);
        check_refused(&f, NULL, way[i].make);
        command(way[i].undo);
    }
    command("mkdir part-0009.tmp"); /* an unfinished export does not count */
    check_whole(7);
}
END_TEST

struct seen {
    uint32_t count, tablets;
    char file[2 * LIMIT_PATH];
};

static void see(void *context, const struct checkpoint_damage *d)
{
    struct seen *s = context;
    s->count++;
    s->tablets += d->table != NULL;
    snprintf(s->file, sizeof s->file, "%s", d->file);
    ck_assert_ptr_nonnull(strstr(d->text, d->file));
}

START_TEST(verify_names_every_file_and_a_tablet)
{
    struct checkpoint *c;
    struct err e;
    struct rng r = rng_of(1, 2, 3);
    uint32_t tablets = 0, blobs = 0;
    for (uint32_t i = 0; i < files; i++) {
        char *bytes;
        struct seen s = {0};
        if (strstr(file[i].name, ".blob") == NULL)
            continue;
        size_t count = content(&file[i], &bytes);
        /* an image that was written again later is not missed: so several places */
        for (uint32_t k = 0; k < 8; k++)
            bytes[count / 8 * k + rng_below(&r, count / 8)] ^= 1;
        put(&file[i], bytes, count);
        ck_assert_int_eq(checkpoint_open(path, NULL, &c, &e), 0);
        ck_assert_int_eq(checkpoint_verify(c, see, &s, &e), SHOAL_E_CHECKSUM);
        checkpoint_close(c);
        blobs++;
        ck_assert_uint_eq(s.count, blobs);
        tablets += s.tablets > 0;
        ck_assert_ptr_nonnull(strstr(e.text, ".blob"));
        free(bytes);
    }
    ck_assert_uint_gt(blobs, 0);
    ck_assert_uint_gt(tablets, 0);
}
END_TEST

/* A shard reads only the parts with tablets for it, so damage in another part does not stop it. */
START_TEST(a_load_verifies_the_parts_it_needs)
{
    struct err e = {0};
    for (uint32_t i = 0; i < files; i++) {
        char *bytes;
        if (strncmp(file[i].name, "part-0001/rows/", 15) != 0)
            continue;
        size_t count = content(&file[i], &bytes);
        bytes[count / 2] ^= 1;
        put(&file[i], bytes, count);
        free(bytes);
    }
    struct checkpoint *c;
    ck_assert_int_eq(checkpoint_open(path, NULL, &c, &e), 0);
    ck_assert_int_eq(checkpoint_verify_part(c, 0, &e), 0);
    ck_assert_int_eq(checkpoint_verify_part(c, 1, &e), SHOAL_E_CHECKSUM);
    ck_assert_int_eq(checkpoint_verify_part(c, 2, &e), 0);
    checkpoint_close(c);
    fleet_open(&from, PARTS, NULL, DURABLE_MEMORY);
    fleet_tables(&from);
    ck_assert_int_eq(fleet_load(&from, path, 7, NULL, NULL), SHOAL_E_CHECKSUM);
    for (uint32_t i = 0; i < PARTS; i++)
        ck_assert_int_eq(table_rows(engine_table(from.s[i].g, 0)) > 0, i != 1);
    fleet_close(&from, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_damage");
    TCase *t = tcase_create("damage");
    TCase *d = tcase_create("every damage");
    tcase_add_checked_fixture(d, NULL, teardown);
    tcase_set_timeout(d, 1200);
    tcase_add_loop_test(d, every_damage_is_refused_by_name, 0, SOURCES);
    suite_add_tcase(suite, d);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 1200);
    tcase_add_test(t, parts_that_do_not_belong_together_are_refused);
    tcase_add_test(t, verify_names_every_file_and_a_tablet);
    tcase_add_test(t, a_load_verifies_the_parts_it_needs);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
