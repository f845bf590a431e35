/* entries.h: the parts of a libsvm or libffm line: `label [qid:N] entry entry .. [# comment]`,
 * with blanks or tabs between them. Shared by read_libsvm.c and read_libffm.c. */
#ifndef WORKER_DATA_ENTRIES_H
#define WORKER_DATA_ENTRIES_H

#include "worker/data/feature.h"

#include <string.h>

/* All point into the line. */
struct entries_parts {
    struct cell label, qid; /* without bytes: the line has none */
    char *at, *end;         /* the entries; only blanks are between them */
};

/* Finds the parts. Tabs become blanks. A first word with a colon is no label: a line to be scored
 * may lack one. */
void entries_part(char *line, size_t bytes, struct entries_parts *out);

/* The next word from *at on, which moves behind it; NULL: there is none. */
static inline char *entries_word(char **at, const char *end, const char **stop)
{
    char *p = *at;
    while (p < end && *p == ' ')
        p++;
    char *from = p;
    while (p < end && *p != ' ')
        p++;
    *at = p;
    *stop = p;
    return from < p ? from : NULL;
}

static inline const char *entries_digits(const char *p, const char *end)
{
    while (p < end && (unsigned)(unsigned char)*p - '0' <= 9)
        p++;
    return p;
}

/* The number in the digits [p, end), at least one; UINT32_MAX: it is larger. */
static inline uint32_t entries_number(const char *p, const char *end)
{
    uint64_t number = 0;
    for (; p < end && number < UINT32_MAX; p++)
        number = number * 10 + ((unsigned char)*p - '0');
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* The same for a line that is looked at; words: its label may be one. DATA: it has no label. */
int entries_look(char *line, size_t bytes, bool words, struct entries_parts *out, char *reason);
/* Writes "entry N WHAT" and returns DATA. */
int entries_refuse(char *reason, uint32_t number, const char *what);
/* Notes in a look that an entry has this number. */
void entries_see(struct format_look *out, uint32_t number);
/* Cuts a line into the label, a cell for each number (features.column_of) and the qid. A cell goes
 * from the first to the last entry of its number, and has those of other numbers between them, if
 * there are any. `prefixed`: the number is a field's, "field:index:value"; else it is the index. */
int entries_by_number(const struct features *f, char *line, size_t bytes, bool prefixed,
                      struct cell *cell, char *reason);

#endif
