/* probe.c: a connect that does not block, its end, and a timer.
 *
 * 1. A probe is freed once neither a thread nor the loop uses it: it is told or stopped first, and
 *    freed later. [test: net_probes_may_be_stopped_at_any_time] */
#include "proto/net/probe.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/text.h"
#include "proto/net/name.h"
#include "proto/net/sock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct probe {
    struct env_probe *of; /* NULL: told, or stopped */
    struct probes *owner;
    struct env_timer timer; /* at its end the answer is told */
    struct env_work resolve;
    uv_poll_t poll;
    enum { PROBE_RESOLVES = 1, PROBE_CONNECTS, PROBE_CLOSES } busy; /* 0: with nothing */
    enum env_probe_answer answer;                                   /* so far */
    int fd;
    char endpoint[256], numeric[256];
    struct probe *next, *prev;
};

static void probe_free(struct probe *q)
{
    if (q->prev != NULL)
        q->prev->next = q->next;
    else
        q->owner->first = q->next;
    if (q->next != NULL)
        q->next->prev = q->prev;
    free(q);
}

static void closed_cb(uv_handle_t *handle)
{
    probe_free(handle->data);
}

/* Frees it as soon as nothing uses it (1). */
static void probe_end(struct probe *q)
{
    q->of->impl = NULL;
    q->of = NULL;
    later_timer_stop(q->owner->later, &q->timer);
    if (q->busy == PROBE_CONNECTS) {
        q->busy = PROBE_CLOSES;
        uv_close((uv_handle_t *)&q->poll, closed_cb);
        close(q->fd);
    } else if (q->busy == 0) {
        probe_free(q);
    }
}

static void probe_tell(struct probe *q, enum env_probe_answer answer)
{
    struct env_probe *of = q->of;
    probe_end(q);
    of->answer = answer;
    of->done(of);
}

static void timer_fire(struct env_timer *t)
{
    struct probe *q = container_of(t, struct probe, timer);
    probe_tell(q, q->answer);
}

static enum env_probe_answer answer_of(int error)
{
    if (error == 0 || error == EAGAIN) /* on a path: too many wait to be let in */
        return ENV_PROBE_ANSWERS;
    if (error == ECONNREFUSED || error == ENOENT)
        return ENV_PROBE_REFUSED;
    return ENV_PROBE_UNKNOWN;
}

/* The answer is known, but no `done` is called from inside env_probe_start. */
static void answer_soon(struct probe *q, enum env_probe_answer answer)
{
    q->answer = answer;
    later_timer_start(q->owner->later, &q->timer, 0);
}

/* Where no process listens at a port of this machine, the kernel may choose that very port for our
 * end, and we reach ourselves. */
static bool reached_self(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_bytes) == 0 &&
           own_bytes == other_bytes && memcmp(&own, &other, own_bytes) == 0;
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct probe *q = poll->data;
    int error = 0;
    socklen_t bytes = sizeof error;
    (void)status;
    (void)events;
    if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0 && reached_self(q->fd))
        error = ECONNREFUSED;
    probe_tell(q, answer_of(error));
}

static void tcp_connect(struct probe *q)
{
    struct sockaddr_storage to;
    socklen_t bytes;
    if (name_address(q->numeric, &to, &bytes) != 0)
        return; /* the timer tells that nothing is known */
    q->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (q->fd < 0)
        return;
    if (connect(q->fd, (struct sockaddr *)&to, bytes) != 0 && errno != EINPROGRESS) {
        answer_soon(q, answer_of(errno));
        close(q->fd);
        return;
    }
    if (uv_poll_init(q->owner->later->loop, &q->poll, q->fd) != 0) {
        close(q->fd);
        return;
    }
    q->poll.data = q;
    q->busy = PROBE_CONNECTS;
    int rc = uv_poll_start(&q->poll, UV_WRITABLE, poll_cb);
    SHOAL_ASSERT(rc == 0);
}

static void resolve_run(struct env_work *w) /* on a thread of the pool */
{
    struct probe *q = container_of(w, struct probe, resolve);
    struct err e;
    if (name_resolve(q->endpoint, q->numeric, &e) != 0)
        q->numeric[0] = '\0';
}

static void resolve_done(struct env_work *w)
{
    struct probe *q = container_of(w, struct probe, resolve);
    q->busy = 0;
    if (q->of == NULL)
        probe_free(q); /* 1 */
    else
        tcp_connect(q);
}

void probes_init(struct probes *ps, struct later *later)
{
    *ps = (struct probes){.later = later};
}

void probes_start(struct probes *ps, struct env_probe *of, const char *endpoint)
{
    SHOAL_ASSERT(of->impl == NULL && of->done != NULL);
    struct probe *q = calloc(1, sizeof *q);
    SHOAL_ASSERT(q != NULL); /* as with timers: later.c */
    q->of = of;
    q->owner = ps;
    q->timer.fire = timer_fire;
    q->resolve.run = resolve_run;
    q->resolve.done = resolve_done;
    q->next = ps->first;
    if (q->next != NULL)
        q->next->prev = q;
    ps->first = q;
    of->impl = q;
    text_copy(q->endpoint, sizeof q->endpoint, endpoint);
    text_copy(q->numeric, sizeof q->numeric, endpoint);
    later_timer_start(ps->later, &q->timer, PROBE_NS);
    if (!sock_endpoint_tcp(endpoint)) {
        answer_soon(q, answer_of(sock_ipc_connect(endpoint)));
    } else if (name_in(endpoint)) {
        q->busy = PROBE_RESOLVES;
        later_work(ps->later, &q->resolve);
    } else {
        tcp_connect(q);
    }
}

void probes_stop(struct probes *ps, struct env_probe *of)
{
    (void)ps;
    if (of->impl != NULL)
        probe_end(of->impl);
}

void probes_close(struct probes *ps)
{
    for (struct probe *q = ps->first, *next; q != NULL; q = next) {
        next = q->next;
        if (q->of != NULL)
            probe_end(q);
    }
}

/* No thread uses them any more (1). */
void probes_free(struct probes *ps)
{
    for (struct probe *q = ps->first, *next; q != NULL; q = next) {
        next = q->next;
        if (q->busy == PROBE_RESOLVES)
            probe_free(q);
    }
}
