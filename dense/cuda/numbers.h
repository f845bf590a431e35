/* numbers.h: SHOAL_DEVICE: the devices that this process uses. Without it that is device 0. Both
 * implementations of device.h read it once, before there is a stream. */
#ifndef DENSE_CUDA_NUMBERS_H
#define DENSE_CUDA_NUMBERS_H

#include "proto/base/device_list.h"

#define NUMBERS_TEXT (DEVICE_LIST_TEXT + 8u)

/* Each number is taken modulo the machine's `devices`, so that the workers of a host may simply be
 * numbered; one that comes again is left out. CONFIG: SHOAL_DEVICE is no list (device_list.h). */
int numbers_take(uint32_t devices, struct device_list *out, struct err *e);
/* The text of a list, for people: "device 0", "devices 0,1". */
void numbers_text(const struct device_list *list, char out[NUMBERS_TEXT]);

#endif
