/* device_cuda.c: the card: memory, launches, recordings as CUDA graphs. */
#include "dense/cuda/device_cuda.h"
#include "dense/cuda/numbers.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 256u        /* one block has this many */
#define DEVICES_MOST 64     /* devices of a machine; those beyond are not used */
#define ARCHITECTURE_MIN 80 /* lowest compute capability that kernels are built for */

struct recording {
    cudaGraphExec_t exec;
};

/* Chosen by device_probe before there is a stream. */
static struct device_list numbers;
static char kernel_text[192] = "cublasLt", library_text[48] = "cuBLASLt", about_text[512];

static _Thread_local int thread_device = -1; /* this thread's current one; -1: none yet */
static _Thread_local uint64_t thread_known;  /* bit n: the thread has had device n before */
_Static_assert(DEVICES_MOST <= 64, "the devices are bits of a word");

/* The device that a failure concerns. */
static int device_current(void)
{
    if (thread_device >= 0)
        return thread_device;
    return (int)numbers.number[0];
}

/* ---- failures -------------------------------------------------------------------------------- */

/* The code of a failed call. UNAVAILABLE: there is no device, or none that responds; another
 * machine, or this one later, may have one. */
static int code_of(cudaError_t status)
{
    switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorContextIsDestroyed:
    case cudaErrorOperatingSystem:
        return SHOAL_E_UNAVAILABLE;
    case cudaErrorMemoryAllocation:
        return SHOAL_E_NOMEM;
    default:
        return SHOAL_E_INTERNAL;
    }
}

static const char *file_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return file;
    return slash + 1;
}

/* True when a failure stays with the process: the context is gone, and every call reports it.
 * Whatever its name (a card that fell off the bus mostly reports "unknown error" or "launch
 * failure"), this process has lost the device; a new process may find it again. */
static bool failure_stays(void)
{
    size_t unused, all;
    cudaError_t status = cudaGetLastError(); /* clears it from the thread, unless it stays */
    return status != cudaSuccess && status == cudaMemGetInfo(&unused, &all);
}

int cuda_tell(struct err *e, cudaError_t status, const char *call, const char *file, int line)
{
    if (status == cudaSuccess)
        return 0;
    int code = code_of(status);
    bool stays = failure_stays(); /* for every code: it also clears the thread's error */
    bool lost = code == SHOAL_E_INTERNAL && stays;
    return err_set(e, lost ? SHOAL_E_UNAVAILABLE : code,
                   "device %d%s: %s (%s) at dense/cuda/%s:%d: %.200s", device_current(),
                   text_if(lost, " is lost"), cudaGetErrorString(status), cudaGetErrorName(status),
                   file_name(file), line, call);
}

bool cuda_ok(struct stream *s, cudaError_t status, const char *call, const char *file, int line)
{
    struct err e;
    if (status == cudaSuccess)
        return true;
    int code = cuda_tell(&e, status, call, file, line);
    stream_fail(s, code, "%s", e.text);
    return false;
}

bool cublas_ok(struct stream *s, cublasStatus_t status, const char *call, const char *file,
               int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    stream_fail(s, status == CUBLAS_STATUS_ALLOC_FAILED ? SHOAL_E_NOMEM : SHOAL_E_INTERNAL,
                "device %d: %s at dense/cuda/%s:%d: %.200s", device_current(),
                lt.cublasLtGetStatusString(status), file_name(file), line, call);
    return false;
}

