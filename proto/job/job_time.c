/* job_time.c: data.time_unit and data.time_format of job.yaml. */
#include "proto/base/text.h"
#include "proto/job/job.h"
#include "proto/job/job_inner.h"

#include <stdio.h>
#include <string.h>

/* Dates that are written as one number. */
static const struct {
    const char *word, *format;
    uint32_t bytes;
} words[] = {
    {"yyyymmdd", "%Y%m%d", 8}, {"yymmddhh", "%y%m%d%H", 8}, {"yyyymmddhh", "%Y%m%d%H", 10}};

/* True when the format has year, month and day, and no letter that depends on the machine (%s, %Z,
 * %c). */
static bool names_a_day(const char *format)
{
    char seen[64] = "";
    size_t count = 0;
    for (const char *p = strchr(format, '%'); p != NULL; p = strchr(p + 1, '%')) {
        p++;
        if (*p == '\0' || strchr("YymbBhdejHIMSpTRFDznt%aA", *p) == NULL)
            return false;
        seen[count++] = *p;
    }
    bool year = strpbrk(seen, "Yy") != NULL, month = strpbrk(seen, "mbBh") != NULL,
         day = strpbrk(seen, "de") != NULL;
    return strpbrk(seen, "FD") != NULL || (year && ((month && day) || strchr(seen, 'j') != NULL));
}

int job_time_take(const struct config *c, struct job *j, struct err *e)
{
    struct time_form *form = &j->data.time_form;
    const char *text = config_string(c, "data.time_format");
    form->unit = (enum time_unit)config_enum(c, "data.time_unit");
    form->any = config_has(c, "data.time_unit") && form->unit == TIME_SECONDS;
    form->bytes = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i].word) == 0) {
            form->bytes = words[i].bytes;
            text = words[i].format;
        }
    if (text[0] != '\0' && config_has(c, "data.time_unit"))
        return job_refuse(c, "data.time_unit", e, ": data.time_format stands there too; keep one");
    if (text[0] != '\0' && (strlen(text) >= sizeof form->format || !names_a_day(text)))
        return job_refuse(c, "data.time_format", e,
                          ": '%.64s' is none of yymmddhh, yyyymmdd, yyyymmddhh and a form of "
                          "strptime(3) with year, month and day, as '%%d/%%m/%%Y %%H:%%M'",
                          text);
    text_copy(form->format, sizeof form->format, text);
    return 0;
}
