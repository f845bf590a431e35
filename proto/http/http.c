/* http.c: the one place of libmicrohttpd. Its daemon has no thread of its own; the thread here runs
 * it, and so can close connections by their age, which the library cannot: its timeout begins anew
 * with each byte.
 *
 *  1. A connection is open for HTTP_PATIENCE_NS and a second at most. [test: http_slow_readers]
 *  2. A route is called only for a GET or a HEAD of its path, with the token where one is set.
 *     [test: http_refuses]
 *  3. A process without a free descriptor cannot accept, and epoll tells of the peer at once again:
 *     the thread pauses. [test: http_without_a_descriptor_waits] */
#include "proto/http/http.h"

#include "proto/base/assert.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/secret.h"
#include "proto/base/time.h"
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

struct connection {
    int fd; /* -1: the place is free */
    uint64_t since_ns;
};

struct http {
    struct http_options options;
    struct listen_place place;
    char *token;               /* owned, a secret; NULL: none */
    struct MHD_Daemon *daemon; /* owned */
    pthread_t thread;
    int wake; /* eventfd: http_close writes to it */
    struct connection open[HTTP_CONNECTIONS];
};

/* ---- one request ---- */

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned status, const char *type,
                                     struct MHD_Response *r)
{
    enum MHD_Result rc = MHD_NO;
    if (r == NULL)
        return MHD_NO;
    if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
        MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
        MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES)
        rc = MHD_YES;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (rc == MHD_YES)
        rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r); /* the connection keeps it as long as it needs it */
    return rc;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *text)
{
    return send_response(c, status, PLAIN,
                         MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                         MHD_RESPMEM_PERSISTENT));
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

static enum MHD_Result answer(const struct http_route *route, struct MHD_Connection *c)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *accept = header(c, MHD_HTTP_HEADER_ACCEPT);
    const struct http_ask ask = {.accept = accept == NULL ? "" : accept};
    struct http_reply reply = {
        .status = MHD_HTTP_OK, .type = PLAIN, .body = open_memstream(&text, &bytes)};
    if (reply.body == NULL)
        return MHD_NO;
    route->write(route->context, &ask, &reply);
    if (fclose(reply.body) != 0) {
        free(text);
        return refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory for the answer\n");
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
    if (r == NULL)
        free(text);
    return send_response(c, reply.status, reply.type, r);
}

/* Answers by the head of the request: a body is never read. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **state)
{
    const struct http *h = context;
    const struct http_route *route = NULL;
    const char *length = header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if ((length != NULL && strcmp(length, "0") != 0) ||
        header(c, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL)
        return refuse(c, MHD_HTTP_CONTENT_TOO_LARGE, "a request here has no body\n");
    for (uint32_t i = 0; route == NULL && i < h->options.routes; i++)
        if (strcmp(url, h->options.route[i].path) == 0)
            route = &h->options.route[i];
    if (h->token != NULL && (route == NULL || !route->open) && !token_shown(h, c))
        return refuse(c, MHD_HTTP_UNAUTHORIZED, "the token of metrics_token is missing\n"); // 2
    if (route == NULL)
        return refuse(c, MHD_HTTP_NOT_FOUND, "there is no such page\n");
    return answer(route, c);
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

/* Ends connections that are open for too long; the library then sees their end. */
static void expire(struct http *h)
{
    uint64_t now_ns = time_monotonic_ns();
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        if (h->open[i].fd >= 0 && now_ns - h->open[i].since_ns > HTTP_PATIENCE_NS)
            (void)shutdown(h->open[i].fd, SHUT_RDWR); // 1
}

static bool none_open(const struct http *h)
{
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        if (h->open[i].fd >= 0)
            return false;
    return true;
}

static void *http_thread(void *argument)
{
    struct http *h = argument;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    SHOAL_ASSERT(info != NULL);
    struct pollfd at[2] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = h->wake, .events = POLLIN}};
    (void)pthread_setname_np(pthread_self(), "http");
    crash_thread();
    while (at[1].revents == 0) {
        MHD_UNSIGNED_LONG_LONG ms = 1000;
        if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
            ms = 1000;
        bool none = none_open(h), told = poll(at, 2, (int)MIN(ms, 1000)) > 0;
        (void)MHD_run(h->daemon);
        expire(h);
        if (told && at[1].revents == 0 && none && none_open(h))
            (void)poll(&at[1], 1, PAUSE_MS); // 3
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

static int daemon_start(struct http *h, int fd, struct err *e)
{
    errno = 0;
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        HTTP_CONNECTIONS / 2, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (h->daemon == NULL) {
        int saved = errno;
        close(fd);
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "metrics: %s: %s does not start: %s; where descriptors are short, raise "
                       "LimitNOFILE= of the unit; where memory is, lower the budget or end other "
                       "programs; then restart the daemon",
                       h->options.listen, http_library(),
                       saved != 0 ? strerror(saved) : "it gives no reason");
    }
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

int http_open(const struct http_options *o, struct http **out, struct err *e)
{
    struct http *h = calloc(1, sizeof *h);
    int fd = -1, rc;
    if (h == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the HTTP server");
    h->options = *o;
    for (uint32_t i = 0; i < HTTP_CONNECTIONS; i++)
        h->open[i].fd = -1;
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = settings_take(o, &h->place, &h->token, e);
    if (rc == 0 && h->wake < 0)
        rc = err_set(e, SHOAL_E_UNAVAILABLE, "metrics: eventfd: %s", strerror(errno));
    if (rc == 0)
        rc = listen_open(o->listen, &h->place, &fd, e);
    if (rc == 0) {
        h->place.bytes = sizeof h->place.address;
        (void)getsockname(fd, (struct sockaddr *)&h->place.address, &h->place.bytes);
        rc = daemon_start(h, fd, e);
    }
    if (rc == 0 && (rc = thread_start(h, e)) != 0)
        MHD_stop_daemon(h->daemon);
    if (rc == 0) {
        *out = h;
        return 0;
    }
    secret_free(h->token);
    if (h->wake >= 0)
        close(h->wake);
    free(h);
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
    MHD_stop_daemon(h->daemon); /* closes the socket */
    secret_free(h->token);
    close(h->wake);
    free(h);
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
