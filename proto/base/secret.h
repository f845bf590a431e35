/* secret.h: memory for secret keys. Only secret.c and sign.c include libsodium.
 *
 * A secret lies between guard pages, is locked in memory where the system allows it, and is left
 * out of core dumps. It is wiped when it is freed. */
#ifndef PROTO_BASE_SECRET_H
#define PROTO_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void *secret_new(size_t bytes); /* zeroed; NULL: no memory */
void secret_free(void *secret); /* NULL is fine */
void secret_wipe(void *bytes, size_t count);
/* True when both are equal; takes as long wherever they differ. */
bool secret_same(const void *a, const void *b, size_t count);
/* The bits of the mode that a file with a secret may not have: all of others and of the group. A
 * credential of a systemd unit lies in a folder of root, and its group may read it. */
mode_t secret_file_forbids(const char *path);

#endif
