/* stored.h: values of the row store: a tablet (key "i", table, tablet), the control state (key "c":
 * schemas, runs, lanes), and the states of loads (key "b", lowest table; they sort before the
 * others).
 *
 * A stored tablet is a head, its column of marks and its image; the head's checksum covers head and
 * column, the image has its own. A control value has the sequence up to which it is complete and a
 * checksum. One batch writes both, so the control state is never older than a stored tablet. */
#ifndef EMBEDDING_STORE_STORED_H
#define EMBEDDING_STORE_STORED_H

#include "embedding/journal/term.h"
#include "embedding/rows/run.h"
#include "embedding/store.h"
#include "embedding/table.h"

#include <stddef.h>
#include <stdint.h>

void stored_tablet_key(uint32_t table, uint32_t tablet, struct store_item *item);
void stored_control_key(struct store_item *item);
/* The key of a load into tables: one of other tables has another key. No tables: the key of a
 * release that kept the newest load alone. */
void stored_load_key(struct table_set tables, struct store_item *item);
/* A cold row (cold.h): key "r", table, tablet, epoch (24 bits), mixed key, each big-endian, so that
 * a tablet's rows are adjacent and in the order of its index. */
void stored_row_key(uint32_t table, uint32_t tablet, uint32_t epoch, uint64_t key,
                    struct store_item *item);
#define STORED_EPOCH_MAX 0xffffffu
/* The range of all rows of a table. */
void stored_table_rows(uint32_t table, struct store_item *from, struct store_item *below);
/* The range of one tablet's rows in one epoch. */
void stored_row_range(uint32_t table, uint32_t tablet, uint32_t epoch, struct store_item *from,
                      struct store_item *below);
bool stored_is_row(const void *key, size_t key_bytes, uint32_t *table, uint32_t *tablet,
                   uint32_t *epoch, uint64_t *row);
/* False: another kind of key. */
bool stored_is_control(const void *key, size_t key_bytes);
bool stored_is_tablet(const void *key, size_t key_bytes, uint32_t *table, uint32_t *tablet);

size_t stored_tablet_bytes(const struct table *t, const struct runs *r, uint32_t tablet);
void stored_tablet_write(const struct table *t, const struct runs *r, uint32_t tablet,
                         uint64_t flushed_seq, void *out);
/* stored_tablet_head reads only the head, for a decision; stored_tablet_read reads rows into t and
 * marks into r. CORRUPT names table and tablet. */
int stored_tablet_head(const void *value, size_t bytes, const struct table_schema *s,
                       uint32_t tablet, uint64_t *flushed_seq, struct err *e);
/* Checks the head, and the image's checksum. */
int stored_tablet_check(const void *value, size_t bytes, const struct table_schema *s,
                        uint32_t tablet, uint64_t *flushed_seq, struct err *e);
int stored_tablet_read(const void *value, size_t bytes, struct table *t, struct runs *r,
                       uint32_t tablet, struct err *e);

/* A load (load.c). While it is `under way` the stored tablets of `tables` are the load's and must
 * not be used; afterwards the load has opened its run. */
struct stored_load {
    uint64_t run;
    struct table_set tables;
    bool under_way;
};
#define STORED_LOAD_BYTES 64u
/* Writes its value to `value` (STORED_LOAD_BYTES), and fills in the item: its key, and the value,
 * which it borrows. */
void stored_load_write(const struct stored_load *l, void *value, struct store_item *item);
bool stored_is_load(const void *key, size_t key_bytes);
int stored_load_read(const void *value, size_t bytes, struct stored_load *out, struct err *e);

/* `sequence`: the control state includes records up to it; `floor`: the images stored with it or
 * before it do; `terms`: those that begin up to it. */
struct stored_as_of {
    uint64_t sequence, floor;
    struct terms terms;
};
/* table[number]: NULL: there is none. *out: the caller frees it. */
int stored_control_write(struct table *const table[LIMIT_TABLES], const struct runs *r,
                         struct stored_as_of as_of, void **out, size_t *bytes);
typedef int (*stored_schema_visit)(void *context, const struct table_schema *s,
                                   const struct table_past *past, struct err *e);
/* Calls visit for each schema and adds the runs to r (NULL: skipped). */
int stored_control_read(const void *value, size_t bytes, struct runs *r, struct stored_as_of *as_of,
                        stored_schema_visit visit, void *context, struct err *e);

#endif
