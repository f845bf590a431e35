/* numbers.c: reads SHOAL_DEVICE. */
#include "dense/cuda/numbers.h"

#include <stdlib.h>

int numbers_take(uint32_t devices, struct device_list *out, struct err *e)
{
    const char *text = getenv("SHOAL_DEVICE");
    if (text == NULL || *text == '\0')
        text = "0";
    int rc = device_list_parse(text, out, e);
    if (rc != 0)
        return err_wrap(e, rc, "SHOAL_DEVICE");
    for (uint32_t i = 0; i < out->count; i++)
        out->number[i] %= devices;
    return 0;
}
