/* http.c: the one place of libmicrohttpd. Its daemon has neither a thread nor a listening socket of
 * its own; the thread here accepts connections, gives them to the library and runs it. So it can
 * close connections by their age and by their number, which the library cannot: its timeout begins
 * anew with each byte, and it stops accepting at its limit.
 *
 *  1. A connection is open for HTTP_PATIENCE_NS and a second at most. [test: http_slow_readers]
 *  2. A route is called only for a GET or a HEAD of its path, with the token where one is set.
 *     [test: http_refuses]
 *  3. A process without a free descriptor cannot accept, and poll tells of the peer at once again:
 *     the thread pauses. [test: http_without_a_descriptor_waits]
 *  4. A connection is always accepted: at the limit the oldest one is closed for it.
 *     [test: http_a_crowd_leaves_room_for_a_newcomer]
 *  5. The thread rests while it owes processor time. Connections then wait to be accepted, in the
 *     order in which they came: a crowd that comes again and again leaves each its turn. [test:
 *     http_a_flood_takes_little_of_the_processor,
 *     http_a_probe_is_answered_beside_a_crowd_that_comes_again] */
#include "proto/http/http.h"

#include "proto/base/assert.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/secret.h"
#include "proto/base/time.h"
#include "proto/http/host.h"
#include "proto/http/listen.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#define PLAIN "text/plain; charset=utf-8"
#define BEARER "Bearer "
#define PAUSE_MS 50
#define ROUND 16  /* connections accepted in one round */
#define FORMATS 2 /* forms of a page: http_route, other */

struct connection {
    int fd; /* -1: the place is free */
    uint64_t since_ns;
};

struct page {
    struct MHD_Response *response; /* owned, shared with connections that send it; NULL: none */
    unsigned status;
    uint64_t made_ns;
};

/* The processor time that the thread may use: it saves the time that passes over HTTP_SHARE. */
struct purse {
    int64_t saved_ns;
    uint64_t at_ns, used_ns; /* the clock and the thread's processor time of the last look */
};

struct http {
    struct http_options options;
    struct listen_place place;
    char *token; /* owned, a secret; NULL: none */
    int listen;
    struct MHD_Daemon *daemon; /* owned */
    pthread_t thread;
    int wake;          /* eventfd: http_close writes to it */
    struct page *page; /* owned, (routes, FORMATS) */
    struct connection open[HTTP_CONNECTIONS];
    struct purse purse;
    uint64_t pages_ns; /* processor time of making pages, which HTTP_FRESH_NS bounds */
};

/* ---- one request ---- */

/* Beside these a page of HTML has a policy in its own text: browsers obey both. */
static const char *const header_each[][2] = {{MHD_HTTP_HEADER_CONNECTION, "close"},
                                             {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
                                             {"Content-Security-Policy", "frame-ancestors 'none'"},
                                             {"Cross-Origin-Resource-Policy", "same-origin"},
                                             {"Referrer-Policy", "no-referrer"},
                                             {"X-Content-Type-Options", "nosniff"}};

/* Takes the response; NULL when there is no memory. */
static struct MHD_Response *headers_add(struct MHD_Response *r, const char *type)
{
    if (r == NULL)
        return NULL;
    enum MHD_Result rc = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof header_each / sizeof header_each[0] && rc == MHD_YES; i++)
        rc = MHD_add_response_header(r, header_each[i][0], header_each[i][1]);
    if (rc == MHD_YES)
        return r;
    MHD_destroy_response(r);
    return NULL;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *text)
{
    struct MHD_Response *r =
        headers_add(MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                    MHD_RESPMEM_PERSISTENT),
                    PLAIN);
    if (r == NULL)
        return MHD_NO;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    enum MHD_Result rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r); /* the connection keeps it as long as it needs it */
    return rc;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* The comparison takes as long for a wrong token as for a right one. */
static bool token_shown(const struct http *h, struct MHD_Connection *c)
{
    const char *shown = header(c, MHD_HTTP_HEADER_AUTHORIZATION);
    if (shown == NULL || strncmp(shown, BEARER, strlen(BEARER)) != 0)
        return false;
    shown += strlen(BEARER);
    return strlen(shown) == strlen(h->token) && secret_same(shown, h->token, strlen(shown));
}

static void page_drop(struct page *p)
{
    if (p->response != NULL)
        MHD_destroy_response(p->response);
    p->response = NULL;
}

