/* device_host.c: a device without a card: memory that the host cannot touch, and plain loops, to
 * test everything above it.
 *
 * It exposes errors that a card would punish. Calls are queued and run only when the host waits, so
 * data that is read too early is not there yet. Device memory is closed to the host, and pointers
 * are checked (device_host.h). New memory is filled with NaN. A kernel's elements run in a
 * scrambled order. A recording keeps the arguments of its calls and replays them without asking the
 * callers. Matrix products round their operands as tensor cores do.
 *
 * SHOAL_DEVICE names the devices of the process (numbers.h), of which a stream has one. A device's
 * calls may touch its own memory alone, but for those that fetch (device_host.h).
 *
 * Environment variables, read when a stream is opened:
 *   SHOAL_CUDAHOST_DEVICES its number of devices, 16 unless it is set; read once
 *   SHOAL_CUDAHOST_MEMORY  bytes that each device has; read once
 *   SHOAL_CUDAHOST_ORDER   scrambled (default), forward, reverse: the order of a kernel's elements
 *   SHOAL_CUDAHOST_IDLE    1: nothing is run or copied, downloads give zeros: for the memory of a
 *                          step of any size
 *   SHOAL_CUDAHOST_FAIL    N: the stream's N-th call fails; N:lost: from that call on the device is
 *                          lost; N:full: from that call on there is no memory
 *   SHOAL_CUDAHOST_REFUSE  what its library of products refuses. none:N: the N-th product that it
 *                          is asked for; bias:N: ... with a bias; rows:N: ... unless rows begin at
 *                          16 bytes; launch:N: the N-th product that is run, once; capture:N: the
 *                          N-th call that is recorded, which spoils the recording */
#include "dense/cuda/device_host_queue.h"
#include "dense/cuda/numbers.h"
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define QUEUE_MOST 1024u /* calls; a longer queue is run without a wait for it */
#define HOST_WAYS 2u     /* ways of computing a product */
/* Bytes of a piece that are filled, at most: most blocks of scratch are never touched, and each
 * touched page makes opening the memory slower. */
#define FILL_MOST ((size_t)256 << 10)
#define ROW_BYTES 16u

/* ---- life ------------------------------------------------------------------------------------ */

static struct device_list numbers;
static char about[NUMBERS_TEXT + 64];

static bool variable(const char *name, const char **value)
{
    *value = getenv(name);
    return *value != NULL && **value;
}

int device_probe(struct err *e)
{
    const char *value;
    unsigned long devices = LIMIT_DEVICES;
    if (variable("SHOAL_CUDAHOST_DEVICES", &value))
        devices = strtoul(value, NULL, 10);
    if (devices == 0 || devices > LIMIT_DEVICES)
        return err_set(e, SHOAL_E_CONFIG, "SHOAL_CUDAHOST_DEVICES is not between 1 and %u",
                       LIMIT_DEVICES);
    int rc = numbers_take((uint32_t)devices, &numbers, e);
    char list[NUMBERS_TEXT];
    numbers_text(&numbers, list);
    (void)snprintf(about, sizeof about, "the host's memory and loops, for tests (%s)", list);
    return rc;
}

const char *device_kernel(void)
{
    return "host";
}

const char *device_library(void)
{
    return "the stand-in";
}

bool device_memory(uint64_t *taken, uint64_t *all)
{
    *taken = *all = 0;
    for (uint32_t i = 0; i < numbers.count; i++)
        device_host_memory_size(numbers.number[i], taken, all);
    return true;
}

const char *device_about(void)
{
    return about;
}

