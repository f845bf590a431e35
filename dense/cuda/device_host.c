/* device_host.c: a device that is none: the host's memory and plain loops, for tests of everything above it.
 *
 * Made to show what a card would punish: its memory is memory of its own, filled with values that are not numbers; a
 * kernel's elements run in an order that is not theirs; a recording keeps the arguments of its calls and plays them
 * again without asking the callers. Matrix products round their operands as tensor cores do.
 *
 * Environment variables, read when a stream is opened:
 *   SHOAL_CUDAHOST_ORDER  scrambled (default), forward, reverse: the order of a kernel's elements
 *   SHOAL_CUDAHOST_IDLE   1: nothing is run or copied, what is downloaded is zeros: a step of any size, for its memory
 *   SHOAL_CUDAHOST_FAIL   N or N:lost: the stream's N-th call fails, or its device is lost by then; N:full: from there
 * on it finds no memory */
#include "dense/cuda/stream.h"

#include <stdlib.h>

#define HOST_ALIGN 256u
#define TOGETHER 8u /* columns of a product that are summed side by side */

enum call_kind { CALL_KERNEL, CALL_COPY, CALL_ZERO, CALL_PRODUCT };

/* One queued call, with a copy of its arguments. */
struct call {
    enum call_kind kind;
    const char *name;
    kernel_function function;
    size_t n; /* elements or bytes */
    void *to;
    const void *from;
    union {
        unsigned char args[KERNEL_ARGS_MAX];
        struct product product;
        max_align_t aligned;
    } u;
};

struct recording {
    struct call *call; /* owned */
    size_t count, room;
};

struct device {
    enum { ORDER_SCRAMBLED, ORDER_FORWARD, ORDER_REVERSE } order;
    uint64_t calls, fail_at; /* fail_at 0: never */
    bool lost, full, idle;
    struct recording *recording; /* that calls are kept in, or NULL */
};

int device_probe(struct err *e)
{
    (void)e;
    return 0;
}

const char *device_kernel(void)
{
    return "host";
}

const char *device_about(void)
{
    return "no device: the host's memory and loops, for tests";
}

int device_open(struct stream *s, struct err *e)
{
    const char *order = getenv("SHOAL_CUDAHOST_ORDER"), *fail = getenv("SHOAL_CUDAHOST_FAIL");
    const char *idle = getenv("SHOAL_CUDAHOST_IDLE");
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, SHOAL_E_NOMEM, "a stream of the device: out of memory");
    if (order && *order)
        d->order = order[0] == 'f' ? ORDER_FORWARD : order[0] == 'r' ? ORDER_REVERSE : ORDER_SCRAMBLED;
    if (fail && *fail) {
        char *end;
        d->fail_at = strtoull(fail, &end, 10);
        d->lost = strcmp(end, ":lost") == 0;
        d->full = strcmp(end, ":full") == 0;
    }
    d->idle = idle && *idle;
    s->device = d;
    return 0;
}

void device_close(struct stream *s)
{
    free(s->device);
    s->device = NULL;
}

/* Counts a call; false when the stream has failed, or fails with this one. */
static bool call_begin(struct stream *s, const char *name)
{
    struct device *d = s->device;
    if (stream_failed(s))
        return false;
    if (++d->calls != d->fail_at || d->full)
        return true;
    stream_fail(s, d->lost ? SHOAL_E_UNAVAILABLE : SHOAL_E_INTERNAL, "%s failed: planted failure of call %llu", name,
                (unsigned long long)d->calls);
    return false;
}

