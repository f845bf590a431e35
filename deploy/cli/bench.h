/* bench.h: shared by the parts of `shoal bench`: figures, a server process, the load on it. All of
 * it is synchronous, and keeps its files in the working folder of the process. */
#ifndef DEPLOY_CLI_BENCH_H
#define DEPLOY_CLI_BENCH_H

#include "deploy/cli/child.h"
#include "proto/base/json.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"

enum { BENCH_KEYS = 8192, BENCH_WIDTH = 16, BENCH_TABLET_BITS = 10 };

struct bench_out {
    struct json *figures; /* one flat object */
    bool as_json;         /* then nothing is printed before the end */
};
/* Adds a figure; `decimals` are for the table that is printed. */
void bench_figure(struct bench_out *out, const char *name, double value, int decimals,
                  const char *unit);
/* Writes a small file. */
int bench_write(const char *path, const char *text, struct err *e);

static inline double bench_since(uint64_t began_ns)
{
    return (double)(time_monotonic_ns() - began_ns) / 1e9;
}

/* A server of one shard (bench_server.c); the bench is its coordinator. */
struct bench_server {
    struct child child;
    /* spaces of two tables each, of which the first has the rows; 0, 1: only one space, of one
     * table. Their tablets are as many together as those of the only one */
    uint32_t spaces;
    int port;
    char endpoint[64];
};
/* Starts shoal-server with this data_dir. fresh: what an earlier run left there is removed first.
 * Returns once the server accepts connections. */
int bench_server_start(struct bench_server *s, const char *data, const char *durability, bool fresh,
                       struct err *e);
/* Ends the server, if it runs, by SIGKILL or by SIGTERM; at SIGTERM it writes all rows first. */
void bench_server_end(struct bench_server *s, int signo);
double bench_server_cpu(const struct bench_server *s); /* seconds of processor time */
double bench_child_cpu(const struct child *c);
/* Sends the server a request. data (of `bytes`): the request's raw frame, or NULL. json: the
 * reply's (the caller frees it), or NULL. */
int bench_server_ask(struct bench_server *s, struct wire *w, const void *data, size_t bytes,
                     struct wire *reply, struct json **json, struct err *e);
/* A number of the server's status. */
int bench_server_number(struct bench_server *s, const char *name, double *out, struct err *e);
/* Log2 of the tablets of a table that has rows; the number of such a table. */
uint32_t bench_server_bits(const struct bench_server *s);
uint32_t bench_server_table(const struct bench_server *s, uint32_t space);
/* Makes the server lead all tablets. */
int bench_server_lead(struct bench_server *s, struct err *e);
/* Declares the tables (the first is number 0; dim 16, AdaGrad), a map, and run 1 with lane 0 in
 * generation 1, async. */
int bench_server_arrange(struct bench_server *s, struct err *e);

struct wire bench_load_pull(uint32_t count); /* `count` keys are its raw frame */

enum bench_kind { BENCH_PULL, BENCH_PUSH, BENCH_KINDS };
struct bench_load {
    struct bench_server server;
    uint64_t rows;    /* rows of each space's table, all of the same keys */
    uint64_t filled;  /* rows that were pushed at least once, of all spaces */
    uint64_t *fill;   /* owned; (rows): the keys of all rows */
    uint64_t *keys;   /* owned; (sets, BENCH_KEYS): keys of random rows, each set sorted */
    float *gradients; /* owned; (BENCH_KEYS, BENCH_WIDTH) */
    uint32_t sets;
    uint32_t window[BENCH_KINDS], in_flight[BENCH_KINDS];
    uint64_t answered;            /* since bench_load_run began */
    uint64_t batch[LIMIT_SPACES]; /* the next push's number */
    uint64_t sequence;            /* the newest request's id */
    struct net *net;
    struct env *env;
    peer_t peer[BENCH_KINDS]; /* a connection for each kind */
    struct env_timer deadline;
    bool filling;
    struct err why; /* why the load cannot go on */
};
/* Prepares keys and gradients for a table of `rows` rows. The fill's keys are sorted within
 * stretches of `stretch` keys. With a stretch of all rows, a push of the fill goes to neighbouring
 * tablets; with one of BENCH_KEYS, to all tablets. */
int bench_load_prepare(struct bench_load *l, uint64_t rows, uint32_t sets, uint64_t stretch,
                       struct err *e);
/* Connects to l->server, which runs. Requests that were in flight are forgotten. */
int bench_load_connect(struct bench_load *l, struct err *e);
/* Starts the server with an empty folder, sets it up, connects, and pushes all rows of the
 * table. */
int bench_load_fill(struct bench_load *l, const char *data, const char *durability, struct err *e);
/* Keeps this many pushes and pulls in flight for `seconds`. */
int bench_load_run(struct bench_load *l, uint32_t pushes, uint32_t pulls, double seconds,
                   struct err *e);
/* Stops sending and returns when every request in flight has been answered. */
int bench_load_rest(struct bench_load *l, struct err *e);
/* bench_load_end closes the connections and ends the server by a signal; bench_load_release frees
 * all memory of the load. */
void bench_load_end(struct bench_load *l, int signo);
void bench_load_release(struct bench_load *l);

/* Measures pulls and pushes of `rows` rows (bench.c), in the tables of so many spaces, to which
 * requests go in turn. Pushes with four in flight last journal_seconds where durability is not
 * memory; each other phase lasts `seconds`. */
struct bench_rate {
    const char *durability;
    uint64_t rows;
    uint32_t spaces;
    double seconds, journal_seconds;
};
int bench_rate(struct bench_out *out, const struct bench_rate *of, struct err *e);
/* bench_checkpoint.c: measures recovery after kill -9, and the restoring of a checkpoint, with
 * `rows` rows. */
int bench_checkpoint(struct bench_out *out, uint64_t rows, double seconds, struct err *e);
/* bench_import.c: measures `shoal import` of `rows` rows into an empty table, and again over its
 * rows. */
int bench_import(struct bench_out *out, uint64_t rows, struct err *e);

#endif
