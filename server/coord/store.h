/* store.h: the coordinator's durable state: a few small values by key, on disk before the
 * coordinator answers.
 *
 * All values are in memory and are read there. A store of coord_store_open has them on disk, too;
 * one of memory alone (simulator, tests) outlives the core that wrote it, so a test can start a
 * second coordinator on it. Keys are text of at most 63 bytes; the owner of a key owns the layout
 * of its value and checks it when it is read back. Thread: the coordinator's loop; a put blocks for
 * one sync of the disk (a few ms), so only grants, task appends and changes of phase are put. */
#ifndef SERVER_COORD_STORE_H
#define SERVER_COORD_STORE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_KEY_MAX 64u
#define COORD_VALUE_MAX (16u << 20)

/* The end of an error about damaged stored data. */
#define COORD_STORE_ADVICE                                                                         \
    "; restore the folder from a copy, or move it away and start the coordinator again while all " \
    "its servers run: it takes them over, the job in hand ends, its checkpoints stay"

struct coord_store;

/* A non-zero result ends the visit and is returned. The visitor may put another value under the key
 * that it is shown, and must change nothing else in the store. */
typedef int (*coord_store_visitor)(void *context, const char *key, const void *value, size_t bytes);

/* Takes each change before the store has it: a disk. */
struct coord_keep {
    /* value NULL: removes the key. sync: when this returns 0 the change survives a loss of
     * power. */
    int (*change)(struct coord_keep *k, const char *key, const void *value, size_t bytes, bool sync,
                  struct err *e);
    void (*close)(struct coord_keep *k);
};

/* Puts a value. IO when the disk fails: the coordinator then stops, because it can promise nothing
 * more. */
int coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    struct err *e);
/* Puts a value without the sync: it survives a kill of the process, but perhaps not a loss of
 * power. For figures that nothing is promised about. */
int coord_store_note(struct coord_store *s, const char *key, const void *value, size_t bytes,
                     struct err *e);
/* Gets a value, which the caller frees; NOT_FOUND (without a text) when there is none. */
int coord_store_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                    struct err *e);
/* Gets a value of known size: CORRUPT when it has another. */
int coord_store_get_fixed(struct coord_store *s, const char *key, void *value, size_t bytes,
                          struct err *e);
int coord_store_remove(struct coord_store *s, const char *key, struct err *e);
/* Visits every pair, in order of key. */
int coord_store_visit(struct coord_store *s, coord_store_visitor visit, void *context);
void coord_store_close(struct coord_store *s); /* NULL is fine */

struct coord_store *coord_store_memory(void); /* NULL when out of memory */
/* From now on changes go to k first, which the store then owns; NULL: to none. */
void coord_store_keep(struct coord_store *s, struct coord_keep *k);
/* Makes a part of a store: the keys that begin with the prefix (at most 15 bytes). The whole store
 * is borrowed and outlives the part. NULL: out of memory. */
struct coord_store *coord_store_part(struct coord_store *whole, const char *prefix);
/* Opens DIR/store, in a folder that is made when it is missing. The folder is locked within wait_ms
 * (lockfile.h), so two coordinators cannot share it. A state.log of release 0.2.0 there is
 * converted. CANTCREATE, STOPPED, IO, CORRUPT, NO_SPACE, VERSION, EXISTS. */
int coord_store_open(const char *dir, uint32_t wait_ms, struct coord_store **out, struct err *e);

#endif
