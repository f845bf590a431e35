/* mark.c: marks by lane and tablet, and the push rule. */
#include "embedding/rows/mark.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

struct lane_marks {
    uint64_t *mark;  /* owned; (tablets), or NULL: all 0 */
    uint64_t lowest; /* over the led tablets */
};

struct marks {
    uint32_t lanes;
    struct lane_marks *table[LIMIT_TABLES]; /* owned; (lanes); NULL: never touched */
    uint32_t tablets[LIMIT_TABLES];         /* length of its arrays; 0: none yet */
    struct table_set led;                   /* marks_refresh saw a led tablet */
    uint64_t steps[LIMIT_TABLES];           /* the sum of the lanes' lowest; 0: not led */
    uint64_t bytes;                         /* bytes of the arrays */
};

enum push_verdict mark_push_rule(uint64_t mark, uint64_t from, uint64_t to)
{
    if (mark >= to)
        return PUSH_SKIP;
    if (mark < from) /* the highest batch alone is not enough */
        return PUSH_GAP;
    return PUSH_TAKE;
}

struct marks *marks_new(uint32_t lanes)
{
    SHOAL_ASSERT(lanes > 0 && lanes <= LIMIT_LANES);
    struct marks *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->lanes = lanes;
    return m;
}

void marks_free(struct marks *m)
{
    if (m == NULL)
        return;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        for (uint32_t lane = 0; m->table[t] != NULL && lane < m->lanes; lane++)
            free(m->table[t][lane].mark);
        free(m->table[t]);
    }
    free(m);
}

uint64_t marks_bytes(const struct marks *m)
{
    return m->bytes;
}

uint64_t marks_bytes_most(uint32_t lanes, uint32_t tablets)
{
    return lanes * (sizeof(struct lane_marks) + tablets * (uint64_t)sizeof(uint64_t));
}

static const uint64_t *array_of(const struct marks *m, uint32_t lane, uint32_t table)
{
    SHOAL_ASSERT(lane < m->lanes && table < LIMIT_TABLES);

    if (m->table[table] == NULL)
        return NULL;

    return m->table[table][lane].mark;
}

void marks_plan(const struct marks *m, uint32_t lane, uint32_t table, uint32_t first,
                uint32_t count, uint64_t from, uint64_t to, struct mark_plan *out)
{
    const uint64_t *mark = array_of(m, lane, table);
    uint64_t low = 0, high = 0;
    SHOAL_ASSERT(count > 0 && from < to);
    if (mark != NULL) {
        SHOAL_ASSERT((uint64_t)first + count <= m->tablets[table]);
        low = high = mark[first];
        for (uint32_t i = first + 1; i < first + count; i++) {
            if (mark[i] < low)
                low = mark[i];

            if (mark[i] > high)
                high = mark[i];
        }
    }
    /* The rule is monotone in the mark, so the lowest and the highest mark decide for all. */
    enum push_verdict of_low = mark_push_rule(low, from, to),
                      of_high = mark_push_rule(high, from, to);
    *out = (struct mark_plan){.verdict = of_low, .lowest = low, .highest = high};
    if (of_low == PUSH_GAP)
        return;
    if (of_low == of_high) {
        if (of_low == PUSH_TAKE)
            out->applied = count;
        out->skipped = count - out->applied;
        return;
    }
    out->verdict = PUSH_SOME;
    for (uint32_t i = first; i < first + count; i++)
        out->applied += mark[i] < to;
    SHOAL_ASSERT(out->applied > 0 && out->applied < count); /* some tablets, neither none nor all */
    out->skipped = count - out->applied;
}

void marks_take(const struct marks *m, uint32_t lane, uint32_t table, uint32_t first,
                uint32_t count, uint64_t from, uint64_t to, uint8_t *take)
{
    const uint64_t *mark = array_of(m, lane, table);
    SHOAL_ASSERT(from < to && (mark == NULL || (uint64_t)first + count <= m->tablets[table]));
    for (uint32_t i = first; i < first + count; i++)
        take[i] = mark_push_rule(mark == NULL ? 0 : mark[i], from, to) == PUSH_TAKE;
}

