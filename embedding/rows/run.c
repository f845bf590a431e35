/* run.c: runs, lanes, clocks and the columns of marks. */
#include "embedding/rows/run.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

struct run *runs_find(const struct runs *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->run[i]->id == id)
            return r->run[i];
    return NULL;
}

static void run_free(struct run *run)
{
    marks_free(run->marks);
    free(run->lane);
    free(run);
}

int runs_add(struct runs *r, uint64_t id, uint64_t tables, uint32_t lanes, uint32_t mode,
             struct run **out)
{
    SHOAL_ASSERT(lanes > 0 && lanes <= LIMIT_LANES && runs_find(r, id) == NULL);
    SHOAL_ASSERT(run_mode_known(mode));
    if (array_room(&r->run, r->count, &r->capacity, LIMIT_RUNS) != 0)
        return SHOAL_E_NOMEM;
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return SHOAL_E_NOMEM;
    *run =
        (struct run){.id = id, .tables = tables, .lanes = lanes, .mode = mode, .low = UINT64_MAX};
    if ((mode & RUN_APART) != 0)
        run->apart = r->dense & tables;
    run->lane = calloc(lanes, sizeof *run->lane);
    run->marks = marks_new(lanes);
    if (run->lane == NULL || run->marks == NULL) {
        run_free(run);
        return SHOAL_E_NOMEM;
    }
    r->run[r->count++] = run;
    r->newest = MAX(id, r->newest);
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        if ((tables >> t & 1) != 0 && id > r->of[t].newest)
            r->of[t].newest = id;
    *out = run;
    return 0;
}

uint64_t runs_newest(const struct runs *r, uint64_t tables)
{
    uint64_t newest = 0;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        if ((tables >> t & 1) != 0 && r->of[t].newest > newest)
            newest = r->of[t].newest;
    return newest;
}

void runs_dense_set(struct runs *r, uint32_t table, bool dense)
{
    const uint64_t bit = UINT64_C(1) << table;
    SHOAL_ASSERT(table < LIMIT_TABLES);
    r->dense &= ~bit;
    if (dense)
        r->dense |= bit;
    for (uint32_t i = 0; i < r->count; i++)
        if ((r->run[i]->mode & RUN_APART) != 0)
            r->run[i]->apart = r->dense & r->run[i]->tables;
}

void runs_drop(struct runs *r, struct run *run)
{
    uint32_t at = 0;
    while (at < r->count && r->run[at] != run)
        at++;
    SHOAL_ASSERT(at < r->count);
    r->run[at] = r->run[--r->count];
    run_free(run);
}

int runs_end(struct runs *r, struct run *run, uint64_t seen, uint64_t until)
{
    uint32_t at = 0;
    while (at < r->past_count && r->past[at].id != run->id)
        at++;
    if (array_room(&r->past, at, &r->past_capacity, LIMIT_RUNS) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(at <= r->past_count && at < r->past_capacity);
    r->past[at] = (struct run_past){run->id, run->tables, run->lanes, run->mode, seen, until};
    r->past_count += at == r->past_count;
    runs_drop(r, run);
    return 0;
}

void runs_forget(struct runs *r, uint64_t floor)
{
    for (uint32_t i = r->past_count; i-- > 0;)
        if (r->past[i].until <= floor)
            r->past[i] = r->past[--r->past_count];
}

bool run_goes(uint64_t of_run, uint64_t tables, uint64_t here)
{
    return (of_run & tables) != 0 && (of_run & here & ~tables) == 0;
}

int runs_without(const struct runs *r, uint64_t tables, uint64_t here, uint64_t job,
                 uint64_t barrier, struct runs *out)
{
    struct runs to = *r;
    SHOAL_ASSERT(barrier >= r->barrier);
    to.capacity = MAX(r->count, 1);
    to.past_capacity = MAX(r->past_count, 1);
    to.run = calloc(to.capacity, sizeof *to.run);
    to.past = calloc(to.past_capacity, sizeof *to.past);
    to.count = to.past_count = 0;
    if (to.run == NULL || to.past == NULL) {
        runs_lists_free(&to);
        return SHOAL_E_NOMEM;
    }
    for (uint32_t i = 0; i < r->count; i++)
        if (!run_goes(r->run[i]->tables, tables, here))
            to.run[to.count++] = r->run[i];
    for (uint32_t i = 0; i < r->past_count; i++)
        if (!run_goes(r->past[i].tables, tables, here))
            to.past[to.past_count++] = r->past[i];
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        if ((tables >> t & 1) != 0) {
            to.of[t].cleared = job;
            to.of[t].barrier = barrier;
        }
    to.barrier = barrier;
    *out = to;
    return 0;
}

void runs_become(struct runs *r, struct runs *after)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (runs_find(after, r->run[i]->id) == NULL)
            run_free(r->run[i]);
    runs_lists_free(r);
    after->dense = r->dense; /* of the tables that are here now */
    *r = *after;
    *after = (struct runs){0};
}

void runs_lists_free(struct runs *r)
{
    free(r->run);
    free(r->past);
    r->run = NULL;
    r->past = NULL;
}

