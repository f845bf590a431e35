/* board.c: snapshots of the loops, and the pages of them.
 *
 *  1. The HTTP thread reads what lies under the mutex alone, and copies it: it formats without it,
 *     so that a loop never waits for a scraper. */
#include "proto/http/board.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/http/self.h"
#include "proto/meter/meter_text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct loop {
    atomic_uint_least64_t pulse_ns; /* when it last made progress */
    struct meter_sheet fills;       /* the loop's own */
    uint64_t published_ns;          /* the loop's own; 0: not yet */
    /* under the mutex */
    struct meter_sheet shown;
    bool ready, turns; /* turns: it has published */
    char why[BOARD_WHY];
};

struct board {
    struct board_options options;
    struct http *http; /* owned */
    struct http_route route[3 + BOARD_ROUTES];
    pthread_mutex_t mutex;
    atomic_bool stops;
    struct loop *loop;         /* owned, (options.loops) */
    struct meter_sheet *sheet; /* owned, (options.loops + 1): the HTTP thread's own */
};

/* ---- pages ---- */

static void name_of(const struct board *b, uint32_t loop, char name[METER_LABEL])
{
    if (b->options.loops == 1)
        text_copy(name, METER_LABEL, b->options.loop);
    else
        (void)snprintf(name, METER_LABEL, "%s-%u", b->options.loop, loop);
}

static uint64_t silent_ns(const struct board *b, uint32_t loop)
{
    uint64_t now_ns = time_monotonic_ns(), pulse_ns = atomic_load(&b->loop[loop].pulse_ns);
    return now_ns > pulse_ns ? now_ns - pulse_ns : 0;
}

/* True when the loop is ready; else `why` has the reason. */
static bool ready_is(struct board *b, uint32_t loop, char why[BOARD_WHY])
{
    const struct loop *l = &b->loop[loop];
    uint64_t ns = silent_ns(b, loop);
    if (atomic_load(&b->stops)) {
        (void)snprintf(why, BOARD_WHY, "it stops");
        return false;
    }
    pthread_mutex_lock(&b->mutex);
    bool ready = l->ready;
    memcpy(why, l->why, BOARD_WHY); // 1
    pthread_mutex_unlock(&b->mutex);
    if (!ready || ns < BOARD_SILENT_NS)
        return ready;
    (void)snprintf(why, BOARD_WHY, "it has made no progress for %" PRIu64 " s",
                   ns / UINT64_C(1000000000));
    return false;
}

static void metrics_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    struct board *b = context;
    const enum meter_format format = ask->other ? METER_OPEN : METER_PLAIN;
    struct meter_sheet *own = &b->sheet[b->options.loops];
    char name[METER_LABEL], why[BOARD_WHY];
    meter_clear(own);
    self_put(own, b->options.program, b->options.version);
    for (uint32_t i = 0; i < b->options.loops; i++) {
        name_of(b, i, name);
        pthread_mutex_lock(&b->mutex);
        meter_copy(&b->sheet[i], &b->loop[i].shown); // 1
        pthread_mutex_unlock(&b->mutex);
        meter_put(own, LOOP_SILENT, (double)silent_ns(b, i) * 1e-9, name, NULL);
        meter_put(own, READY, ready_is(b, i, why), name, NULL);
    }
    reply->type = meter_text_type(format);
    meter_text_write(reply->body, format, b->sheet, b->options.loops + 1);
}

static void health_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    struct board *b = context;
    char name[METER_LABEL];
    (void)ask;
    for (uint32_t i = 0; i < b->options.loops; i++) {
        uint64_t ns = silent_ns(b, i), most_ns = BOARD_START_NS;
        pthread_mutex_lock(&b->mutex);
        if (b->loop[i].turns)
            most_ns = BOARD_HANGS_NS;
        pthread_mutex_unlock(&b->mutex);
        if (ns < most_ns)
            continue;
        name_of(b, i, name);
        reply->status = 503;
        fprintf(reply->body,
                "%s has made no progress for %" PRIu64
                " s: it waits for a disk or computes without "
                "an end; the daemon's log and the kernel's tell more\n",
                name, ns / UINT64_C(1000000000));
    }
    if (reply->status == 200)
        fputs("ok\n", reply->body);
}

static void ready_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    struct board *b = context;
    char name[METER_LABEL], why[BOARD_WHY];
    (void)ask;
    for (uint32_t i = 0; i < b->options.loops; i++) {
        if (ready_is(b, i, why))
            continue;
        name_of(b, i, name);
        reply->status = 503;
        fprintf(reply->body, "%s is not ready: %s\n", name, why);
    }
    if (reply->status == 200)
        fputs("ready\n", reply->body);
}

