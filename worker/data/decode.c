/* decode.c: decodes gzip, zstd or plain input, told apart by the first bytes. */
#include "worker/data/decode.h"
#include "worker/data/kind.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <isa-l.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define BLOCK_BYTES (256u << 10)

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct decoder {
    const struct decode_from *from;
    const char *name; /* name of the input for messages */
    uint64_t raw;     /* bytes read */
    char *in;         /* (BLOCK_BYTES) */
    size_t in_bytes;
    char *out; /* (BLOCK_BYTES) */
    decode_sink sink;
    void *to;
    bool looked; /* the first bytes of the text were checked */
};

/* ---- decoding ---- */

static int give(struct decoder *d, const char *data, size_t bytes, struct err *e)
{
    int rc;
    if (d->looked || bytes == 0)
        rc = 0;
    else
        rc = kind_check(d->name, data, bytes, e);

    d->looked |= bytes > 0;

    if (rc != 0)
        return rc;

    return d->sink(d->to, data, bytes, e);
}

/* Reads until the block is full or the input ends, so that the first block always has all magic
 * bytes. */
static int fill(struct decoder *d, struct err *e)
{
    d->in_bytes = 0;
    while (d->in_bytes < BLOCK_BYTES) {
        int rc = 0;
        if (d->from->wait != NULL)
            rc = d->from->wait(d->from->context, e);
        if (rc != 0)
            return rc;
        ssize_t n = read(d->from->fd, d->in + d->in_bytes, BLOCK_BYTES - d->in_bytes);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", d->name, strerror(errno));
        d->in_bytes += (size_t)n;
        d->raw += (uint64_t)n;
        taken_note((uint64_t)n);
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
        rc = give(d, d->in, d->in_bytes, e);
        if (rc == 0)
            rc = fill(d, e);
    }
    return rc;
}

static const char *gzip_fault(int status)
{
    if (status == ISAL_INCORRECT_CHECKSUM)
        return "its checksum is another";
    if (status == ISAL_INVALID_WRAPPER)
        return "no gzip header where one should be";

    return "no such code";
}

/* The rest behind the last gzip member must be zeros, which tar and tapes append to fill their
 * blocks. */
static int gzip_rest(struct decoder *d, const char *at, size_t bytes, struct err *e)
{
    int rc = 0;
    while (rc == 0 && bytes > 0) {
        for (size_t i = 0; i < bytes; i++)
            if (at[i] != 0)
                return err_set(e, SHOAL_E_DATA,
                               "%s: other bytes follow the end of its gzip data; take them off: "
                               "gunzip -c FILE passes them over, with a warning",
                               d->name);
        rc = fill(d, e);
        at = d->in;
        bytes = d->in_bytes;
    }
    return rc;
}

/* Decodes one or several members, as `cat a.gz b.gz` makes them. */
static int gzip_members(struct decoder *d, struct inflate_state *z, struct err *e)
{
    int rc = 0;
    bool over = true;
    uint64_t members = 0;
    while (rc == 0 && d->in_bytes > 0) {
        z->next_in = (uint8_t *)d->in;
        z->avail_in = (uint32_t)d->in_bytes;
        do {
            if (over && members > 0 && z->next_in[0] != 0x1f)
                return gzip_rest(d, (const char *)z->next_in, z->avail_in, e);
            if (over) {
                members++;
                isal_inflate_reset(z);
                z->crc_flag = ISAL_GZIP;
            }
            z->next_out = (uint8_t *)d->out;
            z->avail_out = BLOCK_BYTES;
            int status = isal_inflate(z);
            over = z->block_state == ISAL_BLOCK_FINISH;
            if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT)
                rc = err_set(e, SHOAL_E_DATA, "%s: damaged gzip data (%s); fetch the file again",
                             d->name, gzip_fault(status));
            else
                rc = give(d, d->out, BLOCK_BYTES - z->avail_out, e);
        } while (rc == 0 && (z->avail_in > 0 || (z->avail_out == 0 && !over)));
        if (rc == 0)
            rc = fill(d, e);
    }
    if (rc != 0 || over)
        return rc;

    return err_set(e, SHOAL_E_DATA, "%s: gzip data ends too early; fetch the file again", d->name);
}

static int decode_gzip(struct decoder *d, struct err *e)
{
    struct inflate_state *z = malloc(sizeof *z);
    if (z == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to unpack it; free some", d->name);
    isal_inflate_init(z);
    int rc = gzip_members(d, z, e);
    free(z);
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
                rc = give(d, d->out, out.pos, e);
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
    struct decoder d = {.from = from, .name = from->name, .sink = sink, .to = to};
    d.in = malloc(2 * BLOCK_BYTES);
    if (d.in == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", d.name);
    d.out = d.in + BLOCK_BYTES;
    int rc = fill(&d, e);
    if (rc == 0) {
        enum packing packing = packing_of(d.in, d.in_bytes);
        if (packing == PACKING_GZIP)
            rc = decode_gzip(&d, e);
        else if (packing == PACKING_ZSTD)
            rc = decode_zstd(&d, e);
        else
            rc = decode_plain(&d, e);
    }
    free(d.in);
    if (raw != NULL)
        *raw = d.raw;
    return rc;
}

const char *decode_libraries(void)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "isa-l %d.%d, zstd %s", ISAL_MAJOR_VERSION,
                   ISAL_MINOR_VERSION, ZSTD_versionString());
    return text;
}
