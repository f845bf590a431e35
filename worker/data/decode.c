/* decode.c: gzip, zstd, or neither, by the first bytes. */
#include "worker/data/decode.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define BLOCK_BYTES (256u << 10)

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct decoder {
    int fd;           /* borrowed: what is decoded */
    int quiet_ms;     /* -1: it may take its time */
    uint64_t raw;     /* bytes read */
    const char *name; /* borrowed: of the input, for messages */
    char *in;         /* (BLOCK_BYTES) */
    size_t in_bytes;
    char *out; /* (BLOCK_BYTES) */
    decode_sink sink;
    void *to;
};

/* ---- decoding ---- */

/* Reads until the block is full or the input ends, so that the first block always holds the magic
 * bytes. */
static int fill(struct decoder *d, struct err *e)
{
    d->in_bytes = 0;
    while (d->in_bytes < BLOCK_BYTES) {
        struct pollfd ready = {.fd = d->fd, .events = POLLIN};
        if (d->quiet_ms >= 0 && poll(&ready, 1, d->quiet_ms) == 0)
            return err_set(e, SHOAL_E_UNAVAILABLE, "%s: not a byte came for %d s", d->name,
                           d->quiet_ms / 1000);
        ssize_t n = read(d->fd, d->in + d->in_bytes, BLOCK_BYTES - d->in_bytes);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", d->name, strerror(errno));
        d->in_bytes += (size_t)n;
        d->raw += (uint64_t)n;
    }
    return 0;
}

static enum packing packing_of(const char *data, size_t bytes)
{
    if (bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0)
        return PACKING_GZIP;
    if (bytes >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0)
        return PACKING_ZSTD;
    return PACKING_NONE;
}

static int decode_plain(struct decoder *d, struct err *e)
{
    int rc = 0;
    while (rc == 0 && d->in_bytes > 0) {
        rc = d->sink(d->to, d->in, d->in_bytes, e);
        if (rc == 0)
            rc = fill(d, e);
    }
    return rc;
}

/* One or several members, one after the other, as `cat a.gz b.gz` makes them. */
static int decode_gzip(struct decoder *d, struct err *e)
{
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to unpack it; free some", d->name);
    int rc = 0, status = Z_OK;
    while (rc == 0 && d->in_bytes > 0) {
        z.next_in = (Bytef *)d->in;
        z.avail_in = (uInt)d->in_bytes;
        do {
            if (status == Z_STREAM_END)
                inflateReset(&z);
            z.next_out = (Bytef *)d->out;
            z.avail_out = BLOCK_BYTES;
            status = inflate(&z, Z_NO_FLUSH);
            if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
                rc = err_set(e, SHOAL_E_DATA, "%s: damaged gzip data (%s); fetch the file again",
                             d->name, z.msg != NULL ? z.msg : "unknown cause");
            else
                rc = d->sink(d->to, d->out, BLOCK_BYTES - z.avail_out, e);
        } while (rc == 0 && (z.avail_in > 0 || (z.avail_out == 0 && status != Z_STREAM_END)));
        if (rc == 0)
            rc = fill(d, e);
    }
    inflateEnd(&z);
    if (rc == 0 && status != Z_STREAM_END)
        rc =
            err_set(e, SHOAL_E_DATA, "%s: gzip data ends too early; fetch the file again", d->name);
    return rc;
}

static int decode_zstd(struct decoder *d, struct err *e)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (z == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to unpack it; free some", d->name);
    int rc = 0;
    size_t wanted = 1;
    while (rc == 0 && d->in_bytes > 0) {
        ZSTD_inBuffer in = {d->in, d->in_bytes, 0};
        ZSTD_outBuffer out;
        do {
            out = (ZSTD_outBuffer){d->out, BLOCK_BYTES, 0};
            wanted = ZSTD_decompressStream(z, &out, &in);
            if (ZSTD_isError(wanted))
                rc = err_set(e, SHOAL_E_DATA, "%s: damaged zstd data (%s); fetch the file again",
                             d->name, ZSTD_getErrorName(wanted));
            else
                rc = d->sink(d->to, d->out, out.pos, e);
        } while (rc == 0 && (in.pos < in.size || (out.pos == BLOCK_BYTES && wanted != 0)));
        if (rc == 0)
            rc = fill(d, e);
    }
    ZSTD_freeDStream(z);
    if (rc == 0 && wanted != 0)
        rc =
            err_set(e, SHOAL_E_DATA, "%s: zstd data ends too early; fetch the file again", d->name);
    return rc;
}

bool decode_packed(const char *data, size_t bytes)
{
    return packing_of(data, bytes) != PACKING_NONE;
}

int decode(const struct decode_from *from, decode_sink sink, void *to, uint64_t *raw, struct err *e)
{
    struct decoder d = {.fd = from->fd,
                        .quiet_ms = from->quiet_s > 0 ? (int)from->quiet_s * 1000 : -1,
                        .name = from->name,
                        .sink = sink,
                        .to = to};
    d.in = malloc(2 * BLOCK_BYTES);
    if (d.in == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", d.name);
    d.out = d.in + BLOCK_BYTES;
    int rc = fill(&d, e);
    if (rc == 0) {
        enum packing packing = packing_of(d.in, d.in_bytes);
        rc = packing == PACKING_GZIP   ? decode_gzip(&d, e)
             : packing == PACKING_ZSTD ? decode_zstd(&d, e)
                                       : decode_plain(&d, e);
    }
    free(d.in);
    if (raw != NULL)
        *raw = d.raw;
    return rc;
}

const char *decode_libraries(void)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "zlib %s, zstd %s", zlibVersion(), ZSTD_versionString());
    return text;
}
