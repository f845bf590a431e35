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

int runs_add(struct runs *r, uint64_t id, struct table_set tables, uint32_t lanes, uint32_t mode,
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
        run->apart = table_set_and(r->dense, tables);
    run->lane = calloc(lanes, sizeof *run->lane);
    run->marks = marks_new(lanes);
    if (run->lane == NULL || run->marks == NULL) {
        run_free(run);
        return SHOAL_E_NOMEM;
    }
    r->run[r->count++] = run;
    r->newest = MAX(id, r->newest);
    TABLE_SET_EACH (t, &tables)
        r->of[t].newest = MAX(id, r->of[t].newest);
    *out = run;
    return 0;
}

uint64_t runs_newest(const struct runs *r, struct table_set tables)
{
    uint64_t newest = 0;
    TABLE_SET_EACH (t, &tables)
        newest = MAX(newest, r->of[t].newest);
    return newest;
}

void runs_dense_set(struct runs *r, uint32_t table, bool dense)
{
    table_set_remove(&r->dense, table);
    if (dense)
        table_set_add(&r->dense, table);
    for (uint32_t i = 0; i < r->count; i++)
        if ((r->run[i]->mode & RUN_APART) != 0)
            r->run[i]->apart = table_set_and(r->dense, r->run[i]->tables);
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

bool run_goes(struct table_set of_run, struct table_set tables, struct table_set here)
{
    return table_set_meet(of_run, tables) && table_set_within(table_set_and(of_run, here), tables);
}

int runs_without(const struct runs *r, struct table_set tables, struct table_set here, uint64_t job,
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
    TABLE_SET_EACH (t, &tables) {
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
    after->dense = r->dense; /* the dense tables that are here now */
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

struct table_set runs_uncleared(const struct runs *r, struct table_set tables, uint64_t job)
{
    struct table_set left = TABLE_SET_NONE;
    TABLE_SET_EACH (t, &tables)
        if (r->of[t].cleared < job)
            table_set_add(&left, t);
    return left;
}

struct table_set runs_gone(const struct runs *r, uint64_t sequence)
{
    struct table_set gone = TABLE_SET_NONE;
    for (uint32_t t = 0; sequence <= r->barrier && t < LIMIT_TABLES; t++)
        if (sequence <= r->of[t].barrier)
            table_set_add(&gone, t);
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
    /* tables without a led tablet have no lowest mark */
    const struct table_set counted =
        table_set_and(table_set_less(run->tables, run->apart), *marks_led(run->marks));
    TABLE_SET_EACH (t, &counted) {
        uint64_t of_table = marks_lowest(run->marks, lane, t);
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

/* ---- columns: u32 runs, u32 form; then for each run: column_head, marks (lanes) ---- */

/* The form of a column with a run that pushes to a table of number 64 or more. Form 0 has one word
 * of tables in its heads. */
#define COLUMN_FAR 1u
struct column_head {
    uint64_t id;
    struct table_set tables;
    uint32_t lanes, mode;
};
struct column_near {
    uint64_t id, tables;
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct column_head) == 48 && sizeof(struct column_near) == 24,
               "column_head is a disk format");

struct column { /* the unread rest of a tablet's column */
    const char *at, *end;
    uint32_t runs, form;
};

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

/* The form of a tablet's column: the oldest one that says all. */
static uint32_t column_form(const struct runs *r, uint32_t table, uint32_t tablet)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (!table_set_is_word(r->run[i]->tables) && has_marks(r->run[i], table, tablet))
            return COLUMN_FAR;
    return 0;
}

static size_t head_bytes(uint32_t form)
{
    return form == COLUMN_FAR ? sizeof(struct column_head) : sizeof(struct column_near);
}

size_t runs_column_bytes(const struct runs *r, uint32_t table, uint32_t tablet)
{
    const uint32_t form = column_form(r, table, tablet);
    size_t bytes = 8;
    for (uint32_t i = 0; i < r->count; i++)
        if (has_marks(r->run[i], table, tablet))
            bytes += head_bytes(form) + r->run[i]->lanes * sizeof(uint64_t);
    return bytes;
}

void runs_column_write(const struct runs *r, uint32_t table, uint32_t tablet, void *out)
{
    char *at = (char *)out + 8;
    uint32_t head[2] = {0, column_form(r, table, tablet)};
    for (uint32_t i = 0; i < r->count; i++) {
        const struct run *run = r->run[i];
        if (!has_marks(run, table, tablet))
            continue;
        const struct column_head far = {run->id, run->tables, run->lanes, run->mode};
        const struct column_near near = {run->id, run->tables.word[0], run->lanes, run->mode};
        memcpy(at, head[1] == COLUMN_FAR ? (const void *)&far : &near, head_bytes(head[1]));
        at += head_bytes(head[1]);
        for (uint32_t lane = 0; lane < run->lanes; lane++, at += sizeof(uint64_t)) {
            uint64_t mark = marks_get(run->marks, lane, table, tablet);
            memcpy(at, &mark, sizeof mark);
        }
        head[0]++;
    }
    SHOAL_ASSERT((size_t)(at - (char *)out) == runs_column_bytes(r, table, tablet));
    memcpy(out, head, sizeof head);
}

/* Begins to read a column. CORRUPT: it is none. */
static int column_open(const void *bytes, size_t count, struct column *c)
{
    uint32_t head[2];
    if (count < sizeof head)
        return SHOAL_E_CORRUPT;
    memcpy(head, bytes, sizeof head);
    *c = (struct column){.at = (const char *)bytes + sizeof head,
                         .end = (const char *)bytes + count,
                         .runs = head[0],
                         .form = head[1]};
    return c->form <= COLUMN_FAR ? 0 : SHOAL_E_CORRUPT;
}

/* Takes a head in the column's form, and steps over it. False: it does not fit. */
static bool column_head_take(struct column *c, struct column_head *h)
{
    struct column_near near;
    if ((size_t)(c->end - c->at) < head_bytes(c->form))
        return false;
    if (c->form == COLUMN_FAR) {
        memcpy(h, c->at, sizeof *h);
    } else {
        memcpy(&near, c->at, sizeof near);
        *h = (struct column_head){near.id, table_set_word(near.tables), near.lanes, near.mode};
    }
    c->at += head_bytes(c->form);
    return true;
}

/* Reads the next head of a column and steps over its marks. CORRUPT: there is none. */
static int column_next(struct column *c, struct column_head *h, const char **marks)
{
    if (!column_head_take(c, h))
        return SHOAL_E_CORRUPT;
    *marks = c->at;
    if (h->lanes == 0 || h->lanes > LIMIT_LANES || !run_mode_known(h->mode) ||
        (size_t)(c->end - c->at) < h->lanes * sizeof(uint64_t))
        return SHOAL_E_CORRUPT;
    c->at += h->lanes * sizeof(uint64_t);
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
    struct column c;
    SHOAL_ASSERT(table < LIMIT_TABLES && tablet < tablets);
    if (column_open(bytes, count, &c) != 0)
        return SHOAL_E_CORRUPT;
    for (uint32_t i = 0; i < c.runs; i++) {
        struct column_head h;
        const char *marks;
        if (column_next(&c, &h, &marks) != 0)
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
    if (c.at != c.end)
        return SHOAL_E_CORRUPT;
    return 0;
}

int runs_column_check(const struct runs *r, const void *bytes, size_t count, uint64_t *run)
{
    struct column c;
    struct column_head h;
    const char *marks;
    if (column_open(bytes, count, &c) != 0)
        return SHOAL_E_CORRUPT;
    int rc = 0;
    for (uint32_t i = 0; i < c.runs; i++) {
        if (column_next(&c, &h, &marks) != 0)
            return SHOAL_E_CORRUPT;
        const struct run *here = runs_find(r, h.id);
        if (here != NULL && here->lanes != h.lanes)
            return SHOAL_E_CORRUPT;
        if (here == NULL && h.id > runs_newest(r, h.tables)) {
            *run = h.id;
            rc = SHOAL_E_AGAIN;
        }
    }
    return c.at == c.end ? rc : SHOAL_E_CORRUPT;
}

int runs_column_take(struct runs *r, uint32_t table, uint32_t tablets, uint32_t tablet,
                     const void *bytes, size_t count)
{
    struct column c;
    struct column_head h;
    const char *marks;
    for (uint32_t i = 0; i < r->count; i++)
        if (marks_put(r->run[i], table, tablets, tablet, NULL) != 0)
            return SHOAL_E_NOMEM;
    if (bytes == NULL)
        return 0;
    int rc = column_open(bytes, count, &c);
    SHOAL_ASSERT(rc == 0); /* it was checked */
    for (uint32_t i = 0; i < c.runs; i++) {
        rc = column_next(&c, &h, &marks);
        SHOAL_ASSERT(rc == 0);
        struct run *run = runs_find(r, h.id);
        if (run != NULL && marks_put(run, table, tablets, tablet, marks) != 0)
            return SHOAL_E_NOMEM;
    }
    return 0;
}
