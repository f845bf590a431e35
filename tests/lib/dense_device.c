/* dense_device.c: the backends that the tests of dense run on (dense_case.h). */
#include "tests/lib/dense_case.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- by name --------------------------------------------------------------------------------- */

static struct backend *backend_open(const char *name)
{
    struct backend *b = NULL;
    struct stream *s = NULL;
    struct err e = {0};
    char file[64];
    struct stream_spec spec = {.deterministic = true};
    snprintf(file, sizeof file, "libshoal_%.32s.so", name);
    int rc = strcmp(name, "cpu") == 0 ? backend_load(BACKEND_CPU, &b, &e)
                                      : backend_load_module(file, &b, &e);
    if (rc == 0)
        rc = backend_ops_of(b)->stream_new(&spec, &s, &e);
    if (rc == 0) {
        backend_ops_of(b)->stream_free(s);
        return b;
    }
    fprintf(stderr, "skipped on backend %s: %s\n", name, e.text);
    backend_unload(b);
    return NULL;
}

struct backend *dense_backend_named(const char *name)
{
    static struct {
        char name[32];
        struct backend *backend;
    } loaded[8];
    for (uint32_t i = 0; i < 8; i++) {
        if (strcmp(loaded[i].name, name) == 0)
            return loaded[i].backend;
        if (loaded[i].name[0] != '\0')
            continue;
        snprintf(loaded[i].name, sizeof loaded[i].name, "%s", name);
        return loaded[i].backend = backend_open(name);
    }
    abort();
}

static const char *name_wanted(void)
{
    const char *name = getenv("SHOAL_DENSE_BACKEND");
    return name != NULL && *name ? name : "cpu";
}

struct backend *dense_backend(void)
{
    struct backend *b = dense_backend_named(name_wanted());
    if (b == NULL)
        exit(1);
    return b;
}

bool dense_backend_fuses(void)
{
    return strcmp(name_wanted(), "cuda") == 0;
}

bool dense_backend_present(void)
{
    int status = 0;
    if (strcmp(name_wanted(), "cpu") == 0)
        return true;
    pid_t child = fork();
    if (child == 0)
        _exit(dense_backend_named(name_wanted()) != NULL ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* ---- the CPU's vector widths ----------------------------------------------------------------- */

const char *const dense_width_name[DENSE_WIDTHS] = {"kernels_base", "kernels_avx2",
                                                    "kernels_avx512"};

static bool width_present(int width)
{
#ifdef __x86_64__
    if (width == 1)
        return __builtin_cpu_supports("avx2");
    if (width == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return width < DENSE_WIDTHS;
}

const struct backend_ops *dense_width(int width)
{
    static struct backend_ops ops[DENSE_WIDTHS];
    Dl_info where;
    if (!width_present(width))
        return NULL;
    ck_assert_int_ne(
        dladdr((const void *)(uintptr_t)backend_ops_of(dense_backend_named("cpu")), &where), 0);
    void *module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = module != NULL ? dlsym(module, dense_width_name[width]) : NULL;
    ck_assert_msg(symbol != NULL, "%s is not in the CPU module", dense_width_name[width]);
    void (*fill)(struct backend_ops *);
    memcpy(&fill, &symbol, sizeof fill);
    fill(&ops[width]);
    return &ops[width];
}

/* ---- arrays ---------------------------------------------------------------------------------- */

void dense_device_open(struct dense_device *d)
{
    struct stream_spec spec = {.deterministic = true};
    struct err e = {0};
    *d = (struct dense_device){.k = backend_ops_of(dense_backend())};
    ck_assert_msg(d->k->stream_new(&spec, &d->s, &e) == 0, "%s", e.text);
}

void *dense_up(struct dense_device *d, const void *from, size_t bytes)
{
    ck_assert_uint_lt(d->count, sizeof d->owned / sizeof *d->owned);
    void *p = d->k->alloc(d->s, bytes > 0 ? bytes : 1);
    ck_assert_ptr_nonnull(p);
    d->owned[d->count++] = p;
    if (from != NULL)
        d->k->upload(d->s, p, from, bytes);
    else
        d->k->zero(d->s, p, bytes);
    return p;
}

void dense_down(struct dense_device *d, const void *from, void *to, size_t bytes)
{
    struct err e = {0};
    d->k->download(d->s, to, from, bytes);
    ck_assert_msg(d->k->stream_finish(d->s, &e) == 0, "%s", e.text);
}

void dense_device_close(struct dense_device *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        d->k->release(d->s, d->owned[i]);
    d->k->stream_free(d->s);
}
