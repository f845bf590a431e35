/* moved.h: the image of a tablet between two shards, and the records of moved tablets.
 *
 *     struct record_tablet_in | column of marks (run.h) | image of the rows (image.h)
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_MOVED_H
#define EMBEDDING_ENGINE_MOVED_H

#include "embedding/engine/apply.h"

/* Fills in an image's head; the column is behind it. */
void moved_seal(struct record_tablet_in *h);
/* Checks all of an image, or of RECORD_TABLET_IN's payload, against tables and runs here. *h: its
 * head. CORRUPT, CHECKSUM, VERSION, NO_TABLE, SCHEMA, AGAIN (move.h), NOMEM. */
int moved_check(const struct engine *g, const void *image, size_t bytes, struct record_tablet_in *h,
                struct err *e);
/* Checks RECORD_TABLET_OUT's payload: 0 or CORRUPT. */
int moved_check_out(const struct engine *g, const struct record_tablet_out *out, size_t bytes,
                    struct err *e);

/* The effect of RECORD_TABLET_IN and RECORD_TABLET_OUT, for apply.c. */
int moved_in(struct apply *a, const struct record_header *h, const void *payload, struct err *e);
int moved_out(struct apply *a, const struct record_header *h, const void *payload, struct err *e);

#endif
