/* read_events.c: the row of `events` among the formats. Its files have blocks, not lines
 * (events.h), and dataset_events.c reads them in another way, so no line has this format. */
#include "worker/data/feature.h"

#include <stdio.h>

static int events_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       char *reason)
{
    (void)f;
    (void)line;
    (void)bytes;
    (void)cell;
    snprintf(reason, REASON_BYTES, "an event file has no lines");
    return SHOAL_E_DATA;
}

static int events_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       uint32_t *count, char *reason)
{
    *count = 0;
    return events_line(f, line, bytes, cell, reason);
}

const struct format format_events = {.line = events_line, .head = events_head, .named = true};
