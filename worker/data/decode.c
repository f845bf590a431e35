/* decode.c: decodes packed or plain input, told apart by the first bytes; zstd is here. */
#include "worker/data/decode_inner.h"

#include "worker/data/framing.h"
#include "worker/data/kind.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD, PACKING_BZIP2, PACKING_XZ };

/* ---- the parts ---- */

static int text_give(struct decoder *d, const char *data, size_t bytes, struct err *e)
{
    size_t given = bytes;
    int rc = 0;
    if (d->recoder.kind != RECODE_NONE) {
        rc = recode_next(&d->recoder, d->name, data, bytes, d->text, &given, e);
        data = d->text;
    }
    if (rc != 0 || given == 0)
        return rc;

    return d->sink(d->to, data, given, e);
}

int decode_give(struct decoder *d, const char *data, size_t bytes, struct err *e)
{
    int rc = 0;
    if (bytes == 0)
        return 0;
    if (!d->looked) {
        d->looked = true;
        d->recoder.kind = recode_of(data, bytes);
        if (d->recoder.kind == RECODE_NONE)
            rc = kind_check(d->name, data, bytes, e);
    }
    if (rc != 0)
        return rc;

    return text_give(d, data, bytes, e);
}

/* Reads until the block is full or the input ends, so that the first block always has all magic
 * bytes. */
int decode_fill(struct decoder *d, struct err *e)
{
    d->in_bytes = 0;
    while (d->in_bytes < DECODE_BLOCK) {
        int rc = 0;
        if (d->from->wait != NULL)
            rc = d->from->wait(d->from->context, e);
        if (rc != 0)
            return rc;
        ssize_t n = read(d->from->fd, d->in + d->in_bytes, DECODE_BLOCK - d->in_bytes);
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

int decode_rest(struct decoder *d, const char *packed, const char *at, size_t bytes, struct err *e)
{
    int rc = 0;
    while (rc == 0 && bytes > 0) {
        for (size_t i = 0; i < bytes; i++)
            if (at[i] != 0)
                return err_set(e, SHOAL_E_DATA,
                               "%s: other bytes follow the end of its %s data; take them off: "
                               "%s -dc FILE passes them over, with a warning",
                               d->name, packed, packed);
        rc = decode_fill(d, e);
        at = d->in;
        bytes = d->in_bytes;
    }
    return rc;
}

int decode_damaged(const struct decoder *d, const char *packed, const char *why, struct err *e)
{
    uint64_t block = d->raw - d->in_bytes;
    return err_set(e, SHOAL_E_DATA,
                   "%s: damaged %s data (%s) behind byte %" PRIu64 "; fetch the file again",
                   d->name, packed, why, block);
}

int decode_ended(const struct decoder *d, const char *packed, struct err *e)
{
    return err_set(e, SHOAL_E_DATA,
                   "%s: %s data ends too early, at byte %" PRIu64 "; fetch the file again", d->name,
                   packed, d->raw);
}

int decode_no_memory(const struct decoder *d, struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "%s: no memory to unpack it; free some", d->name);
}

/* ---- decoding ---- */

static bool begins(const char *data, size_t bytes, const char *magic, size_t magic_bytes)
{
    return bytes >= magic_bytes && memcmp(data, magic, magic_bytes) == 0;
}

/* A text may begin with "BZh" too: bzip2's first block, or its end, follows the level. */
static bool is_bzip2(const char *data, size_t bytes)
{
    return begins(data, bytes, "BZh", 3) && bytes >= 10 && data[3] >= '1' && data[3] <= '9' &&
           (memcmp(data + 4, "1AY&SY", 6) == 0 || memcmp(data + 4, "\x17rE8P\x90", 6) == 0);
}

static enum packing packing_of(const char *data, size_t bytes)
{
    if (framing_is_record(data, bytes)) /* whose length may look like the bytes below */
        return PACKING_NONE;
    if (begins(data, bytes, "\x1f\x8b", 2))
        return PACKING_GZIP;
    if (begins(data, bytes, "\x28\xb5\x2f\xfd", 4))
        return PACKING_ZSTD;
    if (begins(data, bytes, "\xfd\x37zXZ\0", 6))
        return PACKING_XZ;
    if (is_bzip2(data, bytes))
        return PACKING_BZIP2;
    return PACKING_NONE;
}

static int decode_plain(struct decoder *d, struct err *e)
{
    int rc = 0;
    while (rc == 0 && d->in_bytes > 0) {
        rc = decode_give(d, d->in, d->in_bytes, e);
        if (rc == 0)
            rc = decode_fill(d, e);
    }
    return rc;
}

/* Decodes one or several frames, as `cat a.zst b.zst` makes them. */
static int zstd_frames(struct decoder *d, ZSTD_DStream *z, struct err *e)
{
    int rc = 0;
    size_t wanted = 1;
    while (rc == 0 && d->in_bytes > 0) {
        ZSTD_inBuffer in = {d->in, d->in_bytes, 0};
        ZSTD_outBuffer out;
        do {
            if (wanted == 0 && in.pos < in.size && d->in[in.pos] == 0)
                return decode_rest(d, "zstd", d->in + in.pos, in.size - in.pos, e);
            out = (ZSTD_outBuffer){d->out, DECODE_BLOCK, 0};
            wanted = ZSTD_decompressStream(z, &out, &in);
            if (ZSTD_isError(wanted))
                rc = decode_damaged(d, "zstd", ZSTD_getErrorName(wanted), e);
            else
                rc = decode_give(d, d->out, out.pos, e);
        } while (rc == 0 && (in.pos < in.size || (out.pos == DECODE_BLOCK && wanted != 0)));
        if (rc == 0)
            rc = decode_fill(d, e);
    }
    if (rc == 0 && wanted != 0)
        return decode_ended(d, "zstd", e);
    return rc;
}

static int decode_zstd(struct decoder *d, struct err *e)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (z == NULL)
        return decode_no_memory(d, e);
    int rc = zstd_frames(d, z, e);
    ZSTD_freeDStream(z);
    return rc;
}

