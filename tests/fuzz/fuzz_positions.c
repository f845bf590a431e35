/* fuzz_positions.c: any bytes as positions of streams, as they come from a worker, a store or a
 * checkpoint. Accepted ones come back from their text, and each of their lines is that range. */
#include "proto/base/positions.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void line_same(const struct position *p)
{
    char line[POSITION_LINE];
    struct position again;
    position_line(p, line);
    SHOAL_ASSERT(position_of(line, &again) && again.from == p->from && again.to == p->to);
    SHOAL_ASSERT(strcmp(again.stream, p->stream) == 0 && strcmp(again.mark, p->mark) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct positions s = {.count = 0}, again = {.count = 0};
    size_t bytes;
    if (positions_take(&s, (const char *)data, size) != 0)
        return 0;
    for (uint32_t i = 0; i < s.count; i++) {
        line_same(&s.of[i]);
        SHOAL_ASSERT(i == 0 || strcmp(s.of[i - 1].stream, s.of[i].stream) < 0);
        SHOAL_ASSERT(positions_find(&s, s.of[i].stream) == &s.of[i]);
    }
    char *text = positions_text(&s, &bytes);
    SHOAL_ASSERT(text != NULL && positions_take(&again, text, bytes) == 0);
    SHOAL_ASSERT(positions_digest(&s) == positions_digest(&again));
    free(text);
    positions_close(&s);
    positions_close(&again);
    return 0;
}