uint64_t runs_uncleared(const struct runs *r, uint64_t tables, uint64_t job)
{
    uint64_t left = 0;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        if ((tables >> t & 1) != 0 && r->of[t].cleared < job)
            left |= UINT64_C(1) << t;
    return left;
}

uint64_t runs_gone(const struct runs *r, uint64_t sequence)
{
    uint64_t gone = 0;
    for (uint32_t t = 0; sequence <= r->barrier && t < LIMIT_TABLES; t++)
        if (sequence <= r->of[t].barrier)
            gone |= UINT64_C(1) << t;
    return gone;
}

void runs_free(struct runs *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        run_free(r->run[i]);
    free(r->run);
    free(r->past);
    *r = (struct runs){0};
}

uint32_t runs_open(const struct runs *r)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < r->count; i++)
        open += !r->run[i]->ghost;
    return open;
}

uint64_t runs_bytes(const struct runs *r)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < r->count; i++)
        bytes += marks_bytes(r->run[i]->marks);
    return bytes;
}

/* but: a lane that does not count; run->lanes: all do. */
static uint64_t low_of(const struct run *run, uint32_t but)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t lane = 0; lane < run->lanes; lane++)
        if (run->lane[lane].live && lane != but) {
            uint64_t clock = run_clock(run, lane, run->lane[lane].lowest);
            low = MIN(low, clock);
        }
    return low;
}

static void count_low(struct run *run)
{
    run->low = low_of(run, run->lanes);
}

uint64_t run_low_beside(const struct run *run, uint32_t lane)
{
    SHOAL_ASSERT(lane < run->lanes);
    const struct run_lane *l = &run->lane[lane];
    if (!l->live || run_clock(run, lane, l->lowest) > run->low)
        return run->low;
    return low_of(run, lane);
}

static uint64_t lowest_of(const struct run *run, uint32_t lane)
{
    uint64_t lowest = UINT64_MAX;
    for (uint64_t left = run->tables & ~run->apart; left != 0; left &= left - 1) {
        uint64_t of_table = marks_lowest(run->marks, lane, (uint32_t)__builtin_ctzll(left));
        lowest = MIN(of_table, lowest);
    }
    return lowest == UINT64_MAX ? 0 : lowest;
}

void run_lane_moved(struct run *run, uint32_t lane)
{
    SHOAL_ASSERT(lane < run->lanes);
    struct run_lane *l = &run->lane[lane];
    uint64_t was = l->lowest;
    /* during a replay low is not counted yet: run_refresh does that at the end */
    const bool counted = !l->live || run->low <= run_clock(run, lane, was);
    l->lowest = lowest_of(run, lane);
    if (l->lowest != was && l->live && (l->lowest < was || run_clock(run, lane, was) == run->low))
        count_low(run);
    SHOAL_ASSERT(!counted || !l->live || run->low <= run_clock(run, lane, l->lowest));
}

void run_refresh(struct run *run, uint32_t table, const struct mark_scope *scope)
{
    marks_refresh(run->marks, table, scope);
    for (uint32_t lane = 0; lane < run->lanes; lane++)
        run->lane[lane].lowest = lowest_of(run, lane);
    count_low(run);
}

void run_fence(struct run *run, uint32_t lane, uint64_t generation, bool live, int64_t offset)
{
    SHOAL_ASSERT(lane < run->lanes);
    struct run_lane *l = &run->lane[lane];
    l->generation = generation;
    l->live = live;
    l->offset = offset;
    count_low(run);
}

int64_t run_offset(const struct run *run, uint32_t lane)
{
    SHOAL_ASSERT(lane < run->lanes);
    const struct run_lane *l = &run->lane[lane];
    if (run_is_bsp(run))
        return 0;
    /* A lane that goes live is not counted in `low` yet, so low is that of the others. */
    if (l->live || run->low == UINT64_MAX)
        return l->offset;
    return (int64_t)(run->low - l->lowest);
}

/* A batch that is computed again for another shard may lie before the offset. */
uint64_t run_clock(const struct run *run, uint32_t lane, uint64_t mark)
{
    int64_t offset = run->lane[lane].offset;
    if (offset < 0 && mark < (uint64_t)-offset)
        return 0;
    return mark + (uint64_t)offset;
}

/* ---- columns: u32 runs, u32 0; then for each run: id, tables, lanes and mode, marks (lanes)
 * ---- */

struct column_head {
    uint64_t id, tables;
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct column_head) == 24, "column_head is a disk format");

static bool has_marks(const struct run *run, uint32_t table, uint32_t tablet)
{
    for (uint32_t lane = 0; lane < run->lanes; lane++)
        if (marks_get(run->marks, lane, table, tablet) != 0)
            return true;
    return false;
}

bool runs_marked(const struct runs *r, uint32_t table, uint32_t tablet)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (has_marks(r->run[i], table, tablet))
            return true;
    return false;
}

size_t runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet)
{
    size_t bytes = 8;
    for (uint32_t i = 0; i < r->count; i++)
        if (has_marks(r->run[i], table, tablet))
            bytes += sizeof(struct column_head) + r->run[i]->lanes * sizeof(uint64_t);
    return bytes;
}

