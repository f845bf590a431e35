/* budget.c: the division of a server's budgets. */
#include "server/shard/budget.h"

#include "proto/base/limits.h"

#define WAITING_MOST (1ull << 30)
#define REPLIES_MOST (256ull << 20)
#define FRAME ((uint64_t)LIMIT_FRAME_BYTES)

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

void budget_divide(uint64_t memory, uint64_t disk, uint32_t shards, struct budget *out)
{
    uint64_t part = memory / shards, share = part / 16;
    *out = (struct budget){
        .waiting = within(share, 4 * FRAME, WAITING_MOST),
        .replies = within(share, 2 * FRAME, REPLIES_MOST),
        .kept = within(memory / 32, 0, REPLIES_MOST),
        .disk = disk / shards,
    };
    out->engine = part - within(share, 0, WAITING_MOST) - within(share, 0, REPLIES_MOST);
}
