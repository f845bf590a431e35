/* shares.c: invariants and diagram in shares.h. */
#include "server/coord/fleet/shares.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT_NS UINT64_C(2000000000)
#define HELD_NS UINT64_C(10000000000) /* a push was put off so recently: the space is held */
#define EMPTY_ID 1u

/* ---- the list -------------------------------------------------------------------------------- */

static const struct coord_weight *weight_find(const struct coord_weights *w, const char *space)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->of[i].space, space) == 0)
            return &w->of[i];
    return NULL;
}

static double weight_of(const struct coord_fleet *f, const struct coord_space *s)
{
    const struct coord_weight *w = weight_find(&f->options.memory, s->name);
    if (w == NULL)
        return 1;
    return w->weight;
}

static bool has_share(const struct coord_fleet *f, const struct coord_space *s)
{
    return table_set_any(s->numbers) && coord_space_holds(f, s);
}

/* Gives each share of the list its parts. What rounding leaves, or takes too much, is the largest
 * one's. */
static void parts_give(struct wire_share *list, const double *weight, uint32_t count)
{
    double all = 0;
    uint64_t given = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        all += weight[i];
    for (uint32_t i = 0; i < count; i++) {
        list[i].parts = (uint32_t)(WIRE_SHARE_PARTS * weight[i] / all);
        list[i].parts = MAX(list[i].parts, 1);
        given += list[i].parts;
        if (list[i].parts > list[most].parts)
            most = i;
    }
    SHOAL_ASSERT(list[most].parts + WIRE_SHARE_PARTS > given); /* 1 */
    list[most].parts = (uint32_t)(list[most].parts + WIRE_SHARE_PARTS - given);
}

static uint32_t list_make(const struct coord_fleet *f, struct wire_share list[LIMIT_SPACES])
{
    double weight[LIMIT_SPACES];
    uint32_t count = 0;
    COORD_EACH_SPACE (f, s) {
        if (!has_share(f, s))
            continue;
        list[count] = (struct wire_share){.tables = s->numbers};
        text_copy(list[count].space, sizeof list[count].space,
                  text_unless_empty(s->name, "default"));
        weight[count++] = weight_of(f, s);
    }
    if (count < 2)
        return 0;
    parts_give(list, weight, count);
    return count;
}

static void list_take(struct coord_shares *s, const struct wire_share *list, uint32_t count)
{
    memcpy(s->list, list, count * sizeof s->list[0]);
    s->count = count;
    s->digest = 0;
    if (count > 0)
        s->digest = hash_bytes(s->list, count * sizeof s->list[0], 0);
    for (uint32_t i = 0; i < count; i++)
        log_info("space %s has %.1f %% of the servers' memory", list[i].space,
                 100.0 * list[i].parts / WIRE_SHARE_PARTS);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct coord_fleet *f, struct coord_shard *to)
{
    const struct coord_shares *s = &f->shares;
    const bool same = to->figures.shares == s->digest;
    uint64_t now = env_now_ns(f->env), again_ns = f->options.resend_ms * UINT64_C(1000000);
    if (same)
        again_ns = REPEAT_NS;
    if (!to->seen || (same && s->count == 0) ||
        (to->shares_sent_ns != 0 && now - to->shares_sent_ns < again_ns))
        return;
    to->shares_sent_ns = now;
    struct wire w = {.type = WIRE_TYPE_SHARES, .id = s->digest != 0 ? s->digest : EMPTY_ID};
    w.u.SHARES.count = s->count;
    (void)coord_send_frame(f, to->peer, &w, s->list, s->count * sizeof s->list[0]);
}

void coord_shares_tick(struct coord_fleet *f)
{
    struct coord_shares *s = &f->shares;
    struct wire_share list[LIMIT_SPACES];
    uint32_t count = list_make(f, list);
    bool changed = count != s->count || memcmp(list, s->list, count * sizeof list[0]) != 0;
    if (changed)
        list_take(s, list, count);
    if (s->told == NULL && count > 0)
        s->told = calloc(LIMIT_SHARDS, sizeof *s->told);
    for (uint32_t i = 0; i < f->members.shards; i++) {
        if (changed)
            f->members.shard[i].shares_sent_ns = 0; /* at once */
        tell(f, &f->members.shard[i]);
    }
    COORD_EACH_FOLLOWER(f, i, p, follower)
    {
        if (changed)
            follower->shares_sent_ns = 0;
        tell(f, follower);
    }
}

void coord_shares_weigh(struct coord_fleet *f, const struct coord_weights *memory)
{
    f->options.memory = *memory;
    coord_shares_tick(f);
}

/* Notes the use of a shard's shares. */
static void use_take(struct coord_shares_told *told, uint64_t digest,
                     const struct wire_share_use *use, uint32_t count, uint64_t now_ns)
{
    if (told->digest != digest)
        *told = (struct coord_shares_told){.digest = digest};
    for (uint32_t i = 0; i < count; i++) {
        if (use[i].waits > told->use[i].waits)
            told->waited_ns[i] = now_ns;
        if (use[i].refused > told->use[i].refused)
            told->refused_ns[i] = now_ns;
        told->use[i] = use[i];
    }
}