int marks_reserve(struct marks *m, uint32_t lane, uint32_t table, uint32_t tablets)
{
    SHOAL_ASSERT(lane < m->lanes && table < LIMIT_TABLES);
    if (m->table[table] == NULL) {
        m->table[table] = calloc(m->lanes, sizeof *m->table[table]);
        if (m->table[table] == NULL)
            return SHOAL_E_NOMEM;
        m->bytes += m->lanes * sizeof *m->table[table];
    }
    SHOAL_ASSERT(tablets > 0 && (m->tablets[table] == 0 || m->tablets[table] == tablets));
    m->tablets[table] = tablets;
    struct lane_marks *l = &m->table[table][lane];
    if (l->mark != NULL)
        return 0;
    l->mark = calloc(tablets, sizeof *l->mark);
    if (l->mark == NULL)
        return SHOAL_E_NOMEM;
    m->bytes += tablets * sizeof *l->mark;
    SHOAL_ASSERT(m->bytes <= LIMIT_TABLES * marks_bytes_most(m->lanes, LIMIT_TABLETS));
    return 0;
}

static uint64_t count_lowest(const uint64_t *mark, const struct mark_scope *scope)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < scope->tablets; i++) {
        uint64_t at = mark[i] | (scope->led[i] ? 0 : UINT64_MAX);
        low = MIN(at, low);
    }
    return low;
}

static uint64_t count_steps(const struct marks *m, uint32_t table)
{
    uint64_t steps = 0;
    for (uint32_t lane = 0; m->table[table] != NULL && lane < m->lanes; lane++)
        steps += m->table[table][lane].lowest;
    return steps;
}

void marks_move(struct marks *m, uint32_t lane, uint32_t table, uint32_t first, uint32_t count,
                uint64_t to, const uint8_t *take, const struct mark_scope *scope)
{
    SHOAL_ASSERT(array_of(m, lane, table) != NULL && m->tablets[table] == scope->tablets);
    SHOAL_ASSERT((uint64_t)first + count <= scope->tablets);
    struct lane_marks *l = &m->table[table][lane];
    uint64_t *mark = l->mark;
    if (take == NULL)
        for (uint32_t i = first; i < first + count; i++)
            mark[i] = to;
    else
        for (uint32_t i = first; i < first + count; i++)
            mark[i] = take[i] ? to : mark[i];
    uint32_t covered = scope->led_before[first + count] - scope->led_before[first];
    SHOAL_ASSERT(covered <= count && covered <= scope->led_count);
    if (scope->led_count == 0)
        return;
    const uint64_t was = l->lowest;
    if (take == NULL && covered == scope->led_count)
        l->lowest = to;
    else
        l->lowest = count_lowest(mark, scope);
    m->steps[table] += l->lowest - was;
    SHOAL_VERIFY_ASSERT(l->lowest == count_lowest(mark, scope));
    SHOAL_VERIFY_ASSERT(!table_set_has(&m->led, table) || m->steps[table] == count_steps(m, table));
}

uint64_t marks_get(const struct marks *m, uint32_t lane, uint32_t table, uint32_t tablet)
{
    const uint64_t *mark = array_of(m, lane, table);
    SHOAL_ASSERT(mark == NULL || tablet < m->tablets[table]);

    if (mark == NULL)
        return 0;

    return mark[tablet];
}

int marks_set(struct marks *m, uint32_t lane, uint32_t table, uint32_t tablets, uint32_t tablet,
              uint64_t mark)
{
    SHOAL_ASSERT(tablet < tablets);
    if (mark == 0 && array_of(m, lane, table) == NULL)
        return 0;
    int rc = marks_reserve(m, lane, table, tablets);
    if (rc == 0)
        m->table[table][lane].mark[tablet] = mark;
    return rc;
}

void marks_refresh(struct marks *m, uint32_t table, const struct mark_scope *scope)
{
    SHOAL_ASSERT(table < LIMIT_TABLES && scope->led_count <= scope->tablets);
    SHOAL_ASSERT(m->tablets[table] == 0 || m->tablets[table] == scope->tablets);
    table_set_remove(&m->led, table);
    if (scope->led_count > 0)
        table_set_add(&m->led, table);
    for (uint32_t lane = 0; m->table[table] != NULL && lane < m->lanes; lane++) {
        struct lane_marks *l = &m->table[table][lane];
        l->lowest = l->mark == NULL ? 0 : count_lowest(l->mark, scope);
    }
    m->steps[table] = scope->led_count > 0 ? count_steps(m, table) : 0;
}

const struct table_set *marks_led(const struct marks *m)
{
    return &m->led;
}

uint64_t marks_lowest(const struct marks *m, uint32_t lane, uint32_t table)
{
    SHOAL_ASSERT(lane < m->lanes && table < LIMIT_TABLES);
    if (!table_set_has(&m->led, table))
        return UINT64_MAX;

    if (m->table[table] == NULL)
        return 0;

    return m->table[table][lane].lowest;
}

uint64_t marks_steps(const struct marks *m, uint32_t table)
{
    SHOAL_ASSERT(table < LIMIT_TABLES);
    if (!table_set_has(&m->led, table))
        return 0;

    return m->steps[table];
}
