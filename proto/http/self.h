/* self.h: this process's own figures: processor time, memory, open files. */
#ifndef PROTO_HTTP_SELF_H
#define PROTO_HTTP_SELF_H

#include "proto/meter/meter.h"

/* Adds BUILD and the rows of the process. What the system does not tell is left out. */
void self_put(struct meter_sheet *s, const char *program, const char *version);

#endif
