/* coord.h: the coordinator: the members of the cluster, the next work, and what has been promised.
 * One job at a time in each slot; the next one may be submitted when it is over.
 *
 * The coordinator reaches clocks, sockets, threads and files only through env and coord_store, so
 * that the simulator runs the very same code. Thread: one loop. Everything that it promises
 * (numbers, generations, appended tasks, phases) is in the store before it answers. A coordinator
 * started on the same store continues where the last one stopped, with fresh fences on every
 * lane. */
#ifndef SERVER_COORD_COORD_H
#define SERVER_COORD_COORD_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "server/coord/fleet/options.h"
#include "server/coord/store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;

/* env and store are borrowed. IO, CORRUPT: the store does not answer, or holds values unknown to
 * this version. */
int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e);
void coord_free(struct coord *c); /* its env has stopped, or is gone; NULL is fine */
/* Takes a new allow-list (allowed.h): its text, which the daemon has read and already applies.
 * NOMEM: the shards keep the previous one. */
int coord_keys_set(struct coord *c, const char *text, size_t bytes, struct err *e);
/* Takes other weights of the spaces in the servers' memory. */
void coord_memory_set(struct coord *c, const struct coord_weights *memory);
/* to be used with the coordinator as `core` */
extern const struct env_handler coord_handler;
/* Returns the figures of the status page (page/page.h), as JSON text that the caller frees; NULL
 * when out of memory. */
char *coord_page(struct coord *c);
/* Writes the coordinator's current work, in one line for people (systemctl status). */
void coord_describe(struct coord *c, char *text, size_t bytes);
/* True when a folder of checkpoints does not answer, so that waiting for work begun there is
 * useless; `text` gets a sentence. */
bool coord_hangs(const struct coord *c, char *text, size_t bytes);
/* Returns 0, or why the coordinator stopped its env: the store failed. */
int coord_fatal(const struct coord *c);

/* Returns the library that encodes the messages, e.g. "protobuf-c 1.4.1", and their version. */
const char *coord_library(unsigned *protocol);

#endif
