/* read_libffm.c: "label field:index:value field:index:value ..": a weighted value of that field. */
#include "worker/data/entries.h"

static int libffm_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       char *reason)
{
    return entries_by_number(f, line, bytes, true, cell, reason);
}

/* True for "index:value" or "index"; *value: it has one. */
static bool is_entry(const char *p, const char *end, bool *value)
{
    const char *colon = entries_digits(p, end);
    double x;
    *value = colon < end;
    if (colon == p || colon == end)
        return colon > p;
    struct cell number = {colon + 1, (uint32_t)(end - colon - 1)};
    return *colon == ':' && feature_number(&number, &x);
}

static int entry_refuse(char *reason, uint32_t entry)
{
    return entries_refuse(
        reason, entry,
        "is not field:index:value with numbers as field and index; look at data.format");
}

/* An entry may lack its value, but not all of a line: that would be libsvm. */
static int libffm_look(char *line, size_t bytes, struct format_look *out, char *reason)
{
    struct entries_parts parts;
    uint32_t n = 0, values = 0;
    const char *stop;
    if (entries_look(line, bytes, out->words, &parts, reason) != 0)
        return SHOAL_E_DATA;
    for (char *word; (word = entries_word(&parts.at, parts.end, &stop)) != NULL; n++) {
        const char *colon = entries_digits(word, stop);
        bool value;
        if (colon == word || colon == stop || *colon != ':' || !is_entry(colon + 1, stop, &value))
            return entry_refuse(reason, n + 1);
        values += value;
        entries_see(out, entries_number(word, colon));
    }
    if (n > 0 && values == 0)
        return entry_refuse(reason, 1);
    out->lines++;
    return 0;
}

const struct format format_libffm = {.line = libffm_line, .look = libffm_look};
