/* gauges.h: the coordinator's figures for Prometheus. */
#ifndef SERVER_COORD_GAUGES_H
#define SERVER_COORD_GAUGES_H

#include "proto/meter/meter.h"

struct coord;

/* Adds all rows of a coordinator that leads (proto/meter/meter_table.h) to the sheet. On its loop,
 * about once a second: it visits all tasks, lanes and members. */
void coord_gauges_put(struct coord *c, struct meter_sheet *out);

#endif