/* ---- the loops ---- */

void board_stops(struct board *b)
{
    if (b != NULL)
        atomic_store(&b->stops, true);
}

void board_pulse(struct board *b, uint32_t loop, uint64_t now_ns)
{
    if (b == NULL)
        return;
    SHOAL_ASSERT(loop < b->options.loops);
    atomic_store_explicit(&b->loop[loop].pulse_ns, now_ns, memory_order_relaxed);
}

bool board_wants(struct board *b, uint32_t loop, uint64_t now_ns)
{
    if (b == NULL)
        return false;
    const struct loop *l = &b->loop[loop];
    return l->published_ns == 0 || now_ns - l->published_ns >= BOARD_PERIOD_NS * 9 / 10;
}

struct meter_sheet *board_sheet(struct board *b, uint32_t loop)
{
    SHOAL_ASSERT(loop < b->options.loops);
    return &b->loop[loop].fills;
}

void board_publish(struct board *b, uint32_t loop, bool ready, const char *why)
{
    struct loop *l = &b->loop[loop];
    l->published_ns = time_monotonic_ns();
    board_pulse(b, loop, l->published_ns);
    pthread_mutex_lock(&b->mutex);
    struct meter_sheet before = l->shown;
    l->shown = l->fills;
    l->fills = before;
    l->ready = ready;
    l->turns = true;
    text_copy(l->why, sizeof l->why, why);
    pthread_mutex_unlock(&b->mutex);
}

/* ---- open and close ---- */

static void board_free(struct board *b)
{
    for (uint32_t i = 0; b->loop != NULL && i < b->options.loops; i++) {
        meter_free(&b->loop[i].fills);
        meter_free(&b->loop[i].shown);
    }
    for (uint32_t i = 0; b->sheet != NULL && i <= b->options.loops; i++)
        meter_free(&b->sheet[i]);
    free(b->loop);
    free(b->sheet);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

static int board_make(const struct board_options *o, struct board **out, struct err *e)
{
    struct board *b = calloc(1, sizeof *b);
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for metrics");
    b->options = *o;
    b->loop = calloc(o->loops, sizeof *b->loop);
    b->sheet = calloc(o->loops + 1, sizeof *b->sheet);
    pthread_mutex_init(&b->mutex, NULL);
    if (b->loop == NULL || b->sheet == NULL) {
        board_free(b);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the metrics of %u loops", o->loops);
    }
    for (uint32_t i = 0; i < o->loops; i++) {
        atomic_store(&b->loop[i].pulse_ns, time_monotonic_ns());
        (void)snprintf(b->loop[i].why, BOARD_WHY, "it starts");
    }
    const struct http_route own[] = {{"/metrics", metrics_write, b, false, METER_OPEN_TYPE},
                                     {"/healthz", health_write, b, true, NULL},
                                     {"/readyz", ready_write, b, true, NULL}};
    memcpy(b->route, own, sizeof own);
    if (o->routes > 0)
        memcpy(b->route + 3, o->route, o->routes * sizeof *o->route);
    *out = b;
    return 0;
}

int board_check(const struct board_options *o, struct err *e)
{
    const struct http_options ho = {.listen = o->listen, .token = o->token};
    if (o->listen[0] == '\0' && o->token[0] != '\0')
        return err_set(
            e, SHOAL_E_CONFIG,
            "metrics_token: without `metrics` nothing is served: set metrics: HOST:PORT");
    if (o->listen[0] == '\0')
        return 0;
    return http_check(&ho, e);
}

int board_open(const struct board_options *o, struct board **out, struct err *e)
{
    struct board *b = NULL;
    *out = NULL;
    SHOAL_ASSERT(o->loops > 0 && o->routes <= BOARD_ROUTES);
    if (o->listen[0] == '\0')
        return 0;
    int rc = board_make(o, &b, e);
    if (rc != 0)
        return rc;
    const struct http_options ho = {
        .listen = o->listen, .token = o->token, .route = b->route, .routes = 3 + o->routes};
    rc = http_open(&ho, &b->http, e);
    if (rc == 0) {
        log_info("metrics, /healthz and /readyz are served at %s", o->listen);
        *out = b;
        return 0;
    }
    board_free(b);
    if (rc != SHOAL_E_UNAVAILABLE)
        return rc;
    log_warn("%s; this daemon works without metrics", e->text);
    return 0;
}

void board_close(struct board *b)
{
    if (b == NULL)
        return;
    http_close(b->http);
    board_free(b);
}
