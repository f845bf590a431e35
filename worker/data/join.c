/* join.c: joins impressions and clicks.
 *
 * 1. Numbers follow the order of times, so windows close in that order, and impressions are
 *    forgotten in it. [assert: impression_add]
 * 2. first <= closing <= next <= first + most. [assert: time_pass]
 * 3. Output is in order of time. [assert: emit]
 * 4. No two rows are equal in time, kind and place, so there is one order. [assert: earlier] */
#include "worker/data/join.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int join_init(struct join *j, const struct join_rules *rules, const struct join_calls *calls,
              struct join_counts *counts, struct err *e)
{
    SHOAL_ASSERT(rules->most > 0 && rules->most <= JOIN_MOST);
    uint64_t places = 2;
    while (places < 2ull * rules->most)
        places *= 2;
    *j = (struct join){.rules = *rules, .calls = *calls, .counts = counts};
    j->mask = (uint32_t)(places - 1);

    /* pages that no row needs are never touched */
    j->wait = malloc(sizeof *j->wait * rules->most);
    j->ring = malloc(sizeof *j->ring * rules->most);
    j->table = calloc(places, sizeof *j->table);
    if (j->wait != NULL && j->ring != NULL && j->table != NULL)
        return 0;
    join_free(j);
    return err_set(e, SHOAL_E_NOMEM, "no memory for a join; lower data.join.memory, or free some");
}

void join_free(struct join *j)
{
    free(j->wait);
    free(j->ring);
    free(j->table);
    *j = (struct join){0};
}

/* ---- waiting rows
 * ----------------------------------------------------------------------------- */

static bool earlier(const struct join_row *a, const struct join_row *b)
{
    bool click_a = a->what == JOIN_CLICK, click_b = b->what == JOIN_CLICK;
    if (a->time != b->time)
        return a->time < b->time;
    if (click_a != click_b)
        return click_b;
    SHOAL_ASSERT(a->at != b->at); /* 4 */
    return a->at < b->at;
}