int device_open(struct stream *s, struct err *e)
{
    const char *value;
    char *end;
    struct device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return err_set(e, SHOAL_E_NOMEM, "a stream of the device: out of memory");
    bool ordered = variable("SHOAL_CUDAHOST_ORDER", &value); /* else the elements are scrambled */
    if (ordered && value[0] == 'f')
        d->order = ORDER_FORWARD;
    else if (ordered && value[0] == 'r')
        d->order = ORDER_REVERSE;
    if (variable("SHOAL_CUDAHOST_FAIL", &value)) {
        d->fail_at = strtoull(value, &end, 10);
        d->lost = strcmp(end, ":lost") == 0;
        d->full = strcmp(end, ":full") == 0;
    }
    if (variable("SHOAL_CUDAHOST_REFUSE", &value) && strchr(value, ':') != NULL) {
        d->refuse = value[0];
        d->refuse_at = strtoull(strchr(value, ':') + 1, NULL, 10);
    }
    d->idle = variable("SHOAL_CUDAHOST_IDLE", &value);
    d->number = numbers.number[s->spec.device % numbers.count];
    s->device = d;
    return 0;
}

/* Counts a call. false: the stream has failed, or this call makes it fail. */
static bool call_begin(struct stream *s, const char *name)
{
    struct device *d = s->device;
    if (stream_failed(s))
        return false;
    cuda_counter_add(&cuda_counters.calls);
    uint64_t call = ++d->calls;
    bool fails = call == d->fail_at || (d->lost && call > d->fail_at);
    if (d->fail_at == 0 || !fails || d->full)
        return true;
    stream_fail(s, d->lost ? SHOAL_E_UNAVAILABLE : SHOAL_E_INTERNAL,
                "%s failed: planted failure of call %" PRIu64, name, call);
    return false;
}

void device_wait(struct stream *s)
{
    (void)call_begin(s, "wait");
    /* a failed stream too: its queued work may still write to its memory */
    device_host_queue_run(s->device);
}

void device_close(struct stream *s)
{
    device_host_queue_run(s->device);
    free(s->device->queue.call);
    free(s->device);
    s->device = NULL;
}

/* ---- queueing -------------------------------------------------------------------------------- */

/* Adds the call to the recording that is being made, otherwise to the queue. */
static bool call_queue(struct stream *s, const struct call *c)
{
    struct device *d = s->device;
    if (!call_begin(s, c->name))
        return false;
    if (d->recording != NULL && d->refuse == 'c' && ++d->captured == d->refuse_at) {
        stream_fail(s, SHOAL_E_INTERNAL, "%s: the recording is not valid any more", c->name);
        return false;
    }
    struct recording *to = &d->queue;
    if (d->recording != NULL)
        to = d->recording;
    if (!device_host_queue_keep(s, to, c))
        return false;
    if (d->queue.count >= QUEUE_MOST)
        device_host_queue_run(d);
    return true;
}

static bool recording_refuses(struct stream *s, const char *name)
{
    if (s->device->recording != NULL)
        stream_fail(s, SHOAL_E_INTERNAL, "%s in a recorded section", name);
    return s->device->recording != NULL;
}

void device_copy(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (stream_failed(s))
        return;
    device_host_memory_check("copy", s->device->number, to, bytes);
    device_host_memory_check("copy", s->device->number, from, bytes);
    (void)call_queue(
        s, &(struct call){.kind = CALL_COPY, .name = "copy", .n = bytes, .to = to, .from = from});
}

void device_zero(struct stream *s, void *to, size_t bytes)
{
    if (stream_failed(s))
        return;
    device_host_memory_check("zero", s->device->number, to, bytes);
    (void)call_queue(s, &(struct call){.kind = CALL_ZERO, .name = "zero", .n = bytes, .to = to});
}

