/* doctor_report.c: the findings of the checks, and their output. */
#include "deploy/cli/doctor.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- findings -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 0))) static void
say(struct doctor_report *r, enum doctor_rank rank, const char *format, va_list arguments)
{
    r->problems += rank == DOCTOR_PROBLEM;
    if (r->count == DOCTOR_FINDINGS) {
        r->left_out++;
        return;
    }
    struct doctor_finding *f = &r->finding[r->count++];
    f->check = r->check;
    f->rank = rank;
    (void)vsnprintf(f->text, sizeof f->text, format, arguments);
}

void doctor_wrong(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_PROBLEM, format, arguments);
    va_end(arguments);
}

void doctor_note(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_NOTE, format, arguments);
    va_end(arguments);
}

void doctor_fine(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_FINE, format, arguments);
    va_end(arguments);
}

void doctor_add(struct doctor_report *to, const struct doctor_report *from)
{
    for (uint32_t i = 0; i < MIN(from->count, DOCTOR_FINDINGS); i++)
        if (to->count == DOCTOR_FINDINGS)
            to->left_out++;
        else
            to->finding[to->count++] = from->finding[i];
    to->problems += from->problems;
    to->left_out += from->left_out;
}

/* ---- output ---------------------------------------------------------------------------------- */

struct json *doctor_json(const struct doctor_report *r)
{
    struct json *j = json_new_object(), *list = json_new_array();
    json_set_int(j, "problems", r->problems);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        struct json *item = json_new_object();
        json_set_string(item, "check", f->check);
        json_set_bool(item, "problem", f->rank == DOCTOR_PROBLEM);
        json_set_bool(item, "note", f->rank == DOCTOR_NOTE);
        json_set_string(item, "text", f->text);
        json_append(list, item);
    }
    json_set(j, "findings", list);
    return j;
}

void doctor_print(const struct doctor_report *r)
{
    static const char *const before[] = {
        [DOCTOR_FINE] = "ok", [DOCTOR_NOTE] = "note:", [DOCTOR_PROBLEM] = "problem:"};
    char text[DOCTOR_TEXT];
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        text_copy(text, sizeof text, f->text);
        printf("%-8s %-9s  %s\n", before[f->rank], f->check, text_clean(text));
    }
    if (r->left_out > 0)
        printf("and %u findings more\n", r->left_out);
}

int doctor_end(const struct doctor_report *r, struct err *e)
{
    if (r->problems == 0)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE, "problems found: %u, see above", r->problems);
}
