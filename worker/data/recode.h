/* recode.h: text in UTF-16, and text whose lines end in CR alone, as the UTF-8 with LF that formats
 * read. Any thread. */
#ifndef WORKER_DATA_RECODE_H
#define WORKER_DATA_RECODE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum recode { RECODE_NONE, RECODE_UTF16LE, RECODE_UTF16BE, RECODE_CR };

/* The recoding of a text that begins with these bytes: UTF-16 by its byte order mark, or because
 * every second byte of Latin text is 0; CR where there are two and no LF. */
enum recode recode_of(const char *data, size_t bytes);

struct recoder {
    enum recode kind;
    uint64_t at;   /* bytes taken */
    uint32_t high; /* the first half of a surrogate pair; 0: none */
    unsigned char odd[2];
    uint8_t odds;  /* 1: odd[0] is the first byte of a unit */
    bool returned; /* CR: the last byte was one */
};

/* The most bytes that recode_next writes for so many: three for each two, and four for a pair that
 * began before. */
#define RECODE_ROOM(bytes) ((bytes) / 2 * 3 + 4)

/* Writes the next `bytes` of the text to `out`, which has room for RECODE_ROOM(bytes); *given:
 * bytes written. DATA: half a surrogate pair. */
int recode_next(struct recoder *r, const char *name, const char *data, size_t bytes, char *out,
                size_t *given, struct err *e);
/* The text ends here. DATA: within a unit or a pair. */
int recode_end(const struct recoder *r, const char *name, struct err *e);

#endif
