/* secret.h: memory for keys; with sign.h the door to libsodium.
 *
 * A secret lies between guard pages, locked where the system allows it, and in no core dump; it is
 * wiped when it is freed. */
#ifndef PROTO_BASE_SECRET_H
#define PROTO_BASE_SECRET_H

#include <stddef.h>

void *secret_new(size_t bytes); /* zeroed; NULL: no memory */
void secret_free(void *secret); /* NULL is fine */
void secret_wipe(void *bytes, size_t count);

#endif
