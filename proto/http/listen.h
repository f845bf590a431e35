/* listen.h: the socket and the token of an HTTP server, from the text of its settings. */
#ifndef PROTO_HTTP_LISTEN_H
#define PROTO_HTTP_LISTEN_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define LISTEN_TOKEN_MAX 512u

struct listen_place {
    struct sockaddr_storage address;
    socklen_t bytes;
    bool local;     /* no other machine reaches it */
    char host[256]; /* as written, without brackets; "": a unix socket */
};

/* "HOST:PORT", "[ADDRESS]:PORT" or "unix:/PATH". CONFIG. */
int listen_parse(const char *text, struct listen_place *out, struct err *e);
/* Reads the token of a file that only its owner, or for a systemd credential its group, may read:
 * one word of HTTP_TOKEN_LEAST characters at least. out: memory of secret.h. NOINPUT, DENIED,
 * CONFIG. */
int listen_token(const char *path, char out[LISTEN_TOKEN_MAX], struct err *e);
/* Binds and listens. A unix socket of the same name is replaced when no process listens at it.
 * UNAVAILABLE. */
int listen_open(const char *text, const struct listen_place *place, int *fd, struct err *e);

#endif
