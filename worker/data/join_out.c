/* join_out.c: writes rows of the joined text. */
#include "worker/data/join_out.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Writes a cell, in quotes if it needs them; returns its end, at most 2 * bytes + 2 further. */
static char *cell_put(char *to, const char *text, size_t bytes, char delimiter)
{
    if (bytes == 0)
        return to;
    if (memchr(text, delimiter, bytes) == NULL && memchr(text, '"', bytes) == NULL) {
        memcpy(to, text, bytes);
        return to + bytes;
    }
    *to++ = '"';
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            *to++ = '"';
        *to++ = text[i];
    }
    *to++ = '"';
    return to;
}

char *join_out_label(const struct job *job, char *to)
{
    const char *label = job->data.label[0];
    *to++ = job->data.delimiter[0];
    return cell_put(to, label, strlen(label), job->data.delimiter[0]);
}

/* Writes the time as a number, whatever the form of the impressions' times: data.time reads
 * both. */
static char *time_put(char *to, const struct time_form *form, uint64_t time)
{
    static const uint32_t units[] = {
        [TIME_SECONDS] = 1, [TIME_MILLISECONDS] = 1000, [TIME_MICROSECONDS] = 1000000};
    return to + snprintf(to, 24, "%" PRIu64, time * units[form->unit]);
}

int join_out_flush(struct join_out *o, struct err *e)
{
    int rc = cache_write(o->cache, o->fd, o->buffer, o->bytes, e);
    o->written += o->bytes;
    o->bytes = 0;
    return rc;
}

/* Ends the line in the buffer at `end`. */
static int line_end(struct join_out *o, char *end, struct err *e)
{
    *end++ = '\n';
    o->bytes = (size_t)(end - o->buffer);
    SHOAL_ASSERT(o->bytes <= sizeof o->buffer);

    if (o->bytes < JOIN_OUT_BYTES)
        return 0;

    return join_out_flush(o, e);
}

int join_out_head(struct join_out *o, const struct join_side *s, struct err *e)
{
    char *to = o->buffer + o->bytes;
    memcpy(to, s->head, s->head_bytes);
    return line_end(o, join_out_label(o->job, to + s->head_bytes), e);
}

int join_out_row(struct join_out *o, const struct join_side *s, const struct cell *cell,
                 bool positive, uint64_t time, struct err *e)
{
    const char delimiter = o->job->data.delimiter[0];
    char *to = o->buffer + o->bytes;
    for (uint32_t i = 0; i < s->features.columns; i++) {
        if (i == s->time)
            to = time_put(to, &o->job->data.time_form, time);
        else
            to = cell_put(to, cell[i].text, cell[i].bytes, delimiter);
        *to++ = delimiter;
    }
    *to++ = positive ? '1' : '0';
    return line_end(o, to, e);
}
