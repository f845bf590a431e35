/* test_library.c: the places where a shared library is looked for: the variable, folders, Python's
 * packages; and the error if it is not found. The library is a copy of the CPU module under a name
 * that exists nowhere else. */
#include "dense/library.h"

#include <check.h>
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "libshoal_nobody_has_this.so.7"

static char folder[sizeof "/tmp/shoal-library-XXXXXX"];

static const char *const none[] = {NULL};

/* Runs a shell command in the folder; in it $W is `word`. */
static void shell(const char *text, const char *word)
{
    char command[2 * LIMIT_PATH];
    int bytes = snprintf(command, sizeof command, "cd %s && %s", folder, text);
    ck_assert(bytes > 0 && (size_t)bytes < sizeof command);
    setenv("W", word != NULL ? word : "", 1);
    ck_assert_int_eq(system(command), 0);
}

/* Puts a library of this name into `where`, which is created. */
static void library_put(const char *where)
{
    char program[LIMIT_PATH] = "", module[LIMIT_PATH];
    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    snprintf(module, sizeof module, "%s/libshoal_cpu.so", dirname(program));
    setenv("MODULE", module, 1);
    shell("mkdir -p \"$W\" && cp \"$MODULE\" \"$W/" FILE_NAME "\"", where);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(strcpy(folder, "/tmp/shoal-library-XXXXXX")));
    unsetenv("SHOAL_TEST_LIBRARY");
    setenv("PATH", "/bin:/usr/bin", 1);
}

static void teardown(void)
{
    shell("cd / && rm -rf \"$W\"", folder);
}

static int find(const char *const *folders, const char *const *wheels, char path[LIMIT_PATH],
                struct err *e)
{
    const struct library_search q = {FILE_NAME, "SHOAL_TEST_LIBRARY", folders, wheels};
    void *handle = NULL;
    path[0] = '\0';
    int rc = library_open(&q, &handle, path, e);
    ck_assert((rc == 0) == (handle != NULL));
    return rc;
}

static const char *in_folder(const char *name)
{
    static char path[4][LIMIT_PATH];
    static int next;
    char *to = path[next++ % 4];
    snprintf(to, LIMIT_PATH, "%s/%s", folder, name);
    return to;
}

START_TEST(variable_names_a_file_or_a_folder)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    library_put("a");
    setenv("SHOAL_TEST_LIBRARY", in_folder("a"), 1);
    ck_assert_msg(find(none, none, path, &e) == 0, "%s", e.text);
    ck_assert_str_eq(path, in_folder("a/" FILE_NAME));
    setenv("SHOAL_TEST_LIBRARY", in_folder("a/" FILE_NAME), 1);
    ck_assert_msg(find(none, none, path, &e) == 0, "%s", e.text);
}
END_TEST

/* The named file is used or refused: another library, found elsewhere, would hide the mistake. */
START_TEST(variable_that_names_nothing_is_refused)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    const char *const folders[] = {in_folder("a"), NULL};
    library_put("a");
    setenv("SHOAL_TEST_LIBRARY", in_folder("b"), 1);
    ck_assert_int_eq(find(folders, none, path, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, "SHOAL_TEST_LIBRARY is ") != NULL &&
                      strstr(e.text, in_folder("b")) != NULL,
                  "%s", e.text);
}
END_TEST

/* The newest of several versions is used. */
START_TEST(folders_are_looked_at_in_their_order)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    char pattern[LIMIT_PATH];
    snprintf(pattern, sizeof pattern, "%s/toolkit-*/lib64", folder);
    const char *const folders[] = {in_folder("nothing"), pattern, in_folder("last"), NULL};
    library_put("last");
    ck_assert_msg(find(folders, none, path, &e) == 0, "%s", e.text);
    ck_assert_str_eq(path, in_folder("last/" FILE_NAME));
    library_put("toolkit-12/lib64");
    library_put("toolkit-13/lib64");
    ck_assert_msg(find(folders, none, path, &e) == 0, "%s", e.text);
    ck_assert_str_eq(path, in_folder("toolkit-13/lib64/" FILE_NAME));
}
END_TEST

/* Beside the python3 of PATH, which is a link in a virtual environment; and in a named environment
 * that is not on PATH. */
START_TEST(packages_of_python_are_looked_at)
{
    static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cublas/lib", NULL};
    char path[LIMIT_PATH], bin[2 * LIMIT_PATH];
    struct err e = {0};
    library_put("venv/lib/python3.12/site-packages/nvidia/cublas/lib");
    shell("mkdir -p venv/bin && ln -s /bin/true venv/bin/python3", NULL);
    ck_assert_int_eq(find(none, wheels, path, &e), SHOAL_E_UNAVAILABLE);
    snprintf(bin, sizeof bin, "/nowhere:%s:/bin:/usr/bin", in_folder("venv/bin"));
    setenv("PATH", bin, 1);
    ck_assert_msg(find(none, wheels, path, &e) == 0, "%s", e.text);
    ck_assert_str_eq(path,
                     in_folder("venv/lib/python3.12/site-packages/nvidia/cublas/lib/" FILE_NAME));
    setenv("PATH", "/bin:/usr/bin", 1);
    setenv("VIRTUAL_ENV", in_folder("venv"), 1);
    ck_assert_msg(find(none, wheels, path, &e) == 0, "%s", e.text);
    unsetenv("VIRTUAL_ENV");
}
END_TEST

START_TEST(file_that_does_not_load_is_named)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    const char *const folders[] = {in_folder("a"), in_folder("b"), NULL};
    shell("mkdir a && echo nothing >a/" FILE_NAME, NULL);
    ck_assert_int_eq(find(folders, none, path, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, FILE_NAME) && strstr(e.text, "did not load") != NULL &&
                      strstr(e.text, "SHOAL_TEST_LIBRARY") != NULL,
                  "%s", e.text);
    library_put("b"); /* a file that is no library does not hide a later one */
    ck_assert_msg(find(folders, none, path, &e) == 0, "%s", e.text);
}
END_TEST

/* If the card's module is built, it finds the toolkit that it was built with. */
START_TEST(module_finds_cublaslt)
{
    char program[LIMIT_PATH] = "", module[LIMIT_PATH];
    int (*load)(struct err * e);
    struct err e = {0};

    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    snprintf(module, sizeof module, "%s/libshoal_cuda.so", dirname(program));
    void *handle = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return; /* it is not built */
    ck_assert(library_function(handle, "cublaslt_load", &load));
    ck_assert_msg(load(&e) == 0, "%s", e.text);
    setenv("SHOAL_CUBLASLT", folder, 1);
    ck_assert_int_eq(load(&e), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, "SHOAL_CUBLASLT") != NULL &&
                      strstr(e.text, "libcublasLt.so.") != NULL,
                  "%s", e.text);
    unsetenv("SHOAL_CUBLASLT");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("library");
    TCase *t = tcase_create("library");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, variable_names_a_file_or_a_folder);
    tcase_add_test(t, variable_that_names_nothing_is_refused);
    tcase_add_test(t, folders_are_looked_at_in_their_order);
    tcase_add_test(t, packages_of_python_are_looked_at);
    tcase_add_test(t, file_that_does_not_load_is_named);
    tcase_add_test(t, module_finds_cublaslt);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
