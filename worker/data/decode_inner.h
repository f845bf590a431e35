/* decode_inner.h: the parts of decode.h: one decoder for each way of packing. */
#ifndef WORKER_DATA_DECODE_INNER_H
#define WORKER_DATA_DECODE_INNER_H

#include "worker/data/decode.h"
#include "worker/data/recode.h"

#define DECODE_BLOCK (256u << 10)

struct decoder {
    const struct decode_from *from;
    const char *name; /* name of the input for messages */
    uint64_t raw;     /* bytes read */
    char *in;         /* (DECODE_BLOCK) */
    size_t in_bytes;
    char *out;  /* (DECODE_BLOCK) */
    char *text; /* (RECODE_ROOM(DECODE_BLOCK)) */
    decode_sink sink;
    void *to;
    bool looked; /* the first bytes of the text were checked */
    struct recoder recoder;
};

/* Fills the input block; in_bytes 0: the input has ended. IO, and the errors of `wait`. */
int decode_fill(struct decoder *d, struct err *e);
/* Passes unpacked bytes on. DATA (no text that a format reads), and those of the sink. */
int decode_give(struct decoder *d, const char *data, size_t bytes, struct err *e);
/* Takes all that follows the packed data, from `at` on: zeros, which tar and tapes append to fill
 * their blocks. DATA: other bytes; `packed` is their packing's name. */
int decode_rest(struct decoder *d, const char *packed, const char *at, size_t bytes, struct err *e);
/* DATA: the input is damaged at the byte that was reached, or ends too early. */
int decode_damaged(const struct decoder *d, const char *packed, const char *why, struct err *e);
int decode_ended(const struct decoder *d, const char *packed, struct err *e);
int decode_no_memory(const struct decoder *d, struct err *e);

/* Decode all of the input, whose first block is read. As decode. */
int decode_gzip(struct decoder *d, struct err *e);
int decode_bzip2(struct decoder *d, struct err *e);
int decode_xz(struct decoder *d, struct err *e);

/* "isa-l 2.30" and so on; each has room for LIBRARY_BYTES. */
#define LIBRARY_BYTES 32u
void decode_gzip_library(char out[LIBRARY_BYTES]);
void decode_bzip2_library(char out[LIBRARY_BYTES]);
void decode_xz_library(char out[LIBRARY_BYTES]);

#endif
