/* join_sort.c: rows in order of time.
 *
 * 1. No two rows are alike in time, kind and place, so there is one order. [assert: ordered] */
#include "worker/data/join_sort.h"

#include "proto/base/assert.h"
#include "proto/base/plant.h"

#include <stdlib.h>
#include <string.h>

int join_sort_init(struct join_sort *s, struct join_store *store, uint32_t most, struct err *e)
{
    SHOAL_ASSERT(most > 0);
    *s = (struct join_sort){.store = store, .most = most};
    s->row = malloc(sizeof *s->row * most);
    s->waits = malloc(sizeof *s->waits * JOIN_SORT_AHEAD);
    if (s->row != NULL && s->waits != NULL)
        return 0;
    join_sort_free(s);
    return err_set(e, SHOAL_E_NOMEM, "no memory for a join; free some");
}

void join_sort_free(struct join_sort *s)
{
    free(s->row);
    free(s->waits);
    *s = (struct join_sort){0};
}

void join_sort_add(struct join_sort *s, const struct join_row *row)
{
    SHOAL_ASSERT(s->count < s->most);
    s->row[s->count++] = *row;
}

static int ordered(const void *left, const void *right)
{
    const struct join_row *a = left, *b = right;
    bool click_a = a->what == JOIN_CLICK, click_b = b->what == JOIN_CLICK;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (click_a != click_b)
        return click_a ? 1 : -1;
    SHOAL_ASSERT(a == b || a->at != b->at); /* 1 */
    return a->at < b->at ? -1 : a->at > b->at;
}

static struct store_item wait_key(const struct join_row *r)
{
    return join_store_key('r', (uint64_t)r->time << 8 | (r->what == JOIN_CLICK), 5, r->at, 8);
}

static int put_out(struct join_sort *s, uint32_t from, struct err *e)
{
    int rc = 0;
    for (uint32_t i = from; i < s->count && rc == 0; i++) {
        struct store_item key = wait_key(&s->row[i]);
        rc = join_store_put(s->store, &key, &s->row[i], sizeof s->row[i], e);
        s->stored++;
    }
    s->count = from;
    return rc;
}

/* The first of those on disk that are before `time`; they go from there. */
static int waits_take(struct join_sort *s, uint64_t time, uint32_t *count, struct err *e)
{
    struct store_item from = join_store_key('r', s->taken << 8, 5, 0, 0),
                      below = join_store_key('r', time << 8, 5, 0, 0);
    if (time > UINT32_MAX)
        below = join_store_key('s', 0, 0, 0, 0);
    int rc = join_store_rows(s->store, &from, &below, s->waits, JOIN_SORT_AHEAD, count, e);
    for (uint32_t i = 0; i < *count && rc == 0; i++) {
        struct store_item key = wait_key(&s->waits[i]);
        rc = join_store_put(s->store, &key, NULL, 0, e);
    }
    s->stored -= *count;
    return rc;
}

/* Rows [0, end) of memory and those on disk before `time`, each in order, as one. */
static int merge(struct join_sort *s, uint32_t end, uint64_t time, join_visit visit, void *context,
                 struct err *e)
{
    uint32_t at = 0, waits = 0, next = 0;
    int rc = s->stored > 0 ? waits_take(s, time, &waits, e) : 0;
    while (rc == 0 && (at < end || next < waits)) {
        bool memory = next == waits || (at < end && ordered(&s->row[at], &s->waits[next]) < 0);
        rc = visit(context, memory ? &s->row[at++] : &s->waits[next++], e);
        if (rc == 0 && next == waits && waits == JOIN_SORT_AHEAD && !PLANTED("read_ahead_once")) {
            rc = waits_take(s, time, &waits, e);
            next = 0;
        }
    }
    return rc;
}

int join_sort_take(struct join_sort *s, uint64_t time, join_visit visit, void *context,
                   struct err *e)
{
    uint32_t end = 0;
    qsort(s->row, s->count, sizeof *s->row, ordered);
    while (end < s->count && s->row[end].time < time)
        end++;
    int rc = merge(s, end, time, visit, context, e);
    if (rc != 0)
        return rc;
    s->taken = time < UINT32_MAX ? time : UINT32_MAX;
    s->count -= end;
    memmove(s->row, s->row + end, sizeof *s->row * s->count);
    /* what comes is likely earlier than the later half */
    return s->count > s->most / 2 ? put_out(s, s->most / 2, e) : 0;
}
