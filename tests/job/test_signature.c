/* test_signature.c: what a listed key has signed is taken; whatever changes is refused. */
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/job/signature.h"
#include "tests/lib/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    char name[3][SIGNATURE_NAME] = {"part-0000/rows/1.sst", "manifest.json", "part-0000/manifest"};
    return signature_write(in("c"), name, 3, by, e);
}

/* A checkpoint of three files, signed by a key that is listed. */
static void setup(void)
{
    struct err e = {0};
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-signature-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(mkdir(in("c"), 0700) == 0 && mkdir(in("c/part-0000"), 0700) == 0 &&
              mkdir(in("c/part-0000/rows"), 0700) == 0);
    put(in("c/manifest.json"), "{}\n");
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
    ck_assert_int_eq(signature_check_bytes(s, "manifest.json", "{}\n", 3, &e), 0);
    ck_assert(stat(in("c/signature"), &st) == 0 && (st.st_mode & 07777) == 0644);
    signature_free(s);
    ck_assert_int_eq(sign_all(seed, &e), 0); /* again, in the place of the first */
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
    refused("cannot read"); /* too long to be looked at */
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

/* Each byte in three ways: its lowest bit, the case of a letter, its highest bit. */
START_TEST(signature_with_a_changed_byte_is_refused)
{
    static const char bits[] = {1, 0x20, (char)0x80};
    struct signature_signers *list;
    struct signature *s;
    char *text;
    size_t bytes;
    ck_assert_int_eq(signature_signers_read(in("signers"), &list, NULL), 0);
    ck_assert_int_eq(file_read_whole(in("c/signature"), SIGNATURE_BYTES_MAX, &text, &bytes), 0);
    for (size_t i = 0; i < 3 * bytes; i++) {
        text[i / 3] = (char)(text[i / 3] ^ bits[i % 3]);
        ck_assert_msg(signature_parse(text, bytes, "c", list, &s, NULL) == SHOAL_E_DENIED,
                      "byte %zu", i / 3);
        ck_assert_msg(signature_parse(text, bytes, "c", NULL, &s, NULL) == SHOAL_E_DENIED,
                      "byte %zu, by any key", i / 3);
        text[i / 3] = (char)(text[i / 3] ^ bits[i % 3]);
    }
    for (size_t n = 0; n < bytes; n++)
        ck_assert_msg(signature_parse(text, n, "c", list, &s, NULL) == SHOAL_E_DENIED, "%zu", n);
    /* the NUL behind it is a byte more */
    ck_assert_int_eq(signature_parse(text, bytes + 1, "c", list, &s, NULL), SHOAL_E_DENIED);
    ck_assert_int_eq(signature_parse(text, bytes, "c", list, &s, NULL), 0);
    signature_free(s);
    signature_signers_free(list);
    free(text);
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

/* Neither for a file nor for a folder, though what it leads to is the very content. */
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

/* ---- what a holder of a key may have signed -------------------------------------------------- */

/* A text of these lines, well signed; the status of taking it. */
static int made(const char *lines, size_t bytes)
{
    char text[1024], hex[2 * SIGN_BYTES + 1];
    uint8_t key[SIGN_KEY], by[SIGN_BYTES];
    struct signature *s = NULL;
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    memcpy(text, lines, bytes);
    bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "key %s\n", hex);
    ck_assert_int_eq(sign_make(seed, text, bytes, by), 0);
    sign_hex(by, SIGN_BYTES, hex);
    bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "signature %s\n", hex);
    int rc = signature_parse(text, bytes, "c", NULL, &s, NULL);
    signature_free(s);
    return rc;
}

#define HEAD "shoal signature 1\n"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int named(const char *name)
{
    char text[512];
    int bytes = snprintf(text, sizeof text, HEAD HASH " 7 %s\n", name);
    return made(text, (size_t)bytes);
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
        const char *lines;
        int status;
    } cases[] = {
        {HEAD HASH " 7 a\n" HASH " 0 b\n", 0},
        {HEAD HASH " 7 b\n" HASH " 0 a\n", SHOAL_E_DENIED},
        {HEAD HASH " 7 a\n" HASH " 7 a\n", SHOAL_E_DENIED}, /* doubled */
        {HEAD, SHOAL_E_DENIED},                             /* of nothing */
        {HEAD "\n", SHOAL_E_DENIED},
        {HEAD HASH " 7 a\n\n", SHOAL_E_DENIED},
        {HEAD HASH " 7 a", SHOAL_E_DENIED}, /* runs into the key */
        {"shoal signature 2\n" HASH " 7 a\n", SHOAL_E_DENIED},
        {HASH " 7 a\n", SHOAL_E_DENIED},
        {HEAD HASH "  a\n", SHOAL_E_DENIED},
        {HEAD HASH " 07 a\n", SHOAL_E_DENIED},
        {HEAD HASH " +7 a\n", SHOAL_E_DENIED},
        {HEAD HASH " -7 a\n", SHOAL_E_DENIED},
        {HEAD HASH " 7  a\n", SHOAL_E_DENIED},
        {HEAD HASH " 18446744073709551616 a\n", SHOAL_E_DENIED},
        {HEAD HASH "0 7 a\n", SHOAL_E_DENIED},
        {HEAD "A" HASH " 7 a\n", SHOAL_E_DENIED},
        {HEAD "shorter 7 a\n", SHOAL_E_DENIED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(made(cases[i].lines, strlen(cases[i].lines)) == cases[i].status, "%zu: %s", i,
                      cases[i].lines);
    static const char nul[] = HEAD HASH " 7 a\0b\n";
    ck_assert_int_eq(made(nul, sizeof nul - 1), SHOAL_E_DENIED);
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
        const char *text, *says; /* NULL: taken, both of them */
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
    tcase_add_test(t, signature_with_a_changed_byte_is_refused);
    tcase_add_test(t, signature_with_a_changed_file_is_refused);
    tcase_add_test(t, signature_lacks_what_was_put_there);
    tcase_add_loop_test(t, signature_takes_no_link, 0, 2);
    tcase_add_test(t, signature_names_stay_in_the_folder);
    tcase_add_test(t, signature_lines_are_in_order_and_whole);
    tcase_add_test(t, signature_is_made_of_plain_files_below_the_folder);
    tcase_add_test(t, signers_are_a_key_a_line);
    tcase_add_test(t, signers_are_bounded);
    tcase_add_test(t, signers_are_nobodys_to_change);
    return suite_main(suite);
}
