/* part_load.h: the load on one server: four pushes in flight on one connection, one pull, timed
 * from its sending to its answer, on another, and questions on a third; all from one thread.
 * Members may be read. Only these functions change them, except pushing and pulling, which select
 * the load. */
#ifndef TESTS_BENCH_PART_LOAD_H
#define TESTS_BENCH_PART_LOAD_H

#include "proto/base/env.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"
#include "tests/bench/part.h"

enum { LOAD_SETS = 64, LOAD_WINDOW = 4, LOAD_TIMES = 200000 };

struct times {    /* times of pulls, in ns */
    uint64_t *ns; /* owned; (LOAD_TIMES) */
    size_t count; /* times beyond LOAD_TIMES are left out */
};

struct load {
    struct part_server server;
    struct net *net;
    struct env *env;
    peer_t pusher, puller, asker;
    struct env_timer deadline;
    uint64_t *keys;   /* owned; (LOAD_SETS, PART_KEYS), each set sorted */
    float *gradients; /* owned; (PART_KEYS, PART_WIDTH) */
    uint64_t rows, filled, batch, sequence;
    uint64_t fill_keys[LOAD_WINDOW][PART_KEYS]; /* lent to the pushes of new rows in flight */
    bool pushing, filling, pulling;
    uint32_t pushes;      /* in flight */
    uint64_t pull_began;  /* 0: none in flight */
    struct times *pulled; /* borrowed; where pulls are counted; NULL: nowhere */
    uint64_t asked;       /* id of the question */
    int answer;           /* its status; 1 while waiting */
    struct wire reply;
    struct err why;
};

/* Makes keys and gradients for a table of `rows` rows. NOMEM. */
int part_load_prepare(struct load *l, uint64_t rows);
void part_load_release(struct load *l);
/* Connects to l->server, which runs. Earlier requests in flight are forgotten. */
int part_load_connect(struct load *l, struct err *e);
void part_load_disconnect(struct load *l);
/* Pushes all rows of the table, with pulls beside it. */
int part_load_fill(struct load *l, struct times *pulled, struct err *e);
/* Runs the load for `seconds`; the times of pulls go to `pulled`, if it is not NULL. */
int part_load_run(struct load *l, double seconds, struct times *pulled, struct err *e);
/* Asks a question, with its answer in l->reply, while the load goes on. */
int part_load_ask(struct load *l, struct wire *w, struct err *e);
/* Ends the load when all requests in flight are answered. */
int part_load_rest(struct load *l, struct err *e);

#endif
