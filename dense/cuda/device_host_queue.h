/* device_host_queue.h: the stand-in's calls, the queues and recordings that hold them, and the
 * running of a queue.
 *
 * A queue is run when the host waits for its stream, or when another stream that waits for it is
 * run: then up to the event alone. So calls of two streams run in an order that cards allow, the
 * latest of all.
 *
 * Each stream has a clock. It advances by the processor time of each call, and at a wait to the
 * time of the event, if that is later. So on a machine with few cores the clocks say what devices
 * that work side by side would have waited. */
#ifndef DENSE_CUDA_DEVICE_HOST_QUEUE_H
#define DENSE_CUDA_DEVICE_HOST_QUEUE_H

#include "dense/cuda/device_host.h"

enum call_kind {
    CALL_KERNEL,
    CALL_COPY, /* uploads and downloads too */
    CALL_STRIP,
    CALL_ZERO,
    CALL_FILL,
    CALL_PRODUCT,
    CALL_SORT,
    CALL_PLAY,
    CALL_FREE,
    CALL_EVENT,
    CALL_WAIT,
    CALL_WATCH,
};

struct sort {
    const uint32_t *key, *value;
    uint32_t *key_out, *value_out, *place, key_end;
};

/* A point in a queue that another queue waits for. The waiting call owns it. */
struct event {
    bool ran;
    double at; /* seconds, on the clock of its stream */
};

/* One queued call, with a copy of its arguments. */
struct call {
    enum call_kind kind;
    const char *name;
    kernel_function function;
    size_t n; /* elements or bytes */
    void *to;
    const void *from;
    void *staged; /* owned: a copy of the source, made unless that is pinned memory */
    union {
        unsigned char args[KERNEL_ARGS_MAX];
        struct product product;
        struct sort sort;
        struct strip strip;
        const struct recording *play;
        struct event *event;
        struct {
            struct event *event;
            struct device *of; /* whose queue has the event */
        } wait;
        max_align_t aligned;
    } u;
};

/* A sequence of calls: a stream's queue, or a recording. */
struct recording {
    struct call *call; /* owned */
    size_t count, room;
    size_t next; /* the first call of a queue that has not run */
};

struct device {
    uint32_t number;
    enum { ORDER_SCRAMBLED, ORDER_FORWARD, ORDER_REVERSE } order;
    uint64_t calls, fail_at; /* fail_at 0: never */
    bool lost, full, idle;
    char refuse; /* first letter of the kind that is refused; 0: none */
    uint64_t refuse_at, asked, ran, captured;
    struct product last_asked;
    struct recording queue;
    struct recording *recording; /* the recording that takes the calls, or NULL */
    bool running;
    double now;    /* its clock, in seconds */
    double waited; /* on that clock, in all */
    struct {
        double from, waited, of; /* waited: before it, then in it */
    } watch;
};

/* Appends the call. NOMEM: false, and the stream fails. */
bool device_host_queue_keep(struct stream *s, struct recording *r, const struct call *c);
/* Runs all queued calls; memory is freed in queue order, after the calls that use it. */
void device_host_queue_run(struct device *d);

#endif
