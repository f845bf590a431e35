/* groups.c: the order of an epoch's blocks, and decoded groups of them.
 *
 * 1. index_drawn permutes the blocks, groups partition them, and index_drawn permutes the rows
 *    within each group: an epoch visits each row once. [test: groups_visit_each_row_once]
 * 2. A held group is never reused for another one, and a thread that holds a group waits for no
 *    other group, so a group becomes free. [assert: held_begin]
 * 3. No more than `most` groups are decoded. [test: groups_keep_to_their_memory] */
#include "worker/data/groups.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_SALT 0x626c6f636b73ULL
#define PACKED_TIMES 4u /* about how much larger multi keys are when decoded than when packed */
#define LOG_SPARE 4u    /* blocks in the log's order beside those being read */
#define HELD_MAX 8u     /* most drawn groups */
#define OBJECT_PART 4u

/* An order of the blocks, partitioned into groups. */
struct plan {
    struct plan *next;
    uint64_t seed;
    uint32_t epoch; /* 0: the log's order */
    uint32_t refs;  /* holds on it */
    uint32_t groups;
    uint32_t *block; /* owned: (blocks) */
    uint32_t *cut;   /* owned; (groups + 1): start of each group in `block` */
    uint64_t *at;    /* owned; (blocks + 1): rows before each element of `block` */
};

struct group {
    bool used;
    uint64_t seed; /* seed, epoch and number identify the group */
    uint32_t epoch, number;
    uint32_t refs; /* holds, and threads that decode it */
    uint64_t last; /* when it was last held */
    uint32_t blocks, next, done;
    uint64_t rows, given; /* rows in it, and rows that were read so far */
    int status;           /* error of a block that could not be read */
    struct err error;
    struct slice *row; /* owned; (room): decoded blocks; (blocks) */
    uint32_t room;
};

struct room {
    struct room *next;
    struct events_room of;
};

struct groups {
    struct parsed *parsed; /* owned */
    bool drawn, object;
    uint64_t rows, digest;
    uint32_t blocks, count, most;
    uint64_t bytes;  /* size of a group */
    uint64_t *first; /* owned; (blocks + 1): rows before each block in the log */
    /* guards all below, and every plan and group except the rows of a block */
    pthread_mutex_t lock;
    pthread_cond_t change; /* a group is decoded, failed, or free */
    struct plan *plan;     /* owned */
    struct group *group;   /* owned: (most) */
    struct room *room;     /* owned; rooms that no thread decodes with */
    uint64_t clock, read;
};

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for a group of rows; free some");
}

/* ---- life ------------------------------------------------------------------------------------ */

static void plan_free(struct plan *p)
{
    free(p->block);
    free(p->cut);
    free(p->at);
    free(p);
}

