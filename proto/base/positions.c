/* positions.c: an array in order of the streams' names, and its text. */
#include "proto/base/positions.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "kafka:"
#define TOPIC_MAX 249u
#define PARTITION_DIGITS 9u
#define OFFSET_DIGITS 18u
#define DIGITS "0123456789"

_Static_assert(sizeof PREFIX + TOPIC_MAX + 1 + PARTITION_DIGITS <= POSITION_STREAM, "it fits");

/* ---- a line ---------------------------------------------------------------------------------- */

static size_t topic_bytes(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-");
}

bool position_topic_ok(const char *topic)
{
    size_t n = topic_bytes(topic);
    return n > 0 && n <= TOPIC_MAX && topic[n] == '\0' && strcmp(topic, ".") != 0 &&
           strcmp(topic, "..") != 0;
}

/* Returns the bytes of the stream's name that the line begins with; 0: there is none. */
static size_t stream_bytes(const char *line)
{
    const size_t prefix = strlen(PREFIX);
    if (strncmp(line, PREFIX, prefix) != 0)
        return 0;
    size_t topic = topic_bytes(line + prefix), at = prefix + topic;
    if (topic == 0 || topic > TOPIC_MAX || line[at] != '/')
        return 0;
    size_t digits = strspn(line + at + 1, DIGITS);
    if (digits == 0 || digits > PARTITION_DIGITS)
        return 0;
    return at + 1 + digits;
}

/* Reads digits and moves *at behind them. */
static bool offset_take(const char **at, uint64_t *out)
{
    size_t digits = strspn(*at, DIGITS);
    if (digits == 0 || digits > OFFSET_DIGITS)
        return false;
    *out = strtoull(*at, NULL, 10);
    *at += digits;
    return true;
}

static bool mark_take(const char *at, char out[POSITION_MARK])
{
    out[0] = '\0';
    if (*at == '\0')
        return true;
    if (strncmp(at, "\t\t", 2) != 0 || strlen(at + 2) >= POSITION_MARK)
        return false;
    for (const char *p = at + 2; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    (void)snprintf(out, POSITION_MARK, "%s", at + 2);
    return true;
}

bool position_of(const char *line, struct position *out)
{
    size_t n = stream_bytes(line);
    const char *at = line + n;
    *out = (struct position){.from = 0};
    if (n == 0 || *at++ != '@' || !offset_take(&at, &out->from) || *at++ != '-' ||
        !offset_take(&at, &out->to) || out->from > out->to || !mark_take(at, out->mark))
        return false;
    (void)snprintf(out->stream, sizeof out->stream, "%.*s", (int)n, line);
    return true;
}

void position_line(const struct position *p, char out[POSITION_LINE])
{
    const char *tabs = p->mark[0] == '\0' ? "" : "\t\t";
    SHOAL_ASSERT(p->from <= p->to && p->to <= POSITION_OFFSET_MAX);
    (void)snprintf(out, POSITION_LINE, "%s@%012" PRIu64 "-%012" PRIu64 "%s%s", p->stream, p->from,
                   p->to, tabs, p->mark);
}

/* ---- the array ------------------------------------------------------------------------------- */

/* The index of the stream, or that at which it would be inserted. */
static uint32_t place_of(const struct positions *s, const char *stream, bool *there)
{
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(s->of[middle].stream, stream) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there = low < s->count && strcmp(s->of[low].stream, stream) == 0;
    return low;
}

const struct position *positions_find(const struct positions *s, const char *stream)
{
    bool there;
    uint32_t i = place_of(s, stream, &there);
    return there ? &s->of[i] : NULL;
}

int positions_put(struct positions *s, const struct position *p)
{
    bool there;
    uint32_t i = place_of(s, p->stream, &there);
    SHOAL_ASSERT(p->from <= p->to && p->to <= POSITION_OFFSET_MAX);
    if (!there && s->count == POSITIONS_MAX)
        return SHOAL_E_TOO_BIG;
    if (!there && array_room(&s->of, s->count, &s->capacity, 8) != 0)
        return SHOAL_E_NOMEM;
    if (!there)
        memmove(&s->of[i + 1], &s->of[i], (s->count++ - i) * sizeof *s->of);
    s->of[i] = *p;
    return 0;
}

bool positions_move(struct positions *s, const struct position *range)
{
    bool there;
    uint32_t i = place_of(s, range->stream, &there);
    if (!there || s->of[i].to != range->from || strcmp(s->of[i].mark, range->mark) != 0)
        return false;
    s->of[i].to = range->to;
    return true;
}

void positions_settle(struct positions *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->of[i].from = s->of[i].to;
}

void positions_undo(struct positions *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->of[i].to = s->of[i].from;
}

/* ---- as text --------------------------------------------------------------------------------- */

/* Adds the position of a line that ends at `end`. */
static int line_take(struct positions *s, const char *at, const char *end)
{
    char line[POSITION_LINE];
    struct position p;
    size_t n = (size_t)(end - at);
    if (n >= sizeof line || memchr(at, '\0', n) != NULL)
        return SHOAL_E_CORRUPT;
    memcpy(line, at, n);
    line[n] = '\0';
    if (!position_of(line, &p) || positions_find(s, p.stream) != NULL)
        return SHOAL_E_CORRUPT;
    return positions_put(s, &p);
}

int positions_take(struct positions *s, const char *text, size_t bytes)
{
    struct positions made = {.count = 0};
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        rc = end == NULL ? SHOAL_E_CORRUPT : line_take(&made, text + at, end);
        if (rc == 0)
            at = (size_t)(end - text) + 1;
    }
    if (rc != 0) {
        positions_close(&made);
        return rc;
    }
    positions_close(s);
    *s = made;
    return 0;
}

char *positions_text(const struct positions *s, size_t *bytes)
{
    char *text = malloc((size_t)s->count * POSITION_LINE + 1);
    *bytes = 0;
    for (uint32_t i = 0; text != NULL && i < s->count; i++) {
        position_line(&s->of[i], text + *bytes);
        *bytes += strlen(text + *bytes);
        text[(*bytes)++] = '\n';
    }
    return text;
}

int positions_copy(struct positions *to, const struct positions *from)
{
    struct positions made = {.count = from->count, .capacity = from->count};
    if (from->count > 0) {
        made.of = malloc(from->count * sizeof *made.of);
        if (made.of == NULL)
            return SHOAL_E_NOMEM;
        memcpy(made.of, from->of, from->count * sizeof *made.of);
    }
    positions_close(to);
    *to = made;
    return 0;
}

uint64_t positions_digest(const struct positions *s)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct position *p = &s->of[i];
        digest = hash_bytes(p->stream, strlen(p->stream), digest + p->to);
        digest = hash_bytes(p->mark, strlen(p->mark), digest);
    }
    return digest;
}

void positions_close(struct positions *s)
{
    free(s->of);
    *s = (struct positions){.count = 0};
}
