/* old_log.h: reads state.log, the store of release 0.2.0: records of values put and keys removed,
 * in the order in which they came. Nothing writes it.
 *
 * A record that cannot be read is torn if the file ends within it and none follows: no request was
 * answered for it. Any other is damage. [test: coord_records_of_version_1_are_read] */
#ifndef SERVER_COORD_STORE_OLD_LOG_H
#define SERVER_COORD_STORE_OLD_LOG_H

#include "server/coord/store/store.h"

/* Plays a log of `bytes`, named path in errors, into a store; *whole: the bytes before a torn tail.
 * CORRUPT, VERSION, or what the store returns. */
int coord_old_log_read(const char *path, const void *log, uint64_t bytes, struct coord_store *into,
                       uint64_t *whole, struct err *e);

#endif
