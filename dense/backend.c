/* backend.c: finds and loads the module. */
#include "dense/backend_ops.h"
#include "proto/base/module.h"
#include "proto/base/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct backend {
    const struct backend_ops *ops; /* in the module */
    void *handle;                  /* owned: dlopen's */
};

const char *backend_core_type(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

int backend_load_module(const char *file, struct backend **out, struct err *e)
{
    typedef const struct backend_ops *(*entry_function)(void);
    void *handle = module_open(file, e);
    *out = NULL;
    if (handle == NULL)
        return SHOAL_E_UNAVAILABLE;

    entry_function entry;
    void *symbol = dlsym(handle, BACKEND_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from void * to a function */
    const struct backend_ops *ops = NULL;
    if (symbol != NULL)
        ops = entry();
    if (ops == NULL || ops->abi != BACKEND_ABI) {
        dlclose(handle);
        return err_set(e, SHOAL_E_VERSION,
                       "module %s: is not of this version of shoal; install both together", file);
    }

    struct backend *b = malloc(sizeof *b);
    if (b == NULL) {
        dlclose(handle);
        return err_set(e, SHOAL_E_NOMEM, "module %s: out of memory", file);
    }
    *b = (struct backend){.ops = ops, .handle = handle};
    int rc = 0;
    if (ops->probe != NULL)
        rc = ops->probe(e);
    if (rc != 0) {
        backend_unload(b);
        return rc;
    }
    *out = b;
    return 0;
}

/* Loading cuBLAS takes 100 ms, so this check for a driver comes first. */
bool backend_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL)
        dlclose(driver);
    return driver != NULL;
}

/* Sets the variables that OpenBLAS reads when it is loaded. A second call writes nothing, because
 * other threads may read the environment by then. */
static void blas_environment(void)
{
    const char *type = backend_core_type(), *threads = getenv("OPENBLAS_NUM_THREADS");
    /* On a processor whose model number it does not know, OpenBLAS takes slow generic kernels, even
     * if the processor has wide vectors. */
    if (type != NULL && getenv("OPENBLAS_CORETYPE") == NULL)
        setenv("OPENBLAS_CORETYPE", type, 0);
    /* otherwise loading OpenBLAS starts an idle thread for every core */
    if (threads == NULL || strcmp(threads, "1") != 0)
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* Type `kernel` uses vectors as wide as this processor's. */
static bool kernel_is_wide(const char *kernel, const char *best)
{
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const avx2[] = {"Haswell", "Zen", "Excavator"};
    for (size_t i = 0; i < sizeof avx512 / sizeof avx512[0]; i++)
        if (strcmp(kernel, avx512[i]) == 0)
            return true;
    for (size_t i = 0; strcmp(best, "Haswell") == 0 && i < sizeof avx2 / sizeof avx2[0]; i++)
        if (strcmp(kernel, avx2[i]) == 0)
            return true;
    return false;
}

bool backend_is_slow(const struct backend *b, char text[ERR_TEXT_MAX])
{
    const char *best = backend_core_type(), *told = getenv("OPENBLAS_CORETYPE");
    if (!b->ops->host || best == NULL || kernel_is_wide(backend_kernel(b), best))
        return false;
    if (told != NULL && strcmp(told, best) == 0)
        (void)snprintf(text, ERR_TEXT_MAX,
                       "OpenBLAS computes with its %s kernels, though this processor can do %s, up "
                       "to twice as fast: this build of OpenBLAS does not choose by processor; "
                       "install Debian's libopenblas0-pthread",
                       backend_kernel(b), best);
    else
        (void)snprintf(text, ERR_TEXT_MAX,
                       "OpenBLAS computes with its %s kernels, as OPENBLAS_CORETYPE=%s in the "
                       "environment asks: this processor can do %s, up to twice as fast; unset "
                       "OPENBLAS_CORETYPE",
                       backend_kernel(b), text_or(told, ""), best);
    return true;
}

static int load_cpu(struct backend **out, struct err *e)
{
    blas_environment();
    return backend_load_module("libshoal_cpu.so", out, e);
}

/* SHOAL_CUDA_MODULE names another module, which needs no driver (for tests). */
static int load_cuda(struct backend **out, struct err *e)
{
    const char *instead = getenv("SHOAL_CUDA_MODULE");
    if (instead != NULL && *instead)
        return backend_load_module(instead, out, e);
    if (!backend_driver())
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "the NVIDIA driver (libcuda.so.1) is not on this machine; install it or set "
                       "train.backend to cpu "
                       "or auto");
    return backend_load_module("libshoal_cuda.so", out, e);
}

int backend_load(enum backend_kind kind, struct backend **out, struct err *e)
{
    struct err why = {0};
    *out = NULL;
    if (kind == BACKEND_CPU)
        return load_cpu(out, e);
    if (kind == BACKEND_AUTO)
        blas_environment(); /* a worker whose device is lost loads the CPU's module later */
    int rc = load_cuda(out, &why);
    if (rc == 0)
        return 0;
    if (kind == BACKEND_CUDA)
        return err_set(e, rc == SHOAL_E_NOT_FOUND ? SHOAL_E_UNAVAILABLE : rc,
                       "train.backend is cuda: %s", why.text);
    int of_cpu = load_cpu(out, e);
    if (of_cpu == 0 && rc != SHOAL_E_NOT_FOUND)
        err_set(e, 0, "train.backend is auto, and the CPU is taken: %s", why.text);
    return of_cpu;
}

void backend_unload(struct backend *b)
{
    if (b == NULL)
        return;
    /* the CUDA runtime cannot be unloaded: it stays until the program ends */
    if (b->ops->host)
        dlclose(b->handle);
    free(b);
}

const char *backend_name(const struct backend *b)
{
    return b->ops->name;
}

const char *backend_kernel(const struct backend *b)
{
    return b->ops->kernel();
}

bool backend_memory(const struct backend *b, uint64_t *taken, uint64_t *all)
{
    return b->ops->memory != NULL && b->ops->memory(taken, all);
}

const char *backend_about(const struct backend *b)
{
    const char *text = NULL;
    if (b->ops->about != NULL)
        text = b->ops->about();
    if (text == NULL)
        return "";
    return text;
}

bool backend_is_device(const struct backend *b)
{
    return !b->ops->host;
}

const struct backend_ops *backend_ops_of(const struct backend *b)
{
    return b->ops;
}

void *backend_host_alloc(const struct backend *b, size_t bytes)
{
    if (b == NULL)
        return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    return b->ops->host_alloc(bytes);
}

void backend_host_free(const struct backend *b, void *p)
{
    if (b != NULL)
        b->ops->host_free(p);
    else
        free(p);
}
