/* assigner.c: blocks of rows in flight.
 *
 * 1. A block is filled again only when all its rows are answered. [assert: block_fill]
 * 2. A shard closes the run of a job a little after the job's end, or when it comes back: until
 *    then it refuses the rows. [test: every_row_is_there_whatever_dies] */
#include "worker/train/assigner.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 6,
    AT_ONCE_MOST = 64,
    WAITS = 35, /* for a run to be closed; the pauses grow to 1 s */
    BLOCK_BYTES = 8 << 20,
    MESSAGE_BYTES = 1 << 20 /* a journal segment has room for it */
};
_Static_assert(sizeof(uint64_t) + sizeof(float) * (LIMIT_WIDTH * 4ull) < MESSAGE_BYTES,
               "a message has room for a row");

struct place { /* the place of a row in the order of tablets */
    uint64_t mixed;
    uint32_t index;
};

struct block {
    struct request request;
    struct assigner *of;
    uint64_t *keys;      /* owned; (room) */
    float *rows;         /* owned; (room, floats) */
    struct place *place; /* owned; (room), sorted */
    uint32_t count;
    uint32_t at, end; /* places of the message in flight */
    uint32_t left;    /* places that are not answered, from `at` on, round the end */
    uint32_t waited;  /* answers OLD_RUN in a row */
};

struct assigner {
    struct assigner_options options;
    struct assigner_counts counts;
    uint32_t room, per_message;
    bool empty, over;
    uint32_t busy; /* blocks in flight */
    uint32_t blocks;
    struct block block[];
};

/* ---- the end ---- */

static void finish(struct assigner *a, int status, const struct err *e)
{
    if (a->over)
        return;
    a->over = true;
    for (uint32_t i = 0; i < a->blocks; i++)
        client_cancel(a->options.client, &a->block[i].request);
    a->options.done(a->options.context, status, e);
}

/* ---- a message ---- */

static uint32_t tablet_of(const struct block *b, uint32_t place)
{
    return key_tablet(b->place[place].mixed, b->of->options.tablet_bits);
}

/* Chooses the rows of the next message: those from `at` on in tablets that one shard leads. False:
 * the map does not have the table's tablets. */
static bool message_choose(struct block *b)
{
    const struct assigner_options *o = &b->of->options;
    const struct map *map = client_map(o->client);
    const uint32_t first = o->tablet_first + tablet_of(b, b->at);
    const uint32_t last = o->tablet_first + (1u << o->tablet_bits);
    if (last > map->tablet_count)
        return false;
    const uint32_t beyond = first + map_stretch(map, first, last) - o->tablet_first;
    const uint32_t most = MIN(MIN(b->count - b->at, b->left), b->of->per_message);
    SHOAL_ASSERT(most > 0);
    b->end = b->at + 1;
    while (b->end < b->at + most && tablet_of(b, b->end) < beyond)
        b->end++;
    b->request.target = map->shard[first];
    return true;
}

static void map_lacks(struct assigner *a)
{
    struct err e;
    (void)err_set(&e, SHOAL_E_NO_TABLE, "the map has no tablets of table %u", a->options.table);
    finish(a, e.code, &e);
}

static struct msg *message_build(struct request *r)
{
    struct block *b = container_of(r, struct block, request);
    const struct assigner_options *o = &b->of->options;
    const uint32_t count = b->end - b->at, first = tablet_of(b, b->at);
    struct wire w;
    client_head(r, &w);
    w.u.ASSIGN = (struct wire_ASSIGN){.table = o->table,
                                      .tablet = first,
                                      .tablet_count = tablet_of(b, b->end - 1) - first + 1,
                                      .key_count = count,
                                      .parts = o->parts,
                                      .map_epoch = client_map(o->client)->epoch};
    struct msg *m = wire_encode(&w);
    const size_t row_bytes = o->floats * sizeof(float);
    uint64_t *keys = NULL;
    if (m != NULL)
        keys = msg_add(m, count * (sizeof *keys + row_bytes));
    if (keys == NULL) {
        msg_free(m);
        return NULL;
    }
    char *rows = (char *)(keys + count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = b->place[b->at + i].index;
        keys[i] = b->keys[index];
        memcpy(rows + i * row_bytes, b->rows + (size_t)index * o->floats, row_bytes);
    }
    return m;
}

static void block_next(struct block *b);

static enum request_verdict message_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct block *b = container_of(r, struct block, request);
    struct assigner *a = b->of;
    const struct wire_ASSIGN_reply *reply = &w->u.ASSIGN_reply;
    struct err e;
    (void)m;
    const bool waits = w->status == SHOAL_E_OLD_RUN && b->waited++ < WAITS; /* 2 */
    if (waits || client_passing(w->status) || w->status == SHOAL_E_NOT_LEADER) {
        if (message_choose(b)) /* by the map of now */
            return REQUEST_LATER;
        map_lacks(a);
        return REQUEST_DONE;
    }
    if (w->status != 0) {
        (void)err_set(&e, w->status, "%s", wire_error(w));
        finish(a, w->status, &e);
        return REQUEST_DONE;
    }
    b->waited = 0;
    a->counts.sent += b->end - b->at;
    a->counts.made += reply->made;
    a->counts.replaced += reply->replaced;
    a->counts.kept += reply->kept;
    a->counts.blocked += reply->blocked;
    b->left -= b->end - b->at;
    b->at = b->end;
    block_next(b);
    return REQUEST_DONE;
}

