/* device_host_queue.c: runs the stand-in's queues.
 *
 * 1. An event lies in its queue before every call that the waiting stream queued after it, so
 *    running a queue up to an event never comes back to a queue that is being run. */
#include "dense/cuda/device_host_queue.h"
#include "dense/cuda/stream.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <time.h>

/* ---- one call -------------------------------------------------------------------------------- */

static size_t common_divisor(size_t a, size_t b)
{
    while (b > 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Scrambled: the step is near the golden section of n, so neighbours run at very different
 * times. */
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

/* Counting sort. */
static void sort_run(const struct sort *a, size_t count)
{
    uint32_t *place = a->place; /* place of the next pair with this key */
    memset(place, 0, ((size_t)a->key_end + 1) * sizeof *place);
    for (size_t i = 0; i < count; i++)
        place[a->key[i] + 1]++;
    for (uint32_t k = 1; k < a->key_end; k++)
        place[k] += place[k - 1];
    for (size_t i = 0; i < count; i++) {
        uint32_t to = place[a->key[i]]++;
        a->key_out[to] = a->key[i];
        a->value_out[to] = a->value[i];
    }
}

static void strip_run(const struct strip *m)
{
    for (size_t i = 0; i < m->rows; i++)
        memcpy(m->to + i * m->ld_to, m->from + i * m->ld_from, m->width * sizeof *m->to);
}

static void call_run(const struct device *d, const struct call *c)
{
    switch (c->kind) {
    case CALL_KERNEL:
        c->function(c->u.args, c->n, order_of(d, c->n));
        return;
    case CALL_COPY:
        memmove(c->to, c->from, c->n);
        return;
    case CALL_STRIP:
        strip_run(&c->u.strip);
        return;
    case CALL_ZERO:
        memset(c->to, 0, c->n);
        return;
    case CALL_FILL:
        memset(c->to, 0xff, c->n); /* NaN when read as floats */
        return;
    case CALL_PRODUCT:
        device_host_product_run(&c->u.product);
        return;
    case CALL_SORT:
        sort_run(&c->u.sort, c->n);
        return;
    case CALL_PLAY:
        for (size_t i = 0; i < c->u.play->count; i++)
            call_run(d, &c->u.play->call[i]);
        return;
    case CALL_FREE:
    case CALL_EVENT:
    case CALL_WAIT:
    case CALL_WATCH:
        return;
    }
}

/* ---- a queue --------------------------------------------------------------------------------- */

bool device_host_queue_keep(struct stream *s, struct recording *r, const struct call *c)
{
    if (r->count == r->room) {
        size_t room = r->room * 2 + 64;
        struct call *more = realloc(r->call, room * sizeof *more);
        if (more == NULL) {
            stream_fail(s, SHOAL_E_NOMEM, "calls of a device: out of memory");
            return false;
        }
        r->call = more;
        r->room = room;
    }
    r->call[r->count++] = *c;
    return true;
}

/* The thread's processor time: other programs of the machine do not count. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work_run(struct device *d, const struct call *c)
{
    if (d->idle)
        return;
    double begin = thread_seconds();
    call_run(d, c);
    d->now += thread_seconds() - begin;
}

static void queue_run_to(struct device *d, const struct event *until);

static void wait_run(struct device *d, const struct call *c)
{
    struct event *event = c->u.wait.event;
    if (!event->ran)
        queue_run_to(c->u.wait.of, event);
    SHOAL_ASSERT(event->ran);
    d->waited += MAX(event->at - d->now, 0.0);
    d->now = MAX(event->at, d->now);
    free(event);
}

static void event_run(const struct device *d, struct event *event)
{
    event->ran = true;
    event->at = d->now;
}

static void watch_run(struct device *d, bool begin)
{
    if (begin) {
        d->watch.from = d->now;
        d->watch.waited = d->waited;
        return;
    }
    d->watch.of = d->now - d->watch.from;
    d->watch.waited = d->waited - d->watch.waited;
}

/* Runs the queue's next call. */
static void queue_step(struct device *d)
{
    struct call *c = &d->queue.call[d->queue.next++];
    switch (c->kind) {
    case CALL_FREE:
        device_host_memory_free(c->to);
        break;
    case CALL_EVENT:
        event_run(d, c->u.event);
        break;
    case CALL_WAIT:
        wait_run(d, c);
        break;
    case CALL_WATCH:
        watch_run(d, c->n == 1);
        break;
    default:
        work_run(d, c);
        free(c->staged);
        break;
    }
}

/* until NULL: to its end. */
static void queue_run_to(struct device *d, const struct event *until)
{
    struct recording *q = &d->queue;
    bool opens = !d->idle && q->next < q->count;
    SHOAL_ASSERT(!d->running); /* 1 */
    d->running = true;
    if (opens)
        device_host_memory_open();
    while (q->next < q->count && (until == NULL || !until->ran))
        queue_step(d);
    if (opens)
        device_host_memory_close();
    d->running = false;
    if (q->next == q->count)
        q->next = q->count = 0;
}

void device_host_queue_run(struct device *d)
{
    queue_run_to(d, NULL);
}
