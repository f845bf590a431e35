/* server_status.h: what a server says of itself in one line (systemctl status): how far a recovery
 * or the last writes are, in per cent, and what it serves. Shards' threads note, the main thread
 * tells. */
#ifndef SERVER_SERVER_STATUS_H
#define SERVER_SERVER_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct server_progress { /* of one shard */
    /* of the work at hand (engine_options.on_pulse); of 0: not known */
    _Atomic uint64_t done, of;
    _Atomic uint64_t rows, pulled, pushed; /* keys */
    _Atomic uint64_t away, tablets;        /* tablets that are not back yet, of all */
    _Atomic int place;                     /* enum shard_place */
};

/* What was told last, for rates. */
struct server_told {
    uint64_t ns, pulled, pushed;
};

/* "recovers: 43 % of the journal is read": what, and of which work. text: (bytes). */
void server_status_work(const struct server_progress *p, uint32_t shards, const char *what,
                        const char *of, char *text, size_t bytes);
/* "serving: 120311 rows, 81920 keys/s pulled, 40511 pushed"; and how much of a recovery is still to
 * come. */
void server_status_serving(const struct server_progress *p, uint32_t shards, uint64_t now_ns,
                           struct server_told *told, char *text, size_t bytes);

#endif
