/* coord_put.h: changes of a store, each a transaction of its own. */
#ifndef TESTS_LIB_COORD_PUT_H
#define TESTS_LIB_COORD_PUT_H

#include "server/coord/store/store.h"

static inline int coord_put_now(struct coord_store *s, const char *key, const void *value,
                                size_t bytes, struct err *e)
{
    int rc = coord_store_put(s, key, value, bytes, e);
    return rc == 0 ? coord_store_commit(s, e) : rc;
}

static inline int coord_note_now(struct coord_store *s, const char *key, const void *value,
                                 size_t bytes, struct err *e)
{
    int rc = coord_store_note(s, key, value, bytes, e);
    return rc == 0 ? coord_store_commit(s, e) : rc;
}

static inline int coord_remove_now(struct coord_store *s, const char *key, struct err *e)
{
    int rc = coord_store_remove(s, key, e);
    return rc == 0 ? coord_store_commit(s, e) : rc;
}

#endif
