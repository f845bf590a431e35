/* sim.h: the simulated implementation of env.h: many nodes in one process, a virtual clock and an
 * in-memory network, all from one seed. The same seed gives the same run, event for event. A node
 * is an env with a handler and addresses ("sim://name"). The network drops, duplicates, delays and
 * reorders messages.
 *
 * A node can be killed: its timers, work and messages are lost. Its peers get on_peer_gone after a
 * message's delay, as after env_stop, except where the line to them is cut: they see silence, as
 * with a machine that is gone. A new node may listen at its address: old connections to the address
 * reach it under a new peer_t. A message is lost if no node listens when it is sent, or if the node
 * that listened is dead when it arrives. After env_disconnect of an outgoing connection the other
 * end gets on_peer_gone. As in the real net a connection holds a limited number of messages; beyond
 * it env_send returns BUSY. env_probe tells whether a node listened when it was asked; across a cut
 * line it knows nothing. A node that listens by env_listen takes of the peers that show a key
 * (sim_node_who) those that env_admit has listed, with the role of that list. on_drained is called
 * after the messages for one node at one instant. A line can be cut, one way or both; a node can be
 * paused, or wedged. After sim_kill or env_stop the env's calls do nothing. */
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
    /* delay of a message: uniform; with `reorder` it reorders messages */
    uint64_t delay_min_ns, delay_max_ns;
    bool reorder; /* false: messages of a connection stay in order */
    /* virtual time that env_work takes; run is called when it ends */
    uint64_t work_min_ns, work_max_ns;
    uint64_t wall_s; /* the calendar at virtual time 0, in seconds since 1970; 0: no calendar */
    /* each node's calendar is changed every few seconds, by at most this, forward or back */
    uint64_t wall_jump_s;
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *s);
struct sim_node *sim_node_new(struct sim *s, const char *name, const struct env_handler *handler,
                              void *core);
void sim_node_set_handler(struct sim_node *n, const struct env_handler *handler, void *core);
struct env *sim_node_env(struct sim_node *n);
/* Sets the identity that the node shows when it connects; at first every node is LOCAL. */
void sim_node_who(struct sim_node *n, const struct env_who *who);
void sim_listen(struct sim_node *n, const char *endpoint); /* "sim://server-0" */
/* removes the node; the caller still owns the core's memory */
void sim_kill(struct sim_node *n);
/* Runs the works of env_work that are under way, without a word to the loop: so a process ends that
 * waits for its threads. The caller kills the node next. */
void sim_works_end(struct sim_node *n);
void sim_pause(struct sim_node *n, uint64_t until_ns); /* frozen: events queue up */
/* Until then its loop runs but no work of env_work ends, as with a disk or a device that hangs. */
void sim_wedge(struct sim_node *n, uint64_t until_ns);
/* From now on its work takes so many times as long. */
void sim_slow(struct sim_node *n, uint32_t times);
/* The most works of env_work that it had under way at a time: the threads that it can use. */
uint32_t sim_works_most(const struct sim_node *n);
bool sim_stopped(const struct sim_node *n); /* true: it called env_stop */
/* Until then messages from `from` to `to` are lost; those in the other direction arrive. */
void sim_cut(struct sim_node *from, struct sim_node *to, uint64_t until_ns);

/* Runs one event; false when none is left. */
bool sim_step(struct sim *s);
/* Runs until virtual time `until_ns`, or until stop() returns true. Returns true in the second
 * case. */
bool sim_run(struct sim *s, uint64_t until_ns, bool (*stop)(void *context), void *context);
/* The watcher of every message when it is sent, also of lost ones: `line` is the number of the
 * connection, `up` is true when its client sends. NULL: no watcher. */
typedef void (*sim_watch_send)(void *context, const struct sim_node *from, uint64_t line, bool up,
                               const struct msg *m);
void sim_watch(struct sim *s, sim_watch_send watch, void *context);
uint64_t sim_now_ns(const struct sim *s);
uint64_t sim_trace(const struct sim *s); /* hash of all events so far: equal for equal seeds */
void sim_faults(struct sim *s, double drop, double duplicate); /* from now on */

#endif
