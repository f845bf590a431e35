/* decode.h: reads packed or plain input once from front to end, as text: gzip, zstd, bzip2, xz,
 * in one or several members, and zeros behind them; then UTF-16 and CR as line end (recode.h).
 * The only user of the decoders' libraries. Any thread; blocks. */
#ifndef WORKER_DATA_DECODE_H
#define WORKER_DATA_DECODE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes decoded text. 0: go on; SHOAL_E_END: enough; else an error. */
typedef int (*decode_sink)(void *to, const char *data, size_t bytes, struct err *e);

struct decode_from {
    int fd;           /* borrowed */
    const char *name; /* borrowed; name of the input for messages */
    /* waits until input is readable or fails; NULL: read blocks by itself */
    int (*wait)(void *context, struct err *e);
    void *context;
};

/* Returns 0, SHOAL_E_END when the sink has enough, or an error: DATA (damaged or truncated), IO,
 * NOMEM, that of the sink or of `wait`. *raw (may be NULL): bytes read. */
int decode(const struct decode_from *from, decode_sink sink, void *to, uint64_t *raw,
           struct err *e);
/* True when a file that begins with these bytes (KIND_LOOK_BYTES, or all that there are) is
 * packed or must be recoded, so that it cannot be read in place. */
bool decode_needed(const char *data, size_t bytes);

/* "isa-l 2.30, zstd 1.5.4, bzip2 1.0.8, liblzma 5.4.1" */
const char *decode_libraries(void);

#endif