void coord_shares_answer(struct coord_fleet *f, peer_t from, const struct wire *reply,
                         const struct msg *m)
{
    struct coord_shares *s = &f->shares;
    uint32_t shard = coord_member_shard_of(&f->members, from);
    if (shard == COORD_NOBODY)
        return; /* the answer is from a copy that follows */
    struct coord_shard *at = &f->members.shard[shard];
    if (reply->status != 0) {
        log_warn("server %s does not take the shares of the memory: %s", at->server, reply->error);
        return;
    }
    if (reply->id != (s->digest != 0 ? s->digest : EMPTY_ID))
        return; /* it is of an older list */
    at->figures.shares = s->digest;
    if (s->told != NULL && s->count > 0 && reply->u.SHARES_reply.count == s->count)
        use_take(&s->told[shard], s->digest, m->frame[1].data, s->count, env_now_ns(f->env));
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Sums over all shards that have told. */
struct shares_use {
    double weight;
    struct wire_share_use sum;
    uint32_t shards;        /* that have told */
    uint32_t held, refused; /* shards held to the share, and refusing, in the last ten seconds */
};

static void use_add(struct shares_use *out, const struct coord_shares_told *told, uint32_t i,
                    uint64_t now_ns)
{
    const struct wire_share_use *u = &told->use[i];
    out->shards++;
    out->sum.rows += u->rows;
    out->sum.cold_rows += u->cold_rows;
    out->sum.bytes += u->bytes;
    out->sum.limit += u->limit;
    out->sum.waits += u->waits;
    out->sum.refused += u->refused;
    /* one that uses far more than its share borrows: it is not held to it */
    out->held += told->waited_ns[i] != 0 && now_ns - told->waited_ns[i] < HELD_NS &&
                 u->bytes < u->limit + u->limit / 4;
    out->refused += told->refused_ns[i] != 0 && now_ns - told->refused_ns[i] < HELD_NS;
}

/* False: the space has no share, since it is alone. */
static bool use_of(const struct coord_fleet *f, const struct coord_space *s, struct shares_use *out)
{
    const struct coord_shares *all = &f->shares;
    *out = (struct shares_use){.weight = weight_of(f, s)};
    for (uint32_t i = 0; i < all->count; i++) {
        if (!table_set_equal(all->list[i].tables, s->numbers))
            continue;
        for (uint32_t k = 0; all->told != NULL && k < f->members.shards; k++)
            if (all->told[k].digest == all->digest)
                use_add(out, &all->told[k], i, env_now_ns(f->env));
        return true;
    }
    return false;
}

void coord_shares_json(const struct coord_fleet *f, const struct coord_space *s, struct json *item)
{
    struct shares_use u;
    if (!use_of(f, s, &u))
        return;
    json_set_number(item, "weight", u.weight);
    json_set_int(item, "rows", (int64_t)u.sum.rows);
    json_set_int(item, "rows_store", (int64_t)u.sum.cold_rows);
    json_set_int(item, "memory_bytes", (int64_t)u.sum.bytes);
    json_set_int(item, "memory_share", (int64_t)u.sum.limit);
    json_set_int(item, "waits", (int64_t)u.sum.waits);
    json_set_int(item, "refused", (int64_t)u.sum.refused);
    json_set_int(item, "held", u.held);
}

static void held_note(const struct coord_space *s, const struct shares_use *u, struct json *notes)
{
    char text[ERR_TEXT_MAX];
    if (u->refused > 0)
        (void)snprintf(
            text, sizeof text,
            "space %s is over its share of the memory on %u of %u shards, and its pushes "
            "are refused there: it has %.1f of %.1f MB; raise its weight in `memory` of "
            "coordinator.yaml, raise `memory` of the servers, or add servers",
            s->name, u->refused, u->shards, (double)u->sum.bytes * 1e-6,
            (double)u->sum.limit * 1e-6);
    else
        (void)snprintf(
            text, sizeof text,
            "space %s is held to its share of the memory on %u of %u shards: it has %.1f "
            "of %.1f MB, and %" PRIu64 " of its %" PRIu64 " rows are in the store; a "
            "greater weight in `memory` of coordinator.yaml keeps more in memory",
            s->name, u->held, u->shards, (double)u->sum.bytes * 1e-6, (double)u->sum.limit * 1e-6,
            u->sum.cold_rows, u->sum.rows);
    json_append_string(notes, text);
}

void coord_shares_notes(const struct coord_fleet *f, struct json *notes)
{
    const struct coord_weights *w = &f->options.memory;
    struct shares_use u;
    char text[LIMIT_NAME + 128];
    COORD_EACH_SPACE (f, s)
        if (use_of(f, s, &u) && u.held + u.refused > 0)
            held_note(s, &u, notes);
    for (uint32_t i = 0; i < w->count; i++) {
        bool there = false;
        COORD_EACH_SPACE (f, s)
            there |= has_share(f, s) && strcmp(s->name, w->of[i].space) == 0;
        if (there)
            continue;
        (void)snprintf(text, sizeof text,
                       "`memory` of coordinator.yaml has a weight for space %s, which holds no "
                       "tables here",
                       w->of[i].space);
        json_append_string(notes, text);
    }
}

void coord_shares_close(struct coord_shares *s)
{
    free(s->told);
    *s = (struct coord_shares){.count = 0};
}
