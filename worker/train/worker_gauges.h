/* worker_gauges.h: the worker's figures for Prometheus. */
#ifndef WORKER_TRAIN_WORKER_GAUGES_H
#define WORKER_TRAIN_WORKER_GAUGES_H

#include "proto/meter/meter.h"

struct trainer;

/* Adds all rows of a worker (proto/meter/meter_table.h) to the sheet. On its loop. */
void worker_gauges_put(const struct trainer *t, struct meter_sheet *out);

#endif
