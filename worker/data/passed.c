/* passed.c: a growing list of texts. */
#include "worker/data/passed.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct passed *p)
{
    if (p->count == 0)
        return 0;

    return p->end[p->count - 1];
}

/* At least doubles the room, because rows arrive one by one. */
static int room(struct passed *p, size_t texts, size_t bytes)
{
    size_t ends = p->count + texts, all = bytes_of(p) + bytes;
    if (ends > p->end_capacity && ends < 2 * p->end_capacity)
        ends = 2 * p->end_capacity;
    if (all > p->text_capacity && all < 2 * p->text_capacity)
        all = 2 * p->text_capacity;
    if (array_reserve(&p->end, ends, &p->end_capacity) != 0 ||
        array_reserve(&p->text, MAX(all, 1), &p->text_capacity) != 0)
        return SHOAL_E_NOMEM;
    return 0;
}

void passed_free(struct passed *p)
{
    free(p->text);
    free(p->end);
    *p = (struct passed){0};
}

void passed_clear(struct passed *p)
{
    p->count = 0;
}

int passed_add(struct passed *p, const struct cell *cell)
{
    size_t at = bytes_of(p);
    if (room(p, 1, cell->bytes) != 0)
        return SHOAL_E_NOMEM;
    if (cell->bytes > 0)
        memcpy(p->text + at, cell->text, cell->bytes);
    p->end[p->count++] = at + cell->bytes;
    return 0;
}

int passed_append(struct passed *to, const struct passed *from)
{
    size_t at = bytes_of(to), bytes = bytes_of(from);
    SHOAL_ASSERT(to != from);
    if (room(to, from->count, bytes) != 0)
        return SHOAL_E_NOMEM;
    if (bytes > 0)
        memcpy(to->text + at, from->text, bytes);
    for (size_t i = 0; i < from->count; i++)
        to->end[to->count++] = at + from->end[i];
    return 0;
}

struct cell passed_at(const struct passed *p, size_t i)
{
    SHOAL_ASSERT(i < p->count);
    size_t from = 0;
    if (i != 0)
        from = p->end[i - 1];
    return (struct cell){p->text + from, (uint32_t)(p->end[i] - from)};
}
