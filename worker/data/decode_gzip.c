/* decode_gzip.c: gzip, by isa-l. */
#include "worker/data/decode_inner.h"

#include <isa-l.h>
#include <stdio.h>
#include <stdlib.h>

static const char *gzip_fault(int status)
{
    if (status == ISAL_INCORRECT_CHECKSUM)
        return "its checksum is another";
    if (status == ISAL_INVALID_WRAPPER)
        return "no gzip header where one should be";

    return "no such code";
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
                return decode_rest(d, "gzip", (const char *)z->next_in, z->avail_in, e);
            if (over) {
                members++;
                isal_inflate_reset(z);
                z->crc_flag = ISAL_GZIP;
            }
            z->next_out = (uint8_t *)d->out;
            z->avail_out = DECODE_BLOCK;
            int status = isal_inflate(z);
            over = z->block_state == ISAL_BLOCK_FINISH;
            if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT)
                rc = decode_damaged(d, "gzip", gzip_fault(status), e);
            else
                rc = decode_give(d, d->out, DECODE_BLOCK - z->avail_out, e);
        } while (rc == 0 && (z->avail_in > 0 || (z->avail_out == 0 && !over)));
        if (rc == 0)
            rc = decode_fill(d, e);
    }
    if (rc != 0 || over)
        return rc;

    return decode_ended(d, "gzip", e);
}

int decode_gzip(struct decoder *d, struct err *e)
{
    struct inflate_state *z = malloc(sizeof *z);
    if (z == NULL)
        return decode_no_memory(d, e);
    isal_inflate_init(z);
    int rc = gzip_members(d, z, e);
    free(z);
    return rc;
}

void decode_gzip_library(char out[LIBRARY_BYTES])
{
    (void)snprintf(out, LIBRARY_BYTES, "isa-l %d.%d", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION);
}
