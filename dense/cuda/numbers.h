/* numbers.h: SHOAL_DEVICE: the devices that this process uses. Without it that is device 0. Both
 * implementations of device.h read it once, before there is a stream. */
#ifndef DENSE_CUDA_NUMBERS_H
#define DENSE_CUDA_NUMBERS_H

#include "proto/base/device_list.h"

/* Each number is taken modulo the machine's `devices`, so that the workers of a host may simply be
 * numbered. CONFIG: SHOAL_DEVICE is no list (device_list.h). */
int numbers_take(uint32_t devices, struct device_list *out, struct err *e);

#endif