void groups_close(struct groups *g)
{
    if (g == NULL)
        return;
    for (struct plan *p = g->plan, *next; p != NULL; p = next) {
        next = p->next;
        SHOAL_ASSERT(p->refs == 0);
        plan_free(p);
    }
    for (struct room *r = g->room, *next; r != NULL; r = next) {
        next = r->next;
        events_room_free(&r->of);
        free(r);
    }
    for (uint32_t i = 0; g->group != NULL && i < g->most; i++) {
        for (uint32_t b = 0; b < g->group[i].room; b++)
            slice_free(&g->group[i].row[b]);
        free(g->group[i].row);
    }
    free(g->group);
    free(g->first);
    parsed_close(g->parsed);
    pthread_cond_destroy(&g->change);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* Bytes of a decoded row; an estimate with multi fields. */
static uint64_t row_bytes(const struct groups *g, uint64_t packed)
{
    const struct slice_layout *l = parsed_layout(g->parsed);

    if (!l->multi)
        return l->stride;

    return l->least + PACKED_TIMES * packed / (g->rows + 1);
}

/* Chooses how many groups an epoch has and how many are held. */
static void sizes_find(struct groups *g, const struct groups_wish *w, uint64_t packed)
{
    uint32_t part = g->object ? OBJECT_PART : 1;
    uint64_t bytes = row_bytes(g, packed), rows = w->rows;
    if (rows == 0)
        rows = MIN(GROUP_ROWS / part, GROUP_BYTES / part / bytes);
    uint64_t count = g->blocks;
    if (g->drawn)
        count = (g->rows + rows - 1) / rows;
    count = MIN(count, g->blocks);
    count = MAX(count, 1);
    uint64_t even = g->rows / count + 1;
    uint64_t most;
    if (g->drawn)
        most = 2 + (w->near + even - 1) / even;
    else
        most = 2ull * w->readers + LOG_SPARE;

    uint64_t room = HELD_MAX;
    if (!g->drawn)
        room = LOG_SPARE + GROUP_BYTES / (bytes * even);

    g->count = (uint32_t)count;
    g->bytes = bytes * even;
    most = MIN(most, room);
    if (w->held > 0)
        most = w->held;
    g->most = (uint32_t)MIN(most, count);
}

static int blocks_find(struct groups *g, uint64_t *packed, struct err *e)
{
    g->blocks = parsed_blocks(g->parsed);
    g->first = malloc((g->blocks + 1ull) * sizeof *g->first);
    if (g->first == NULL)
        return no_memory(e);
    for (uint32_t i = 0; i < g->blocks; i++) {
        const struct events_entry *x = parsed_entry(g->parsed, i);
        g->first[i] = g->rows;
        g->rows += x->rows;
        *packed += x->bytes;
    }
    g->first[g->blocks] = g->rows;
    return 0;
}

int groups_open(const struct source *s, const struct features *f, const struct groups_wish *w,
                struct groups **out, struct err *e)
{
    uint64_t packed = 0;
    struct groups *g = calloc(1, sizeof *g);
    if (g == NULL)
        return no_memory(e);
    g->drawn = w->drawn;
    g->object = w->object;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->change, NULL);
    int rc = parsed_open(s, f, true, &g->parsed, e);
    if (rc == 0)
        rc = blocks_find(g, &packed, e);
    if (rc == 0) {
        g->digest = parsed_digest(g->parsed);
        sizes_find(g, w, packed);
        g->group = calloc(g->most, sizeof *g->group);
        rc = 0;
        if (g->group == NULL)
            rc = no_memory(e);
    }
    if (rc != 0)
        groups_close(g);
    else
        *out = g;
    return rc;
}

uint64_t groups_rows(const struct groups *g)
{
    return g->rows;
}

uint64_t groups_digest(const struct groups *g)
{
    return g->digest;
}

uint32_t groups_count(const struct groups *g)
{
    return g->count;
}

uint32_t groups_held(const struct groups *g)
{
    return g->most;
}

uint64_t groups_bytes(const struct groups *g)
{
    return g->bytes;
}

uint64_t groups_read(struct groups *g)
{
    pthread_mutex_lock(&g->lock);
    uint64_t read = g->read;
    pthread_mutex_unlock(&g->lock);
    return read;
}

uint64_t groups_memory(const struct groups *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->most; i++)
        for (uint32_t b = 0; b < g->group[i].room; b++)
            bytes += g->group[i].row[b].capacity;
    return bytes;
}

/* ---- the order of an epoch ------------------------------------------------------------------- */

/* With one group the blocks keep their order: all rows are drawn by their numbers. */
static void plan_fill(const struct groups *g, struct plan *p)
{
    bool drawn = p->epoch > 0 && g->count > 1;
    struct index_draw d = index_draw(rng_mix(p->seed ^ BLOCKS_SALT), p->epoch, g->blocks);
    uint64_t at = 0, group = UINT64_MAX;
    for (uint32_t i = 0; i < g->blocks; i++) {
        uint32_t block = i;
        if (drawn)
            block = (uint32_t)index_drawn(&d, i);

        uint64_t of = i;
        if (p->epoch > 0)
            of = (uint64_t)((unsigned __int128)at * g->count / g->rows);
        if (of != group)
            p->cut[p->groups++] = i;
        group = of;
        p->block[i] = block;
        p->at[i] = at;
        at += g->first[block + 1] - g->first[block];
    }
    SHOAL_ASSERT(at == g->rows);
    p->cut[p->groups] = g->blocks;
    p->at[g->blocks] = at;
}

