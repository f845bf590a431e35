/* decode_xz.c: xz by liblzma, and bzip2 by libbz2. */
#include "worker/data/decode_inner.h"

#include <bzlib.h>
#include <lzma.h>
#include <stdio.h>
#include <string.h>

/* xz -9 needs 65 MiB; a file that asks for more than this is refused. */
#define XZ_MEMORY (1ULL << 30)

static const char *xz_fault(lzma_ret status)
{
    if (status == LZMA_MEMLIMIT_ERROR)
        return "its dictionary needs more than 1 GiB";
    if (status == LZMA_FORMAT_ERROR)
        return "no xz header where one should be";
    if (status == LZMA_OPTIONS_ERROR)
        return "it uses options that this liblzma lacks";

    return "no such code, or its checksum is another";
}

static int xz_streams(struct decoder *d, lzma_stream *z, struct err *e)
{
    lzma_ret status = LZMA_OK;
    int rc = 0;
    while (rc == 0 && status != LZMA_STREAM_END) {
        lzma_action action = d->in_bytes > 0 ? LZMA_RUN : LZMA_FINISH;
        z->next_in = (const uint8_t *)d->in;
        z->avail_in = d->in_bytes;
        do {
            z->next_out = (uint8_t *)d->out;
            z->avail_out = DECODE_BLOCK;
            status = lzma_code(z, action);
            if (status == LZMA_BUF_ERROR && action == LZMA_FINISH)
                return decode_ended(d, "xz", e);
            if (status == LZMA_MEM_ERROR)
                return decode_no_memory(d, e);
            if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
                return decode_damaged(d, "xz", xz_fault(status), e);
            rc = decode_give(d, d->out, DECODE_BLOCK - z->avail_out, e);
        } while (rc == 0 && status != LZMA_STREAM_END && (z->avail_in > 0 || z->avail_out == 0));
        if (rc == 0 && action == LZMA_RUN && status != LZMA_STREAM_END)
            rc = decode_fill(d, e);
    }
    return rc;
}

/* Decodes one or several streams, as `cat a.xz b.xz` makes them, and the padding between them. */
int decode_xz(struct decoder *d, struct err *e)
{
    lzma_stream z = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&z, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return decode_no_memory(d, e);
    int rc = xz_streams(d, &z, e);
    lzma_end(&z);
    return rc;
}

static const char *bzip2_fault(int status)
{
    if (status == BZ_DATA_ERROR_MAGIC)
        return "no bzip2 header where one should be";

    return "no such code, or its checksum is another";
}

/* Decodes the stream that begins at z->next_in, and more input as it needs it. *over: it ended. */
static int bzip2_stream(struct decoder *d, bz_stream *z, bool *over, struct err *e)
{
    int rc = 0, status = BZ_OK;
    *over = false;
    while (rc == 0 && d->in_bytes > 0) {
        do {
            z->next_out = d->out;
            z->avail_out = DECODE_BLOCK;
            status = BZ2_bzDecompress(z);
            if (status == BZ_MEM_ERROR)
                return decode_no_memory(d, e);
            if (status != BZ_OK && status != BZ_STREAM_END)
                return decode_damaged(d, "bzip2", bzip2_fault(status), e);
            rc = decode_give(d, d->out, DECODE_BLOCK - z->avail_out, e);
        } while (rc == 0 && status == BZ_OK && (z->avail_in > 0 || z->avail_out == 0));
        *over = status == BZ_STREAM_END;
        if (rc != 0 || *over)
            return rc;
        rc = decode_fill(d, e);
        z->next_in = d->in;
        z->avail_in = (unsigned)d->in_bytes;
    }
    return rc;
}

/* Decodes one or several streams, as pbzip2 and `cat a.bz2 b.bz2` make them. */
int decode_bzip2(struct decoder *d, struct err *e)
{
    char *at = d->in;
    unsigned left = (unsigned)d->in_bytes;
    bool over = true;
    int rc = 0;
    for (bool first = true; rc == 0 && d->in_bytes > 0; first = false) {
        if (!first && at[0] != 'B')
            return decode_rest(d, "bzip2", at, left, e);
        bz_stream z = {.next_in = at, .avail_in = left};
        if (BZ2_bzDecompressInit(&z, 0, 0) != BZ_OK)
            return decode_no_memory(d, e);
        rc = bzip2_stream(d, &z, &over, e);
        at = z.next_in;
        left = z.avail_in;
        (void)BZ2_bzDecompressEnd(&z);
        if (rc == 0 && over && left == 0) {
            rc = decode_fill(d, e);
            at = d->in;
            left = (unsigned)d->in_bytes;
        }
    }
    if (rc != 0 || over)
        return rc;

    return decode_ended(d, "bzip2", e);
}

void decode_xz_library(char out[LIBRARY_BYTES])
{
    (void)snprintf(out, LIBRARY_BYTES, "liblzma %s", lzma_version_string());
}

void decode_bzip2_library(char out[LIBRARY_BYTES])
{
    const char *version = BZ2_bzlibVersion(); /* "1.0.8, 13-Jul-2019" */
    (void)snprintf(out, LIBRARY_BYTES, "bzip2 %.*s", (int)strcspn(version, ","), version);
}
