/* hand.c: see hand.h. */
#include "worker/lib/hand.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum offer_state { OFFERED, TAKEN, GIVEN };

/* Lies on the stack of the call of `run`. */
struct offer {
    struct hand_batch batch;
    enum offer_state state;
    int status;
    bool stopped; /* its lane is dropped meanwhile */
    struct offer *next;
};

struct hand {
    struct outside outside;
    void (*job)(void *context, const char *text, size_t bytes);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t offered, given;
    struct offer *all; /* calls of `run` that wait, the oldest first */
    uint32_t out;
    bool closed;
};

static void offer_add(struct hand *h, struct offer *o)
{
    struct offer **at = &h->all;
    while (*at != NULL)
        at = &(*at)->next;
    *at = o;
}

static void offer_remove(struct hand *h, const struct offer *o)
{
    struct offer **at = &h->all;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
}

static int hand_run(void *context, struct outside_batch *b)
{
    struct hand *h = context;
    struct offer o = {.batch.outside = b};
    pthread_mutex_lock(&h->lock);
    offer_add(h, &o);
    pthread_cond_signal(&h->offered);
    while (!(o.state == GIVEN || (o.state == OFFERED && (o.stopped || h->closed))))
        pthread_cond_wait(&h->given, &h->lock);
    bool dropped = o.stopped || o.state == OFFERED;
    offer_remove(h, &o);
    pthread_mutex_unlock(&h->lock);
    return dropped ? SHOAL_E_STOPPED : o.status;
}

static void hand_stop(void *context)
{
    struct hand *h = context;
    pthread_mutex_lock(&h->lock);
    for (struct offer *o = h->all; o != NULL; o = o->next)
        o->stopped = true;
    pthread_cond_broadcast(&h->given);
    pthread_mutex_unlock(&h->lock);
}

static void hand_job(void *context, const char *text, size_t bytes)
{
    const struct hand *h = context;
    h->job(h->context, text, bytes);
}

int hand_new(void (*job)(void *context, const char *text, size_t bytes), void *context,
             struct hand **out)
{
    struct hand *h = calloc(1, sizeof *h);
    pthread_condattr_t monotonic;
    *out = h;
    if (h == NULL)
        return SHOAL_E_NOMEM;
    h->job = job;
    h->context = context;
    h->outside = (struct outside){hand_run, hand_stop, hand_job, h};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->offered, &monotonic);
    pthread_cond_init(&h->given, NULL);
    pthread_condattr_destroy(&monotonic);
    return 0;
}

void hand_free(struct hand *h)
{
    if (h == NULL)
        return;
    SHOAL_ASSERT(h->all == NULL && h->out == 0);
    pthread_cond_destroy(&h->offered);
    pthread_cond_destroy(&h->given);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

const struct outside *hand_outside(const struct hand *h)
{
    return &h->outside;
}

static struct offer *offer_next(const struct hand *h)
{
    struct offer *o = h->all;
    while (o != NULL && (o->state != OFFERED || o->stopped))
        o = o->next;
    return o;
}

static struct timespec deadline_of(uint32_t wait_ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += wait_ms / 1000;
    t.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

int hand_take(struct hand *h, uint32_t wait_ms, struct hand_batch **out)
{
    struct timespec until = deadline_of(wait_ms);
    int waited = 0, rc = 0;
    pthread_mutex_lock(&h->lock);
    struct offer *o = offer_next(h);
    while (o == NULL && !h->closed && waited != ETIMEDOUT) {
        if (wait_ms == UINT32_MAX)
            pthread_cond_wait(&h->offered, &h->lock);
        else
            waited = pthread_cond_timedwait(&h->offered, &h->lock, &until);
        o = offer_next(h);
    }
    if (h->closed) {
        rc = SHOAL_E_END;
    } else if (o == NULL) {
        rc = SHOAL_E_AGAIN;
    } else {
        o->state = TAKEN;
        h->out++;
        *out = &o->batch;
    }
    pthread_mutex_unlock(&h->lock);
    return rc;
}

void hand_give(struct hand *h, struct hand_batch *b, int status)
{
    struct offer *o = container_of(b, struct offer, batch);
    pthread_mutex_lock(&h->lock);
    SHOAL_ASSERT(o->state == TAKEN && h->out > 0);
    o->state = GIVEN;
    o->status = status;
    h->out--;
    pthread_cond_broadcast(&h->given);
    pthread_mutex_unlock(&h->lock);
}

void hand_close(struct hand *h)
{
    pthread_mutex_lock(&h->lock);
    h->closed = true;
    pthread_cond_broadcast(&h->offered);
    pthread_cond_broadcast(&h->given);
    pthread_mutex_unlock(&h->lock);
}

uint32_t hand_out(struct hand *h)
{
    pthread_mutex_lock(&h->lock);
    uint32_t out = h->out;
    pthread_mutex_unlock(&h->lock);
    return out;
}