/* Frees plans without holds, except the newest. */
static void plans_drop(struct groups *g)
{
    struct plan **at = &g->plan;
    while (*at != NULL) {
        struct plan *p = *at;
        if (p == g->plan || p->refs > 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        plan_free(p);
    }
}

static struct plan *plan_of(struct groups *g, uint64_t seed, uint32_t epoch)
{
    for (struct plan *p = g->plan; p != NULL; p = p->next)
        if (p->seed == seed && p->epoch == epoch)
            return p;
    struct plan *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->seed = seed;
    p->epoch = epoch;
    p->block = malloc((g->blocks + 1ull) * sizeof *p->block);
    p->cut = malloc((g->blocks + 1ull) * sizeof *p->cut);
    p->at = malloc((g->blocks + 1ull) * sizeof *p->at);
    if (p->block == NULL || p->cut == NULL || p->at == NULL) {
        plan_free(p);
        return NULL;
    }
    plan_fill(g, p);
    p->next = g->plan;
    g->plan = p;
    plans_drop(g);
    return p;
}

static uint32_t group_at(const struct plan *p, uint64_t position)
{
    uint32_t low = 0, high = p->groups;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->at[p->cut[middle]] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- groups held ----------------------------------------------------------------------------- */

/* The group, or a free slot for it; NULL: all are held. */
static struct group *group_find(struct groups *g, const struct plan *p, uint32_t number)
{
    struct group *room = NULL;
    for (uint32_t i = 0; i < g->most; i++) {
        struct group *x = &g->group[i];
        if (x->used && x->seed == p->seed && x->epoch == p->epoch && x->number == number)
            return x;
        bool better = room == NULL || (room->used && (!x->used || x->last < room->last));
        if (x->refs == 0 && better)
            room = x;
    }
    return room;
}

/* Assigns the slot to this group unless it is that group already. */
static int held_begin(struct groups *g, struct group *x, const struct plan *p, uint32_t number)
{
    uint32_t blocks = p->cut[number + 1] - p->cut[number], room = x->room;
    if (x->used && x->seed == p->seed && x->epoch == p->epoch && x->number == number)
        return 0;
    SHOAL_ASSERT(x->refs == 0); /* 2 */
    x->used = false;
    if (array_reserve(&x->row, blocks, &x->room) != 0)
        return SHOAL_E_NOMEM;
    if (x->room > room)
        memset(x->row + room, 0, (x->room - room) * sizeof *x->row);
    for (uint32_t i = blocks; i < x->room; i++)
        slice_free(&x->row[i]);
    x->used = true;
    x->seed = p->seed;
    x->epoch = p->epoch;
    x->number = number;
    x->blocks = blocks;
    x->next = x->done = 0;
    x->rows = p->at[p->cut[number + 1]] - p->at[p->cut[number]];
    x->given = 0;
    x->status = 0;
    x->last = ++g->clock;
    return 0;
}

/* The lock is held at entry and exit, and released while this decodes. */
static void block_decode(struct groups *g, struct group *x, const struct plan *p, uint32_t i,
                         uint64_t (*clock_ns)(void), uint64_t *file_ns)
{
    struct err why = {0};
    struct room *r = g->room;
    uint32_t block = p->block[p->cut[x->number] + i];
    if (r != NULL)
        g->room = r->next;
    pthread_mutex_unlock(&g->lock);
    if (r == NULL)
        r = calloc(1, sizeof *r);
    int rc = 0;
    if (r == NULL)
        rc = no_memory(&why);

    uint64_t bytes = 0, ns = 0;
    if (rc == 0) {
        bytes = r->of.bytes;
        ns = r->of.file_ns;
        r->of.clock_ns = clock_ns;
        rc = parsed_read(g->parsed, block, &r->of, &x->row[i], &why);
    }
    pthread_mutex_lock(&g->lock);
    if (r != NULL) {
        g->read += r->of.bytes - bytes;
        *file_ns += r->of.file_ns - ns;
        r->next = g->room;
        g->room = r;
    }
    x->done++;
    if (rc != 0 && x->status == 0) {
        x->status = rc;
        x->error = why;
    }
    if (x->done == x->blocks || rc != 0)
        pthread_cond_broadcast(&g->change);
}

/* Frees the rows: no reader needs them any more in this epoch. */
static void group_empty(struct group *x)
{
    for (uint32_t i = 0; i < x->blocks; i++)
        slice_free(&x->row[i]);
    x->used = false;
}

static void group_leave(struct groups *g, struct group *x)
{
    SHOAL_ASSERT(x->refs > 0);
    if (--x->refs > 0)
        return;
    if (x->status != 0)
        x->used = false; /* a later reader tries again */
    else if (g->object && x->given >= x->rows)
        group_empty(x);
    pthread_cond_broadcast(&g->change);
}

/* Decodes blocks of the group up to `until`, together with other threads that want it. */
static void group_decode(struct groups *g, struct group *x, const struct plan *p, uint32_t until,
                         uint64_t (*clock_ns)(void), uint64_t *file_ns)
{
    while (x->status == 0 && x->next < until)
        block_decode(g, x, p, x->next++, clock_ns, file_ns);
}

int groups_take(struct groups *g, uint64_t seed, uint32_t epoch, uint64_t position,
                uint64_t (*clock_ns)(void), struct groups_hold *h, struct err *e)
{
    bool drawn = g->drawn && epoch > 0;
    struct group *x = NULL;
    SHOAL_ASSERT(position < g->rows);
    *h = (struct groups_hold){0};
    pthread_mutex_lock(&g->lock);
    struct plan *p = plan_of(g, drawn ? seed : 0, drawn ? epoch : 0);
    uint32_t number = 0;
    if (p != NULL)
        number = group_at(p, position);

    int rc = 0;
    if (p == NULL)
        rc = no_memory(e);
    if (rc == 0) {
        p->refs++;
        /* 2: other threads hold all slots, and release one */
        while ((x = group_find(g, p, number)) == NULL)
            pthread_cond_wait(&g->change, &g->lock);
        rc = 0;
        if (held_begin(g, x, p, number) != 0)
            rc = no_memory(e);
        p->refs -= rc != 0;
    }
    if (rc == 0) {
        x->refs++;
        x->last = ++g->clock;
        group_decode(g, x, p, x->blocks, clock_ns, &h->file_ns);
        while (x->status == 0 && x->done < x->blocks)
            pthread_cond_wait(&g->change, &g->lock);
        if (x->status != 0) {
            if (e != NULL)
                *e = x->error;
            rc = x->status;
            group_leave(g, x);
            p->refs--;
        }
    }
    pthread_mutex_unlock(&g->lock);
    if (rc != 0)
        return rc;
    h->plan = p;
    h->group = x;
    h->from = position;
    h->first = p->at[p->cut[number]];
    h->rows = p->at[p->cut[number + 1]] - h->first;
    h->draw = index_draw(g->count > 1 ? rng_mix(p->seed ^ rng_mix(number + 1ull)) : p->seed,
                         p->epoch, h->rows);
    return 0;
}

void groups_row(const struct groups *g, const struct groups_hold *h, uint64_t position,
                const struct slice **rows, uint32_t *row, uint64_t *number)
{
    const struct plan *p = h->plan;
    uint64_t at = position - h->first;
    SHOAL_ASSERT(at < h->rows);
    if (p->epoch > 0)
        at = index_drawn(&h->draw, at);
    at += h->first;
    uint32_t low = p->cut[h->group->number], high = p->cut[h->group->number + 1], begin = low;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->at[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    *rows = &h->group->row[low - begin];
    *row = (uint32_t)(at - p->at[low]);
    *number = g->first[p->block[low]] + *row;
}

/* Decodes the same share of the next group that was read of this one, so that no reader waits for a
 * whole group. */
static void next_decode(struct groups *g, const struct plan *p, uint32_t number, uint64_t share,
                        uint64_t of)
{
    uint64_t ignored = 0;
    if (p->epoch == 0 || number + 1 == p->groups || g->most < 3)
        return;
    struct group *x = group_find(g, p, number + 1);
    if (x == NULL || held_begin(g, x, p, number + 1) != 0)
        return;
    x->refs++;
    x->last = ++g->clock;
    group_decode(g, x, p, (uint32_t)(x->blocks * share / of), NULL, &ignored);
    group_leave(g, x);
}

void groups_give(struct groups *g, struct groups_hold *h, uint64_t end)
{
    SHOAL_ASSERT(end >= h->from && end <= h->first + h->rows);
    pthread_mutex_lock(&g->lock);
    uint32_t number = h->group->number;
    h->group->last = ++g->clock;
    h->group->given += end - h->from;
    group_leave(g, h->group);
    next_decode(g, h->plan, number, end - h->first, h->rows);
    h->plan->refs--;
    pthread_mutex_unlock(&g->lock);
}
