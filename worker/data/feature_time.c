/* feature_time.c: parses event times of logs into seconds since 1970. */
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "worker/data/feature.h"

#include <string.h>
#include <time.h>

#define YEAR_1995 INT64_C(788918400) /* no log of clicks is older */
#define FORM_BYTES 64u               /* longest text that a format reads */

/* The number that `count` digits at p make; -1: they are no digits. */
static int digits(const char *p, uint32_t count)
{
    int value = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    SHOAL_ASSERT(month >= 1 && month <= 12);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    if (month == 2 && leap)
        return 29;

    return days[month - 1];
}

/* Days since 1970-01-01 in the Gregorian calendar, year >= 1970. Years begin in March, so that a
 * leap day is the last (Hinnant, "chrono-Compatible Low-Level Date Algorithms"). */
static int64_t days_since_1970(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y - era * 400;
    int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Parses the zone behind a time: nothing, Z, UTC, or an offset +HH, +HHMM or +HH:MM, also with -
 * and after a blank. False: it is none. *ahead: offset in seconds; *told is false without a
 * zone. */
static bool zone_behind(const char *p, uint32_t bytes, int64_t *ahead, bool *told)
{
    *ahead = 0;
    *told = bytes > 0;
    if (bytes > 0 && *p == ' ') {
        p++;
        bytes--;
    }
    if (bytes == 0 || (bytes == 1 && *p == 'Z') || (bytes == 3 && memcmp(p, "UTC", 3) == 0))
        return true;
    bool colon = bytes == 6 && p[3] == ':';
    if ((*p != '+' && *p != '-') || (bytes != 3 && bytes != 5 && !colon))
        return false;
    int hours = digits(p + 1, 2), minutes = bytes == 3 ? 0 : digits(p + bytes - 2, 2);
    *ahead = (*p == '-' ? -60 : 60) * (hours * 60 + minutes);
    return hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60;
}

/* Parses "HH:MM" or "HH:MM:SS", then an optional fraction and zone. False: it is none. *seconds of
 * the day: in UTC, perhaps of the day before or after; or local when there is no zone. */
static bool clock_time(const char *p, uint32_t bytes, int64_t *seconds, bool *told)
{
    if (bytes < 5 || p[2] != ':')
        return false;
    bool seconds_told = bytes >= 8 && p[5] == ':';
    int hour = digits(p, 2), minute = digits(p + 3, 2);
    int second = 0;
    if (seconds_told)
        second = digits(p + 6, 2);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
        return false;
    uint32_t at = seconds_told ? 8 : 5;
    int64_t ahead;
    if (seconds_told && at < bytes && p[at] == '.')
        for (at++; at < bytes && digits(p + at, 1) >= 0;)
            at++;
    bool whole = zone_behind(p + at, bytes - at, &ahead, told);
    *seconds = hour * 3600 + minute * 60 + second - ahead;
    return whole;
}

static int64_t calendar_time(const char *p, uint32_t bytes, const struct zone *zone)
{
    if (bytes < 10 || p[4] != '-' || p[7] != '-')
        return -1;
    int year = digits(p, 4), month = digits(p + 5, 2), day = digits(p + 8, 2);
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return -1;
    int64_t date = days_since_1970(year, month, day) * 86400;
    if (bytes == 10)
        return zone_time(zone, date);
    int64_t clock;
    bool told;
    if ((p[10] != ' ' && p[10] != 'T') || !clock_time(p + 11, bytes - 11, &clock, &told))
        return -1;

    if (told)
        return date + clock;

    return zone_time(zone, date + clock);
}

/* Microseconds have more digits than feature_number reads exactly. -1: not only digits. */
static int64_t whole_number(const struct cell *cell)
{
    int64_t value = 0;
    if (cell->bytes == 0 || cell->bytes > 18)
        return -1;
    for (uint32_t i = 0; i < cell->bytes; i++) {
        int digit = digits(cell->text + i, 1);
        if (digit < 0)
            return -1;
        value = value * 10 + digit;
    }
    return value;
}

/* Parses all of the text by data.time_format; it must have `exact` bytes if the format fixes its
 * length. */
static int64_t formed_time(const char *text, uint32_t bytes, const char *format, uint32_t exact,
                           const struct zone *zone)
{
    char copy[FORM_BYTES];
    struct tm t = {.tm_mday = 1, .tm_year = 70};
    if (bytes == 0 || bytes >= sizeof copy || (exact != 0 && bytes != exact))
        return -1;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    const char *end = strptime(copy, format, &t);
    int year = t.tm_year + 1900, month = t.tm_mon + 1;
    if (end == NULL || *end != '\0' || year < 1970 || month < 1 || t.tm_mday < 1 ||
        t.tm_mday > days_in(year, month))
        return -1;
    int64_t local = days_since_1970(year, month, t.tm_mday) * 86400 + t.tm_hour * 3600 +
                    t.tm_min * 60 + t.tm_sec;

    if (strstr(format, "%z") != NULL)
        return local - t.tm_gmtoff;

    return zone_time(zone, local);
}

/* True when a number looks like a date of 1995 to 2099 without separators. */
static bool looks_like(const struct cell *cell, const char *format, uint32_t bytes)
{
    int64_t at;
    if (whole_number(cell) < 0)
        at = -1;
    else
        at = formed_time(cell->text, cell->bytes, format, bytes, &ZONE_UTC);
    return at >= YEAR_1995 && at < INT64_C(4102444800);
}

static int64_t number_time(const struct cell *cell, const struct time_form *form)
{
    static const int64_t units[] = {
        [TIME_SECONDS] = 1, [TIME_MILLISECONDS] = 1000, [TIME_MICROSECONDS] = 1000000};
    int64_t seconds = whole_number(cell);
    double number;
    SHOAL_ASSERT((size_t)form->unit < sizeof units / sizeof units[0]);
    if (seconds >= 0)
        seconds /= units[form->unit];
    else if (feature_number(cell, &number) && number >= 0 && number < 1e18)
        seconds = (int64_t)number / units[form->unit];
    else
        return -1;
    /* ten digits that read as a date, such as 2024030405, would be seconds after 2030 */
    bool date = !form->any && seconds > 1900000000 && looks_like(cell, "%Y%m%d%H", 10);

    if (date || (seconds < YEAR_1995 && !form->any))
        return 0;

    return seconds;
}

bool feature_time(const struct cell *cell, const struct time_form *form, const struct zone *zone,
                  uint32_t *out)
{
    int64_t seconds;
    if (form->format[0] != '\0')
        seconds = formed_time(cell->text, cell->bytes, form->format, form->bytes, zone);
    else if ((seconds = number_time(cell, form)) < 0)
        seconds = calendar_time(cell->text, cell->bytes, zone);
    *out = (uint32_t)seconds;
    return seconds > 0 && seconds <= UINT32_MAX;
}

uint64_t feature_time_hash(const struct time_form *form)
{
    const char *format = form->format;

    if (format[0] == '\0')
        return form->unit;

    return hash_bytes(format, strlen(format), 1) | 4;
}

const char *feature_time_remedy(const struct cell *cell, const struct time_form *form)
{
    static const struct {
        const char *format;
        uint32_t bytes;
        const char *remedy;
    } dates[] = {{"%Y%m%d", 8, "it looks like YYYYMMDD: say data.time_format: yyyymmdd"},
                 {"%y%m%d%H", 8, "it looks like YYMMDDHH: data.time_format: yymmddhh"},
                 {"%Y%m%d%H", 10, "it looks like YYYYMMDDHH: data.time_format: yyyymmddhh"},
                 {"%Y%m%d%H%M", 12, "it looks like YYYYMMDDHHMM: data.time_format: '%Y%m%d%H%M'"},
                 {"%Y%m%d%H%M%S", 14, "it looks like a date: data.time_format: '%Y%m%d%H%M%S'"},
                 {"%y%m%d", 6, "it looks like YYMMDD: say data.time_format: '%y%m%d'"}};
    int64_t number = whole_number(cell);
    if (form->format[0] != '\0')
        return "it is not as data.time_format says";
    if (number / 1000 >= YEAR_1995 && number / 1000 <= UINT32_MAX &&
        form->unit != TIME_MILLISECONDS)
        return "it looks like milliseconds: data.time_unit: ms";
    if (number / 1000000 >= YEAR_1995 && number / 1000000 <= UINT32_MAX)
        return "it looks like microseconds: data.time_unit: us";
    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++)
        if (looks_like(cell, dates[i].format, dates[i].bytes))
            return dates[i].remedy;
    if (number >= YEAR_1995 && number <= UINT32_MAX)
        return "it looks like seconds: data.time_unit: s";
    if (number > 0)
        return "it is before 1995: where that is meant, say data.time_unit: s";

    if (cell->bytes > 0)
        return "data.time_format reads other forms, as '%d/%m/%Y'";

    return "";
}
