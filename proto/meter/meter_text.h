/* meter_text.h: sheets as text for Prometheus: OpenMetrics 1.0.0, or the older text format 0.0.4,
 * which tools such as promtool read. */
#ifndef PROTO_METER_METER_TEXT_H
#define PROTO_METER_METER_TEXT_H

#include "proto/meter/meter.h"

#include <stdio.h>

enum meter_format { METER_PLAIN, METER_OPEN };

/* A scraper that wants METER_OPEN has this in its header Accept. */
#define METER_OPEN_TYPE "application/openmetrics-text"

/* The Content-Type. */
const char *meter_text_type(enum meter_format format);

/* Writes the samples of all sheets, those of a metric together. All sheets have METER_SERIES series
 * at most; those beyond are left out, series of single tables before all others, and LEFT_OUT tells
 * how many. f keeps its own error. */
void meter_text_write(FILE *f, enum meter_format format, const struct meter_sheet *sheet,
                      uint32_t sheets);

#endif
