/* role.h: what somebody who holds a key may be, as an allow-list names it. What each may send is in
 * proto/wire/allow.h.
 *
 * Two stand in no list: LOCAL came over ipc:// or insecure_plaintext, where nobody has a key: who
 * may enter the folder may speak, and may do all. NOBODY has none, or had one that is not listed
 * (any more). */
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
        ROLES, /* how many a list may name */
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
