/* assign.h: a push that brings rows in the place of gradients: a tablet of a dense table whole, as
 * an image (table.h), or rows by key of any table (table_assign). It is journalled as a push is
 * (engine_push.c, apply.c); here is what differs: the check of its contents, and its effect on the
 * rows. An image moves the mark of its lane; rows by key are of no run and move none, because the
 * same rows again change nothing. Thread: the shard's. */
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

/* ---- rows by key (r->rows) ---- */
/* Checks the length of the rows of r for t. MALFORMED. */
int assign_keys_fit(const struct push_record *r, const struct engine_table *t, struct err *e);
/* Checks their contents. DENIED: a run that pushes to the table is open. MALFORMED, NOT_FINITE. */
int assign_keys_check(const struct engine *g, const struct push_record *r,
                      const struct engine_table *t, struct err *e);
/* The effect; plan->assigned counts the keys. NOMEM. */
int assign_keys(struct engine_table *t, const struct push_record *r, struct push_plan *plan,
                struct err *e);

#endif