int join_add(struct join *j, const struct join_row *row, struct err *e)
{
    SHOAL_ASSERT(row->what == JOIN_CLICK || row->what == JOIN_OPEN);
    if (j->waiting == j->rules.most)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.join: %" PRIu32 " rows wait for those that data.join.disorder lets "
                       "come later, and data.join.memory holds no more: lower data.join.disorder, "
                       "or raise data.join.memory",
                       j->waiting);
    uint32_t at = j->waiting++;
    while (at > 0 && earlier(row, &j->wait[(at - 1) / 2])) {
        j->wait[at] = j->wait[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    j->wait[at] = *row;
    return 0;
}

static struct join_row wait_take(struct join *j)
{
    struct join_row first = j->wait[0];
    const struct join_row *last = &j->wait[--j->waiting];
    uint32_t at = 0;
    for (uint64_t child = 1; child < j->waiting; child = 2ull * at + 1) {
        if (child + 1 < j->waiting && earlier(&j->wait[child + 1], &j->wait[child]))
            child++;
        if (earlier(last, &j->wait[child]))
            break;
        j->wait[at] = j->wait[child];
        at = (uint32_t)child;
    }
    j->wait[at] = *last;
    return first;
}

/* ---- known impressions: an open-addressing hash table of places in the ring
 * ------------------- */

static uint32_t home(const struct join *j, uint64_t hash)
{
    return (uint32_t)rng_mix(hash) & j->mask;
}

static uint32_t place_of(const struct join *j, uint64_t number)
{
    return (uint32_t)(number % j->rules.most);
}

static struct join_row *ring_row(const struct join *j, uint64_t number)
{
    return &j->ring[place_of(j, number)];
}

static void table_add(struct join *j, uint64_t number)
{
    uint32_t at = home(j, ring_row(j, number)->hash);
    while (j->table[at] != 0)
        at = (at + 1) & j->mask;
    j->table[at] = place_of(j, number) + 1;
}

/* Moves later entries of the probe sequence into the hole (deletion without tombstones). */
static void table_drop(struct join *j, uint64_t number)
{
    uint32_t hole = home(j, ring_row(j, number)->hash);
    while (j->table[hole] != place_of(j, number) + 1) {
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

/* Finds the known impression with the row's id, of which there is at most one; NULL: none. */
static int find(struct join *j, const struct join_row *row, struct join_row **out, struct err *e)
{
    *out = NULL;
    for (uint32_t at = home(j, row->hash); j->table[at] != 0; at = (at + 1) & j->mask) {
        struct join_row *known = &j->ring[j->table[at] - 1];
        bool same = false;
        if (known->hash != row->hash)
            continue;
        int rc = j->calls.same(j->calls.context, known, row, &same, e);
        if (rc != 0)
            return rc;
        if (same) {
            *out = known;
            return 0;
        }
    }
    return 0;
}

/* ---- time advances
 * ---------------------------------------------------------------------------- */

static int emit(struct join *j, const struct join_row *row, bool positive, uint64_t time,
                struct err *e)
{
    SHOAL_ASSERT(time >= j->now); /* 3 */
    j->now = time;
    return j->calls.emit(j->calls.context, row, positive, time, e);
}

static uint64_t window_end(const struct join *j, const struct join_row *row)
{
    return (uint64_t)row->time + j->rules.window;
}

static int time_pass(struct join *j, uint64_t time, struct err *e)
{
    for (; j->closing < j->next; j->closing++) {
        const struct join_row *row = ring_row(j, j->closing);
        if (window_end(j, row) >= time)
            break;
        if (row->what != JOIN_OPEN)
            continue;
        j->counts->negatives++;
        int rc = emit(j, row, false, window_end(j, row), e);
        if (rc != 0)
            return rc;
    }
    while (j->first < j->closing && window_end(j, ring_row(j, j->first)) + j->rules.keep < time)
        table_drop(j, j->first++);
    SHOAL_ASSERT(j->first <= j->closing && j->closing <= j->next &&
                 j->next - j->first <= j->rules.most); /* 2 */
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int impression_add(struct join *j, const struct join_row *row, struct err *e)
{
    struct join_row *known;
    int rc = find(j, row, &known, e);
    if (rc != 0)
        return rc;
    if (known != NULL) {
        j->counts->repeated++;
        return 0;
    }
    if (j->next - j->first == j->rules.most)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.join: %" PRIu32 " impressions are shown within data.join.window and "
                       "data.join.keep, and data.join.memory holds no more: lower data.join.keep "
                       "or data.join.window, or raise data.join.memory",
                       j->rules.most);
    SHOAL_ASSERT(j->next == j->first || ring_row(j, j->next - 1)->time <= row->time); /* 1 */
    *ring_row(j, j->next) = *row;
    table_add(j, j->next++);
    if (j->next - j->first > j->counts->held)
        j->counts->held = j->next - j->first;
    return 0;
}

static int click_add(struct join *j, const struct join_row *click, struct err *e)
{
    struct join_counts *n = j->counts;
    struct join_row *known;
    int rc = find(j, click, &known, e);
    if (rc != 0)
        return rc;
    if (known == NULL) {
        n->unmatched++;
        return 0;
    }
    if (known->what != JOIN_OPEN) {
        n->doubled++;
        return 0;
    }
    bool late = window_end(j, known) < click->time;
    n->late += late;
    n->positives += !late;
    known->what = late ? JOIN_LATE : JOIN_POSITIVE;

    if (late && !j->rules.learn)
        return 0;

    return emit(j, known, true, click->time, e);
}

/* Joins all waiting rows before `time`, in order. */
static int rows_join(struct join *j, uint64_t time, struct err *e)
{
    int rc = 0;
    while (rc == 0 && j->waiting > 0 && j->wait[0].time < time) {
        struct join_row row = wait_take(j);
        rc = time_pass(j, row.time, e);
        if (rc != 0)
            return rc;
        SHOAL_ASSERT(row.time >= j->now);
        j->now = row.time;
        if (row.what == JOIN_CLICK)
            rc = click_add(j, &row, e);
        else
            rc = impression_add(j, &row, e);
    }
    return rc;
}

int join_until(struct join *j, uint64_t time, struct err *e)
{
    int rc = rows_join(j, time, e);
    if (rc != 0)
        return rc;

    return time_pass(j, time, e);
}

int join_end(struct join *j, struct err *e)
{
    int rc = rows_join(j, UINT64_MAX, e);
    if (rc == 0)
        rc = time_pass(j, j->now + 1, e);
    uint64_t whole = j->counts->negatives; /* negatives so far: time has closed their windows */
    if (rc == 0)
        rc = time_pass(j, UINT64_MAX, e);
    j->counts->cut_short = j->counts->negatives - whole;
    return rc;
}

bool join_again(struct join *j)
{
    if (j->first > j->closing || j->closing > j->next || j->next - j->first > j->rules.most ||
        j->waiting > j->rules.most)
        return false;
    memset(j->table, 0, sizeof *j->table * (j->mask + 1ull));
    for (uint64_t n = j->first; n < j->next; n++)
        table_add(j, n);
    return true;
}