bool decode_needed(const char *data, size_t bytes)
{
    return packing_of(data, bytes) != PACKING_NONE || recode_of(data, bytes) != RECODE_NONE;
}

int decode(const struct decode_from *from, decode_sink sink, void *to, uint64_t *raw, struct err *e)
{
    static int (*const by_packing[])(struct decoder *,
                                     struct err *) = {[PACKING_NONE] = decode_plain,
                                                      [PACKING_GZIP] = decode_gzip,
                                                      [PACKING_ZSTD] = decode_zstd,
                                                      [PACKING_BZIP2] = decode_bzip2,
                                                      [PACKING_XZ] = decode_xz};
    struct decoder d = {.from = from, .name = from->name, .sink = sink, .to = to};
    d.in = malloc(2 * DECODE_BLOCK + RECODE_ROOM(DECODE_BLOCK));
    if (d.in == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", d.name);
    d.out = d.in + DECODE_BLOCK;
    d.text = d.out + DECODE_BLOCK;
    int rc = decode_fill(&d, e);
    if (rc == 0)
        rc = by_packing[packing_of(d.in, d.in_bytes)](&d, e);
    if (rc == 0)
        rc = recode_end(&d.recoder, d.name, e);
    free(d.in);
    if (raw != NULL)
        *raw = d.raw;
    return rc;
}

const char *decode_libraries(void)
{
    static char text[5 * LIBRARY_BYTES];
    char gzip[LIBRARY_BYTES], bzip2[LIBRARY_BYTES], xz[LIBRARY_BYTES];
    decode_gzip_library(gzip);
    decode_bzip2_library(bzip2);
    decode_xz_library(xz);
    (void)snprintf(text, sizeof text, "%s, zstd %s, %s, %s", gzip, ZSTD_versionString(), bzip2, xz);
    return text;
}
