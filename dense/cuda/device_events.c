/* device_events.c: the card: streams that wait for one another, what they fetch, and how long they
 * waited.
 *
 * A stream keeps its events and uses them again after each device_wait. A wait of a stream that is
 * watched lies between two more events, whose times tell how long it was. */
#include "dense/cuda/device_cuda.h"
#include "proto/base/array.h"

#include <stdlib.h>

struct event_list {
    cudaEvent_t *event; /* owned; (made) */
    uint32_t made, room, used;
};

struct events {
    struct event_list done;   /* points of this stream that others wait for */
    struct event_list around; /* a watch's begin, both ends of each wait in it, its end */
    bool watching;
};

static struct events *events_of(struct stream *s)
{
    if (s->device->events == NULL)
        s->device->events = calloc(1, sizeof *s->device->events);
    if (s->device->events == NULL)
        stream_fail(s, SHOAL_E_NOMEM, "events of a device: out of memory");
    return s->device->events;
}

/* Records the stream's present point in the list's next event. NULL: the stream has failed. */
static cudaEvent_t event_record(struct stream *s, struct event_list *list, unsigned flags)
{
    if (!device_enter(s))
        return NULL;
    if (list->used == list->made) {
        if (array_room(&list->event, list->made, &list->room, 64) != 0) {
            stream_fail(s, SHOAL_E_NOMEM, "events of a device: out of memory");
            return NULL;
        }
        if (!CUDA(s, cudaEventCreateWithFlags(&list->event[list->made], flags)))
            return NULL;
        list->made++;
    }
    cudaEvent_t event = list->event[list->used++];
    if (!CUDA(s, cudaEventRecord(event, s->device->stream)))
        return NULL;
    return event;
}

static void list_free(struct stream *s, struct event_list *list)
{
    for (uint32_t i = 0; i < list->made; i++)
        CUDA(s, cudaEventDestroy(list->event[i]));
    free(list->event);
}

void device_events_close(struct stream *s)
{
    struct events *v = s->device->events;
    if (v == NULL)
        return;
    list_free(s, &v->done);
    list_free(s, &v->around);
    free(v);
    s->device->events = NULL;
}

void device_events_reuse(struct stream *s)
{
    if (s->device->events != NULL)
        s->device->events->done.used = 0;
}

static void time_note(struct stream *s)
{
    struct events *v = s->device->events;
    if (v != NULL && v->watching)
        (void)event_record(s, &v->around, cudaEventDefault);
}

void device_after(struct stream *s, struct stream *other)
{
    if (s == other || stream_failed(s))
        return;
    struct events *v = events_of(other);
    cudaEvent_t event = NULL;
    if (v != NULL)
        event = event_record(other, &v->done, cudaEventDisableTiming);
    if (event == NULL)
        return;
    time_note(s);
    if (device_enter(s))
        CUDA(s, cudaStreamWaitEvent(s->device->stream, event, 0));
    time_note(s);
}

void device_watch(struct stream *s, bool begin)
{
    struct events *v = events_of(s);
    if (v == NULL)
        return;
    v->watching = begin;
    if (begin)
        v->around.used = 0;
    (void)event_record(s, &v->around, cudaEventDefault);
}

/* Seconds from one noted point to another; 0 after a failure. */
static double seconds_between(struct stream *s, uint32_t from, uint32_t to)
{
    const struct event_list *around = &s->device->events->around;
    float ms = 0.0f;
    CUDA(s, cudaEventElapsedTime(&ms, around->event[from], around->event[to]));
    return (double)ms / 1e3;
}

void device_waited(struct stream *s, double *waited, double *of)
{
    struct events *v = s->device->events;
    *waited = *of = 0.0;
    if (v == NULL || v->watching || v->around.used < 2 || !device_enter(s))
        return;
    uint32_t end = v->around.used - 1;
    for (uint32_t i = 1; i + 1 < end; i += 2)
        *waited += seconds_between(s, i, i + 1);
    *of = seconds_between(s, 0, end);
}

/* ---- strips ---------------------------------------------------------------------------------- */

static void strip_copy(struct stream *s, const struct strip *m, enum cudaMemcpyKind kind)
{
    size_t each = sizeof *m->to;
    if (m->rows > 0 && m->width > 0 && device_enter(s))
        CUDA(s, cudaMemcpy2DAsync(m->to, m->ld_to * each, m->from, m->ld_from * each,
                                  m->width * each, m->rows, kind, s->device->stream));
}

void device_upload_strip(struct stream *s, const struct strip *m)
{
    strip_copy(s, m, cudaMemcpyHostToDevice);
}

void device_download_strip(struct stream *s, const struct strip *m)
{
    strip_copy(s, m, cudaMemcpyDeviceToHost);
}

/* A copy between devices needs no access of one to the other's memory: where there is none, the
 * driver goes through the host. */
void device_fetch(struct stream *s, struct stream *other, const struct strip *m)
{
    size_t each = sizeof *m->to;
    struct cudaMemcpy3DPeerParms copy = {
        .srcPtr = {.ptr = (void *)(uintptr_t)m->from, .pitch = m->ld_from * each},
        .srcDevice = other->device->number,
        .dstPtr = {.ptr = m->to, .pitch = m->ld_to * each},
        .dstDevice = s->device->number,
        .extent = {.width = m->width * each, .height = m->rows, .depth = 1}};
    copy.srcPtr.xsize = copy.dstPtr.xsize = copy.extent.width;
    copy.srcPtr.ysize = copy.dstPtr.ysize = copy.extent.height;
    if (m->rows == 0 || m->width == 0)
        return;
    if (other->device->number == s->device->number)
        strip_copy(s, m, cudaMemcpyDeviceToDevice);
    else if (device_enter(s))
        CUDA(s, cudaMemcpy3DPeerAsync(&copy, s->device->stream));
}