/* ---- a block ---- */

static int place_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->mixed != y->mixed)
        return x->mixed < y->mixed ? -1 : 1;
    return x->index < y->index ? -1 : 1; /* the last of two equal keys comes last */
}

/* Sorts the rows; the block begins at its share of the table. */
static void block_sort(struct block *b, uint32_t number)
{
    for (uint32_t i = 0; i < b->count; i++)
        b->place[i] = (struct place){key_mix(b->keys[i]), i};
    qsort(b->place, b->count, sizeof *b->place, place_compare);
    b->at = (uint32_t)((uint64_t)b->count * number / b->of->blocks);
    b->left = b->count;
}

/* Fills the block again. False: there are no more rows, or no more may come. */
static bool block_fill(struct block *b)
{
    struct assigner *a = b->of;
    struct err e = {0};
    SHOAL_ASSERT(b->left == 0); /* 1 */
    if (a->empty)
        return false;
    int n = a->options.fill(a->options.context, b->keys, b->rows, a->room, &e);
    SHOAL_ASSERT(n <= (int)a->room);
    if (n < 0)
        finish(a, n, &e);
    a->empty = n <= 0;
    if (n <= 0)
        return false;
    b->count = (uint32_t)n;
    block_sort(b, (uint32_t)(b - a->block));
    return true;
}

/* Sends the next rows of the block, or of the next one. */
static void block_next(struct block *b)
{
    struct assigner *a = b->of;
    SHOAL_ASSERT(!request_active(&b->request) && a->busy > 0);
    if (b->left > 0) {
        if (b->at == b->count)
            b->at = 0;
    } else if (!block_fill(b)) {
        if (--a->busy == 0)
            finish(a, 0, NULL);
        return;
    }
    if (message_choose(b))
        client_start(a->options.client, &b->request);
    else
        map_lacks(a);
}

/* ---- life ---- */

static int block_new(struct assigner *a, struct block *b)
{
    *b = (struct block){.of = a,
                        .request = {.type = WIRE_TYPE_ASSIGN,
                                    .write = true,
                                    .build = message_build,
                                    .reply = message_reply}};
    b->keys = malloc(a->room * sizeof *b->keys);
    b->rows = malloc((size_t)a->room * a->options.floats * sizeof *b->rows);
    b->place = malloc(a->room * sizeof *b->place);
    if (b->keys == NULL || b->rows == NULL || b->place == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

int assigner_new(const struct assigner_options *options, struct assigner **out, struct err *e)
{
    uint32_t blocks = options->at_once == 0 ? AT_ONCE : options->at_once;
    const size_t row_bytes = sizeof(uint64_t) + options->floats * sizeof(float);
    SHOAL_ASSERT(blocks <= AT_ONCE_MOST && options->floats > 0 && row_bytes < MESSAGE_BYTES);
    struct assigner *a = calloc(1, sizeof *a + blocks * sizeof a->block[0]);
    if (a == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u blocks of rows", blocks);
    a->options = *options;
    a->room = (uint32_t)(BLOCK_BYTES / row_bytes);
    a->per_message = (uint32_t)MIN(MESSAGE_BYTES / row_bytes, LIMIT_KEYS);
    a->blocks = blocks;
    int rc = 0;
    for (uint32_t i = 0; i < blocks && rc == 0; i++)
        rc = block_new(a, &a->block[i]);
    if (rc != 0) {
        assigner_free(a);
        return err_set(e, rc, "no memory for %u blocks of %u rows", blocks, a->room);
    }
    *out = a;
    return 0;
}

void assigner_free(struct assigner *a)
{
    if (a == NULL)
        return;
    for (uint32_t i = 0; i < a->blocks; i++) {
        struct block *b = &a->block[i];
        client_cancel(a->options.client, &b->request);
        free(b->keys);
        free(b->rows);
        free(b->place);
    }
    free(a);
}

void assigner_start(struct assigner *a)
{
    SHOAL_ASSERT(client_map(a->options.client) != NULL && a->busy == 0);
    a->busy = a->blocks;
    for (uint32_t i = 0; i < a->blocks && !a->over; i++)
        block_next(&a->block[i]);
}

void assigner_remap(struct assigner *a)
{
    const struct map *map = client_map(a->options.client);
    for (uint32_t i = 0; i < a->blocks && !a->over; i++) {
        struct block *b = &a->block[i];
        if (!request_active(&b->request))
            continue;
        const uint32_t tablet = a->options.tablet_first + tablet_of(b, b->at);
        if (tablet < map->tablet_count && map->shard[tablet] == b->request.target)
            continue;
        client_cancel(a->options.client, &b->request);
        if (message_choose(b))
            client_start(a->options.client, &b->request);
        else
            map_lacks(a);
    }
}

const struct assigner_counts *assigner_counts(const struct assigner *a)
{
    return &a->counts;
}
