/* job_refuse.c: the sentence with which a key of a job is refused. */
#include "proto/job/job_inner.h"

#include <stdarg.h>
#include <stdio.h>

int job_refuse(const struct config *c, const char *path, struct err *e, const char *format, ...)
{
    char text[ERR_TEXT_MAX], where[CONFIG_WHERE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return err_set(e, SHOAL_E_CONFIG, "%s%s%s", config_where(c, path, where), path, text);
}
