/* positions.h: how far streams have been learnt. A stream is a partition of a topic in Kafka, and
 * its name is kafka:TOPIC/PARTITION. A range of its messages is an object with the name
 * STREAM@FROM-TO, the offsets FROM to TO - 1 in 12 digits at least, so that names are in the order
 * of offsets. The object's line (object.h) has no size, and the cluster's id as its mark:
 *
 *     kafka:clicks/3@000000001000-000000001537<tab><tab>lkc-3f9
 *
 * A position has the same form: the stream was learnt up to TO, and up to FROM before the round at
 * hand. As text, each line ends in a LF. Any thread, one at a time. */
#ifndef PROTO_BASE_POSITIONS_H
#define PROTO_BASE_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POSITIONS_MAX 1536u
#define POSITION_STREAM 266u /* with its NUL: a topic's name has up to 249 bytes */
#define POSITION_MARK 64u    /* with its NUL */
#define POSITION_LINE (POSITION_STREAM + POSITION_MARK + 40u)
#define POSITIONS_TEXT_MAX ((size_t)POSITIONS_MAX * POSITION_LINE)
#define POSITION_OFFSET_MAX UINT64_C(999999999999999999)

struct position {
    char stream[POSITION_STREAM];
    char mark[POSITION_MARK];
    uint64_t from, to;
};

struct positions {
    struct position *of; /* owned (count), in byte order of their streams */
    uint32_t count, capacity;
};

/* Reads an object's line, up to its NUL; every byte is checked. False: it names no range. */
bool position_of(const char *line, struct position *out);
void position_line(const struct position *p, char out[POSITION_LINE]);
/* True for the name of a topic as Kafka allows it. */
bool position_topic_ok(const char *topic);

const struct position *positions_find(const struct positions *s, const char *stream);
/* Adds a stream, or replaces its position. NOMEM; TOO_BIG: there are POSITIONS_MAX. */
int positions_put(struct positions *s, const struct position *p);
/* The range was learnt. False, and nothing is changed: the stream is not at the range's begin, or
 * the mark is another one. */
bool positions_move(struct positions *s, const struct position *range);
/* settle: the round at hand is over. undo: it has not begun. */
void positions_settle(struct positions *s);
void positions_undo(struct positions *s);

/* Replaces all by those of a text, of which every byte is checked. On failure *s is unchanged.
 * CORRUPT, NOMEM, TOO_BIG. */
int positions_take(struct positions *s, const char *text, size_t bytes);
/* The text, which the caller frees; NULL: no memory. */
char *positions_text(const struct positions *s, size_t *bytes);
int positions_copy(struct positions *to, const struct positions *from); /* replaces `to`; NOMEM */
/* A hash of all streams and how far they are learnt; 0: there is none. */
uint64_t positions_digest(const struct positions *s);
void positions_close(struct positions *s);

#endif
