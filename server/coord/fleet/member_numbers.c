/* member_numbers.c: the shard numbers that there are; member.h. */
#include "server/coord/fleet/member_numbers.h"
#include "proto/base/assert.h"
#include "server/coord/fleet/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct numbers_record { /* value of "shards" */
    uint32_t shards, founded;
    uint8_t retired[LIMIT_SHARDS / 8]; /* a bit for each number */
};
_Static_assert(sizeof(struct numbers_record) == 8 + LIMIT_SHARDS / 8, "numbers_record is stored");

static const char NUMBERS_KEY[] = "shards";

uint32_t coord_member_next(const struct coord_members *m, uint32_t from)
{
    while (from < m->shards && m->shard[from].retired)
        from++;
    return from;
}

bool coord_member_used(const struct coord_members *m, uint32_t shard)
{
    return shard < m->shards && !m->shard[shard].retired;
}

uint32_t coord_member_rank(const struct coord_members *m, uint32_t shard)
{
    uint32_t below = 0;
    SHOAL_ASSERT(shard <= m->shards);
    for (uint32_t s = 0; s < shard; s++)
        below += !m->shard[s].retired;
    return below;
}

uint32_t coord_member_count(const struct coord_members *m)
{
    return coord_member_rank(m, m->shards);
}

int coord_member_numbers_put(const struct coord_members *m, struct coord_store *store,
                             struct err *e)
{
    struct numbers_record r = {.shards = m->shards, .founded = m->founded};
    for (uint32_t s = 0; s < m->shards; s++)
        r.retired[s / 8] |= (uint8_t)(m->shard[s].retired << (s % 8));
    return coord_store_put(store, NUMBERS_KEY, &r, sizeof r, e);
}

/* A store of a release that did not store the numbers: they were given from 0 on. */
static int given(struct coord_members *m, struct coord_store *store, struct err *e)
{
    uint32_t count = 0;
    for (int rc = 0; count < LIMIT_SHARDS; count++) {
        char key[COORD_KEY_MAX];
        void *value;
        size_t bytes;
        (void)snprintf(key, sizeof key, "shard/%u", count);
        rc = coord_store_get(store, key, &value, &bytes, e);
        if (rc == SHOAL_E_NOT_FOUND)
            break;
        if (rc != 0)
            return rc;
        free(value);
    }
    if (count > 0)
        m->shards = m->founded = count;
    return 0;
}

int coord_member_file_check(const struct coord_members *m, uint32_t shards, struct err *e)
{
    uint32_t count = coord_member_count(m);
    if (m->founded == 0 || shards == m->founded || shards == count)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "shards: %u, but this cluster has %u shards (it was founded with %u): set "
                   "`shards: %u`. While the coordinator runs, shoal add SERVER gives a server "
                   "shards, and shoal drain SERVER takes them away",
                   shards, count, m->founded, count);
}

int coord_member_numbers_load(struct coord_members *m, struct coord_store *store, struct err *e)
{
    struct numbers_record r;
    int rc = coord_store_get_fixed(store, NUMBERS_KEY, &r, sizeof r, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return given(m, store, e);
    if (rc != 0)
        return rc;
    if (r.shards == 0 || r.shards > LIMIT_SHARDS || r.founded > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_CORRUPT, "the stored numbers of shards are damaged%s",
                       COORD_STORE_ADVICE);
    m->shards = r.shards;
    m->founded = r.founded;
    for (uint32_t s = 0; s < m->shards; s++)
        m->shard[s].retired = (r.retired[s / 8] >> (s % 8) & 1) != 0;
    return 0;
}
