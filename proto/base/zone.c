/* zone.c: reads zone files and computes with their tables.
 *
 * 1. No read goes beyond a file's bytes. A table has at most ZONE_CHANGES changes, in rising order.
 *    [test: zone_files_cut_or_changed_are_no_danger] [assert: change_add]
 * 2. Windows follow one another: one ends where the next begins, and their numbers rise. [test:
 *    zone_windows_part_time] */
#include "proto/base/zone.h"
#include "proto/base/text.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER "/usr/share/zoneinfo"
#define FILE_MAX (1u << 20)
#define YEAR_FIRST 1970
#define YEAR_LAST 2106
/* local time at 1970-01-01 UTC is the day before at the earliest */
#define AHEAD_MAX (24 * 3600 - 1)

/* ---- the table ------------------------------------------------------------------------------- */

/* Adds a change; they come in order of time, and a later one of the same moment replaces the
 * earlier. False: too many. */
static bool change_add(struct zone *z, int64_t from, int64_t ahead)
{
    if (from >= UINT32_MAX)
        return true;
    if (from < 0)
        from = 0;
    if (ahead < -AHEAD_MAX || ahead > AHEAD_MAX)
        return false;
    SHOAL_ASSERT(z->count == 0 || from >= z->change[z->count - 1].from); /* 1 */
    if (z->count > 0 && z->change[z->count - 1].from == from)
        z->count--;
    if (z->count > 0 && z->change[z->count - 1].ahead == ahead)
        return true;
    if (z->count == ZONE_CHANGES)
        return false;
    z->change[z->count++] = (struct zone_change){(uint32_t)from, (int32_t)ahead};
    return true;
}

/* A zone that never differs from UTC becomes UTC. */
static void table_end(struct zone *z)
{
    if (z->count == 1 && z->change[0].ahead == 0)
        z->count = 0;
}

void zone_text(const struct zone *z, char out[ZONE_TEXT])
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < z->count; i++)
        at += (size_t)snprintf(out + at, ZONE_TEXT - at, "%s%u%+d", text_if(i > 0, " "),
                               z->change[i].from, z->change[i].ahead);
}

int zone_parse(const char *text, struct zone *out)
{
    out->count = 0;
    while (*text != '\0') {
        char *end, *last;
        if (*text < '0' || *text > '9')
            return SHOAL_E_CORRUPT;
        unsigned long long from = strtoull(text, &end, 10);
        if (*end != '+' && *end != '-')
            return SHOAL_E_CORRUPT;
        long long ahead = strtoll(end, &last, 10);
        bool follows = out->count == 0 ? from == 0 : from > out->change[out->count - 1].from;
        if (last == end + 1 || !follows || from >= UINT32_MAX || (*last != ' ' && *last != '\0') ||
            !change_add(out, (int64_t)from, ahead))
            return SHOAL_E_CORRUPT;
        text = last;
        if (*last == ' ')
            text = last + 1;
    }
    table_end(out);
    return 0;
}

bool zone_same(const struct zone *a, const struct zone *b)
{
    return a->count == b->count &&
           memcmp(a->change, b->change, a->count * sizeof a->change[0]) == 0;
}

uint64_t zone_hash(const struct zone *z)
{
    if (z->count == 0)
        return 0;
    return hash_bytes(z->change, z->count * sizeof z->change[0], 1);
}

/* ---- the rule behind a file's last change: POSIX's TZ ---------------------------------------- */

struct rule {
    char kind; /* 'M', 'J' (from 1, no leap day) or '0' (from 0) */
    int month, week, day;
    int64_t time;
};

/* Reads a number of up to `digits`, at most `most`. */
static bool number(const char **p, unsigned digits, int most, int *out)
{
    unsigned n = 0;
    *out = 0;
    while (n < digits && **p >= '0' && **p <= '9') {
        *out = *out * 10 + (*(*p)++ - '0');
        n++;
    }
    return n > 0 && *out <= most;
}

/* Reads [+-]hh[:mm[:ss]], in seconds. */
static bool clock_take(const char **p, int64_t *out)
{
    int sign = **p == '-' ? -1 : 1, part[3] = {0, 0, 0};
    *p += **p == '-' || **p == '+';
    for (int i = 0; i < 3; i++) {
        if (i > 0 && **p != ':')
            break;
        *p += i > 0;
        if (!number(p, 3, i == 0 ? 167 : 59, &part[i]))
            return false;
    }
    *out = sign * ((int64_t)part[0] * 3600 + part[1] * 60 + part[2]);
    return true;
}