void device_launch(struct stream *s, const char *name, kernel_function function, size_t n,
                   const void *args, size_t bytes)
{
    struct call c = {.kind = CALL_KERNEL, .name = name, .function = function, .n = n};
    if (stream_failed(s))
        return;
    if (!s->device->idle) /* an idle stream's sizes are large enough to look like addresses */
        device_host_memory_scan(name, s->device->number, args, bytes);
    memcpy(c.u.args, args, bytes);
    if (call_queue(s, &c) && s->device->recording == NULL)
        cuda_counter_add(&cuda_counters.launches);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *device_host_alloc(size_t bytes)
{
    cuda_counter_add(&cuda_counters.allocations);
    return device_host_pinned_alloc(bytes);
}

void device_host_free(void *p)
{
    device_host_pinned_free(p);
}

void *device_alloc(struct stream *s, size_t bytes)
{
    bool full = s->device->full && s->device->calls + 1 >= s->device->fail_at;
    if (!call_begin(s, "alloc") || full)
        return NULL;
    cuda_counter_add(&cuda_counters.allocations);
    void *p = device_host_memory_alloc(s->device->number, bytes);
    if (p != NULL && !s->device->idle)
        (void)device_host_queue_keep(
            s, &s->device->queue,
            &(struct call){.kind = CALL_FILL, .name = "fill", .n = MIN(bytes, FILL_MOST), .to = p});
    return p;
}

void device_free(struct stream *s, void *p)
{
    if (p == NULL)
        return;
    if (!device_host_queue_keep(s, &s->device->queue,
                                &(struct call){.kind = CALL_FREE, .name = "free", .to = p}))
        device_host_memory_free(p);
}

void device_upload(struct stream *s, void *to, const void *from, size_t bytes)
{
    struct call c = {.kind = CALL_COPY, .name = "upload", .n = bytes, .to = to, .from = from};
    if (bytes == 0 || stream_failed(s) || recording_refuses(s, "upload"))
        return;
    device_host_memory_check("upload", s->device->number, to, bytes);
    device_host_memory_refuse("upload", from);
    if (!device_host_pinned_has(from)) { /* unpinned memory is read before the call returns */
        c.from = c.staged = malloc(bytes);
        if (c.staged == NULL) {
            stream_fail(s, SHOAL_E_NOMEM, "an upload: out of memory");
            return;
        }
        memcpy(c.staged, from, bytes);
    }
    if (!call_queue(s, &c))
        free(c.staged);
}

void device_download(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (bytes == 0 || stream_failed(s) || recording_refuses(s, "download"))
        return;
    device_host_memory_check("download", s->device->number, from, bytes);
    device_host_memory_refuse("download", to);
    if (s->device->idle)
        memset(to, 0, bytes);
    (void)call_queue(
        s,
        &(struct call){.kind = CALL_COPY, .name = "download", .n = bytes, .to = to, .from = from});
}

/* ---- strips, and other devices --------------------------------------------------------------- */

/* Floats from the first to the last of a matrix's strip. */
static size_t strip_bytes(const struct strip *m, size_t ld)
{
    return ((m->rows - 1) * ld + m->width) * sizeof *m->to;
}

static bool strip_empty(struct stream *s, const struct strip *m, const char *name)
{
    return m->rows == 0 || m->width == 0 || stream_failed(s) || recording_refuses(s, name);
}

/* An upload is staged without gaps. */
void device_upload_strip(struct stream *s, const struct strip *m)
{
    struct call c = {.kind = CALL_STRIP, .name = "upload", .u.strip = *m};
    if (strip_empty(s, m, c.name))
        return;
    device_host_memory_check(c.name, s->device->number, m->to, strip_bytes(m, m->ld_to));
    device_host_memory_refuse(c.name, m->from);
    if (!device_host_pinned_has(m->from)) {
        c.staged = malloc(strip_bytes(m, m->width));
        if (c.staged == NULL) {
            stream_fail(s, SHOAL_E_NOMEM, "an upload: out of memory");
            return;
        }
        for (size_t i = 0; i < m->rows; i++)
            memcpy((float *)c.staged + i * m->width, m->from + i * m->ld_from,
                   m->width * sizeof *m->from);
        c.u.strip.from = c.staged;
        c.u.strip.ld_from = m->width;
    }
    if (!call_queue(s, &c))
        free(c.staged);
}

void device_download_strip(struct stream *s, const struct strip *m)
{
    if (strip_empty(s, m, "download"))
        return;
    device_host_memory_check("download", s->device->number, m->from, strip_bytes(m, m->ld_from));
    device_host_memory_refuse("download", m->to);
    for (size_t i = 0; i < m->rows && s->device->idle; i++)
        memset(m->to + i * m->ld_to, 0, m->width * sizeof *m->to);
    (void)call_queue(s, &(struct call){.kind = CALL_STRIP, .name = "download", .u.strip = *m});
}

void device_fetch(struct stream *s, struct stream *other, const struct strip *m)
{
    if (strip_empty(s, m, "fetch"))
        return;
    device_host_memory_check("fetch", s->device->number, m->to, strip_bytes(m, m->ld_to));
    device_host_memory_check("fetch", other->device->number, m->from, strip_bytes(m, m->ld_from));
    (void)call_queue(s, &(struct call){.kind = CALL_STRIP, .name = "fetch", .u.strip = *m});
}

void device_after(struct stream *s, struct stream *other)
{
    if (s == other || stream_failed(s) || recording_refuses(s, "after"))
        return;
    struct event *event = calloc(1, sizeof *event);
    struct call mark = {.kind = CALL_EVENT, .name = "event", .u.event = event};
    struct call wait = {.kind = CALL_WAIT, .name = "after"};
    wait.u.wait.event = event;
    wait.u.wait.of = other->device;
    bool kept = event != NULL && device_host_queue_keep(other, &other->device->queue, &mark);
    if (!kept) {
        free(event);
        stream_fail(s, SHOAL_E_NOMEM, "calls of a device: out of memory");
        return;
    }
    /* it is kept whatever call_begin says: it owns the event */
    (void)call_begin(s, wait.name);
    if (!device_host_queue_keep(s, &s->device->queue, &wait))
        device_host_queue_run(other->device); /* the event has run when it is lost */
}

void device_watch(struct stream *s, bool begin)
{
    if (!stream_failed(s))
        (void)call_queue(s, &(struct call){.kind = CALL_WATCH, .name = "watch", .n = begin});
}

void device_waited(struct stream *s, double *waited, double *of)
{
    *waited = s->device->watch.waited;
    *of = s->device->watch.of;
}

/* ---- products -------------------------------------------------------------------------------- */

struct product_ways {
    bool unused;
};

static size_t element_bytes(const struct product *p)
{
    if (p->type == PRODUCT_BF16 || p->type == PRODUCT_FP16)
        return 2;
    return 4;
}

static bool rows_aligned(const struct product *p)
{
    size_t bytes = element_bytes(p);
    return p->lda * bytes % ROW_BYTES == 0 && p->ldb * bytes % ROW_BYTES == 0 &&
           p->ldc * sizeof *p->c % ROW_BYTES == 0 && (uintptr_t)p->a % ROW_BYTES == 0 &&
           (uintptr_t)p->b % ROW_BYTES == 0 && (uintptr_t)p->c % ROW_BYTES == 0;
}

static bool same_product(const struct product *a, const struct product *b)
{
    return a->type == b->type && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->m == b->m && a->n == b->n && a->k == b->k &&
           (a->beta == 0.0f) == (b->beta == 0.0f);
}

struct product_ways *device_ways_new(struct stream *s, const struct product *p, uint32_t *count)
{
    struct device *d = s->device;
    d->asked += !same_product(p, &d->last_asked) || d->asked == 0;
    d->last_asked = *p;
    bool meant = d->asked == d->refuse_at;
    bool none = meant && (d->refuse == 'n' || (d->refuse == 'b' && p->bias != NULL) ||
                          (d->refuse == 'r' && !rows_aligned(p)));
    struct product_ways *w = NULL;
    if (!none)
        w = calloc(1, sizeof *w);
    *count = 0;
    if (w != NULL)
        *count = HOST_WAYS;
    if (none)
        snprintf(s->refusal, sizeof s->refusal, "planted: product %" PRIu64, d->asked);
    return w;
}

void device_ways_free(struct stream *s, struct product_ways *w)
{
    (void)s;
    free(w);
}

static size_t matrix_bytes(struct extent x, uint32_t ld, size_t each)
{
    return ((size_t)(x.rows - 1) * ld + x.columns) * each;
}

bool device_ways_run(struct stream *s, struct product_ways *w, uint32_t way,
                     const struct product *p)
{
    struct device *d = s->device;
    size_t each = element_bytes(p);
    (void)w;
    (void)way;
    if (d->refuse == 'l' && ++d->ran == d->refuse_at) {
        snprintf(s->refusal, sizeof s->refusal, "planted: run %" PRIu64, d->ran);
        return false;
    }
    struct extent a = product_extent(p->transpose_a, p->m, p->k),
                  b = product_extent(p->transpose_b, p->k, p->n), c = {p->m, p->n};
    device_host_memory_check("product", s->device->number, p->a, matrix_bytes(a, p->lda, each));
    device_host_memory_check("product", s->device->number, p->b, matrix_bytes(b, p->ldb, each));
    device_host_memory_check("product", s->device->number, p->c,
                             matrix_bytes(c, p->ldc, sizeof *p->c));
    if (p->bias != NULL)
        device_host_memory_check("product", s->device->number, p->bias, p->n * sizeof *p->bias);
    if (call_queue(s, &(struct call){.kind = CALL_PRODUCT, .name = "product", .u.product = *p}) &&
        d->recording == NULL)
        cuda_counter_add(&cuda_counters.products);
    return !stream_failed(s);
}

/* ---- recordings ------------------------------------------------------------------------------ */

void device_record_begin(struct stream *s)
{
    s->device->recording = calloc(1, sizeof *s->device->recording);
    if (s->device->recording == NULL)
        stream_fail(s, SHOAL_E_NOMEM, "a recording: out of memory");
}

struct recording *device_record_end(struct stream *s)
{
    struct recording *r = s->device->recording;
    s->device->recording = NULL;
    if (r != NULL && stream_failed(s)) {
        device_recording_free(s, r);
        r = NULL;
    }
    return r;
}

/* The calls of a recording are counted as queued calls are. */
void device_play(struct stream *s, struct recording *r)
{
    for (size_t i = 1; i < r->count; i++)
        if (!call_begin(s, "play"))
            return;
    (void)call_queue(s, &(struct call){.kind = CALL_PLAY, .name = "play", .u.play = r});
}

void device_recording_free(struct stream *s, struct recording *r)
{
    device_host_queue_run(s->device); /* the queue may contain its calls */
    free(r->call);
    free(r);
}

/* ---- sorting --------------------------------------------------------------------------------- */

size_t device_sort_bytes(struct stream *s, uint32_t count, uint32_t key_end)
{
    (void)s;
    (void)count;
    return ((size_t)key_end + 1) * sizeof(uint32_t);
}

void device_sort(struct stream *s, uint32_t count, uint32_t key_end, const uint32_t *key,
                 const uint32_t *value, uint32_t *key_out, uint32_t *value_out, void *scratch,
                 size_t scratch_bytes)
{
    size_t bytes = count * sizeof *key;
    const void *used[] = {key, value, key_out, value_out};
    if (scratch == NULL || stream_failed(s) || count == 0)
        return;
    for (size_t i = 0; i < sizeof used / sizeof *used && !s->device->idle; i++)
        device_host_memory_check("sort", s->device->number, used[i], bytes);
    device_host_memory_check("sort", s->device->number, scratch, scratch_bytes);
    (void)call_queue(s,
                     &(struct call){.kind = CALL_SORT,
                                    .name = "sort",
                                    .n = count,
                                    .u.sort = {key, value, key_out, value_out, scratch, key_end}});
}
