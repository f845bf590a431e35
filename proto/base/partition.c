/* partition.c: patterns read, names compared. */
#include "proto/base/partition.h"
#include "proto/base/minmax.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum kind { BYTE, ANY, YEAR, MONTH, DAY, HOUR, MINUTE, KINDS };

static const struct {
    const char *word;
    uint32_t digits, least, most, seconds;
} known[KINDS] = {[YEAR] = {"year", 4, 1970, 2105, 0},
                  [MONTH] = {"month", 2, 1, 12, 0},
                  [DAY] = {"day", 2, 1, 31, ZONE_DAY},
                  [HOUR] = {"hour", 2, 0, 23, 3600},
                  [MINUTE] = {"minute", 2, 0, 59, 60}};

/* ---- the pattern ----------------------------------------------------------------------------- */

static bool item_add(struct partition *p, enum kind kind, uint8_t value)
{
    if (p->items == PARTITION_ITEMS)
        return false;
    p->item[p->items++] = (struct partition_item){(uint8_t)kind, value};
    p->slashes += kind == BYTE && value == '/';
    return true;
}

static bool has(const struct partition *p, enum kind kind)
{
    for (uint32_t i = 0; i < p->items; i++)
        if (p->item[i].kind == kind)
            return true;
    return false;
}

/* Adds "hour", or "hour:6". False: no such word, a second use, or the number does not divide its
 * unit. */
static bool word_add(struct partition *p, const char *word, size_t bytes)
{
    size_t n = 0;
    unsigned each = 1;
    while (n < bytes && word[n] != ':')
        n++;
    if (bytes == 4 && memcmp(word, "date", 4) == 0)
        return !has(p, YEAR) && !has(p, MONTH) && !has(p, DAY) && item_add(p, YEAR, 1) &&
               item_add(p, BYTE, '-') && item_add(p, MONTH, 1) && item_add(p, BYTE, '-') &&
               item_add(p, DAY, 1);
    for (enum kind k = YEAR; k < KINDS; k++) {
        if (strlen(known[k].word) != n || memcmp(word, known[k].word, n) != 0 || has(p, k))
            continue;
        if (n == bytes)
            return item_add(p, k, 1);
        char number[4] = "";
        if (k < HOUR || bytes - n - 1 > 2)
            return false;
        memcpy(number, word + n + 1, bytes - n - 1);
        if (sscanf(number, "%2u", &each) != 1 || strspn(number, "0123456789") != bytes - n - 1)
            return false;
        return each > 0 && (known[k].most + 1) % each == 0 && item_add(p, k, (uint8_t)each);
    }
    return false;
}

static uint32_t step_of(const struct partition *p)
{
    for (uint32_t k = MINUTE; k >= DAY; k--)
        for (uint32_t i = 0; i < p->items; i++)
            if (p->item[i].kind == k)
                return known[k].seconds * p->item[i].value;
    return 0;
}

int partition_parse(const char *text, struct partition *out, struct err *e)
{
    struct partition p = {.step = 0};
    size_t bytes = strlen(text);
    bool fits = bytes < sizeof p.text;
    for (const char *at = text; fits && *at != '\0';) {
        const char *end = NULL;
        if (*at == '{')
            end = strchr(at, '}');
        if (end == NULL) {
            fits = item_add(&p, *at == '*' ? ANY : BYTE, (uint8_t)*at);
            at++;
            continue;
        }
        if (!word_add(&p, at + 1, (size_t)(end - at) - 1))
            return err_set(e, SHOAL_E_CONFIG,
                           "%.*s is none of {date}, {year}, {month}, {day}, {hour}, {minute}, each "
                           "once; {hour:6} and {minute:15} are parts of a day, of an hour",
                           MIN((int)(end - at) + 1, 40), at);
        at = end + 1;
    }
    if (!fits)
        return err_set(e, SHOAL_E_CONFIG, "a pattern has up to %u bytes", PARTITION_ITEMS);
    if (!has(&p, YEAR) || !has(&p, MONTH) || !has(&p, DAY) || (has(&p, MINUTE) && !has(&p, HOUR)))
        return err_set(e, SHOAL_E_CONFIG,
                       "it names no day: {date}, or {year}, {month} and {day}; and {minute} needs "
                       "{hour}");
    memcpy(p.text, text, bytes + 1);
    p.step = step_of(&p);
    *out = p;
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The bytes of a name that an item matches; 0: it does not match. */
static size_t item_match(const struct partition_item *item, const char *at, const char *end,
                         uint32_t value[KINDS])
{
    uint32_t number = 0, digits = known[item->kind].digits;
    if (item->kind == BYTE)
        return at < end && *at == (char)item->value;
    if ((size_t)(end - at) < digits)
        return 0;
    for (uint32_t i = 0; i < digits; i++) {
        if (at[i] < '0' || at[i] > '9')
            return 0;
        number = number * 10 + (uint32_t)(at[i] - '0');
    }
    value[item->kind] = number;
    if (number >= known[item->kind].least && number <= known[item->kind].most &&
        (item->value == 1 || number % item->value == 0))
        return digits;
    return 0;
}

/* Matches the whole name. Items between stars have a fixed length, so only the last star is
 * retried. */
static bool match(const struct partition *p, const char *at, const char *end, uint32_t value[KINDS])
{
    const char *again = NULL;
    uint32_t i = 0, star = 0;
    while (at < end || i < p->items) {
        size_t taken = 0;
        if (i < p->items && p->item[i].kind == ANY) {
            star = ++i;
            again = at;
            continue;
        }
        if (i < p->items)
            taken = item_match(&p->item[i], at, end, value);
        if (taken > 0) {
            at += taken;
            i++;
            continue;
        }
        if (again == NULL || again == end || *again == '/')
            return false;
        at = ++again;
        i = star;
    }
    return true;
}

/* The start of the last parts of a name, as many as the pattern has; NULL: the name has fewer. */
static const char *last_parts(const struct partition *p, const char *name, const char *end)
{
    uint32_t slashes = 0;
    for (const char *at = end; at > name; at--)
        if (at[-1] == '/' && slashes++ == p->slashes)
            return at;
    if (slashes >= p->slashes)
        return name;
    return NULL;
}

int partition_of(const struct partition *p, const struct zone *zone, const char *name, size_t bytes,
                 uint32_t *from, uint32_t *to, struct err *e)
{
    uint32_t value[KINDS] = {0}, seconds;
    const char *end = name + bytes, *at = last_parts(p, name, end);
    struct tm t = {.tm_mday = 1};
    SHOAL_ASSERT(p->step > 0);
    bool good = at != NULL && match(p, at, end, value);
    t.tm_year = (int)value[YEAR] - 1900;
    t.tm_mon = (int)value[MONTH] - 1;
    t.tm_mday = (int)value[DAY];
    struct tm same = t;
    int64_t local = 0;
    if (good)
        local = timegm(&same);
    if (!good || same.tm_mday != t.tm_mday) /* 31 February becomes another day */
        return err_set(e, SHOAL_E_CONFIG, "%.*s does not match the pattern %s",
                       (int)MIN(bytes, 200), name, p->text);
    local += (int64_t)value[HOUR] * 3600 + (int64_t)value[MINUTE] * 60;
    if (!zone_span(zone, local, p->step, from, &seconds))
        return err_set(e, SHOAL_E_CONFIG,
                       "%.*s is of a time that clocks of %s leave out: whose clocks name it, "
                       "data.zone says",
                       (int)MIN(bytes, 200), name, zone->name);
    *to = *from + seconds;
    return 0;
}
