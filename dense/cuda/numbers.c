/* numbers.c: reads SHOAL_DEVICE. */
#include "dense/cuda/numbers.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>

static bool has(const struct device_list *list, uint32_t number)
{
    bool found = false;
    for (uint32_t i = 0; i < list->count && !found; i++)
        found = list->number[i] == number;
    return found;
}

int numbers_take(uint32_t devices, struct device_list *out, struct err *e)
{
    const char *text = getenv("SHOAL_DEVICE");
    struct device_list given;
    if (text == NULL || *text == '\0')
        text = "0";
    int rc = device_list_parse(text, &given, e);
    if (rc != 0)
        return err_wrap(e, rc, "SHOAL_DEVICE");
    *out = (struct device_list){.count = 0};
    for (uint32_t i = 0; i < given.count; i++)
        if (!has(out, given.number[i] % devices))
            out->number[out->count++] = given.number[i] % devices;
    return 0;
}

void numbers_text(const struct device_list *list, char out[NUMBERS_TEXT])
{
    size_t at = (size_t)snprintf(out, NUMBERS_TEXT, "device%s ", text_if(list->count > 1, "s"));
    for (uint32_t i = 0; i < list->count && at < NUMBERS_TEXT; i++)
        at += (size_t)snprintf(out + at, NUMBERS_TEXT - at, "%s%u", text_if(i > 0, ","),
                               list->number[i]);
}
