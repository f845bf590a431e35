/* part.h: shared by the parts of bench_parts: figures, keys, the server. Everything here is
 * synchronous. */
#ifndef TESTS_BENCH_PART_H
#define TESTS_BENCH_PART_H

#include "deploy/cli/child.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/msg.h"
#include "proto/base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PART_KEYS = 8192, PART_WIDTH = 16, PART_TABLET_BITS = 10 };

struct part_out {
    struct json *figures; /* owned by main: one flat object */
    bool as_json;         /* then nothing is printed before the end */
};

/* Adds a figure; `decimals` are for the table that users see. Returns 0 or NOMEM. */
int part_figure(struct part_out *out, const char *name, double value, int decimals,
                const char *unit);

/* The key of row `row` of a table: rows have keys all over the key space. */
static inline uint64_t part_key(uint64_t row)
{
    return rng_mix(row + 1); /* a bijection */
}
/* Sorts keys by mixed key, as a batch's keys come off the wire. */
void part_keys_sort(uint64_t *keys, size_t count);

/* Takes that much memory from the system and returns it, before the measured code needs it: in a
 * virtual machine a page that was not touched for long costs the host a fault (2.6 s of processor
 * time a GiB on the first machine, 0.1 s afterwards), which would dominate the measurement. Takes
 * at most half of the free memory. */
void part_touch(uint64_t bytes);

struct part_push {
    uint64_t batch;                      /* the last one of lane 0 */
    uint32_t tablet_first, tablet_count; /* tablets of the keys */
    const float *gradients;              /* (count, PART_WIDTH) */
};
/* part_request.c: a pull of keys (count; sorted), or a push for them. Keys and gradients are
 * borrowed until the message is sent. NULL: no memory. */
struct msg *part_request(uint64_t id, const uint64_t *keys, uint32_t count,
                         const struct part_push *push);

/* part_server.c: one server process. The bench is its own coordinator. */
struct part_server {
    struct child child;
    char endpoint[64], data[4200]; /* the first shard's endpoint; data_dir */
    int port;                      /* the first shard's; 0 before the first start */
    uint32_t shards;               /* 0: one */
    uint64_t journal_max;          /* 0: the server's own choice */
    uint64_t memory;               /* memory budget; 0: the server's own choice */
    uint32_t tablet_bits;          /* the table's; 0: PART_TABLET_BITS, the maximum */
    uint32_t io_threads;           /* 0: one */
    char coordinator[64];          /* empty: it has none */
    char name[16];                 /* empty: bench */
    /* the files of its keys and its allow-list; its public key. Empty: plaintext */
    char keys[4300], allow[4300], key[48];
};
/* Starts shoal-server with data_dir DIR/NAME; fresh: without the files of an earlier run. Returns
 * when the server accepts connections. A restarted server gets its port back. UNAVAILABLE, with its
 * last messages, when it ends. */
int part_server_start(struct part_server *s, const char *dir, const char *name,
                      const char *durability, bool fresh, struct err *e);
void part_server_endpoint(const struct part_server *s, uint32_t shard, char endpoint[64]);
double part_server_cpu(const struct part_server *s); /* seconds of processor time */
struct wire;
/* A request that creates table 0, with 2^tablet_bits tablets. */
void part_table(uint32_t tablet_bits, struct wire *out);
/* Creates table 0 (dim 16, AdaGrad), the map (equal ranges for the shards), and run 1 with lane 0
 * in generation 1, async. */
int part_server_arrange(struct part_server *s, struct err *e);
/* Ends the server with a signal and waits for its end: SIGKILL, or SIGTERM (it writes all rows
 * first). Does nothing when it does not run. */
void part_server_end(struct part_server *s, int signo);
/* Returns the first shard's status; the caller frees it. */
int part_server_status(struct part_server *s, struct json **out, struct err *e);

/* part_copies.c: pulls and pushes of servers with 1, 2 and 4 shards, in turn; files below dir. */
int part_shards(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                struct err *e);

/* part_copies.c: pushes of a shard without and with a follower, in turn; files below dir. */
int part_copies(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                struct err *e);
/* part_copies.c: a new follower copies `rows` rows. */
int part_anew(struct part_out *out, const char *dir, uint64_t rows, struct err *e);
/* part_copies.c: pulls and pushes of one, two and three servers, in turn. */
int part_servers(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                 struct err *e);

/* part_curve.c: pulls, pushes and training over tcp with keys beside plain, with 1, 2 and 4
 * threads of ZeroMQ. */
int part_curve(struct part_out *out, const char *dir, uint64_t rows, double seconds,
               int64_t train_rows, struct err *e);

/* part_events.c: an event file of `rows` rows is unpacked and read as batches; an FM's second epoch
 * over it, parsed again and from kept rows; files below dir. */
int part_events(struct part_out *out, const char *dir, uint64_t rows, struct err *e);

/* Returns the seconds that the thread was on a core. */
double part_core_seconds(void);
/* part_parse.c: a Criteo log to batches, on one core: text and examples a second; its cache below
 * dir. */
int part_parse(struct part_out *out, const char *dir, const char *log, double seconds,
               struct err *e);

/* part_growth.c: a table grows to `rows` rows in this process: bytes a row, pulls while it
 * grows. */
int part_growth(struct part_out *out, uint64_t rows, struct err *e);

/* part_checkpoint.c: checkpoints of `rows` rows under load; files below dir. */
int part_checkpoint(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                    struct err *e);

/* part_cold.c: pulls of a table of `rows` rows, four times its server's memory budget; files below
 * dir. rows: at most 2^31. */
int part_cold(struct part_out *out, const char *dir, uint64_t rows, double seconds, struct err *e);

#endif
