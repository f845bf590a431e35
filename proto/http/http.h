/* http.h: a small HTTP server: it answers GET and HEAD on a few fixed paths, for Prometheus, for
 * probes and for a browser. It changes nothing.
 *
 *     struct http_route routes[] = {{"/metrics", metrics_write, &board}, ..};
 *     http_open(&(struct http_options){.listen = "127.0.0.1:9464", .route = routes, .routes = 1},
 *               &http, &e);
 *
 * Thread: it has one of its own. A route is called there, so it reads snapshots (board.h) and never
 * the state of a loop: it answers while a loop hangs.
 *
 * Whatever peers do, the server takes bounded memory and time: HTTP_CONNECTIONS connections, of
 * which the oldest gives way to a newcomer, HTTP_REQUEST_BYTES for the head of a request, and
 * HTTP_PATIENCE_NS for each connection, after which it is closed, however slowly its peer reads or
 * writes. Each answer ends its connection. A page is made again after HTTP_FRESH_NS at the
 * earliest; all else takes a part of one processor, one in HTTP_SHARE, over time. Under a flood
 * that would take more, connections wait their turn, and beyond a number the kernel drops them.
 *
 * Access: beyond the loopback addresses and unix sockets a token is required. At a loopback address
 * without a token, the name in the header Host must be one that no web site can have (host.h). */
#ifndef PROTO_HTTP_HTTP_H
#define PROTO_HTTP_HTTP_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define HTTP_CONNECTIONS 32u
#define HTTP_REQUEST_BYTES (8u << 10)
#define HTTP_PATIENCE_NS UINT64_C(10000000000)
#define HTTP_FRESH_NS UINT64_C(500000000)
#define HTTP_SHARE 100                   /* one part in so many of a processor */
#define HTTP_SAVED_NS INT64_C(200000000) /* processor time that may be used at once */
#define HTTP_TOKEN_LEAST 16u

struct http_ask {
    bool other; /* the peer accepts the other type of the route */
};

struct http_reply {
    unsigned status;  /* 200 before the call */
    const char *type; /* Content-Type, a constant; text/plain before the call */
    FILE *body;       /* the route writes to it, and need not look at its errors */
};

struct http_route {
    const char *path; /* all constants */
    void (*write)(void *context, const struct http_ask *ask, struct http_reply *reply);
    void *context;
    bool open;         /* answered without the token, and made for each: a probe's page */
    const char *other; /* a type that it also has, for peers that accept it; NULL: none */
};

struct http_options {
    const char *listen;             /* "127.0.0.1:9464", "[::1]:9464", "unix:/run/shoal/http" */
    const char *token;              /* a file with the bearer token; "": none */
    const struct http_route *route; /* (routes), borrowed until http_close */
    uint32_t routes;
};

struct http;

/* Checks the settings without listening: the form of `listen`, the file of the token, and that
 * nothing is served to other machines without one. CONFIG, NOINPUT, DENIED. */
int http_check(const struct http_options *o, struct err *e);
/* UNAVAILABLE: the address is taken, or is none of this machine. */
int http_open(const struct http_options *o, struct http **out, struct err *e);
/* Waits for the present answer. NULL is fine. */
void http_close(struct http *h);
/* The port that it listens at; 0 for a unix socket. */
uint16_t http_port(const struct http *h);

/* "libmicrohttpd 0.9.75" */
const char *http_library(void);

#endif
