/* err.c: texts and exit statuses of the one list of errors. */
#include "proto/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct fact {
    int status;
    const char *text;
};

static const struct fact unknown = {70, "unknown error"};
#define X(name, wire, exit_status, what) [wire] = {exit_status, what},
static const struct fact known[] = {[0] = {0, "ok"}, SHOAL_ERR_MAP(X)}; /* by wire value */
#undef X

static const struct fact *fact_of(int code)
{
    bool listed = code <= 0 && code > -(int)(sizeof known / sizeof known[0]);
    if (listed && known[-code].text != NULL)
        return &known[-code];
    return &unknown;
}

const char *err_text(int code)
{
    return fact_of(code)->text;
}

int err_exit_status(int code)
{
    return fact_of(code)->status;
}

int err_set(struct err *e, int code, const char *format, ...)
{
    va_list arguments;
    if (e != NULL) {
        e->code = code;
        va_start(arguments, format);
        (void)vsnprintf(e->text, sizeof e->text, format, arguments);
        va_end(arguments);
    }
    return code;
}

int err_wrap(struct err *e, int code, const char *format, ...)
{
    char before[ERR_TEXT_MAX];
    va_list arguments;
    if (e == NULL)
        return code;
    memcpy(before, e->text, sizeof before);
    va_start(arguments, format);
    int used = vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof e->text)
        (void)snprintf(e->text + used, sizeof e->text - (size_t)used, ": %.*s",
                       (int)(sizeof e->text) - used - 3, before);
    if (e->code == 0)
        e->code = code;
    return e->code;
}
