/* lead.h: the tablets that this shard leads: the map as the coordinator last sent it, and a range
 * for each table.
 *
 * The shard leads nothing until both the map (MAP_SET) and its own number (reply to SHARD_BEAT) are
 * known: until then pulls and pushes are answered AGAIN and the worker sends again. place.c decides
 * which maps are accepted. Thread: the shard's. */
#ifndef SERVER_SHARD_LEAD_H
#define SERVER_SHARD_LEAD_H

#include "embedding/engine.h"

#define LEAD_NO_SHARD UINT32_MAX

struct lead_range {
    uint32_t first, span; /* the table's tablets from the first led one to the last */
    uint32_t count;       /* led tablets; equal to span when there is no hole */
};

struct lead {
    uint16_t *shard_of; /* owned, (tablet_count) by global tablet number */
    uint32_t tablet_count;
    uint64_t epoch; /* 0: no map yet */
    uint32_t self;  /* the shard's number, LEAD_NO_SHARD at first */
    bool moved;     /* the last map gave or took tablets, and lead_apply has not reported it yet */
    struct lead_range range[LIMIT_TABLES];
};

void lead_init(struct lead *l);
void lead_close(struct lead *l);
bool lead_ready(const struct lead *l);
/* Copies the map, which is no older than the present one; the caller then calls lead_apply. 0 or
 * SHOAL_E_NOMEM. */
int lead_set_map(struct lead *l, uint64_t epoch, const uint16_t *shard_of, uint32_t tablet_count);
/* Called after a new map, number or table: tells the engine and computes the ranges anew. *changed
 * (may be NULL): the set of led tablets is another one. */
int lead_apply(struct lead *l, struct engine *g, bool *changed);

/* True when all tablets of [first, first + count) are led. */
bool lead_covers(const struct lead *l, const struct table_schema *s, uint32_t first,
                 uint32_t count);
/* True when all keys lie in led tablets. The keys are sorted by key_mix, as the wire format
 * requires; a peer that sends unsorted keys only gets a wrong answer itself. */
bool lead_keys(const struct lead *l, const struct table_schema *s, const uint64_t *keys,
               uint32_t key_count);

#endif
