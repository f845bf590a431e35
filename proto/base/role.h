/* role.h: the roles of peers. Over tcp the allow-list gives each key its role; over ipc:// the user
 * of the process decides (proto/net/local.h). proto/wire/allow.h says what each role may send.
 *
 * Two roles are in no list. ROLE_LOCAL is an administrator of this machine over ipc://, or any peer
 * of a daemon with insecure_plaintext. ROLE_NOBODY is a peer without a key, or with one that is not
 * listed (any more). */
#ifndef PROTO_BASE_ROLE_H
#define PROTO_BASE_ROLE_H

#include <stdint.h>

/* X(NAME, as it is written, what it is for) */
#define ROLE_MAP(X)                                                                                \
    X(SERVE, "serve", "reads rows, to score")                                                      \
    X(WORKER, "worker", "trains")                                                                  \
    X(COORD, "coord", "a server, toward its coordinator")                                          \
    X(METRICS, "metrics", "reads figures")                                                         \
    X(ADMIN, "admin", "an operator")

enum role {
#define X(name, text, use) ROLE_##name,
    ROLE_MAP(X)
#undef X
        ROLES, /* roles that a list may name */
    ROLE_LOCAL = ROLES,
    ROLE_NOBODY
};

static inline uint32_t role_bit(enum role r)
{
    return 1u << r;
}

static inline const char *role_text(enum role r)
{
    switch (r) {
#define X(name, text, use)                                                                         \
    case ROLE_##name:                                                                              \
        return text;
        ROLE_MAP(X)
#undef X
    case ROLE_LOCAL:
        return "local";
    case ROLE_NOBODY:
        break;
    }
    return "nobody";
}

#endif
