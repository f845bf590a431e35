/* entries.c: the parts of a libsvm or libffm line. */
#include "worker/data/entries.h"

#include <stdio.h>

static const struct cell none = {"", 0};

void entries_part(char *line, size_t bytes, struct entries_parts *out)
{
    const char *stop, *comment = memchr(line, '#', bytes);
    char *end = line + (comment != NULL ? (size_t)(comment - line) : bytes), *at = line;
    for (char *p = line; (p = memchr(p, '\t', (size_t)(end - p))) != NULL;)
        *p = ' ';
    *out = (struct entries_parts){.label = none, .qid = none, .at = line, .end = end};
    char *word = entries_word(&at, end, &stop);
    if (word != NULL && memchr(word, ':', (size_t)(stop - word)) == NULL) {
        out->label = (struct cell){word, (uint32_t)(stop - word)};
        out->at = at;
    }
    at = out->at;
    word = entries_word(&at, end, &stop);
    if (word != NULL && stop - word > 4 && memcmp(word, "qid:", 4) == 0) {
        out->qid = (struct cell){word + 4, (uint32_t)(stop - word - 4)};
        out->at = at;
    }
}

int entries_look(char *line, size_t bytes, bool words, struct entries_parts *out, char *reason)
{
    double label;
    entries_part(line, bytes, out);
    if (feature_label(&out->label, &label) || (words && out->label.bytes > 0))
        return 0;
    snprintf(reason, REASON_BYTES, "no number as label before the entries; look at data.format");
    return SHOAL_E_DATA;
}

int entries_refuse(char *reason, uint32_t number, const char *what)
{
    snprintf(reason, REASON_BYTES, "entry %u %s", number, what);
    return SHOAL_E_DATA;
}

void entries_see(struct format_look *out, uint32_t number)
{
    if (number < CELLS_MAX)
        out->number[number] = true;
    else if (number > out->beyond)
        out->beyond = number;
}

static int unknown_refuse(uint32_t entry, uint32_t number, bool prefixed, char *reason)
{
    snprintf(reason, REASON_BYTES,
             "entry %u has %s %u, which none of the first lines has: name it in data.columns: "
             "[{name: \"%u\", type: multi}]%s",
             entry, prefixed ? "field" : "index", number, number,
             prefixed ? "" : ", or say data.libsvm: one");
    return SHOAL_E_DATA;
}

int entries_by_number(const struct features *f, char *line, size_t bytes, bool prefixed,
                      struct cell *cell, char *reason)
{
    struct entries_parts parts;
    uint32_t entry = 0;
    const char *stop;
    entries_part(line, bytes, &parts);
    for (uint32_t i = 0; i < f->columns; i++)
        cell[i] = none;
    cell[0] = parts.label;
    cell[f->columns - 1] = parts.qid;
    for (char *word; (word = entries_word(&parts.at, parts.end, &stop)) != NULL;) {
        const char *colon = entries_digits(word, stop);
        entry++;
        if (colon == word || (colon < stop ? *colon != ':' : prefixed))
            return entries_refuse(reason, entry,
                                  prefixed ? "is not field:index:value with numbers as field and "
                                             "index; look at data.format"
                                           : "is not index:value with a number as index; look at "
                                             "data.format");
        uint32_t number = entries_number(word, colon), column = 0;
        if (number < CELLS_MAX)
            column = f->column_of[number];
        if (column == 0)
            return unknown_refuse(entry, number, prefixed, reason);
        if (cell[column].bytes == 0)
            cell[column].text = word;
        cell[column].bytes = (uint32_t)(stop - cell[column].text);
    }
    return 0;
}
