/* framing.c: rows of csv over several lines, and records with lengths. */
#include "worker/data/framing.h"

#include "proto/base/hash.h"

#include <string.h>

uint64_t framing_hash(const struct row_form *form)
{
    if (form->framing == FRAMING_LINES)
        return (uint64_t)form->header + 1;
    uint32_t of[] = {form->framing, form->header, form->columns};
    return hash_bytes(of, sizeof of, hash_bytes(form->delimiter, sizeof form->delimiter, 0));
}

/* ---- csv ---- */

/* START: at the first byte of a cell. CLOSED: behind a quote of a quoted cell, which ends it unless
 * a second one follows. */
enum { WALK_START, WALK_PLAIN, WALK_QUOTED, WALK_CLOSED };

/* A byte of a cell that is not quoted, or behind the end of a quoted one. */
static void walk_outside(struct csv_walk *w, const char *delimiter, char c)
{
    if (c == delimiter[w->matched])
        w->matched++;
    else
        w->matched = c == delimiter[0];
    if (w->matched > 0 && delimiter[w->matched] == '\0') {
        w->cells++;
        w->matched = 0;
        w->state = WALK_START;
        return;
    }
    w->bad |= w->state == WALK_CLOSED && w->matched == 0;
    if (w->matched == 0)
        w->state = WALK_PLAIN;
}

void framing_walk(struct csv_walk *w, const char *delimiter, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char c = data[i];
        if (w->state == WALK_QUOTED && c == '"')
            w->state = WALK_CLOSED;
        else if (w->state == WALK_QUOTED)
            continue;
        else if (c == '"' && w->matched == 0 && (w->state == WALK_START || w->state == WALK_CLOSED))
            w->state = WALK_QUOTED;
        else
            walk_outside(w, delimiter, c);
    }
}

bool framing_open(const struct csv_walk *w)
{
    return w->state == WALK_QUOTED;
}

bool framing_whole(const struct csv_walk *w, uint32_t columns)
{
    return w->state != WALK_QUOTED && !w->bad && w->matched == 0 && w->cells + 1 == columns;
}

/* ---- TFRecord ---- */

static uint32_t word_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The checksum as TFRecord stores it: turned, so that a checksum of data that hold checksums is not
 * weak. */
static uint32_t masked(const char *data, size_t bytes)
{
    uint32_t sum = hash_crc32c(data, bytes);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

bool framing_record_head(const char head[RECORD_HEAD_BYTES], uint64_t *bytes)
{
    *bytes = (uint64_t)word_at(head + 4) << 32 | word_at(head);
    return masked(head, 8) == word_at(head + 8);
}

bool framing_is_record(const char *data, size_t bytes)
{
    uint64_t record;
    return bytes >= RECORD_HEAD_BYTES && framing_record_head(data, &record);
}

bool framing_record_sound(const char *data, size_t bytes, const char tail[RECORD_TAIL_BYTES])
{
    return masked(data, bytes) == word_at(tail);
}
