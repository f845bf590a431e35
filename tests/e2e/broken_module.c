/* broken_module.c: libshoal_broken.so: another module as a device that fails or takes its time, for
 * tests/e2e/test_device.py and delayed.py, loaded by SHOAL_CUDA_MODULE. It wraps
 * SHOAL_BROKEN_MODULE (libshoal_cpu.so).
 *   SHOAL_BROKEN_OPEN   opening a stream takes this many milliseconds
 *   SHOAL_BROKEN_STEP   a wait of a stream takes this many microseconds of the device, which
 *                       serves the streams of a process one after the other, as a GPU does
 * And only in the process of SHOAL_DEVICE 1:
 *   SHOAL_BROKEN_STEPS  every stream fails at the process's wait of this number (20), as a GPU
 *                       does that falls off its bus; 0: none does
 *   SHOAL_BROKEN_HANG   1: the first of these waits never returns, the others fail
 *   SHOAL_BROKEN_GONE   a file that the first failing wait makes; while it exists, the module
 *                       cannot be loaded
 *   SHOAL_BROKEN_FAIL   SHOAL_CUDAHOST_FAIL of this process */
#include "dense/backend_ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct backend_ops *under;
static struct backend_ops ops;
static atomic_uint waits, failures;
static unsigned fail_at, open_ms, step_us;
static bool hangs;
static const char *gone;

const struct backend_ops *shoal_backend_v10(void);

static unsigned number_of(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : (unsigned)strtoul(text, NULL, 10);
}

static int stream_new(const struct stream_spec *spec, struct stream **out, struct err *e)
{
    struct timespec time = {open_ms / 1000, (long)(open_ms % 1000) * 1000000};
    nanosleep(&time, NULL);
    return under->stream_new(spec, out, e);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns when the device has done a step that begins now, or when it has done those before. */
static void step_wait(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t free_ns; /* the device has nothing to do from then on */
    pthread_mutex_lock(&lock);
    uint64_t now = now_ns();
    if (free_ns < now)
        free_ns = now;
    free_ns += step_us * 1000ull;
    uint64_t end = free_ns;
    pthread_mutex_unlock(&lock);
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static int stream_finish(struct stream *s, struct err *e)
{
    int rc = under->stream_finish(s, e);
    if (step_us > 0)
        step_wait();
    if (rc != 0 || fail_at == 0 || atomic_fetch_add(&waits, 1) < fail_at)
        return rc;
    if (gone != NULL)
        fclose(fopen(gone, "w"));
    if (atomic_fetch_add(&failures, 1) == 0 && hangs)
        for (;;)
            pause();
    return err_set(e, SHOAL_E_UNAVAILABLE, "device 1 has fallen off the bus");
}

static const char *about(void)
{
    return "a device that fails";
}

/* Reads the settings; returns false when there is no device. */
static bool settings_take(void)
{
    const char *device = getenv("SHOAL_DEVICE"), *fail = getenv("SHOAL_BROKEN_FAIL");
    open_ms = number_of("SHOAL_BROKEN_OPEN", 0);
    step_us = number_of("SHOAL_BROKEN_STEP", 0);
    if (device == NULL || strcmp(device, "1") != 0)
        return true;
    fail_at = number_of("SHOAL_BROKEN_STEPS", 20);
    hangs = number_of("SHOAL_BROKEN_HANG", 0) != 0;
    if (fail != NULL)
        setenv("SHOAL_CUDAHOST_FAIL", fail, 1);
    gone = getenv("SHOAL_BROKEN_GONE");
    return gone == NULL || access(gone, F_OK) != 0;
}

const struct backend_ops *shoal_backend_v10(void)
{
    char program[LIMIT_PATH] = "", path[2 * LIMIT_PATH];
    const char *file = getenv("SHOAL_BROKEN_MODULE");
    const struct backend_ops *(*entry)(void);
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", dirname(program), file != NULL ? file : "libshoal_cpu.so");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL),
         *symbol = handle == NULL ? NULL : dlsym(handle, BACKEND_SYMBOL);
    if (symbol == NULL)
        return NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!settings_take())
        return NULL;
    under = entry();
    ops = *under;
    ops.name = "broken";
    ops.about = about;
    ops.stream_new = stream_new;
    ops.stream_finish = stream_finish;
    return &ops;
}
