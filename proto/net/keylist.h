/* keylist.h: who may come: the allow-list of a fleet.
 *
 *     # a public key (Z85), what its holder may be (proto/base/role.h), and a name; blanks between
 *     rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 worker w1
 *
 * Each key stands in it once; a name may have several keys, while one takes another's place. A name
 * is letters, digits and . _ - alone. A plain value: whoever holds one may read it from any
 * thread. */
#ifndef PROTO_NET_KEYLIST_H
#define PROTO_NET_KEYLIST_H

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

/* Whether a list takes it as the name behind a role. */
bool keylist_name_ok(const char *name);
/* `name` is of the file, for what is said. CONFIG with name and line; one without a key too. */
int keylist_parse(const char *text, size_t bytes, const char *name, struct keylist **out,
                  struct err *e);
/* NULL: it is not there. */
const struct keylist_entry *keylist_find(const struct keylist *l, const char *key);
void keylist_free(struct keylist *l); /* NULL is fine */

#endif