void runs_column_write(const struct runs *r, uint32_t table, uint32_t tablet, void *out)
{
    char *at = (char *)out + 8;
    uint32_t head[2] = {0, 0};
    for (uint32_t i = 0; i < r->count; i++) {
        const struct run *run = r->run[i];
        if (!has_marks(run, table, tablet))
            continue;
        struct column_head h = {run->id, run->tables, run->lanes, run->mode};
        memcpy(at, &h, sizeof h);
        at += sizeof h;
        for (uint32_t lane = 0; lane < run->lanes; lane++, at += sizeof(uint64_t)) {
            uint64_t mark = marks_get(run->marks, lane, table, tablet);
            memcpy(at, &mark, sizeof mark);
        }
        head[0]++;
    }
    SHOAL_ASSERT((size_t)(at - (char *)out) == runs_column_bytes(r, table, tablet));
    memcpy(out, head, sizeof head);
}

/* Reads the next head of a column and steps over its marks. CORRUPT: there is none. */
static int column_next(const char **at, const char *end, struct column_head *h, const char **marks)
{
    if ((size_t)(end - *at) < sizeof *h)
        return SHOAL_E_CORRUPT;
    memcpy(h, *at, sizeof *h);
    *marks = *at + sizeof *h;
    if (h->lanes == 0 || h->lanes > LIMIT_LANES || !run_mode_known(h->mode) ||
        (size_t)(end - *marks) < h->lanes * sizeof(uint64_t))
        return SHOAL_E_CORRUPT;
    *at = *marks + h->lanes * sizeof(uint64_t);
    return 0;
}

static int marks_put(struct run *run, uint32_t table, uint32_t tablets, uint32_t tablet,
                     const char *marks)
{
    for (uint32_t lane = 0; lane < run->lanes; lane++) {
        uint64_t mark = 0;
        if (marks != NULL)
            memcpy(&mark, marks + lane * sizeof mark, sizeof mark);
        if (marks_set(run->marks, lane, table, tablets, tablet, mark) != 0)
            return SHOAL_E_NOMEM;
    }
    return 0;
}

int runs_column_read(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     uint64_t sequence, const void *bytes, size_t count)
{
    const char *at = bytes, *end = at + count;
    uint32_t head[2];
    SHOAL_ASSERT(table < LIMIT_TABLES && tablet < tablets);
    if (count < sizeof head)
        return SHOAL_E_CORRUPT;
    memcpy(head, at, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < head[0]; i++) {
        struct column_head h;
        const char *marks;
        if (column_next(&at, end, &h, &marks) != 0)
            return SHOAL_E_CORRUPT;
        struct run *run = runs_find(r, h.id);
        if (run == NULL) {
            if (runs_add(r, h.id, h.tables, h.lanes, h.mode, &run) != 0)
                return SHOAL_E_NOMEM;
            run->ghost = true;
        }
        if (run->lanes != h.lanes)
            return SHOAL_E_CORRUPT;
        if (run->ghost && run->seen < sequence)
            run->seen = sequence;
        if (marks_put(run, table, tablets, tablet, marks) != 0)
            return SHOAL_E_NOMEM;
    }
    if (at != end)
        return SHOAL_E_CORRUPT;
    return 0;
}

int runs_column_check(const struct runs *r, const void *bytes, size_t count, uint64_t *run)
{
    const char *at = bytes, *end = at + count, *marks;
    struct column_head h;
    uint32_t head[2];
    if (count < sizeof head)
        return SHOAL_E_CORRUPT;
    memcpy(head, at, sizeof head);
    at += sizeof head;
    int rc = 0;
    for (uint32_t i = 0; i < head[0]; i++) {
        if (column_next(&at, end, &h, &marks) != 0)
            return SHOAL_E_CORRUPT;
        const struct run *here = runs_find(r, h.id);
        if (here != NULL && here->lanes != h.lanes)
            return SHOAL_E_CORRUPT;
        if (here == NULL && h.id > runs_newest(r, h.tables)) {
            *run = h.id;
            rc = SHOAL_E_AGAIN;
        }
    }
    return at == end ? rc : SHOAL_E_CORRUPT;
}

int runs_column_take(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     const void *bytes, size_t count)
{
    const char *at = bytes, *end = at, *marks;
    struct column_head h;
    uint32_t head[2] = {0, 0};
    for (uint32_t i = 0; i < r->count; i++)
        if (marks_put(r->run[i], table, tablets, tablet, NULL) != 0)
            return SHOAL_E_NOMEM;
    if (bytes == NULL)
        return 0;
    SHOAL_ASSERT(count >= sizeof head); /* it was checked */
    end += count;
    memcpy(head, at, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < head[0]; i++) {
        int rc = column_next(&at, end, &h, &marks);
        SHOAL_ASSERT(rc == 0);
        struct run *run = runs_find(r, h.id);
        if (run != NULL && marks_put(run, table, tablets, tablet, marks) != 0)
            return SHOAL_E_NOMEM;
    }
    return 0;
}
