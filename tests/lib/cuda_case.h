/* cuda_case.h: the CUDA module beside the CPU module, for the tests that compare them. The
 * environment's SHOAL_DENSE_BACKEND names the module when it is cuda; else it is cudahost, the same
 * kernels compiled for the host. */
#ifndef TESTS_LIB_CUDA_CASE_H
#define TESTS_LIB_CUDA_CASE_H

#include "tests/lib/dense_check.h"

#include "dense/cuda/stream.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static inline const char *cuda_name(void)
{
    const char *name = getenv("SHOAL_DENSE_BACKEND");
    return name != NULL && strcmp(name, "cuda") == 0 ? "cuda" : "cudahost";
}

static inline bool cuda_is_host(void)
{
    return strcmp(cuda_name(), "cudahost") == 0;
}

static inline struct backend *cuda_backend(void)
{
    struct backend *b = dense_backend_named(cuda_name());
    ck_assert_msg(b != NULL, "module %s does not load", cuda_name());
    return b;
}

/* Opens a stream of the named backend, in place of dense_device_open. */
static inline void cuda_device_open(struct dense_device *d, const char *backend,
                                    enum precision precision)
{
    struct stream_spec spec = {.precision = precision, .deterministic = true};
    struct err e = {0};
    *d = (struct dense_device){.k = backend_ops_of(dense_backend_named(backend))};
    ck_assert_msg(d->k->stream_new(&spec, &d->s, &e) == 0, "%s", e.text);
}

/* Returns the module's counters. */
static inline struct cuda_counters cuda_counted(void)
{
    Dl_info where;
    ck_assert_int_ne(dladdr((const void *)(uintptr_t)backend_ops_of(cuda_backend()), &where), 0);
    void *module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = module != NULL ? dlsym(module, "shoal_cuda_counters") : NULL;
    ck_assert_ptr_nonnull(symbol);
    const struct cuda_counters *(*counters)(void);
    memcpy(&counters, &symbol, sizeof counters);
    dlclose(module);
    return *counters();
}

/* As dense_check_run. The program runs once on the host's module, whatever the environment says. */
static inline int cuda_check_run(Suite *s)
{
    const char *name = getenv("SHOAL_DENSE_BACKEND");
    if (name == NULL || strcmp(name, "cudahost") != 0)
        return dense_check_run(s);
    srunner_free(srunner_create(s));
    puts("skipped: it runs on the host's module without being told");
    return DENSE_SKIP;
}

#endif
