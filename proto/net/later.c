/* later.c: pools of uv_timer_t and uv_work_t behind env_timer and env_work. */
#include "proto/net/later.h"

#include "proto/base/assert.h"
#include "proto/base/crash.h"

#include <stdlib.h>

#define NS_PER_MS UINT64_C(1000000)

struct later_timer {
    uv_timer_t uv;
    struct later *owner;
    struct env_timer *of;      /* NULL when free */
    struct later_timer *next;  /* in the list of all timers */
    struct later_timer *spare; /* in the free list */
};

struct later_work {
    uv_work_t uv;
    struct later *owner;
    struct env_work *of;
    struct later_work *next, *spare;
};

void later_init(struct later *l, uv_loop_t *loop)
{
    *l = (struct later){.loop = loop};
}

/* Aborts when out of memory: a daemon without a timer handle cannot keep any deadline. systemd
 * starts it again. */
static void *need(void *p)
{
    SHOAL_ASSERT(p != NULL);
    return p;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static struct later_timer *timer_take(struct later *l)
{
    struct later_timer *h = l->timers_free;
    if (h != NULL) {
        l->timers_free = h->spare;
        return h;
    }
    h = need(calloc(1, sizeof(*h)));
    h->owner = l;
    h->next = l->timers;
    l->timers = h;
    int rc = uv_timer_init(l->loop, &h->uv);
    SHOAL_ASSERT(rc == 0);
    h->uv.data = h;
    return h;
}

static void timer_give(struct later_timer *h)
{
    h->of->impl = NULL;
    h->of->due_ns = 0;
    h->of = NULL;
    h->spare = h->owner->timers_free;
    h->owner->timers_free = h;
}

static void timer_cb(uv_timer_t *uv);

/* libuv counts whole milliseconds from the time that it noted last. So its time is updated here,
 * the delay is rounded up, and the clock is checked again when the timer fires. While timers fire,
 * libuv's time stands still: otherwise two slow timers that restart themselves would fire in turn
 * for ever, and the loop would do nothing else. */
static void timer_arm(struct later_timer *h)
{
    uint64_t now = uv_hrtime();
    uint64_t left = h->of->due_ns > now ? h->of->due_ns - now : 0;
    uint64_t ms = (left + NS_PER_MS - 1) / NS_PER_MS;
    if (ms == 0 && h->owner->firing) {
        /* libuv would fire it in this same round, so a timer that restarts itself would block the
         * loop */
        ms = 1;
    }
    if (!h->owner->firing)
        uv_update_time(h->owner->loop);
    int rc = uv_timer_start(&h->uv, timer_cb, ms, 0);
    SHOAL_ASSERT(rc == 0);
}

static void timer_cb(uv_timer_t *uv)
{
    struct later_timer *h = uv->data;
    struct later *l = h->owner;
    struct env_timer *t = h->of;
    l->firing = true;
    if (uv_hrtime() < t->due_ns) {
        timer_arm(h);
    } else {
        timer_give(h);
        t->fire(t);
    }
    l->firing = false;
}

void later_timer_start(struct later *l, struct env_timer *t, uint64_t delay_ns)
{
    struct later_timer *h = t->impl;
    if (h == NULL) {
        h = timer_take(l);
        h->of = t;
        t->impl = h;
    }
    SHOAL_ASSERT(h->of == t);
    uint64_t now = uv_hrtime();
    t->due_ns = INT64_MAX;
    if (delay_ns <= INT64_MAX - now)
        t->due_ns = now + delay_ns;
    timer_arm(h);
}

void later_timer_stop(struct later *l, struct env_timer *t)
{
    struct later_timer *h = t->impl;
    (void)l;
    if (h != NULL) {
        SHOAL_ASSERT(h->of == t);
        uv_timer_stop(&h->uv);
        timer_give(h);
    }
}

/* ---- work ------------------------------------------------------------------------------------ */

static void work_cb(uv_work_t *uv)
{
    struct later_work *h = uv->data;
    uint64_t begin = uv_hrtime();
    crash_thread(); /* a thread of libuv's pool begins nowhere else in our code */
    h->of->run(h->of);
    h->of->ran_ns = uv_hrtime() - begin;
}

static void work_done_cb(uv_work_t *uv, int status)
{
    struct later_work *h = uv->data;
    struct later *l = h->owner;
    struct env_work *w = h->of;
    h->of = NULL;
    h->spare = l->works_free;
    l->works_free = h;
    l->working--;
    if (l->closing)
        return; /* its core may be partly freed */
    SHOAL_ASSERT(status == 0);
    w->impl = NULL;
    w->done(w);
}

void later_work(struct later *l, struct env_work *w)
{
    struct later_work *h = l->works_free;
    if (h != NULL) {
        l->works_free = h->spare;
    } else {
        h = need(calloc(1, sizeof(*h)));
        h->owner = l;
        h->next = l->works;
        l->works = h;
        h->uv.data = h;
    }
    h->of = w;
    w->impl = h;
    l->working++;
    int rc = uv_queue_work(l->loop, &h->uv, work_cb, work_done_cb);
    SHOAL_ASSERT(rc == 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

void later_close(struct later *l)
{
    l->closing = true;
    for (struct later_timer *h = l->timers; h != NULL; h = h->next)
        uv_close((uv_handle_t *)&h->uv, NULL);
    for (struct later_work *h = l->works; h != NULL; h = h->next)
        if (h->of != NULL)
            uv_cancel((uv_req_t *)&h->uv); /* fails when it has begun */
    while (l->working > 0)
        uv_run(l->loop, UV_RUN_ONCE);
}

void later_free(struct later *l)
{
    while (l->timers != NULL) {
        struct later_timer *h = l->timers;
        l->timers = h->next;
        free(h);
    }
    while (l->works != NULL) {
        struct later_work *h = l->works;
        l->works = h->next;
        free(h);
    }
}
