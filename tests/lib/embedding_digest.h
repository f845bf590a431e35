/* embedding_digest.h: the digest of a checkpoint's table, to compare it with that of a fleet. */
#ifndef TESTS_LIB_EMBEDDING_DIGEST_H
#define TESTS_LIB_EMBEDDING_DIGEST_H

#include "embedding/checkpoint.h"

#include <string.h>

struct digesting {
    uint64_t *digest, rows;
};

static inline int digest_use(void *context, const struct table *t, uint32_t tablet)
{
    struct digesting *d = context;
    d->rows += table_tablet_rows(t, tablet);
    return table_digest(t, tablet, &d->digest[tablet]);
}

/* Gives the digest of each tablet (2^tablet_bits of them), as table_digest does, and the number of
 * rows. The cluster's digest of the table is hash_bytes over these digests, seed 0. */
static inline int checkpoint_digest(struct checkpoint *c, uint32_t i, uint64_t *digest,
                                    uint64_t *rows, struct err *e)
{
    struct digesting d = {.digest = digest};
    memset(digest, 0, sizeof *digest << checkpoint_table(c, i)->tablet_bits);
    int rc = checkpoint_tablets(c, i, digest_use, &d, e);
    *rows = d.rows;
    return rc;
}

#endif
