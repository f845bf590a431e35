/* store.h: the coordinator's durable state: a few small values by key, in a keep before the
 * coordinator answers.
 *
 *   put, note, remove --> memory --commit--> one transaction --> keep (RocksDB) --> completion
 *   get, visit        <-- memory                                 what may tell of it is sent
 *
 * All values are in memory and are read there, also those that the keep does not have yet. A commit
 * hands all changes since the last one to the keep as one transaction: after a crash the keep has
 * all of them or none. The completion may come later; several transactions may be under way, and
 * they end in order. Until then nothing may leave the process that tells of a change (fleet.h).
 *
 * The condition of each transaction is that no other coordinator owns the keep: coord_store_own
 * raises the number of its owner. A keep that several coordinators can open (a replicated store)
 * refuses transactions of a former owner. RocksDB is opened by one process at a time.
 *
 * A store without a keep (simulator, tests) outlives the core that wrote it, so a test can start a
 * second coordinator on it. Keys are text of at most 63 bytes; the owner of a key owns the layout
 * of its value and checks it when it is read back. Thread: the coordinator's loop, which a commit
 * to RocksDB blocks for one sync of the disk (a few ms). */
#ifndef SERVER_COORD_STORE_STORE_H
#define SERVER_COORD_STORE_STORE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_KEY_MAX 64u
/* Most values have less than 1 KiB. A job's text, a report, the map and a list of objects may have
 * more than the 64 KiB that suit a replicated store: its keep has to split them over several
 * keys. A put checks this limit. */
#define COORD_VALUE_MAX (16u << 20)
#define COORD_STORE_OWNER "owner"

/* The end of an error about damaged stored data. */
#define COORD_STORE_ADVICE                                                                         \
    "; restore the folder from a copy, or move it away and start the coordinator again while all " \
    "its servers run: it takes them over, the job in hand ends, its checkpoints stay"

struct coord_store;

/* A non-zero result ends the visit and is returned. The visitor may put another value under the key
 * that it is shown, and must change nothing else in the store. */
typedef int (*coord_store_visitor)(void *context, const char *key, const void *value, size_t bytes);

struct coord_change {
    const char *key;
    const void *value; /* NULL: the key is removed */
    size_t bytes;
};

struct coord_transaction {
    uint64_t owner; /* the condition: the keep's value of COORD_STORE_OWNER, 0 when it has none */
    const struct coord_change *change;
    size_t count;
    bool sync; /* once it is complete it survives a loss of power */
};

/* Where the values outlive the process. */
struct coord_keep {
    /* Takes all changes or none. 0: it is complete. AGAIN: coord_store_done will tell; the
     * transaction is borrowed until this returns. After any other error the keep takes nothing
     * more. */
    int (*begin)(struct coord_keep *k, const struct coord_transaction *t, struct err *e);
    void (*close)(struct coord_keep *k);
    /* False: another coordinator may own the keep by now. NULL: always true. */
    bool (*owned)(struct coord_keep *k);
    /* Returns the bytes that it takes. NULL: not known. */
    uint64_t (*bytes)(struct coord_keep *k);
};

/* Tells the end of the oldest transaction under way: 0, or why the keep does not have it. */
typedef void (*coord_store_told)(void *context, int rc, const struct err *e);

/* Puts a value. NOMEM, TOO_BIG. */
int coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    struct err *e);
/* Puts a value that needs no sync: it survives a kill of the process, but perhaps not a loss of
 * power. For figures that nothing is promised about. */
int coord_store_note(struct coord_store *s, const char *key, const void *value, size_t bytes,
                     struct err *e);
/* Gets a value, which the caller frees; NOT_FOUND (without a text) when there is none. */
int coord_store_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                    struct err *e);
/* The status of a get whose value may be missing: NOT_FOUND becomes 0. */
static inline int coord_store_optional(int rc)
{
    if (rc == SHOAL_E_NOT_FOUND)
        return 0;
    return rc;
}
/* Gets a value of known size: CORRUPT when it has another. */
int coord_store_get_fixed(struct coord_store *s, const char *key, void *value, size_t bytes,
                          struct err *e);
int coord_store_remove(struct coord_store *s, const char *key, struct err *e);
/* Sets and returns IO: a change could not be stored. */
int coord_store_failed(struct err *e);
/* Visits every pair, in order of key. */
int coord_store_visit(struct coord_store *s, coord_store_visitor visit, void *context);
/* Begins a transaction with all changes since the last one, if there are any. Errors of the keep:
 * the coordinator then stops, because it can promise nothing more. */
int coord_store_commit(struct coord_store *s, struct err *e);
/* Returns the number of the transaction that has all changes so far. */
uint64_t coord_store_newest(const struct coord_store *s);
/* Returns how many transactions are complete; they have the numbers from 1 on. */
uint64_t coord_store_complete(const struct coord_store *s);
/* Returns the bytes of all keys and values. *kept: those that the keep takes, with what it has not
 * rewritten yet; 0: there is none, or it is not known. */
uint64_t coord_store_bytes(const struct coord_store *s, uint64_t *kept);
/* Called by the keep, on the loop: the oldest transaction under way has ended. */
void coord_store_done(struct coord_store *s, int rc, const struct err *e);
/* Makes this process the owner of the keep. */
int coord_store_own(struct coord_store *s, struct err *e);
/* False: another coordinator may own the keep by now, so that nothing may be sent any more. */
bool coord_store_owned(const struct coord_store *s);
/* told: called at the end of each transaction that was not complete when it was begun. */
void coord_store_watch(struct coord_store *s, coord_store_told told, void *context);
void coord_store_close(struct coord_store *s); /* NULL is fine */

struct coord_store *coord_store_memory(void); /* NULL when out of memory */
/* From now on changes go to k, which the store then owns; NULL: to none. */
void coord_store_keep(struct coord_store *s, struct coord_keep *k);
/* Makes a part of a store: the keys that begin with the prefix (at most 15 bytes). The whole store
 * is borrowed and outlives the part. NULL: out of memory. */
struct coord_store *coord_store_part(struct coord_store *whole, const char *prefix);
/* Opens DIR/store, in a folder that is made when it is missing. The folder is locked within wait_ms
 * (lockfile.h), so two coordinators cannot share it. A state.log of release 0.2.0 there is
 * converted. CANTCREATE, STOPPED, IO, CORRUPT, NO_SPACE, VERSION, EXISTS. */
int coord_store_open(const char *dir, uint32_t wait_ms, struct coord_store **out, struct err *e);

#endif
