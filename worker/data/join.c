/* join.c: impressions and clicks, put together.
 *
 * 1. Numbers are in the order of times, so windows close in their order, and so does what is known
 *    end. [assert: impression_add]
 * 2. past.first <= past.end <= next, past.first <= closing <= next. [assert: join_close]
 * 3. What goes out is in order of time. [assert: emit] */
#include "worker/data/join.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>
#include <string.h>

int join_init(struct join *j, const struct join_rules *rules, const struct join_calls *calls,
              struct join_store *store, struct join_counts *counts, struct err *e)
{
    SHOAL_ASSERT(rules->most > 0 && rules->most <= 1u << 30);
    *j = (struct join){.rules = *rules, .calls = *calls, .counts = counts};
    for (j->mask = 1; j->mask < 2 * rules->most; j->mask *= 2)
        ;
    j->ring = malloc(sizeof *j->ring * rules->most);
    j->table = calloc(j->mask, sizeof *j->table);
    j->mask--;
    if (j->ring != NULL && j->table != NULL)
        return join_past_init(&j->past, store, rules->filter_bytes, e);
    join_free(j);
    return err_set(e, SHOAL_E_NOMEM, "no memory for a join; lower data.join.memory, or free some");
}

void join_free(struct join *j)
{
    free(j->ring);
    free(j->table);
    j->ring = NULL;
    j->table = NULL;
    join_past_free(&j->past);
}

/* ---- in memory: an open hash table of places in the ring ------------------------------------- */

static uint32_t home(const struct join *j, uint64_t hash)
{
    return (uint32_t)rng_mix(hash) & j->mask;
}

static struct join_row *ring_row(const struct join *j, uint64_t number)
{
    return &j->ring[number % j->rules.most];
}

static void table_add(struct join *j, uint64_t number)
{
    uint32_t place = (uint32_t)(number % j->rules.most), at = home(j, j->ring[place].hash);
    while (j->table[at] != 0)
        at = (at + 1) & j->mask;
    j->table[at] = place + 1;
}

/* Those behind it move up, as far as they may. */
static void table_drop(struct join *j, uint64_t number)
{
    uint32_t place = (uint32_t)(number % j->rules.most), hole = home(j, j->ring[place].hash);
    while (j->table[hole] != place + 1) {
        SHOAL_ASSERT(j->table[hole] != 0);
        hole = (hole + 1) & j->mask;
    }
    for (uint32_t at = (hole + 1) & j->mask; j->table[at] != 0; at = (at + 1) & j->mask) {
        uint32_t from = home(j, j->ring[j->table[at] - 1].hash);
        if (((at - from) & j->mask) < ((at - hole) & j->mask))
            continue;
        j->table[hole] = j->table[at];
        hole = at;
    }
    j->table[hole] = 0;
}

/* The number of what stands in the ring at `place`. */
static uint64_t number_at(const struct join *j, uint32_t place)
{
    uint64_t first = j->past.end % j->rules.most;
    return j->past.end + (place + j->rules.most - first) % j->rules.most;
}

/* ---- looking for an impression --------------------------------------------------------------- */

struct looked_for {
    const struct join *join;
    const struct join_row *row; /* whose id it is */
};

static int is_same(void *context, const struct join_row *impression, bool *same, struct err *e)
{
    const struct looked_for *l = context;
    return l->join->calls.same(l->join->calls.context, impression, l->row, same, e);
}

/* The impression of the row's id that is known: *number, and a copy; UINT64_MAX: none is. There is
 * one at most. */
static int find(struct join *j, const struct join_row *row, uint64_t *number, struct join_row *out,
                struct err *e)
{
    struct looked_for l = {j, row};
    *number = UINT64_MAX;
    for (uint32_t at = home(j, row->hash); j->table[at] != 0; at = (at + 1) & j->mask) {
        const struct join_row *r = &j->ring[j->table[at] - 1];
        bool same = false;
        int rc = r->hash == row->hash ? is_same(&l, r, &same, e) : 0;
        if (rc != 0)
            return rc;
        if (same) {
            *number = number_at(j, j->table[at] - 1);
            *out = *r;
            return 0;
        }
    }
    return join_past_find(&j->past, row->hash, is_same, &l, number, out, e);
}

static int row_set(struct join *j, uint64_t number, const struct join_row *row, struct err *e)
{
    if (number < j->past.end)
        return join_past_set(&j->past, number, row, e);
    *ring_row(j, number) = *row;
    return 0;
}

static int row_get(struct join *j, uint32_t who, uint64_t number, struct join_row *out,
                   struct err *e)
{
    if (number < j->past.end)
        return join_past_row(&j->past, who, number, out, e);
    *out = *ring_row(j, number);
    return 0;
}

/* ---- time goes on ---------------------------------------------------------------------------- */

