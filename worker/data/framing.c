/* framing.c: rows of csv over several lines, and records with lengths. */
#include "worker/data/framing.h"

#include "proto/base/hash.h"

#include <string.h>
#include <strings.h>

uint64_t framing_hash(const struct row_form *form)
{
    if (form->framing == FRAMING_LINES)
        return (uint64_t)form->header + 1 + 2ull * form->comments;
    uint32_t of[] = {form->framing, form->header, form->columns, form->number};
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

/* True for a text that may be a number, True, False or an empty cell, as its first bytes tell. */
static bool may_be_number(const char *text, size_t bytes, const char *delimiter)
{
    size_t n = strlen(delimiter);
    while (bytes > 0 && (*text == '"' || *text == ' ')) {
        text++;
        bytes--;
    }
    if (bytes == 0 || (bytes >= n && memcmp(text, delimiter, n) == 0))
        return true;
    if ((*text == '-' || *text == '+' || *text == '.' || *text == ',') && bytes > 1)
        text++;
    bool word =
        bytes >= 4 && (strncasecmp(text, "true", 4) == 0 || strncasecmp(text, "fals", 4) == 0);
    return word || (*text >= '0' && *text <= '9');
}

bool framing_is_row(const struct row_form *form, const char *line, size_t bytes, bool literal)
{
    struct csv_walk w = {0};
    size_t number = 0; /* where its cell begins */
    for (size_t i = 0; i < bytes; i++) {
        if (literal && line[i] == '"')
            w = (struct csv_walk){.state = WALK_PLAIN, .cells = w.cells};
        else
            framing_walk(&w, form->delimiter, line + i, 1);
        if (w.state == WALK_START && w.cells + 1 == form->number)
            number = i + 1;
    }
    if (!framing_whole(&w, form->columns))
        return false;
    return form->number == 0 || may_be_number(line + number, bytes - number, form->delimiter);
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
