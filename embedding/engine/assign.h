/* assign.h: a push that brings a tablet of a dense table whole, as an image (table.h). It moves the
 * mark and is journalled as a push is (engine_push.c, apply.c); here is what differs: the check of
 * its contents, and its effect on the rows. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_ASSIGN_H
#define EMBEDDING_ENGINE_ASSIGN_H

#include "embedding/engine/engine_state.h"

/* Checks the image of r, which is for tablet r->tablet_first of t. MALFORMED: the table is not
 * dense, or the image is damaged, another tablet's, or has more than rows. SCHEMA: it is of another
 * schema. NOT_FINITE, NOMEM. */
int assign_check(const struct push_record *r, const struct engine_table *t, struct err *e);
/* The effect: the tablet has the rows of the image. NOMEM; in a replay also what table_image_read
 * says of a damaged image. */
int assign_rows(struct engine_table *t, const struct push_record *r, struct err *e);

#endif
