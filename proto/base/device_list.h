/* device_list.h: the numbers of the devices that a worker uses, as a text: "0" or "0,1". */
#ifndef PROTO_BASE_DEVICE_LIST_H
#define PROTO_BASE_DEVICE_LIST_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_NUMBER_MAX 65535u
#define DEVICE_LIST_TEXT (LIMIT_DEVICES * 6u) /* bytes of a list as text, final NUL counted */

struct device_list {
    uint32_t number[LIMIT_DEVICES], count; /* at least one */
};

/* CONFIG: the text is no list of 1 to LIMIT_DEVICES numbers up to DEVICE_NUMBER_MAX; *e says so
 * without the name of the setting, which the caller puts before it. */
int device_list_parse(const char *text, struct device_list *out, struct err *e);

#endif
