/* keylist.h: the allow-list of a fleet: the keys that may connect, each with its role.
 *
 *     # a public key (Z85), the role of its holder (proto/base/role.h), and a name; blanks between
 *     rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 worker w1
 *
 * Each key stands in it once. A name may have several keys, so that one can replace another. A name
 * consists of letters, digits and . _ - only. A plain value: the owner may read it from any
 * thread. */
#ifndef PROTO_NET_KEYLIST_H
#define PROTO_NET_KEYLIST_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/role.h"
#include "proto/net/keyfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keylist_entry {
    char key[KEYFILE_KEY];
    char name[LIMIT_NAME];
    enum role role;
};

struct keylist {
    struct keylist_entry *entry; /* owned (count), by key */
    uint32_t count;
};

/* True when the text is a valid name in a list. */
bool keylist_name_ok(const char *name);
/* `name` is the file's name, for errors. CONFIG with name and line, also for a list without a
 * key. */
int keylist_parse(const char *text, size_t bytes, const char *name, struct keylist **out,
                  struct err *e);
/* The list of these peers (count), which may be empty: those without a key are left out, and of one
 * key the first counts. NOMEM. */
int keylist_of(const struct env_who *who, uint32_t count, struct keylist **out);
/* NULL: the list has no such key. */
const struct keylist_entry *keylist_find(const struct keylist *l, const char *key);
void keylist_free(struct keylist *l); /* NULL is fine */

#endif
