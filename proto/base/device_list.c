/* device_list.c: reads a list of device numbers. */
#include "proto/base/device_list.h"

#include <ctype.h>
#include <stdlib.h>

int device_list_parse(const char *text, struct device_list *out, struct err *e)
{
    *out = (struct device_list){.count = 0};
    for (const char *at = text;; at++) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        bool good = isdigit((unsigned char)*at) && number <= DEVICE_NUMBER_MAX &&
                    (*end == '\0' || *end == ',');
        if (!good || out->count == LIMIT_DEVICES)
            return err_set(e, SHOAL_E_CONFIG,
                           "\"%.80s\" is neither the number of a device, 0 to %u, nor up to %u of "
                           "them, as in 0,1",
                           text, DEVICE_NUMBER_MAX, LIMIT_DEVICES);
        out->number[out->count++] = (uint32_t)number;
        if (*end == '\0')
            return 0;
        at = end;
    }
}