static bool name_skip(const char **p)
{
    const char *from = *p;
    if (**p == '<') {
        while (**p != '\0' && **p != '>')
            (*p)++;
        return *(*p)++ == '>';
    }
    while ((**p >= 'A' && **p <= 'Z') || (**p >= 'a' && **p <= 'z'))
        (*p)++;
    return *p - from >= 3;
}

/* Reads ",M3.5.0/2". */
static bool rule_take(const char **p, struct rule *r)
{
    *r = (struct rule){.kind = '0', .time = 7200};
    if (*(*p)++ != ',')
        return false;
    if (**p == 'M' || **p == 'J')
        r->kind = *(*p)++;
    if (r->kind == 'M') {
        bool good = number(p, 2, 12, &r->month) && r->month > 0 && *(*p)++ == '.' &&
                    number(p, 1, 5, &r->week) && r->week > 0 && *(*p)++ == '.' &&
                    number(p, 1, 6, &r->day);
        if (!good)
            return false;
    } else if (!number(p, 3, 365, &r->day) || (r->kind == 'J' && r->day == 0)) {
        return false;
    }
    if (**p != '/')
        return true;
    (*p)++;
    return clock_take(p, &r->time);
}

static bool leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_before(int year)
{
    int64_t y = year - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

/* The time of the rule's day in a year, by local clocks. */
static int64_t rule_local(const struct rule *r, int year)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    int64_t day = days_before(year);
    if (r->kind != 'M') {
        day += r->day;
        if (r->kind == 'J')
            day -= !(leap(year) && r->day >= 60);
        return day * ZONE_DAY + r->time;
    }
    int past = leap(year) && r->month > 2;
    int days = before[r->month] - before[r->month - 1] + (leap(year) && r->month == 2);
    int64_t first = day + before[r->month - 1] + past;
    int weekday = (int)((first + 4) % 7); /* 1970-01-01 was a Thursday */
    int at = (r->day - weekday + 7) % 7 + (r->week - 1) * 7;
    if (at >= days)
        at -= 7;
    return (first + at) * ZONE_DAY + r->time;
}

/* Adds the changes after the table's last one, by "CET-1CEST,M3.5.0,M10.5.0/3". */
static bool rule_add(struct zone *z, const char *p, int64_t last)
{
    int64_t standard, summer;
    struct rule begin, end;
    if (*p == '\0')
        return true; /* no rule: the last offset stays */
    if (!name_skip(&p) || !clock_take(&p, &standard))
        return false;
    standard = -standard;
    if (*p == '\0')
        return change_add(z, last, standard);
    if (!name_skip(&p))
        return false;
    summer = standard + 3600;
    if (*p != ',') {
        if (!clock_take(&p, &summer))
            return false;
        summer = -summer;
    }
    if (!rule_take(&p, &begin) || !rule_take(&p, &end) || *p != '\0')
        return false;
    for (int year = YEAR_FIRST; year <= YEAR_LAST; year++) {
        int64_t on = rule_local(&begin, year) - standard, off = rule_local(&end, year) - summer;
        int64_t first = MIN(on, off), second = MAX(on, off);
        bool good = first <= last || change_add(z, first, first == on ? summer : standard);
        last = MAX(first, last);
        good = good && (second <= last || change_add(z, second, second == on ? summer : standard));
        last = MAX(second, last);
        if (!good)
            return false;
    }
    return true;
}

/* ---- zone files ------------------------------------------------------------------------------ */

struct head {
    uint32_t marks, standards, leaps, times, types, letters;
};

