/* layout.h: finds the format of a text from its first lines: libsvm, libffm, criteo, TFRecord,
 * event files, or csv with its delimiter and header. The readers of the formats decide; a format is
 * taken when its reader takes the lines.
 *
 * Pure functions of bytes: no state, any thread. */
#ifndef WORKER_DATA_LAYOUT_H
#define WORKER_DATA_LAYOUT_H

#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_BYTES (1u << 20) /* first bytes of a text that are enough */
#define LAYOUT_COLUMNS 4096u    /* most columns */
#define LAYOUT_WHY 192u

struct layout {
    enum data_format format;
    char delimiter[DELIMITER_BYTES]; /* csv */
    bool header;                     /* csv */
    uint32_t columns;                /* csv, criteo; 0: the format has no fixed number */
    uint64_t head;                   /* csv with a header: a hash of it */
    bool sure;
    char why[LAYOUT_WHY]; /* the observation behind it, for people */
};

/* name: the file's, whose ending tells libsvm from numbers between blanks. text: (bytes) the
 * file's first bytes; cut: more follow. DATA: empty, binary, JSON, or one column only. NOMEM. */
int layout_of(const char *name, const char *text, size_t bytes, bool cut, struct layout *out,
              struct err *e);
/* True when rows of both have the same columns. */
bool layout_same(const struct layout *a, const struct layout *b);

#endif
