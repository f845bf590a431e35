/* device_cublaslt.c: finding cuBLASLt: half a gigabyte that every machine has somewhere else. */
#include "dense/cuda/device_cuda.h"
#include "dense/library.h"

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define CUBLASLT_FILE "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR)

struct cublaslt lt;

int cublaslt_load(struct err *e)
{
    static const char *const folders[] = {"/usr/local/cuda/lib64",
                                          "/usr/local/cuda*/lib64",
                                          "/usr/local/cuda*/targets/x86_64-linux/lib",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/opt/cuda*/lib64",
                                          NULL};
    static const char *const wheels[] = {"nvidia/cu" TEXT_OF(CUBLAS_VER_MAJOR) "/lib",
                                         "nvidia/cublas/lib", NULL};
    const struct library_search search = {CUBLASLT_FILE, "SHOAL_CUBLASLT", folders, wheels};
    void *handle = NULL;
    int rc = library_open(&search, &handle, lt.path, e);
    if (rc != 0)
        return rc;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
#define X(name) {#name, &lt.name},
        CUBLASLT_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!library_function(handle, wanted[i].name, wanted[i].function))
            return err_set(
                e, SHOAL_E_UNAVAILABLE,
                "%s has no %s: it is of another version; install that of CUDA %d, or set "
                "SHOAL_CUBLASLT to its file or folder",
                lt.path, wanted[i].name, CUBLAS_VER_MAJOR);
    if (lt.cublasLtGetVersion() / 10000 != CUBLAS_VER_MAJOR)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s is of version %zu; needed is %d.x: install that of CUDA %d, or set "
                       "SHOAL_CUBLASLT to its file or folder",
                       lt.path, lt.cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR,
                       CUBLAS_VER_MAJOR);
    return 0;
}
