/* err.c: names, texts and exit statuses of the one list of errors. */
#include "proto/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *err_name(int code)
{
    switch (code) {
    case SHOAL_OK:
        return "OK";
#define X(name, wire, status, text)                                                                \
    case SHOAL_E_##name:                                                                           \
        return #name;
        SHOAL_ERR_MAP(X)
#undef X
    default:
        return "UNKNOWN";
    }
}

const char *err_text(int code)
{
    switch (code) {
    case SHOAL_OK:
        return "ok";
#define X(name, wire, status, text)                                                                \
    case SHOAL_E_##name:                                                                           \
        return text;
        SHOAL_ERR_MAP(X)
#undef X
    default:
        return "unknown error";
    }
}

int err_exit_status(int code)
{
    switch (code) {
    case SHOAL_OK:
        return 0;
#define X(name, wire, status, text)                                                                \
    case SHOAL_E_##name:                                                                           \
        return status;
        SHOAL_ERR_MAP(X)
#undef X
    default:
        return 70;
    }
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