static uint64_t big(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

static bool head_take(const uint8_t *p, size_t bytes, struct head *h)
{
    if (bytes < 44 || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
        return false;
    *h =
        (struct head){(uint32_t)big(p + 20, 4), (uint32_t)big(p + 24, 4), (uint32_t)big(p + 28, 4),
                      (uint32_t)big(p + 32, 4), (uint32_t)big(p + 36, 4), (uint32_t)big(p + 40, 4)};
    return h->marks < 1024 && h->standards < 1024 && h->leaps < 1024 && h->times < 4096 &&
           h->types > 0 && h->types < 256 && h->letters < 4096;
}

static size_t body_bytes(const struct head *h, unsigned wide)
{
    return (size_t)h->times * (wide + 1) + (size_t)h->types * 6 + h->letters +
           (size_t)h->leaps * (wide + 4) + h->standards + h->marks;
}

/* Reads what follows the second head: changes, then the rule for later times. */
static bool body_take(const uint8_t *p, const struct head *h, const char *rule, struct zone *z)
{
    const uint8_t *which = p + (size_t)h->times * 8, *type = which + h->times;
    int64_t last = INT64_MIN;
    bool good = h->leaps == 0 && change_add(z, 0, (int32_t)big(type, 4));
    for (uint32_t i = 0; i < h->times && good; i++) {
        int64_t at = (int64_t)big(p + (size_t)i * 8, 8);
        good = which[i] < h->types && (i == 0 || at > last) &&
               change_add(z, at, (int32_t)big(type + (size_t)which[i] * 6, 4));
        last = at;
    }
    return good && rule_add(z, rule, last);
}

int zone_read(const void *file, size_t bytes, struct zone *out)
{
    const uint8_t *p = file, *end = p + bytes;
    struct head h;
    char rule[128];
    out->count = 0;
    if (!head_take(p, bytes, &h) || bytes - 44 < body_bytes(&h, 4))
        return SHOAL_E_CORRUPT;
    p += 44 + body_bytes(&h, 4);
    if (!head_take(p, (size_t)(end - p), &h) || (size_t)(end - p) - 44 < body_bytes(&h, 8))
        return SHOAL_E_CORRUPT;
    const uint8_t *body = p + 44, *foot = body + body_bytes(&h, 8);
    size_t left = (size_t)(end - foot);
    if (left < 2 || left - 1 >= sizeof rule || foot[0] != '\n' || end[-1] != '\n' ||
        memchr(foot, '\0', left) != NULL)
        return SHOAL_E_CORRUPT;
    memcpy(rule, foot + 1, left - 2);
    rule[left - 2] = '\0';
    bool good = body_take(body, &h, rule, out);
    table_end(out);
    if (good)
        return 0;
    return SHOAL_E_CORRUPT;
}

/* True when the name cannot lead out of the folder. */
static bool name_ok(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 0 && bytes < ZONE_NAME && name[0] != '/' && strstr(name, "..") == NULL &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
               bytes;
}

int zone_load(const char *name, struct zone *out, struct err *e)
{
    char path[sizeof FOLDER + ZONE_NAME + 1], *file;
    size_t bytes;
    *out = ZONE_UTC;
    if (strcmp(name, "UTC") == 0)
        return 0;
    (void)snprintf(path, sizeof path, FOLDER "/%.*s", (int)ZONE_NAME, name);
    if (!name_ok(name) || file_read_whole(path, FILE_MAX, &file, &bytes) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "this machine has no zone %.*s in " FOLDER,
                       (int)ZONE_NAME, name);
    int rc = zone_read(file, bytes, out);
    free(file);
    text_copy(out->name, sizeof out->name, name);
    if (rc != 0)
        return err_set(e, rc, "%s is no zone file: install tzdata again", path);
    return 0;
}

void zone_names(bool (*see)(void *context, const char *name), void *context)
{
    char *list, *rest, name[3][ZONE_NAME];
    size_t bytes;
    if (file_read_whole(FOLDER "/tzdata.zi", 4 * FILE_MAX, &list, &bytes) != 0)
        return;
    bool more = true;
    for (char *line = strtok_r(list, "\n", &rest); line != NULL && more;
         line = strtok_r(NULL, "\n", &rest)) {
        int words = sscanf(line, "%63s %63s %63s", name[0], name[1], name[2]);
        if (words >= 2 && strcmp(name[0], "Z") == 0)
            more = see(context, name[1]);
        else if (words == 3 && strcmp(name[0], "L") == 0)
            more = see(context, name[2]);
    }
    free(list);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* The change in force. */
static uint32_t change_at(const struct zone *z, uint64_t at)
{
    uint32_t low = 0, high = z->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (z->change[middle].from <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int32_t zone_ahead(const struct zone *z, uint64_t at)
{
    if (z->count == 0)
        return 0;
    return z->change[change_at(z, at)].ahead;
}

int64_t zone_time(const struct zone *z, int64_t local)
{
    if (z->count == 0)
        return local;
    uint32_t i = 0;
    if (local > AHEAD_MAX)
        i = change_at(z, (uint64_t)local - AHEAD_MAX);
    while (i + 1 < z->count && local - z->change[i].ahead >= z->change[i + 1].from)
        i++;
    int64_t at = local - z->change[i].ahead;
    if (i > 0 && at < z->change[i].from)
        return local - z->change[i - 1].ahead;
    return at;
}

/* The start of the local day `days` after 1970-01-01, at least 0. */
static uint64_t day_begin(const struct zone *z, int64_t day)
{
    int64_t local = day * ZONE_DAY, begin;
    uint32_t i = change_at(z, (uint64_t)MAX(local + AHEAD_MAX, 0));
    while (i > 0 && (int64_t)z->change[i].from + z->change[i].ahead >= local)
        i--;
    begin = local - z->change[i].ahead;
    if (i + 1 < z->count && begin > z->change[i + 1].from)
        begin = z->change[i + 1].from;
    return (uint64_t)MAX(begin, 0);
}

static int64_t day_of(const struct zone *z, uint64_t at)
{
    int64_t local = (int64_t)at + zone_ahead(z, at);
    int64_t day = local / ZONE_DAY;
    if (local < 0)
        day = -1;
    while (day >= 0 && day_begin(z, day) > at)
        day--;
    while (day_begin(z, day + 1) <= at)
        day++;
    return day;
}

uint64_t zone_midnight(const struct zone *z, uint64_t at, uint32_t later)
{
    if (z->count == 0)
        return (at / ZONE_DAY + later) * ZONE_DAY;
    return day_begin(z, day_of(z, at) + later);
}

/* ---- windows --------------------------------------------------------------------------------- */

static bool shows(const struct zone *z, int64_t at, int64_t local)
{
    return at >= 0 && at + zone_ahead(z, (uint64_t)at) == local;
}

bool zone_span(const struct zone *z, int64_t local, uint32_t lasts, uint32_t *from,
               uint32_t *seconds)
{
    int64_t begin = zone_time(z, local), end = zone_time(z, local + lasts);
    if (lasts == ZONE_DAY && local > 0) {
        uint64_t noon = (uint64_t)zone_time(z, local + ZONE_DAY / 2);
        begin = (int64_t)zone_midnight(z, noon, 0);
        end = (int64_t)zone_midnight(z, noon, 1);
    }
    *from = (uint32_t)begin;
    *seconds = (uint32_t)(end - begin);
    return begin > 0 && end > begin && end < UINT32_MAX &&
           (lasts == ZONE_DAY || shows(z, begin, local) || shows(z, end, local + lasts));
}

bool zone_fits(const struct zone *z, uint32_t seconds)
{
    return z->count == 0 || seconds < ZONE_DAY || seconds % ZONE_DAY == 0;
}

/* The first day of a window of that many days. */
static int64_t days_first(const struct zone *z, uint32_t seconds, uint32_t at)
{
    int64_t day = day_of(z, at), days = seconds / ZONE_DAY;
    if (day < 0)
        return -days;
    return day - day % days;
}

uint32_t zone_begin(const struct zone *z, uint32_t seconds, uint32_t at)
{
    SHOAL_ASSERT(seconds > 0 && zone_fits(z, seconds));
    if (z->count == 0)
        return at - at % seconds;
    if (seconds >= ZONE_DAY)
        return (uint32_t)day_begin(z, days_first(z, seconds, at));
    uint32_t midnight = (uint32_t)day_begin(z, day_of(z, at));
    return at - (at - midnight) % seconds;
}

uint64_t zone_end(const struct zone *z, uint32_t seconds, uint32_t begin)
{
    uint64_t end = (uint64_t)begin + seconds;
    if (z->count == 0)
        return end;
    if (seconds >= ZONE_DAY)
        return day_begin(z, days_first(z, seconds, begin) + seconds / ZONE_DAY);
    uint64_t midnight = day_begin(z, day_of(z, begin) + 1);
    return MIN(end, midnight);
}

uint32_t zone_number(const struct zone *z, uint32_t seconds, uint32_t at)
{
    if (z->count == 0)
        return at / seconds;
    return zone_begin(z, seconds, at);
}

uint32_t zone_from(const struct zone *z, uint32_t seconds, uint32_t n)
{
    if (z->count == 0)
        return n * seconds;
    return n;
}

void zone_label(const struct zone *z, uint64_t at, char out[32])
{
    int32_t ahead = zone_ahead(z, at);
    time_t local = (time_t)((int64_t)at + ahead);
    int minutes = (ahead < 0 ? -ahead : ahead) / 60;
    struct tm t;
    out[0] = '\0';
    if (gmtime_r(&local, &t) == NULL)
        return;
    size_t n = strftime(out, 24, "%Y-%m-%dT%H:%M:%S", &t);
    if (z->count == 0)
        (void)snprintf(out + n, 32 - n, "Z");
    else
        (void)snprintf(out + n, 32 - n, "%c%02d:%02d", ahead < 0 ? '-' : '+', minutes / 60 % 100,
                       minutes % 60);
}