void device_look(struct stream *s)
{
    if (s->recorded == NULL) {
        /* A query would spoil a recording. A recording is spoiled by the refusal already, and its
         * section will be queued directly. */
        cudaError_t status = cudaStreamQuery(s->device->stream);
        if (status != cudaErrorNotReady)
            CUDA(s, status);
    }
    cudaError_t status = cudaGetLastError();
    (void)status;
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Under bsp the coordinator compares the workers' kernel texts (WORKER_JOIN). Cards of the same
 * name may have different numbers of multiprocessors; this changes how products are divided and so
 * their bits. */
static void texts_make(const struct cudaDeviceProp *device)
{
    size_t version = lt.cublasLtGetVersion();
    snprintf(kernel_text, sizeof kernel_text, "cublasLt %zu sm_%d%d %d SMs %.100s", version,
             device->major, device->minor, device->multiProcessorCount, device->name);
    char list[NUMBERS_TEXT];
    numbers_text(&numbers, list);
    snprintf(library_text, sizeof library_text, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    snprintf(about_text, sizeof about_text, "%.100s (%s), %s of %.200s", device->name, list,
             library_text, lt.path);
}

/* The properties of the worker's devices. They compute parts of one result, so they are of one
 * kind. */
static int devices_look(struct cudaDeviceProp *first, struct err *e)
{
    struct cudaDeviceProp device;
    int rc = CUDA_TELL(e, cudaGetDeviceProperties(first, (int)numbers.number[0]));
    for (uint32_t i = 1; i < numbers.count && rc == 0; i++) {
        rc = CUDA_TELL(e, cudaGetDeviceProperties(&device, (int)numbers.number[i]));
        if (rc == 0 && (strcmp(first->name, device.name) != 0 ||
                        first->multiProcessorCount != device.multiProcessorCount))
            return err_set(
                e, SHOAL_E_CONFIG,
                "devices %u and %u are of different kinds, %.60s with %d multiprocessors "
                "and %.60s with %d; name devices of one kind in SHOAL_DEVICE or devices",
                numbers.number[0], numbers.number[i], first->name, first->multiProcessorCount,
                device.name, device.multiProcessorCount);
    }
    return rc;
}

int device_probe(struct err *e)
{
    struct cudaDeviceProp device;
    struct err why;
    int count = 0;
    int rc = CUDA_TELL(&why, cudaGetDeviceCount(&count));
    if (rc != 0 || count == 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the NVIDIA driver is there, but there is no device to compute on: %s; look "
                       "at nvidia-smi, or "
                       "set train.backend to cpu",
                       rc != 0 ? why.text : "it counts 0");
    rc = numbers_take((uint32_t)MIN(count, DEVICES_MOST), &numbers, e);
    if (rc == 0)
        rc = devices_look(&device, e);
    if (rc != 0)
        return rc;
    if (device.major * 10 + device.minor < ARCHITECTURE_MIN)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "device %u (%s) is of compute capability %d.%d; needed is %d.%d or later; "
                       "set train.backend to cpu",
                       numbers.number[0], device.name, device.major, device.minor,
                       ARCHITECTURE_MIN / 10, ARCHITECTURE_MIN % 10);
    rc = cublaslt_load(e);
    if (rc == 0)
        texts_make(&device);
    return rc;
}

const char *device_kernel(void)
{
    return kernel_text;
}

const char *device_library(void)
{
    return library_text;
}

const char *device_about(void)
{
    return about_text;
}

/* Makes a device the calling thread's. */
static int thread_enter(int device, struct err *e)
{
    int rc = 0;
    if (thread_device == device)
        return 0;
    /* Threads that wait for the device must sleep: by default each would spin on a core that other
     * threads need. This is set before the device's context is created. */
    if ((thread_known >> device & 1) == 0)
        rc = CUDA_TELL(
            e, cudaInitDevice(device, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
    if (rc == 0)
        rc = CUDA_TELL(e, cudaSetDevice(device));
    if (rc != 0)
        return rc;
    thread_device = device;
    thread_known |= (uint64_t)1 << device;
    return 0;
}

/* For what concerns no device in particular. */
static int thread_enter_any(struct err *e)
{
    return thread_enter(device_current(), e);
}

bool device_enter(struct stream *s)
{
    struct err e;
    if (stream_failed(s))
        return false;
    int rc = thread_enter(s->device->number, &e);
    if (rc != 0)
        stream_fail(s, rc, "%s", e.text);
    return rc == 0;
}

/* Released memory stays with the process, so a later batch gets it back without a wait. */
static bool memory_keep(struct stream *s)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    return CUDA(s, cudaDeviceGetDefaultMemPool(&pool, s->device->number)) &&
           CUDA(s, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

int device_open(struct stream *s, struct err *e)
{
    s->device = calloc(1, sizeof *s->device);
    if (s->device == NULL)
        return err_set(e, SHOAL_E_NOMEM, "a stream of the device: out of memory");
    s->device->number = (int)numbers.number[s->spec.device % numbers.count];
    if (device_enter(s) && memory_keep(s) &&
        CUDA(s, cudaStreamCreateWithFlags(&s->device->stream, cudaStreamNonBlocking)))
        products_open(s);
    if (s->error.code != 0 && e != NULL)
        *e = s->error;
    return s->error.code;
}

void device_close(struct stream *s)
{
    device_wait(s);
    products_close(s);
    device_events_close(s);
    if (s->device->stream != NULL)
        CUDA(s, cudaStreamDestroy(s->device->stream));
    free(s->device);
    s->device = NULL;
}

/* The memory of each device by its last answer, 0: none yet; answered: there is no need to ask
 * again. */
static struct {
    atomic_uint_least64_t taken, all;
    atomic_bool answered;
} memory[DEVICES_MOST];

/* After a wait, so that the question delays no work. */
static void memory_look(int device)
{
    size_t left, size;
    if (atomic_exchange(&memory[device].answered, true) ||
        CUDA_TELL(NULL, cudaMemGetInfo(&left, &size)) != 0)
        return; /* a lost device shows in the next call as well */
    atomic_store(&memory[device].taken, size - left);
    atomic_store(&memory[device].all, size);
}

bool device_memory(uint64_t *taken, uint64_t *all)
{
    *taken = *all = 0;
    for (uint32_t i = 0; i < numbers.count; i++) {
        *taken += atomic_load(&memory[numbers.number[i]].taken);
        *all += atomic_load(&memory[numbers.number[i]].all);
        atomic_store(&memory[numbers.number[i]].answered, false);
    }
    return *all > 0;
}

void device_wait(struct stream *s)
{
    struct err e;
    if (s->device->stream != NULL &&
        /* a failed stream too: its queued work may still write to its memory */
        thread_enter(s->device->number, &e) == 0) {
        CUDA(s, cudaStreamSynchronize(s->device->stream));
        device_events_reuse(s);
        memory_look(s->device->number);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* True when no memory was found; clears this error from the thread, where the next call would find
 * it. */
static bool out_of_memory(cudaError_t status)
{
    return status == cudaErrorMemoryAllocation && cudaGetLastError() == status;
}

void *device_host_alloc(size_t bytes)
{
    void *p = NULL;
    if (thread_enter_any(NULL) != 0)
        return NULL;
    cuda_counter_add(&cuda_counters.allocations);
    cudaError_t status = cudaHostAlloc(&p, bytes + 1, cudaHostAllocPortable);
    if (out_of_memory(status) || CUDA_TELL(NULL, status) != 0)
        return NULL;
    return p;
}

/* A failure here means that the device has failed before; its stream has reported that. */
void device_host_free(void *p)
{
    if (p != NULL && thread_enter_any(NULL) == 0)
        CUDA_TELL(NULL, cudaFreeHost(p));
}

/* No memory does not make the stream fail; every other error does. */
static void *allocated(struct stream *s, cudaError_t status, void *p)
{
    if (out_of_memory(status) || !CUDA(s, status))
        return NULL;
    return p;
}

void *device_alloc(struct stream *s, size_t bytes)
{
    void *p = NULL;
    if (!device_enter(s))
        return NULL;
    cuda_counter_add(&cuda_counters.allocations);
    bytes = MAX(bytes, 1);
    if (cuda_exact) {
        cudaError_t status = cudaMalloc(&p, bytes);
        return allocated(s, status, p);
    }
    cudaError_t status = cudaMallocAsync(&p, bytes, s->device->stream);
    return allocated(s, status, p);
}

void device_free(struct stream *s, void *p)
{
    if (p == NULL || thread_enter(s->device->number, NULL) != 0)
        return;
    if (!cuda_exact)
        CUDA(s, cudaFreeAsync(p, s->device->stream));
    else if (CUDA(s, cudaStreamSynchronize(s->device->stream)))
        CUDA(s, cudaFree(p));
}

void device_upload(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && device_enter(s))
        CUDA(s, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->device->stream));
}

void device_download(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && device_enter(s))
        CUDA(s, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->device->stream));
}

void device_copy(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (device_enter(s))
        CUDA(s, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s->device->stream));
}

void device_zero(struct stream *s, void *to, size_t bytes)
{
    if (device_enter(s))
        CUDA(s, cudaMemsetAsync(to, 0, bytes, s->device->stream));
}

/* ---- queueing -------------------------------------------------------------------------------- */

void device_launch(struct stream *s, const char *name, kernel_function function, size_t n,
                   const void *args, size_t bytes)
{
    void *values[] = {(void *)(uintptr_t)args, &n};
    size_t blocks = (n + THREADS - 1) / THREADS;
    (void)bytes;
    if (!device_enter(s))
        return;
    if (blocks > INT32_MAX) {
        stream_fail(s, SHOAL_E_INTERNAL,
                    "kernel %s: %zu elements are too many for one run; make train.batch smaller",
                    name, n);
        return;
    }
    if (s->recorded == NULL)
        cuda_counter_add(&cuda_counters.launches);
    struct dim3 grid = {(unsigned)blocks, 1, 1}, block = {THREADS, 1, 1};
    if (!CUDA(s, cudaLaunchKernel(function, grid, block, values, 0, s->device->stream)))
        err_wrap(stream_error(s), 0, "kernel %s of %zu elements", name, n);
}

void device_record_begin(struct stream *s)
{
    /* relaxed: other threads may allocate meanwhile; the calls recorded here never do */
    if (device_enter(s))
        CUDA(s, cudaStreamBeginCapture(s->device->stream, cudaStreamCaptureModeRelaxed));
}

/* The recording is ended even after a failure; otherwise the stream would stay in capture mode. */
struct recording *device_record_end(struct stream *s)
{
    struct recording *r = calloc(1, sizeof *r);
    cudaGraph_t graph = NULL;
    if (r == NULL)
        stream_fail(s, SHOAL_E_NOMEM, "a recording: out of memory");
    bool ended = CUDA(s, cudaStreamEndCapture(s->device->stream, &graph));
    bool made = ended && r != NULL && !stream_failed(s) &&
                CUDA(s, cudaGraphInstantiate(&r->exec, graph, 0));
    if (graph != NULL)
        CUDA(s, cudaGraphDestroy(graph));
    if (made && CUDA(s, cudaGraphUpload(r->exec, s->device->stream)))
        return r;
    if (made)
        CUDA(s, cudaGraphExecDestroy(r->exec));
    free(r);
    return NULL;
}

void device_play(struct stream *s, struct recording *r)
{
    if (device_enter(s))
        CUDA(s, cudaGraphLaunch(r->exec, s->device->stream));
}

void device_recording_free(struct stream *s, struct recording *r)
{
    device_wait(s); /* it may still be playing */
    CUDA(s, cudaGraphExecDestroy(r->exec));
    free(r);
}
