/* test_signature.c: content that a listed key has signed is accepted; any change is refused. */
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/manifest.h"
#include "proto/job/reading.h"
#include "proto/job/signature.h"
#include "tests/lib/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static uint8_t seed[SIGN_SEED], other_seed[SIGN_SEED];

static const char *in(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void signers_put(const uint8_t *of)
{
    uint8_t key[SIGN_KEY];
    char hex[SIGNATURE_KEY], text[128];
    ck_assert_int_eq(sign_key_of(of, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    (void)snprintf(text, sizeof text, "# good\n\n  %s # ann\n", hex);
    put(in("signers"), text);
}

static int sign_all(const uint8_t *by, struct err *e)
{
    char name[2][SIGNATURE_NAME] = {"part-0000/rows/1.sst", "part-0000/manifest"};
    return signature_write(in("c"), name, 2, by, e);
}

/* Returns a manifest with these elements of "hashes"; NULL: without the member. The caller frees
 * it. */
static char *manifest_of(const char *hashes)
{
    struct json *m = json_new_object(), *list = NULL;
    struct err e = {0};
    json_set_int(m, "format", MANIFEST_FORMAT);
    if (hashes != NULL) {
        ck_assert_msg(json_parse(hashes, strlen(hashes), &list, &e) == 0, "%s", e.text);
        json_set(m, "hashes", list);
    }
    char *text = manifest_text(m);
    ck_assert_ptr_nonnull(text);
    json_free(m);
    return text;
}

/* Makes a checkpoint of three files, signed by a listed key. */
static void setup(void)
{
    struct err e = {0};
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-signature-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(mkdir(in("c"), 0700) == 0 && mkdir(in("c/part-0000"), 0700) == 0 &&
              mkdir(in("c/part-0000/rows"), 0700) == 0);
    char *manifest = manifest_of(NULL);
    put(in("c/manifest.json"), manifest);
    free(manifest);
    put(in("c/part-0000/manifest"), "shoal part\n");
    put(in("c/part-0000/rows/1.sst"), "rows");
    sign_key_new(seed);
    sign_key_new(other_seed);
    signers_put(seed);
    ck_assert_msg(sign_all(seed, &e) == 0, "%s", e.text);
}

static void teardown(void)
{
    (void)file_remove_tree(folder);
}

static struct signature *opened(void)
{
    struct signature *s = NULL;
    struct err e = {0};
    ck_assert_msg(signature_open(in("c"), in("signers"), &s, &e) == 0, "%s", e.text);
    return s;
}

static void refused(const char *text)
{
    struct signature *s = NULL;
    struct err e = {0};
    ck_assert_int_eq(signature_open(in("c"), in("signers"), &s, &e), SHOAL_E_DENIED);
    ck_assert_msg(strstr(e.text, text) != NULL, "%s", e.text);
}

/* ---- taken ----------------------------------------------------------------------------------- */

START_TEST(signature_is_taken)
{
    static const char *const names[] = {"manifest.json", "part-0000/manifest",
                                        "part-0000/rows/1.sst"};
    struct signature *s = opened();
    struct err e = {0};
    struct stat st;
    ck_assert_uint_eq(signature_files(s), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(signature_check_file(s, names[i], &e) == 0, "%s", e.text);
    ck_assert_int_eq(signature_check_bytes(s, "manifest.json", "{}\n", 3, &e), SHOAL_E_DENIED);
    ck_assert(stat(in("c/signature"), &st) == 0 && (st.st_mode & 07777) == 0644);
    signature_free(s);
    ck_assert_int_eq(sign_all(seed, &e), 0); /* again, in place of the first */
    signature_free(opened());
}
END_TEST

START_TEST(signature_is_told_without_a_list)
{
    struct signature *s = NULL;
    uint8_t key[SIGN_KEY];
    char hex[SIGNATURE_KEY], told[SIGNATURE_KEY];
    ck_assert_int_eq(signature_open(in("c"), NULL, &s, NULL), 0);
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    signature_key(s, told);
    ck_assert_str_eq(told, hex);
    signature_free(s);
}
END_TEST

/* ---- refused --------------------------------------------------------------------------------- */

START_TEST(signature_that_is_missing_is_refused)
{
    ck_assert_int_eq(unlink(in("c/signature")), 0);
    refused("is not signed");
    ck_assert_int_eq(mkdir(in("c/signature"), 0700), 0);
    refused("cannot read");
    ck_assert_int_eq(rmdir(in("c/signature")), 0);
    put(in("c/signature"), "");
    refused("is no whole signature");
    ck_assert_int_eq(truncate(in("c/signature"), SIGNATURE_BYTES_MAX + 1), 0);
    refused("cannot read"); /* too long to be read */
}
END_TEST

START_TEST(signature_of_another_key_is_refused)
{
    ck_assert_int_eq(sign_all(other_seed, NULL), 0);
    refused("none of the keys that are good here");
    signers_put(other_seed);
    signature_free(opened());
}
END_TEST

static int taken(const char *text, size_t bytes, const char *manifest, size_t more,
                 const struct signature_signers *list)
{
    struct signature *s = NULL;
    int rc = signature_parse(text, bytes, manifest, more, "c", list, &s, NULL);
    signature_free(s);
    return rc;
}

/* Release 0.2.0 signed a list of its own. */
START_TEST(signature_of_an_older_release_says_sign_again)
{
    put(in("c/signature"), "shoal signature 1\n");
    refused("sign this one again");
}
END_TEST

/* Each byte is changed in three ways: its lowest bit, the case of a letter, its highest bit. */
START_TEST(signature_with_a_changed_byte_is_refused)
{
    static const char bits[] = {1, 0x20, (char)0x80};
    struct signature_signers *list;
    char *text, *manifest;
    size_t bytes, more;
    ck_assert_int_eq(signature_signers_read(in("signers"), &list, NULL), 0);
    ck_assert_int_eq(file_read_whole(in("c/signature"), SIGNATURE_BYTES_MAX, &text, &bytes), 0);
    ck_assert_int_eq(file_read_whole(in("c/manifest.json"), 4096, &manifest, &more), 0);
    for (size_t i = 0; i < 3 * more; i++) {
        manifest[i / 3] = (char)(manifest[i / 3] ^ bits[i % 3]);
        ck_assert_msg(taken(text, bytes, manifest, more, list) == SHOAL_E_DENIED, "%zu", i / 3);
        manifest[i / 3] = (char)(manifest[i / 3] ^ bits[i % 3]);
    }
    for (size_t i = 0; i < 3 * bytes; i++) {
        text[i / 3] = (char)(text[i / 3] ^ bits[i % 3]);
        ck_assert_msg(taken(text, bytes, manifest, more, list) == SHOAL_E_DENIED, "byte %zu",
                      i / 3);
        ck_assert_msg(taken(text, bytes, manifest, more, NULL) == SHOAL_E_DENIED,
                      "byte %zu, by any key", i / 3);
        text[i / 3] = (char)(text[i / 3] ^ bits[i % 3]);
    }
    for (size_t n = 0; n < bytes; n++)
        ck_assert_msg(taken(text, n, manifest, more, list) == SHOAL_E_DENIED, "%zu", n);
    /* the NUL at the end is one byte more */
    ck_assert_int_eq(taken(text, bytes + 1, manifest, more, list), SHOAL_E_DENIED);
    ck_assert_int_eq(taken(text, bytes, manifest, more - 1, list), SHOAL_E_DENIED);
    ck_assert_int_eq(taken(text, bytes, manifest, more, list), 0);
    signature_signers_free(list);
    free(text);
    free(manifest);
}
END_TEST

START_TEST(signature_with_a_changed_file_is_refused)
{
    static const char *const contents[] = {"rowS", "rows ", "row", ""};
    struct signature *s = opened();
    struct err e = {0};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        put(in("c/part-0000/rows/1.sst"), contents[i]);
        ck_assert_int_eq(signature_check_file(s, "part-0000/rows/1.sst", &e), SHOAL_E_DENIED);
        ck_assert_msg(strstr(e.text, "is not the file that was signed") != NULL, "%s", e.text);
        ck_assert_int_eq(
            signature_check_bytes(s, "part-0000/rows/1.sst", contents[i], strlen(contents[i]), &e),
            SHOAL_E_DENIED);
    }
    ck_assert_int_eq(unlink(in("c/part-0000/rows/1.sst")), 0);
    ck_assert_int_eq(signature_check_file(s, "part-0000/rows/1.sst", &e), SHOAL_E_DENIED);
    ck_assert_msg(strstr(e.text, "cannot be read") != NULL, "%s", e.text);
    signature_free(s);
}
END_TEST

START_TEST(signature_lacks_what_was_put_there)
{
    struct signature *s = opened();
    struct err e = {0};
    put(in("c/part-0000/rows/2.sst"), "more");
    ck_assert_int_eq(signature_check_file(s, "part-0000/rows/2.sst", &e), SHOAL_E_DENIED);
    ck_assert_msg(strstr(e.text, "is not among the signed files") != NULL, "%s", e.text);
    ck_assert_int_eq(signature_check_bytes(s, "part-0000/rows/2.sst", "more", 4, &e),
                     SHOAL_E_DENIED);
    ck_assert_int_eq(signature_check_file(s, "signature", &e), SHOAL_E_DENIED);
    signature_free(s);
}
END_TEST

/* Neither in place of a file nor of a folder, although the link leads to the same content. */
START_TEST(signature_takes_no_link)
{
    struct signature *s = opened();
    struct err e = {0};
    const char *moved = _i == 0 ? "c/part-0000/rows/1.sst" : "c/part-0000/rows";
    ck_assert_int_eq(rename(in(moved), in("elsewhere")), 0);
    ck_assert_int_eq(symlink(in("elsewhere"), in(moved)), 0);
    ck_assert_int_eq(signature_check_file(s, "part-0000/rows/1.sst", &e), SHOAL_E_DENIED);
    ck_assert_msg(strstr(e.text, "cannot be read") != NULL, "%s", e.text);
    signature_free(s);
}
END_TEST

/* ---- manifests that the holder of a key may have signed -------------------------------------- */

/* Signs a manifest with these hashes; returns the status of its check. */
static int made(const char *hashes)
{
    uint8_t key[SIGN_KEY], by[SIGN_BYTES];
    char text[512], hex[SIGNATURE_KEY], hex_by[2 * SIGN_BYTES + 1], *manifest = manifest_of(hashes);
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    ck_assert_int_eq(sign_make(seed, manifest, strlen(manifest), by), 0);
    sign_hex(key, SIGN_KEY, hex);
    sign_hex(by, SIGN_BYTES, hex_by);
    int bytes = snprintf(text, sizeof text,
                         "{\n  \"format\": 2,\n  \"key\": \"%s\",\n  \"signature\": \"%s\"\n}\n",
                         hex, hex_by);
    int rc = taken(text, (size_t)bytes, manifest, strlen(manifest), NULL);
    free(manifest);
    return rc;
}

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_OF(name, bytes, hash)                                                                 \
    "{\"file\": \"" name "\", \"bytes\": " bytes ", \"blake2b\": \"" hash "\"}"

static int named(const char *name)
{
    struct json *list = json_new_array(), *file = json_new_object();
    json_set_string(file, "file", name);
    json_set_int(file, "bytes", 7);
    json_set_string(file, "blake2b", HASH);
    json_append(list, file);
    char *text = json_text(list, 0);
    int rc = made(text);
    free(text);
    json_free(list);
    return rc;
}

START_TEST(signature_names_stay_in_the_folder)
{
    static const char *const bad[] = {
        "",    "/a",  "..",   "../a",  "a/../b", "a/..", "./a",    ".a",       "a/.b", "a//b", "a/",
        "a b", "a\t", "a\\b", "a\x80", " part ", "//",   "a/b/./", "rows/..x", "~/a",  "a\r"};
    char longest[SIGNATURE_NAME + 1];
    ck_assert_int_eq(named("a"), 0);
    ck_assert_int_eq(named("part-0000/rows/OPTIONS-000007"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(named(bad[i]) == SHOAL_E_DENIED, "'%s'", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[SIGNATURE_NAME] = 0;
    ck_assert_int_eq(named(longest), SHOAL_E_DENIED);
    ck_assert_int_eq(named(longest + 1), 0);
}
END_TEST

START_TEST(signature_lines_are_in_order_and_whole)
{
    static const struct {
        const char *hashes;
        int status;
    } cases[] = {
        {"[" FILE_OF("a", "7", HASH) ", " FILE_OF("b", "0", HASH) "]", 0},
        {"[" FILE_OF("b", "7", HASH) ", " FILE_OF("a", "0", HASH) "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "7", HASH) ", " FILE_OF("a", "7", HASH) "]", SHOAL_E_DENIED},
        {"[]", SHOAL_E_DENIED}, /* no file */
        {NULL, SHOAL_E_DENIED},
        {"{\"a\": 1}", SHOAL_E_DENIED},
        {"[7]", SHOAL_E_DENIED},
        {"[{\"file\": \"a\", \"bytes\": 7}]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "-7", HASH) "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "null", HASH) "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "1e19", HASH) "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "7", HASH "0") "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "7", "A" HASH) "]", SHOAL_E_DENIED},
        {"[" FILE_OF("a", "7", "shorter") "]", SHOAL_E_DENIED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(made(cases[i].hashes) == cases[i].status, "%zu: %s", i, cases[i].hashes);
}
END_TEST

/* ---- making ---------------------------------------------------------------------------------- */

START_TEST(signature_is_made_of_plain_files_below_the_folder)
{
    static const char *const bad[] = {"../signers", "part-0000/rows", "link", "none"};
    ck_assert_int_eq(symlink(in("signers"), in("c/link")), 0);
    ck_assert_int_eq(unlink(in("c/signature")), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[1][SIGNATURE_NAME];
        struct err e = {0};
        (void)snprintf(name[0], sizeof name[0], "%s", bad[i]);
        ck_assert_msg(signature_write(in("c"), name, 1, seed, &e) != 0, "%s", bad[i]);
        ck_assert_msg(strstr(e.text, bad[i]) != NULL, "%s", e.text);
    }
    ck_assert_int_ne(access(in("c/signature"), F_OK), 0);
}
END_TEST

/* A reader holds the manifest that signing replaces. The new one has the same mode. */
START_TEST(signature_waits_for_readers)
{
    struct err e = {0};
    struct stat was, st;
    int ready[2], hold;
    char byte;
    ck_assert(chmod(in("c/manifest.json"), 0640) == 0 && pipe(ready) == 0);
    ck_assert_int_eq(stat(in("c/manifest.json"), &was), 0);
    pid_t reader = fork();
    if (reader == 0) {
        if (reading_begin(in("c"), &hold, NULL) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        usleep(300000);
        _exit(stat(in("c/manifest.json"), &st) != 0 || st.st_ino != was.st_ino);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_msg(sign_all(seed, &e) == 0, "%s", e.text);
    int status;
    ck_assert(waitpid(reader, &status, 0) == reader && status == 0);
    ck_assert_int_eq(stat(in("c/manifest.json"), &st), 0);
    ck_assert(st.st_ino != was.st_ino && st.st_uid == was.st_uid && (st.st_mode & 07777) == 0640);
    ck_assert_int_eq(reading_begin(in("c"), &hold, &e), 0);
    reading_end(&hold);
    signature_free(opened());
}
END_TEST

/* ---- lists of keys --------------------------------------------------------------------------- */

static int listed(const char *text, struct err *e)
{
    struct signature_signers *s = NULL;
    int rc = signature_signers_parse(text, strlen(text), "signers", &s, e);
    if (rc == 0)
        ck_assert_uint_eq(s->count, 2);
    signature_signers_free(s);
    return rc;
}

START_TEST(signers_are_a_key_a_line)
{
    static const struct {
        const char *text, *says; /* NULL: both are accepted */
    } cases[] = {
        {HASH "\n" HASH, NULL},
        {"# a list\n\n\t" HASH " # ann\r\n" HASH "\n", NULL},
        {"", "lists no key"},
        {"# " HASH "\n", "lists no key"},
        {HASH "\n" HASH "0\n", "signers:2"},
        {HASH HASH "\n", "signers:1"},
        {HASH " ann\n", "signers:1"},
        {"0123\n", "signers:1"},
        {"G" HASH "\n", "signers:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        int rc = listed(cases[i].text, &e);
        ck_assert_msg(rc == (cases[i].says == NULL ? 0 : SHOAL_E_CONFIG), "%zu: %s", i, e.text);
        ck_assert_msg(rc == 0 || strstr(e.text, cases[i].says) != NULL, "%zu: %s", i, e.text);
    }
}
END_TEST

START_TEST(signers_are_bounded)
{
    size_t line = strlen(HASH) + 1;
    char *text = calloc(SIGNATURE_SIGNERS + 2, line);
    struct signature_signers *s = NULL;
    struct err e = {0};
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i <= SIGNATURE_SIGNERS; i++)
        memcpy(text + i * line, HASH "\n", line);
    ck_assert_int_eq(signature_signers_parse(text, SIGNATURE_SIGNERS * line, "signers", &s, &e), 0);
    signature_signers_free(s);
    ck_assert_int_eq(
        signature_signers_parse(text, (SIGNATURE_SIGNERS + 1) * line, "signers", &s, &e),
        SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "more than 256") != NULL, "%s", e.text);
    memset(text, '#', 300);
    ck_assert_int_eq(signature_signers_parse(text, 300, "signers", &s, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "at most 255") != NULL, "%s", e.text);
    free(text);
}
END_TEST

START_TEST(signers_are_nobodys_to_change)
{
    struct signature_signers *s = NULL;
    struct err e = {0};
    ck_assert_int_eq(chmod(in("signers"), 0666), 0);
    ck_assert_int_eq(signature_signers_read(in("signers"), &s, &e), SHOAL_E_DENIED);
    ck_assert_msg(strstr(e.text, "chmod o-w") != NULL, "%s", e.text);
    ck_assert_int_eq(signature_signers_read(in("none"), &s, &e), SHOAL_E_NOINPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("signature");
    TCase *t = suite_case(suite, "signature", 20, setup, teardown);
    tcase_add_test(t, signature_is_taken);
    tcase_add_test(t, signature_is_told_without_a_list);
    tcase_add_test(t, signature_that_is_missing_is_refused);
    tcase_add_test(t, signature_of_another_key_is_refused);
    tcase_add_test(t, signature_of_an_older_release_says_sign_again);
    tcase_add_test(t, signature_with_a_changed_byte_is_refused);
    tcase_add_test(t, signature_with_a_changed_file_is_refused);
    tcase_add_test(t, signature_lacks_what_was_put_there);
    tcase_add_loop_test(t, signature_takes_no_link, 0, 2);
    tcase_add_test(t, signature_names_stay_in_the_folder);
    tcase_add_test(t, signature_lines_are_in_order_and_whole);
    tcase_add_test(t, signature_is_made_of_plain_files_below_the_folder);
    tcase_add_test(t, signature_waits_for_readers);
    tcase_add_test(t, signers_are_a_key_a_line);
    tcase_add_test(t, signers_are_bounded);
    tcase_add_test(t, signers_are_nobodys_to_change);
    return suite_main(suite);
}