void device_wait(struct stream *s)
{
    (void)call_begin(s, "wait");
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

static void *aligned_bytes(size_t bytes)
{
    counter_add(&cuda_counters.allocations);
    void *p = NULL;
    return posix_memalign(&p, HOST_ALIGN, bytes > 0 ? bytes : 1) == 0 ? p : NULL; /* at its size: for ASan */
}

void *device_host_alloc(size_t bytes)
{
    return aligned_bytes(bytes);
}

void device_host_free(void *p)
{
    free(p);
}

void *device_alloc(struct stream *s, size_t bytes)
{
    bool full = s->device->full && s->device->calls + 1 >= s->device->fail_at;
    void *p = call_begin(s, "alloc") && !full ? aligned_bytes(bytes) : NULL;
    if (p && !s->device->idle)
        memset(p, 0xff, bytes); /* as floats: not numbers */
    return p;
}

void device_free(struct stream *s, void *p)
{
    (void)s;
    free(p);
}

void device_upload(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (s->device->recording)
        stream_fail(s, SHOAL_E_INTERNAL, "upload in a recorded section");
    if (bytes > 0 && call_begin(s, "upload") && !s->device->idle)
        memcpy(to, from, bytes);
}

void device_download(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (s->device->recording)
        stream_fail(s, SHOAL_E_INTERNAL, "download in a recorded section");
    if (bytes == 0 || !call_begin(s, "download"))
        return;
    if (s->device->idle)
        memset(to, 0, bytes);
    else
        memcpy(to, from, bytes);
}

/* ---- queueing --------------------------------------------------------------------------------------------- */

static size_t common_divisor(size_t a, size_t b)
{
    while (b > 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Scrambled: steps of about the golden section of n, which touch neighbours at very different times. */
static struct kernel_order order_of(const struct device *d, size_t n)
{
    if (d->order == ORDER_FORWARD || n < 2)
        return (struct kernel_order){0, 1};
    if (d->order == ORDER_REVERSE)
        return (struct kernel_order){n - 1, n - 1};
    size_t step = (size_t)((double)n * 0.6180339887498949) | 1;
    while (common_divisor(step, n) != 1)
        step += 2;
    return (struct kernel_order){n / 3, step % n};
}

/* Row-major operand element (i, j) of op(x), rounded as the product's type rounds. */
static inline float operand_at(enum product_type type, const void *x, size_t at)
{
    union {
        uint32_t bits;
        float value;
    } u;
    if (type == PRODUCT_F32)
        return ((const float *)x)[at];
    if (type == PRODUCT_TF32) { /* 10 bits of the mantissa */
        u.value = ((const float *)x)[at];
        if ((u.bits & 0x7f800000u) != 0x7f800000u)
            u.bits = (u.bits + 0xfffu + (u.bits >> 13 & 1)) & ~0x1fffu;
        return u.value;
    }
    uint16_t half = ((const uint16_t *)x)[at];
    if (type == PRODUCT_BF16) {
        u.bits = (uint32_t)half << 16;
        return u.value;
    }
    float sign = half >> 15 ? -1.0f : 1.0f;
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf((float)mantissa, -24) : ldexpf((float)(1024 + mantissa), exponent - 25));
}

/* One row of a product. `type` is a constant where this is called: a loop for each. */
static inline void product_row(enum product_type type, const struct product *p, size_t at_a, size_t step_a, float *to)
{
    for (uint32_t j = 0; j < p->n; j++)
        to[j] = p->beta == 0.0f ? (p->bias ? p->bias[j] : 0.0f) : to[j] * p->beta;
    for (uint32_t j = 0; j < p->n && p->transpose_b; j += TOGETHER) {
        uint32_t columns = p->n - j < TOGETHER ? p->n - j : TOGETHER;
        float sum[TOGETHER] = {0};
        for (uint32_t l = 0; l < p->k; l++)
            for (uint32_t t = 0; t < columns; t++)
                sum[t] +=
                    operand_at(type, p->a, at_a + l * step_a) * operand_at(type, p->b, (size_t)(j + t) * p->ldb + l);
        for (uint32_t t = 0; t < columns; t++)
            to[j + t] += sum[t];
    }
    for (uint32_t l = 0; l < p->k && !p->transpose_b; l++) {
        float x = operand_at(type, p->a, at_a + l * step_a);
        for (uint32_t j = 0; j < p->n; j++)
            to[j] += x * operand_at(type, p->b, (size_t)l * p->ldb + j);
    }
}

static void product_run(const struct product *p)
{
    size_t step = p->transpose_a ? p->lda : 1;
    for (uint32_t i = 0; i < p->m; i++) {
        size_t at_a = i * (size_t)(p->transpose_a ? 1 : p->lda);
        float *to = p->c + (size_t)i * p->ldc;
        if (p->type == PRODUCT_F32)
            product_row(PRODUCT_F32, p, at_a, step, to);
        else if (p->type == PRODUCT_TF32)
            product_row(PRODUCT_TF32, p, at_a, step, to);
        else if (p->type == PRODUCT_BF16)
            product_row(PRODUCT_BF16, p, at_a, step, to);
        else
            product_row(PRODUCT_FP16, p, at_a, step, to);
    }
}

static void call_run(const struct device *d, const struct call *c)
{
    if (d->idle)
        return;
    switch (c->kind) {
    case CALL_KERNEL:
        c->function(c->u.args, c->n, order_of(d, c->n));
        return;
    case CALL_COPY:
        memmove(c->to, c->from, c->n);
        return;
    case CALL_ZERO:
        memset(c->to, 0, c->n);
        return;
    case CALL_PRODUCT:
        product_run(&c->u.product);
        return;
    }
}

static void call_keep(struct stream *s, struct recording *r, const struct call *c)
{
    if (r->count == r->room) {
        size_t room = r->room * 2 + 64;
        struct call *more = realloc(r->call, room * sizeof *more);
        if (!more) {
            stream_fail(s, SHOAL_E_NOMEM, "a recording: out of memory");
            return;
        }
        r->call = more;
        r->room = room;
    }
    r->call[r->count++] = *c;
}

static void call_queue(struct stream *s, const struct call *c)
{
    if (!call_begin(s, c->name))
        return;
    if (s->device->recording) {
        call_keep(s, s->device->recording, c);
        return;
    }
    if (c->kind == CALL_KERNEL)
        counter_add(&cuda_counters.launches);
    if (c->kind == CALL_PRODUCT)
        counter_add(&cuda_counters.products);
    call_run(s->device, c);
}

void device_copy(struct stream *s, void *to, const void *from, size_t bytes)
{
    call_queue(s, &(struct call){.kind = CALL_COPY, .name = "copy", .n = bytes, .to = to, .from = from});
}

void device_zero(struct stream *s, void *to, size_t bytes)
{
    call_queue(s, &(struct call){.kind = CALL_ZERO, .name = "zero", .n = bytes, .to = to});
}

void device_launch(struct stream *s, const char *name, kernel_function function, size_t n, const void *args,
                   size_t bytes)
{
    struct call c = {.kind = CALL_KERNEL, .name = name, .function = function, .n = n};
    memcpy(c.u.args, args, bytes);
    call_queue(s, &c);
}

void device_product(struct stream *s, const struct product *p)
{
    call_queue(s, &(struct call){.kind = CALL_PRODUCT, .name = "product", .u.product = *p});
}

/* ---- recordings ------------------------------------------------------------------------------------------- */

void device_record_begin(struct stream *s)
{
    s->device->recording = calloc(1, sizeof *s->device->recording);
    if (!s->device->recording)
        stream_fail(s, SHOAL_E_NOMEM, "a recording: out of memory");
}

struct recording *device_record_end(struct stream *s)
{
    struct recording *r = s->device->recording;
    s->device->recording = NULL;
    if (r && stream_failed(s)) {
        device_recording_free(s, r);
        r = NULL;
    }
    return r;
}

void device_play(struct stream *s, struct recording *r)
{
    for (size_t i = 0; i < r->count && call_begin(s, "play"); i++)
        call_run(s->device, &r->call[i]);
}

void device_recording_free(struct stream *s, struct recording *r)
{
    (void)s;
    free(r->call);
    free(r);
}

/* ---- sorting ---------------------------------------------------------------------------------------------- */

size_t device_sort_bytes(struct stream *s, uint32_t count, uint32_t key_end)
{
    (void)s;
    (void)count;
    return ((size_t)key_end + 1) * sizeof(uint32_t);
}

/* By counting. */
void device_sort(struct stream *s, uint32_t count, uint32_t key_end, const uint32_t *key, const uint32_t *value,
                 uint32_t *key_out, uint32_t *value_out, void *scratch, size_t scratch_bytes)
{
    uint32_t *place = scratch; /* of the next pair with this key */
    if (!scratch || !call_begin(s, "sort"))
        return;
    if (s->device->idle)
        return;
    memset(place, 0, scratch_bytes);
    for (uint32_t i = 0; i < count; i++)
        place[key[i] + 1]++;
    for (uint32_t k = 1; k < key_end; k++)
        place[k] += place[k - 1];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = place[key[i]]++;
        key_out[to] = key[i];
        value_out[to] = value[i];
    }
}