static void page_make(const struct http_route *route, bool other, struct page *p)
{
    char *text = NULL;
    size_t bytes = 0;
    const struct http_ask ask = {.other = other};
    struct http_reply reply = {
        .status = MHD_HTTP_OK, .type = PLAIN, .body = open_memstream(&text, &bytes)};
    page_drop(p);
    if (reply.body == NULL)
        return;
    route->write(route->context, &ask, &reply);
    if (fclose(reply.body) != 0) {
        free(text);
        return;
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
    if (r == NULL)
        free(text);
    p->response = headers_add(r, reply.type);
    p->status = reply.status;
    p->made_ns = time_monotonic_ns();
}

/* Answers with the page that was made last, while it is fresh: a crowd that asks for the largest
 * page costs no more than the making of a few. Probes get one of now. */
static enum MHD_Result answer(struct http *h, uint32_t route, struct MHD_Connection *c)
{
    const struct http_route *r = &h->options.route[route];
    const char *accept = header(c, MHD_HTTP_HEADER_ACCEPT);
    bool other = r->other != NULL && accept != NULL && strstr(accept, r->other) != NULL;
    struct page *p = &h->page[route * FORMATS + other];
    if (r->open || p->response == NULL || time_monotonic_ns() - p->made_ns >= HTTP_FRESH_NS) {
        uint64_t begun_ns = time_of(CLOCK_THREAD_CPUTIME_ID);
        page_make(r, other, p);
        h->pages_ns += time_of(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    }
    if (p->response == NULL)
        return refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory for the answer\n");
    return MHD_queue_response(c, p->status, p->response);
}

/* Answers by the head of the request: a body is never read. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **state)
{
    struct http *h = context;
    const char *length = header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint32_t i = 0;
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if ((length != NULL && strcmp(length, "0") != 0) ||
        header(c, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL)
        return refuse(c, MHD_HTTP_CONTENT_TOO_LARGE, "a request here has no body\n");
    if (h->token == NULL && h->place.host[0] != '\0' &&
        !host_known(header(c, MHD_HTTP_HEADER_HOST), h->place.host))
        return refuse(c, MHD_HTTP_MISDIRECTED_REQUEST, HOST_REFUSED);
    while (i < h->options.routes && strcmp(url, h->options.route[i].path) != 0)
        i++;
    bool known = i < h->options.routes;
    if (h->token != NULL && !(known && h->options.route[i].open) && !token_shown(h, c))
        return refuse(c, MHD_HTTP_UNAUTHORIZED, "the token of metrics_token is missing\n"); // 2
    if (!known)
        return refuse(c, MHD_HTTP_NOT_FOUND, "there is no such page\n");
    return answer(h, i, c);
}

/* ---- connections ---- */

static void on_connection(void *context, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = context;
    struct connection *o = *state;
    if (code != MHD_CONNECTION_NOTIFY_STARTED) {
        if (o != NULL)
            o->fd = -1;
        *state = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (uint32_t i = 0; info != NULL && i < HTTP_CONNECTIONS; i++)
        if (h->open[i].fd < 0) {
            h->open[i] = (struct connection){info->connect_fd, time_monotonic_ns()};
            *state = &h->open[i];
            return;
        }
}

static uint32_t open_count(const struct http *h)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        count += h->open[i].fd >= 0;
    return count;
}

/* Ends connections that are open for too long; the library then sees their end. */
static void expire(struct http *h)
{
    uint64_t now_ns = time_monotonic_ns();
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        if (h->open[i].fd >= 0 && now_ns - h->open[i].since_ns > HTTP_PATIENCE_NS)
            (void)shutdown(h->open[i].fd, SHUT_RDWR); // 1
}

static void oldest_end(struct http *h)
{
    const struct connection *oldest = &h->open[0];
    for (uint32_t i = 1; i < HTTP_CONNECTIONS; i++)
        if (h->open[i].since_ns < oldest->since_ns)
            oldest = &h->open[i];
    (void)shutdown(oldest->fd, SHUT_RDWR);
    (void)MHD_run(h->daemon); /* closes it, and answers those that have asked meanwhile */
}

/* Accepts connections that wait. Returns false when there is no descriptor for one. */
static bool take(struct http *h)
{
    for (int i = 0; i < ROUND; i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t bytes = sizeof from;
        int fd = accept4(h->listen, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        if (open_count(h) == HTTP_CONNECTIONS)
            oldest_end(h);                                                        // 4
        (void)MHD_add_connection(h->daemon, fd, (struct sockaddr *)&from, bytes); /* takes fd */
        (void)MHD_run(h->daemon); /* libmicrohttpd 1.0 only notes a connection until it runs */
    }
    return true;
}

/* ---- the thread ---- */

static void purse_look(struct http *h)
{
    struct purse *p = &h->purse;
    uint64_t now_ns = time_monotonic_ns();
    uint64_t used_ns = time_of(CLOCK_THREAD_CPUTIME_ID) - h->pages_ns;
    p->saved_ns += (int64_t)((now_ns - p->at_ns) / HTTP_SHARE);
    p->saved_ns = MIN(p->saved_ns, HTTP_SAVED_NS) - (int64_t)(used_ns - p->used_ns);
    p->at_ns = now_ns;
    p->used_ns = used_ns;
}

/* How long the thread must rest, in ms. */
static int rest_ms(const struct http *h)
{
    if (h->purse.saved_ns >= 0)
        return 0;
    return (int)MIN(1 - h->purse.saved_ns * HTTP_SHARE / 1000000, 1000); // 5
}

/* Until when the thread sleeps if nothing happens. */
static int wait_ms(const struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 1000;
    if (open_count(h) == 0)
        return -1;
    if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
        return 1000;
    return (int)MIN(ms, 1000);
}

static void *http_thread(void *argument)
{
    struct http *h = argument;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    SHOAL_ASSERT(info != NULL);
    struct pollfd at[3] = {{.fd = h->wake, .events = POLLIN},
                           {.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = h->listen, .events = POLLIN}};
    (void)pthread_setname_np(pthread_self(), "http");
    crash_thread();
    h->purse = (struct purse){.saved_ns = HTTP_SAVED_NS, .at_ns = time_monotonic_ns()};
    while (at[0].revents == 0) {
        int pause_ms = 0;
        (void)poll(at, 3, wait_ms(h));
        (void)MHD_run(h->daemon);
        expire(h);
        if (at[2].revents != 0 && !take(h))
            pause_ms = PAUSE_MS; // 3
        purse_look(h);
        pause_ms = MAX(pause_ms, rest_ms(h));
        if (pause_ms > 0 && at[0].revents == 0)
            (void)poll(at, 1, pause_ms);
    }
    return NULL;
}

/* ---- open and close ---- */

static int settings_take(const struct http_options *o, struct listen_place *place, char **token,
                         struct err *e)
{
    *token = NULL;
    int rc = listen_parse(o->listen, place, e);
    if (rc != 0)
        return rc;
    if (o->token[0] == '\0' && !place->local)
        return err_set(e, SHOAL_E_CONFIG,
                       "metrics: %s: other machines reach this address, and without a token "
                       "everybody there could read: set metrics_token: FILE, or listen at "
                       "127.0.0.1 behind a proxy that asks for a password",
                       o->listen);
    if (o->token[0] == '\0')
        return 0;
    if ((*token = secret_new(LISTEN_TOKEN_MAX)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the token");
    rc = listen_token(o->token, *token, e);
    if (rc != 0) {
        secret_free(*token);
        *token = NULL;
    }
    return rc;
}

int http_check(const struct http_options *o, struct err *e)
{
    struct listen_place place;
    char *token;
    int rc = settings_take(o, &place, &token, e);
    secret_free(token);
    return rc;
}

static int daemon_start(struct http *h, struct err *e)
{
    errno = 0;
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
                                 on_request, h, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (h->daemon == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "metrics: %s: %s does not start: %s; where descriptors are short, raise "
                       "LimitNOFILE= of the unit; where memory is, lower the budget or end other "
                       "programs; then restart the daemon",
                       h->options.listen, http_library(),
                       errno != 0 ? strerror(errno) : "it gives no reason");
    return 0;
}

/* The signals of the daemon are for its other threads; a fault of this one is reported. */
static int thread_start(struct http *h, struct err *e)
{
    sigset_t all, before;
    sigfillset(&all);
    crash_unblock(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&h->thread, NULL, http_thread, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM, "metrics: cannot start a thread: %s", strerror(rc));
    return 0;
}

/* Frees all but the daemon and the thread. */
static void http_free(struct http *h)
{
    for (uint32_t i = 0; h->page != NULL && i < h->options.routes * FORMATS; i++)
        page_drop(&h->page[i]);
    free(h->page);
    secret_free(h->token);
    if (h->wake >= 0)
        close(h->wake);
    if (h->listen >= 0)
        close(h->listen);
    free(h);
}

int http_open(const struct http_options *o, struct http **out, struct err *e)
{
    struct http *h = calloc(1, sizeof *h);
    int rc;
    if (h == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the HTTP server");
    h->options = *o;
    h->listen = -1;
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        h->open[i].fd = -1;
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->page = calloc((size_t)o->routes * FORMATS, sizeof *h->page);
    rc = settings_take(o, &h->place, &h->token, e);
    if (rc == 0 && h->wake < 0)
        rc = err_set(e, SHOAL_E_UNAVAILABLE, "metrics: eventfd: %s", strerror(errno));
    if (rc == 0 && h->page == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for %u pages", o->routes);
    if (rc == 0)
        rc = listen_open(o->listen, &h->place, &h->listen, e);
    if (rc == 0) {
        h->place.bytes = sizeof h->place.address;
        (void)getsockname(h->listen, (struct sockaddr *)&h->place.address, &h->place.bytes);
        rc = daemon_start(h, e);
    }
    if (rc == 0 && (rc = thread_start(h, e)) != 0)
        MHD_stop_daemon(h->daemon);
    if (rc == 0) {
        *out = h;
        return 0;
    }
    http_free(h);
    return rc;
}

void http_close(struct http *h)
{
    const uint64_t one = 1;
    if (h == NULL)
        return;
    ssize_t told = write(h->wake, &one, sizeof one);
    SHOAL_ASSERT(told == (ssize_t)sizeof one);
    pthread_join(h->thread, NULL);
    MHD_stop_daemon(h->daemon);
    http_free(h);
}

uint16_t http_port(const struct http *h)
{
    const struct sockaddr_storage *a = &h->place.address;
    if (a->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)a)->sin_port);
    if (a->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)a)->sin6_port);
    return 0;
}

const char *http_library(void)
{
    static char text[48];
    (void)snprintf(text, sizeof text, "libmicrohttpd %s", MHD_get_version());
    return text;
}
