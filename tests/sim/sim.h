/* sim.h: the simulated filling of env.h: many nodes in one process, a virtual clock, an in-memory
 * network, all from one seed. Same seed, same run, event for event. A node is an env with a handler
 * and addresses ("sim://name"); the network drops, duplicates, delays and reorders; a node can be
 * killed (its timers, work and messages go; peers see silence) and a new one may listen at its
 * address: old connections to the address reach it under a new peer_t. A message is lost when
 * nobody listens at the moment of the send, or when whoever did is dead when it arrives.
 * env_disconnect of a connection out is told to the other end by on_peer_gone. As with the real net
 * a connection holds a bounded number of messages; beyond it env_send answers BUSY. on_drained
 * follows the messages of one node at one instant. A line can be cut, one way or both; a node can
 * be paused, or wedged. After sim_kill or env_stop the env's calls do nothing. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "proto/base/env.h"

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_node;

struct sim_options {
    uint64_t seed;
    double drop, duplicate; /* shares of messages */
    /* of a message: uniform; reordering follows from it when reorder is set */
    uint64_t delay_min_ns, delay_max_ns;
    bool reorder; /* else messages of a connection stay in order */
    /* virtual time that env_work takes; run is called when it ends */
    uint64_t work_min_ns, work_max_ns;
    uint64_t wall_s; /* the calendar at virtual time 0, seconds since 1970; 0: there is none */
    /* each node's calendar is set anew every few seconds, by so many at most, forward or back */
    uint64_t wall_jump_s;
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *s);
struct sim_node *sim_node_new(struct sim *s, const char *name, const struct env_handler *handler,
                              void *core);
void sim_node_set_handler(struct sim_node *n, const struct env_handler *handler, void *core);
struct env *sim_node_env(struct sim_node *n);
/* Who the node is to those that it connects to, from now on; at first everybody is LOCAL. */
void sim_node_who(struct sim_node *n, const struct env_who *who);
void sim_listen(struct sim_node *n, const char *endpoint); /* "sim://server-0" */
/* the core's memory stays the caller's to free; the node is gone */
void sim_kill(struct sim_node *n);
void sim_pause(struct sim_node *n, uint64_t until_ns); /* frozen: events queue up */
/* Its loop turns, and no work of env_work ends before then: a disk that hangs, a device. */
void sim_wedge(struct sim_node *n, uint64_t until_ns);
bool sim_stopped(const struct sim_node *n); /* it called env_stop */
/* What one node sends to another is lost until then; the other way it arrives. */
void sim_cut(struct sim_node *from, struct sim_node *to, uint64_t until_ns);

/* Runs one event; false when none is left. */
bool sim_step(struct sim *s);
/* Runs until `until_ns` of virtual time, or stop() answers true. Returns whether it did. */
bool sim_run(struct sim *s, uint64_t until_ns, bool (*stop)(void *context), void *context);
/* Who is told of every message as it is sent, lost ones too: `line` names the connection, `up` says
 * that its client sends. NULL: nobody. */
typedef void (*sim_watch_send)(void *context, const struct sim_node *from, uint64_t line, bool up,
                               const struct msg *m);
void sim_watch(struct sim *s, sim_watch_send watch, void *context);
uint64_t sim_now_ns(const struct sim *s);
uint64_t sim_trace(const struct sim *s); /* hash of all events so far: equal for equal seeds */
void sim_faults(struct sim *s, double drop, double duplicate); /* from now on */

#endif
