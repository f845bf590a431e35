/* asked.c: one text under a mutex, and the readers that wait for it; asked.h. */
#include "proto/http/asked.h"

#include "proto/base/time.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct asked {
    pthread_mutex_t mutex;
    pthread_cond_t put;
    char *text; /* owned; NULL: none yet */
    uint64_t put_ns, asked_ns;
    bool asked_once, in_vain; /* in_vain: a reader has waited, and no text came since */
};

int asked_open(struct asked **out, struct err *e)
{
    struct asked *a = calloc(1, sizeof *a);
    pthread_condattr_t monotonic;
    if (a == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the text of a page");
    pthread_mutex_init(&a->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->put, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = a;
    return 0;
}

void asked_close(struct asked *a)
{
    if (a == NULL)
        return;
    pthread_cond_destroy(&a->put);
    pthread_mutex_destroy(&a->mutex);
    free(a->text);
    free(a);
}

bool asked_wants(struct asked *a, uint64_t now_ns)
{
    pthread_mutex_lock(&a->mutex);
    bool wants = a->asked_once && (now_ns < a->asked_ns || now_ns - a->asked_ns < ASKED_NS);
    pthread_mutex_unlock(&a->mutex);
    return wants;
}

void asked_put(struct asked *a, char *text, uint64_t now_ns)
{
    if (text == NULL)
        return;
    pthread_mutex_lock(&a->mutex);
    char *last = a->text;
    a->text = text;
    a->put_ns = now_ns;
    a->in_vain = false;
    pthread_cond_broadcast(&a->put);
    pthread_mutex_unlock(&a->mutex);
    free(last);
}

/* Waits, under the mutex, for a text that is put from now on. */
static void put_await(struct asked *a, uint64_t now_ns)
{
    const uint64_t until_ns = now_ns + ASKED_WAIT_NS, before_ns = a->put_ns;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    int rc = 0;
    while (rc == 0 && a->put_ns == before_ns)
        rc = pthread_cond_timedwait(&a->put, &a->mutex, &until);
    a->in_vain = a->put_ns == before_ns;
}

char *asked_read(struct asked *a, double *age_s)
{
    uint64_t now_ns = time_monotonic_ns();
    char *copy = NULL;
    *age_s = 0;
    pthread_mutex_lock(&a->mutex);
    a->asked_once = true;
    a->asked_ns = now_ns;
    if (!a->in_vain && (a->text == NULL || now_ns - a->put_ns > ASKED_FRESH_NS))
        put_await(a, now_ns);
    if (a->text != NULL) {
        copy = strdup(a->text);
        *age_s = (double)(time_monotonic_ns() - a->put_ns) * 1e-9;
    }
    pthread_mutex_unlock(&a->mutex);
    return copy;
}
