/* server_status.h: the one-line status of a server (systemctl status): the progress of a recovery
 * or of the last writes in per cent, or what the server serves. The shards' threads write the
 * figures, the main thread formats them. */
#ifndef SERVER_SERVER_STATUS_H
#define SERVER_SERVER_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct server_progress { /* one shard's figures */
    /* progress of the current work (engine_options.on_pulse); `of` 0: not known */
    _Atomic uint64_t done, of;
    _Atomic uint64_t rows, pulled, pushed; /* keys */
    _Atomic uint64_t away, tablets;        /* tablets that are not back yet, of all */
    _Atomic int place;                     /* enum shard_place */
};

/* The figures of the last status line, from which rates are computed. */
struct server_told {
    uint64_t ns, pulled, pushed;
};

/* "recovers: 43 % of the journal is read": `what`, the share, and `of`, the name of the work. text:
 * (bytes). */
void server_status_work(const struct server_progress *p, uint32_t shards, const char *what,
                        const char *of, char *text, size_t bytes);
/* "serving: 120311 rows, 81920 keys/s pulled, 40511 pushed"; during a recovery also the share of
 * rows that are back. */
void server_status_serving(const struct server_progress *p, uint32_t shards, uint64_t now_ns,
                           struct server_told *told, char *text, size_t bytes);

#endif
