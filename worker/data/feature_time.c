/* feature_time.c: event times as they stand in logs -> seconds since 1970. */
#include "worker/data/feature.h"

/* `count` digits at p, or -1. */
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
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* Days since 1970-01-01 in the Gregorian calendar, year >= 1970. Years begin in March, so that a
 * leap day is the last (Hinnant, "chrono-Compatible Low-Level Date Algorithms",
 * days_from_civil). */
static int64_t days_since_1970(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y - era * 400;
    int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "HH:MM:SS", then nothing, a fraction, Z, or both. Seconds of the day, or -1. */
static int64_t clock_time(const char *p, uint32_t bytes)
{
    if (bytes < 8 || p[2] != ':' || p[5] != ':')
        return -1;
    int hour = digits(p, 2), minute = digits(p + 3, 2), second = digits(p + 6, 2);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
        return -1;
    uint32_t at = 8;
    if (at < bytes && p[at] == '.')
        for (at++; at < bytes && digits(p + at, 1) >= 0;)
            at++;
    at += at < bytes && p[at] == 'Z';
    return at == bytes ? hour * 3600 + minute * 60 + second : -1;
}

static int64_t calendar_time(const char *p, uint32_t bytes)
{
    if (bytes < 10 || p[4] != '-' || p[7] != '-')
        return -1;
    int year = digits(p, 4), month = digits(p + 5, 2), day = digits(p + 8, 2);
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return -1;
    int64_t date = days_since_1970(year, month, day) * 86400;
    if (bytes == 10)
        return date;
    int64_t clock = p[10] == ' ' || p[10] == 'T' ? clock_time(p + 11, bytes - 11) : -1;
    return clock < 0 ? -1 : date + clock;
}

/* Microseconds have more digits than feature_number takes exactly. -1: not digits alone. */
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

bool feature_time(const struct cell *cell, enum time_unit unit, uint32_t *out)
{
    static const int64_t units[] = {
        [TIME_SECONDS] = 1, [TIME_MILLISECONDS] = 1000, [TIME_MICROSECONDS] = 1000000};
    int64_t seconds = whole_number(cell);
    double number;

    if (seconds >= 0)
        seconds /= units[unit];
    else if (feature_number(cell, &number) && number >= 0 && number < 1e18)
        seconds = (int64_t)number / units[unit];
    else
        seconds = calendar_time(cell->text, cell->bytes);
    if (seconds < 1 || seconds > UINT32_MAX)
        return false;
    *out = (uint32_t)seconds;
    return true;
}
