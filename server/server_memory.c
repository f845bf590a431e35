/* server_memory.c: the heaps of a server's process. */
#include "server/server_memory.h"

#include "proto/base/assert.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void server_memory_figures(void *context, uint64_t *rss, uint64_t *rss_peak)
{
    (void)context;
    struct rusage usage;
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%*u %" SCNu64, &pages) != 1)
            pages = 0;
        fclose(f);
    }
    *rss = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    *rss_peak = 0;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        *rss_peak = (uint64_t)usage.ru_maxrss * 1024;
}

uint64_t server_memory_default(void)
{
    return machine_memory("") / 10 * 7;
}

/* With fewer heaps than this, fetches and a compaction wait for each other (measured with one
 * shard): RocksDB allocates a block's bytes from the heap for each row. */
static uint32_t heaps_of(uint32_t shards)
{
    return shards + 3;
}

void server_memory_heaps(uint32_t shards)
{
    mallopt(M_ARENA_MAX, (int)heaps_of(shards));
}

void server_memory_bound(uint64_t memory, uint32_t shards)
{
    uint32_t heaps = heaps_of(shards);
    SHOAL_ASSERT(memory > 0 && shards > 0);
    /* spare: the bytes that each heap keeps; a thirty-second of all memory together */
    uint64_t large = memory / 256, spare = memory / 32 / heaps;
    large = MIN(MAX(large, 512u << 10), 32u << 20);
    spare = MIN(MAX(spare, 1u << 20), 64u << 20);
    mallopt(M_MMAP_THRESHOLD, (int)large);
    mallopt(M_TRIM_THRESHOLD, (int)spare);
}
