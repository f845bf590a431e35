/* broken_module.c: libshoal_broken.so: the CPU module as a device that fails: in the process of SHOAL_DEVICE 1 every
 * stream fails at its 20th step, as a GPU does that falls off its bus. For tests/e2e/test_device.py, by way of
 * SHOAL_CUDA_MODULE. */
#include "dense/backend.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20 };

static const struct backend_ops *cpu;
static struct backend_ops ops;
static atomic_uint steps;

const struct backend_ops *shoal_backend_v4(void);

static int stream_finish(struct stream *s, struct err *e)
{
    const char *device = getenv("SHOAL_DEVICE");
    int status = cpu->stream_finish(s, e);

    if (status != 0 || device == NULL || strcmp(device, "1") != 0 || atomic_fetch_add(&steps, 1) < STEPS)
        return status;
    return err_set(e, SHOAL_E_UNAVAILABLE, "device 1 has fallen off the bus");
}

const struct backend_ops *shoal_backend_v4(void)
{
    char program[LIMIT_PATH] = "", path[2 * LIMIT_PATH];
    const struct backend_ops *(*entry)(void);

    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return NULL;
    snprintf(path, sizeof path, "%s/libshoal_cpu.so", dirname(program));
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = handle == NULL ? NULL : dlsym(handle, BACKEND_SYMBOL);
    if (symbol == NULL)
        return NULL;
    memcpy(&entry, &symbol, sizeof entry);
    cpu = entry();
    ops = *cpu;
    ops.name = "broken";
    ops.stream_finish = stream_finish;
    return &ops;
}