static int emit(struct join *j, const struct join_row *row, bool positive, uint64_t time,
                struct err *e)
{
    SHOAL_ASSERT(time >= j->now); /* 3 */
    j->now = time;
    return j->calls.emit(j->calls.context, row, positive, time, e);
}

/* That it is a negative now its number says, which is below `closing`: nothing is written. */
static int window_close(struct join *j, const struct join_row *row, struct err *e)
{
    j->closing++;
    if (row->what != JOIN_OPEN)
        return 0;
    j->counts->negatives++;
    return emit(j, row, false, (uint64_t)row->time + j->rules.window, e);
}

static int first_forget(struct join *j, const struct join_row *row, struct err *e)
{
    if (j->past.first < j->past.end)
        return join_past_drop(&j->past, row, e);
    table_drop(j, j->past.end);
    j->past.first = ++j->past.end;
    return 0;
}

int join_close(struct join *j, uint64_t time, struct err *e)
{
    const struct join_rules *r = &j->rules;
    struct join_row row;
    int rc = 0;
    while (rc == 0 && j->closing < j->next) {
        rc = row_get(j, 0, j->closing, &row, e);
        if (rc != 0 || (uint64_t)row.time + r->window >= time)
            break;
        rc = window_close(j, &row, e);
    }
    while (rc == 0 && j->past.first < j->closing) {
        rc = row_get(j, 1, j->past.first, &row, e);
        if (rc != 0 || (uint64_t)row.time + r->window + r->keep >= time)
            break;
        rc = first_forget(j, &row, e);
    }
    SHOAL_ASSERT(j->past.first <= j->past.end && j->past.end <= j->next &&
                 j->past.first <= j->closing && j->closing <= j->next); /* 2 */
    return rc;
}

int join_end(struct join *j, struct err *e)
{
    int rc = join_close(j, j->now + 1, e);
    uint64_t whole = j->counts->negatives; /* time has closed these */
    if (rc == 0)
        rc = join_close(j, UINT64_MAX, e);
    j->counts->cut_short = j->counts->negatives - whole;
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The older half leaves memory. */
static int spill(struct join *j, struct err *e)
{
    uint64_t end = j->past.end + (j->rules.most + 1) / 2;
    int rc = 0;
    while (rc == 0 && j->past.end < end) {
        uint64_t number = j->past.end;
        table_drop(j, number);
        rc = join_past_add(&j->past, ring_row(j, number), e); /* past.end moves */
        j->counts->stored++;
    }
    return rc;
}

static int impression_add(struct join *j, const struct join_row *row, struct err *e)
{
    struct join_row known;
    uint64_t number;
    int rc = find(j, row, &number, &known, e);
    if (rc == 0 && number != UINT64_MAX) {
        j->counts->repeated++;
        return 0;
    }
    if (rc == 0 && j->next - j->past.end == j->rules.most)
        rc = spill(j, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(j->next == j->past.end || ring_row(j, j->next - 1)->time <= row->time); /* 1 */
    *ring_row(j, j->next) = *row;
    table_add(j, j->next++);
    if (j->next - j->past.first > j->counts->held)
        j->counts->held = j->next - j->past.first;
    return 0;
}

static int click_add(struct join *j, const struct join_row *click, struct err *e)
{
    struct join_counts *n = j->counts;
    struct join_row row;
    uint64_t number;
    int rc = find(j, click, &number, &row, e);
    if (rc != 0)
        return rc;
    bool known = number != UINT64_MAX, open = known && row.what == JOIN_OPEN,
         late = open && number < j->closing, on_time = open && !late;
    n->unmatched += !known;
    n->positives += on_time;
    n->late += late;
    n->doubled += known && !open;
    if (!open)
        return 0;
    row.what = on_time ? JOIN_POSITIVE : JOIN_LATE;
    if (on_time || j->rules.learn)
        rc = emit(j, &row, true, click->time, e);
    return rc == 0 ? row_set(j, number, &row, e) : rc;
}

int join_row(struct join *j, const struct join_row *row, struct err *e)
{
    SHOAL_ASSERT(row->what == JOIN_CLICK || row->what == JOIN_OPEN);
    int rc = join_close(j, row->time, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(row->time >= j->now);
    j->now = row->time;
    return row->what == JOIN_CLICK ? click_add(j, row, e) : impression_add(j, row, e);
}

bool join_again(struct join *j)
{
    uint64_t memory = j->next - j->past.end;
    if (j->past.first > j->past.end || j->past.end > j->next || memory > j->rules.most ||
        j->closing < j->past.first || j->closing > j->next)
        return false;
    memset(j->table, 0, sizeof *j->table * (j->mask + 1ull));
    for (uint64_t n = j->past.end; n < j->next; n++)
        table_add(j, n);
    return true;
}
