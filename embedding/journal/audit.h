/* audit.h: the journal and its archive read for one table's keys: which pushes changed a row
 * (blame), and taking a row's pushes out of the archive (erase). What the shard's thread gathers is
 * read on an I/O thread.
 *
 * Only heads and keys of records are read until one has the key; a record that has it is read whole
 * and checked. Memory is one record's. Archived files that are deleted meanwhile end the reading:
 * the older ones are gone as well. */
#ifndef EMBEDDING_JOURNAL_AUDIT_H
#define EMBEDDING_JOURNAL_AUDIT_H

#include "embedding/journal/cursor.h"

#include <stdatomic.h>

struct blame_entry { /* a push that changed a row */
    uint64_t sequence, run, generation, batch;
    uint32_t lane, event_time;
    double norm; /* 2-norm of the row's gradient, as pushed */
    float show, click, lr_scale;
};

struct audit_wish {
    uint32_t table, floats; /* of a key in a push: schema_push_floats */
    uint32_t width;         /* of these the gradient */
    const uint64_t *keys;   /* (count), sorted by value; borrowed */
    uint32_t count;
    const atomic_bool *stop; /* borrowed; once true, reading ends with STOPPED */
};

/* Pushes that have wish->keys[0], newest first, at most limit. out has room for limit; *complete:
 * everything was read and the oldest record of all was sequence 1. */
int audit_blame(struct journal_files *f, const struct audit_wish *wish, struct blame_entry *out,
                uint32_t limit, uint32_t *count, bool *complete, struct err *e);
/* Zeros the keys and what was pushed for them in every record; syncs. *records: how many had
 * any. */
int audit_blank(struct journal_files *f, const struct audit_wish *wish, uint64_t *records,
                struct err *e);

#endif
