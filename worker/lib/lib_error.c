/* lib_error.c: see lib_error.h. */
#include "worker/lib/lib_error.h"

#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(SHOAL_TEXT_MAX >= ERR_TEXT_MAX, "a sentence must fit");

static int code_of(int code)
{
    switch (code) {
    case 0:
        return SHOAL_OK;
    case SHOAL_E_USAGE:
        return SHOAL_ERROR_USAGE;
    case SHOAL_E_DATA:
    case SHOAL_E_CORRUPT:
    case SHOAL_E_CHECKSUM:
        return SHOAL_ERROR_DATA;
    case SHOAL_E_NOINPUT:
    case SHOAL_E_NOT_FOUND:
    case SHOAL_E_NO_TABLE:
        return SHOAL_ERROR_NOT_FOUND;
    case SHOAL_E_UNAVAILABLE:
    case SHOAL_E_TIMEOUT:
        return SHOAL_ERROR_UNREACHABLE;
    case SHOAL_E_IO:
    case SHOAL_E_CANTCREATE:
        return SHOAL_ERROR_IO;
    case SHOAL_E_DENIED:
        return SHOAL_ERROR_DENIED;
    case SHOAL_E_CONFIG:
    case SHOAL_E_SCHEMA:
    case SHOAL_E_EXISTS:
        return SHOAL_ERROR_CONFIG;
    case SHOAL_E_NOMEM:
        return SHOAL_ERROR_MEMORY;
    case SHOAL_E_BUSY:
    case SHOAL_E_AGAIN:
    case SHOAL_E_NO_SPACE:
    case SHOAL_E_OLD_RUN:
        return SHOAL_ERROR_BUSY;
    case SHOAL_E_STOPPED:
    case SHOAL_E_FENCED:
        return SHOAL_ERROR_STOPPED;
    case SHOAL_E_VERSION:
        return SHOAL_ERROR_VERSION;
    case SHOAL_E_NOT_FINITE:
        return SHOAL_ERROR_NOT_FINITE;
    case SHOAL_E_END:
        return SHOAL_END;
    default:
        return SHOAL_ERROR_INTERNAL;
    }
}

int lib_error(struct shoal_error *e, const struct err *from)
{
    int rc = code_of(from->code);
    if (e != NULL) {
        e->code = rc;
        text_copy(e->text, sizeof e->text, from->text);
        if (rc != SHOAL_OK && e->text[0] == '\0')
            text_copy(e->text, sizeof e->text, err_text(from->code));
    }
    return rc;
}

int lib_error_set(struct shoal_error *e, int code, const char *format, ...)
{
    va_list arguments;
    if (e == NULL)
        return code;
    e->code = code;
    va_start(arguments, format);
    (void)vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
    return code;
}

int lib_error_none(struct shoal_error *e)
{
    if (e != NULL) {
        e->code = SHOAL_OK;
        e->text[0] = '\0';
    }
    return SHOAL_OK;
}

const char *shoal_code_text(int code)
{
    static const char *const text[] = {
        [SHOAL_OK] = "ok",
        [SHOAL_ERROR_USAGE] = "wrong usage",
        [SHOAL_ERROR_DATA] = "bad data",
        [SHOAL_ERROR_NOT_FOUND] = "not found",
        [SHOAL_ERROR_UNREACHABLE] = "unreachable",
        [SHOAL_ERROR_INTERNAL] = "internal error",
        [SHOAL_ERROR_IO] = "I/O error",
        [SHOAL_ERROR_DENIED] = "not allowed",
        [SHOAL_ERROR_CONFIG] = "bad configuration",
        [SHOAL_ERROR_MEMORY] = "out of memory",
        [SHOAL_ERROR_BUSY] = "busy",
        [SHOAL_ERROR_STOPPED] = "stopped",
        [SHOAL_ERROR_VERSION] = "no common protocol version",
        [SHOAL_ERROR_NOT_FINITE] = "not a finite number",
        [SHOAL_ERROR_NO_INPUT] = "no input",
    };
    if (code == SHOAL_AGAIN)
        return "nothing came";
    if (code == SHOAL_END)
        return "the end";
    if (code < 0 || (size_t)code >= sizeof text / sizeof text[0])
        return "unknown code";
    return text[code];
}

const char *shoal_version(void)
{
    return SHOAL_VERSION;
}
