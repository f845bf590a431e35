/* row_cache.c: an open-addressed table of entries, in the order of mixed keys.
 *
 * An entry's home is given by the top bits of key_mix(key). Keys of a batch are sorted by it, so a plan goes through
 * the table's memory once, in order. A clock hand goes through the same table: an entry hit since it last came by is
 * spared once (second chance). Deletion moves later entries of the cluster back, so there are no tombstones. */
#include "worker/row_cache.h"
#include "dense/model.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define EMPTY UINT32_MAX   /* of entry.slot */
#define PENDING UINT32_MAX /* of entry.lag: the pull is not answered */
#define LAG_MAX (UINT32_MAX - 1)
enum { HAND_STEPS = 32 }; /* places that a miss may look at for a victim: a plan's cost is bounded */

struct entry {
    uint64_t key;
    uint64_t writer; /* batch whose pull fills the slot */
    uint32_t lag;    /* clock - low of that pull's answer */
    uint32_t slot;
    bool used; /* hit since the hand came by */
};
_Static_assert(sizeof(struct entry) == 32, "two entries a cache line");

struct row_cache {
    struct row_cache_rule rule;
    uint32_t slots, given; /* slots never given yet are those from `given` on */
    unsigned bits;         /* the table has 2^bits places */
    uint64_t hand;
    struct entry *entry; /* owned */
};

int row_cache_new(uint64_t slots, const struct row_cache_rule *rule, struct row_cache **out, struct err *e)
{
    if (slots > ROW_CACHE_SLOTS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "train.cache.rows: %llu rows, a lane's cache holds %u at most",
                       (unsigned long long)slots, ROW_CACHE_SLOTS_MAX);
    struct row_cache *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->rule = *rule;
        c->slots = (uint32_t)slots;
        for (c->bits = 4; 1ull << c->bits < slots + slots / 2;)
            c->bits++;
        c->entry = malloc(sizeof *c->entry << c->bits);
    }
    if (c == NULL || c->entry == NULL) {
        free(c);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the index of a cache of %llu rows: lower train.cache.rows",
                       (unsigned long long)slots);
    }
    row_cache_clear(c);
    *out = c;
    return 0;
}

void row_cache_free(struct row_cache *c)
{
    if (c == NULL)
        return;
    free(c->entry);
    free(c);
}

void row_cache_clear(struct row_cache *c)
{
    for (uint64_t i = 0; i < 1ull << c->bits; i++)
        c->entry[i].slot = EMPTY;
    c->given = 0;
    c->hand = 0;
}

/* ---- the table -------------------------------------------------------------------------------------------- */

static uint64_t home_of(const struct row_cache *c, uint64_t key)
{
    return key_mix(key) >> (64 - c->bits);
}

static uint64_t place_after(const struct row_cache *c, uint64_t place)
{
    return (place + 1) & ((1ull << c->bits) - 1);
}

/* The entry of a key, or the empty place where it would go. */
static struct entry *entry_find(const struct row_cache *c, uint64_t key)
{
    uint64_t at = home_of(c, key);

    while (c->entry[at].slot != EMPTY && c->entry[at].key != key)
        at = place_after(c, at);
    return &c->entry[at];
}

static void entry_remove(struct row_cache *c, uint64_t hole)
{
    uint64_t mask = (1ull << c->bits) - 1;

    for (uint64_t at = place_after(c, hole); c->entry[at].slot != EMPTY; at = place_after(c, at)) {
        uint64_t home = home_of(c, c->entry[at].key);
        if (((at - home) & mask) < ((at - hole) & mask)) /* it would lie before its home */
            continue;
        c->entry[hole] = c->entry[at];
        hole = at;
    }
    c->entry[hole].slot = EMPTY;
}

/* A slot for a new key, its old entry removed; EMPTY when the hand finds none near by. */
static uint32_t slot_take(struct row_cache *c)
{
    if (c->given < c->slots)
        return c->given++;
    for (int step = 0; step < HAND_STEPS; step++) {
        struct entry *at = &c->entry[c->hand];
        if (at->slot != EMPTY && at->lag != PENDING && !at->used) {
            uint32_t slot = at->slot;
            entry_remove(c, c->hand); /* the next one may have moved here: the hand stays */
            return slot;
        }
        at->used = false;
        c->hand = place_after(c, c->hand);
    }
    return EMPTY;
}

/* ---- plans ------------------------------------------------------------------------------------------------ */

static bool serves(const struct row_cache *c, const struct entry *e, uint64_t batch)
{
    if (e->lag == PENDING)
        return false;
    uint64_t age = batch - e->writer;
    return c->rule.bounded ? age + e->lag <= (uint64_t)c->rule.most + 1 : age <= c->rule.most;
}

/* The miss at position fresh_count goes into a slot once the batch is computed, unless an earlier batch fills one for
 * this key anyway or there is none to have. */
static void keep(struct row_cache *c, struct entry *e, uint64_t batch, uint64_t key, struct row_plan *plan)
{
    bool known = e->slot != EMPTY;

    if (known && e->lag == PENDING)
        return;
    uint32_t slot = known ? e->slot : slot_take(c);
    if (slot == EMPTY)
        return;
    if (!known)
        e = entry_find(c, key); /* places may have moved */
    *e = (struct entry){.key = key, .writer = batch, .lag = PENDING, .slot = slot, .used = known};
    plan->keep[2 * plan->keep_count] = plan->fresh_count;
    plan->keep[2 * plan->keep_count + 1] = slot;
    plan->keep_count++;
}

void row_cache_plan(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count, struct row_plan *plan)
{
    plan->fresh_count = plan->keep_count = 0;
    plan->staleness = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct entry *e = entry_find(c, keys[i]);
        if (e->slot != EMPTY && serves(c, e, batch)) {
            uint64_t staleness = batch - e->writer + e->lag - 1;
            plan->source[i] = MODEL_CACHED | e->slot;
            plan->staleness = staleness > plan->staleness ? staleness : plan->staleness;
            e->used = true;
            continue;
        }
        keep(c, e, batch, keys[i], plan);
        plan->source[i] = plan->fresh_count;
        plan->fresh[plan->fresh_count++] = keys[i];
    }
}

void row_cache_answered(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count, uint64_t clock,
                        uint64_t low)
{
    /* low >= clock: the lane is not among the live ones, so nothing is known of what follows. */
    uint32_t lag = low >= clock || clock - low > LAG_MAX ? LAG_MAX : (uint32_t)(clock - low);

    for (uint32_t i = 0; i < count; i++) {
        struct entry *e = entry_find(c, keys[i]);
        if (e->slot != EMPTY && e->writer == batch && e->lag == PENDING)
            e->lag = lag;
    }
}
