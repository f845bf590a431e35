/* decode.h: packed or plain input, read once from front to end, as text; the door to isa-l and
 * zstd. Any thread; blocks. */
#ifndef WORKER_DATA_DECODE_H
#define WORKER_DATA_DECODE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where decoded text goes: 0 go on, SHOAL_E_END enough, else an error. */
typedef int (*decode_sink)(void *to, const char *data, size_t bytes, struct err *e);

struct decode_from {
    int fd;           /* borrowed */
    const char *name; /* borrowed: of the input, for messages */
    /* until there is something to read, or it fails; NULL: reading waits by itself */
    int (*wait)(void *context, struct err *e);
    void *context;
};

/* 0, SHOAL_E_END when the sink had enough, or an error: DATA (damaged, cut short), IO, NOMEM, the
 * sink's, that of `wait`. *raw (may be NULL): bytes read. */
int decode(const struct decode_from *from, decode_sink sink, void *to, uint64_t *raw,
           struct err *e);
/* Whether these, the first of a file, are those of gzip or zstd. */
bool decode_packed(const char *data, size_t bytes);

/* "isa-l 2.30, zstd 1.5.4" */
const char *decode_libraries(void);

#endif
