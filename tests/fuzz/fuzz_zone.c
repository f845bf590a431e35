/* fuzz_zone.c: any bytes as a zone file (first byte even) or a table in a job's text (odd). An
 * accepted table rises, comes back from its text, and divides time. */
#include "proto/base/zone.h"

#include "proto/base/assert.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void time_part(const struct zone *z, uint32_t seconds)
{
    for (uint32_t i = 0; i < z->count; i++) {
        uint32_t at = z->change[i].from, begin = zone_begin(z, seconds, at);
        uint64_t end = zone_end(z, seconds, begin);
        SHOAL_ASSERT(begin <= at && at < end && zone_begin(z, seconds, begin) == begin);
        SHOAL_ASSERT(end > UINT32_MAX || zone_begin(z, seconds, (uint32_t)end) == end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zone z, again;
    static char text[1 << 16];
    if (size == 0 || size > sizeof text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    int rc = data[0] % 2 == 0 ? zone_read(data + 1, size - 1, &z) : zone_parse(text, &z);
    if (rc != 0)
        return 0;
    for (uint32_t i = 1; i < z.count; i++)
        SHOAL_ASSERT(z.change[i].from > z.change[i - 1].from);
    zone_text(&z, text);
    SHOAL_ASSERT(zone_parse(text, &again) == 0 && zone_same(&z, &again));
    time_part(&z, 3600);
    time_part(&z, 2 * ZONE_DAY);
    return 0;
}
