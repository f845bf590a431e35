/* assign.c: rows that are assigned by key: what can be stored, table_assign, and its counterpart
 * table_pull_state. */
#include "embedding/rows/age.h"
#include "embedding/rows/rules/stats.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/half.h"

#include <math.h>
#include <string.h>

enum { AHEAD = 8 }; /* keys whose buckets are on their way to the processor */
#define STATS_FLOATS (sizeof(struct row_stats) / sizeof(float))

/* ---- what can be stored ---- */

/* Floats of the state without statistics. */
static uint32_t state_floats(const struct table_schema *s)
{
    return schema_state_floats(s) - (s->rules.stats != 0 ? (uint32_t)STATS_FLOATS : 0);
}

uint32_t table_assign_floats(const struct table_schema *s, uint32_t parts)
{
    return s->width + ((parts & ASSIGN_STATE) != 0 ? state_floats(s) : 0) +
           ((parts & ASSIGN_STATS) != 0 ? (uint32_t)STATS_FLOATS : 0);
}

/* False for a NaN, too. */
static bool within(const float *x, uint32_t count, float most)
{
    bool good = true;
    for (uint32_t i = 0; i < count; i++)
        good &= fabsf(x[i]) <= most;
    return good;
}

static bool stats_good(const float *at)
{
    const struct row_stats x = stats_read(at);
    return x.click >= 0 && x.show >= x.click && x.show <= LIMIT_GRADIENT &&
           fabsf(x.delta_score) <= FLT_MAX && (x.flags & ~ROW_HAS_VECTOR) == 0;
}

bool table_assign_ok(const struct table_schema *s, uint32_t parts, const float *rows, size_t count,
                     size_t *bad, const char **why)
{
    const uint32_t floats = table_assign_floats(s, parts);
    const uint32_t state = (parts & ASSIGN_STATE) != 0 ? state_floats(s) : 0;
    const bool clamped = s->rules.weight_max > 0;
    float most = LIMIT_GRADIENT;
    if (clamped)
        most = MIN(most, s->rules.weight_max);
    most = half_bound((enum value_kind)s->values, most);
    *bad = 0;
    *why = "the table keeps no statistics";
    if ((parts & ASSIGN_STATS) != 0 && s->rules.stats == 0)
        return false;
    for (; *bad < count; ++*bad, rows += floats) {
        *why = clamped ? "a weight is not finite, or larger than the table's weight_max"
                       : "a weight is not finite, or larger than the table stores";
        if (!within(rows, s->width, most))
            return false;
        *why = "its optimizer's state is not finite";
        if (!within(rows + s->width, state, FLT_MAX))
            return false;
        *why = "its statistics are not: 0 <= clicks <= shows, flags 0 or 1";
        if ((parts & ASSIGN_STATS) != 0 && !stats_good(rows + s->width + state))
            return false;
    }
    return true;
}

/* ---- assigning ---- */

/* Fills a row in with the given numbers; what is not given begins anew. */
static void fill(const struct table *t, const struct tablet *own, float *stored,
                 const float *values, uint32_t parts)
{
    const struct table_schema *s = &t->schema;
    const uint32_t state = state_floats(s);
    float *row = table_open_new(t, stored);
    memcpy(row, values, s->width * sizeof *row);
    values += s->width;
    if ((parts & ASSIGN_STATE) != 0) {
        memcpy(row + s->width, values, state * sizeof *row);
        values += state;
    } else {
        t->optimizer.start(row, s);
        if (t->pulled_back != NULL)
            row[t->last_at] = LAST_NEVER;
    }
    if (s->rules.stats != 0) {
        struct row_stats stats = {.flags = ROW_HAS_VECTOR};
        if ((parts & ASSIGN_STATS) != 0)
            stats = stats_read(values);
        else if (own->life != NULL)
            stats.time = own->life->clock;
        stats_write(row + t->wide_stats_at, &stats);
    }
    table_close_new(t, stored);
}

/* The place of a new key's row; NULL: no memory. */
static float *row_make(struct table *t, uint32_t tablet, uint64_t key)
{
    struct tablet *own = &t->tablets[tablet];
    float *row = tablet_insert(own, &t->shape, tablet, key);
    if (row == NULL)
        return NULL;
    t->rows++;
    if (own->life != NULL)
        waiting_forget(&own->life->waiting, key);
    return row;
}

static int assign_one(struct table *t, uint32_t tablet, uint64_t key, const float *values,
                      uint32_t parts, struct assign_counts *counts)
{
    const struct tablet *own = &t->tablets[tablet];
    float *row = NULL;
    if (own->life != NULL && named_blocked(&own->life->named, key)) {
        counts->blocked++;
        return 0;
    }
    struct bucket *home = tablet_home(own, t->shape.tablet_bits, key_mix(key));
    if ((parts & ASSIGN_KEEP) != 0) {
        TABLET_SEARCH(row, own, &t->shape, home, key, bucket_match, bucket_leave);
        if (row != NULL) {
            counts->kept++;
            return 0;
        }
    }
    TABLET_SEARCH(row, own, &t->shape, home, key, bucket_match, bucket_changed);
    counts->replaced += row != NULL;
    counts->made += row == NULL;
    if (row == NULL && (row = row_make(t, tablet, key)) == NULL)
        return SHOAL_E_NOMEM;
    fill(t, own, row, values, parts);
    return 0;
}

/* The bucket of a key that comes soon. */
static inline void home_prefetch(const struct table *t, uint64_t key)
{
    const uint32_t bits = t->shape.tablet_bits;
    const uint64_t mixed = key_mix(key);
    __builtin_prefetch(tablet_home(&t->tablets[key_tablet(mixed, bits)], bits, mixed));
}

void table_pull_state(const struct table *t, const uint64_t *keys, size_t count, float *rows)
{
    const struct table_schema *s = &t->schema;
    const uint32_t floats = table_assign_floats(s, ASSIGN_STATE);
    for (size_t i = 0; i < count; i++, rows += floats) {
        if (i + AHEAD < count)
            home_prefetch(t, keys[i + AHEAD]);
        const void *row = table_row(t, keys[i]);
        for (uint32_t k = 0; k < floats && row == NULL; k++)
            rows[k] = TABLE_ABSENT;
        if (row == NULL)
            continue;
        table_row_weights(s, row, rows);
        memcpy(rows + s->width, table_row_state(s, row), (floats - s->width) * sizeof *rows);
    }
}

int table_assign(struct table *t, const uint64_t *keys, const float *rows, size_t count,
                 const struct assign_args *args, struct assign_counts *counts)
{
    const uint32_t floats = table_assign_floats(&t->schema, args->parts);
    const struct push_args after = {
        .tablet_first = args->tablet_first, .tablet_count = args->tablet_count, .take = args->take};
    SHOAL_ASSERT((uint64_t)args->tablet_first + args->tablet_count <= t->tablet_count);
    SHOAL_ASSERT((args->parts & ASSIGN_STATS) == 0 || t->schema.rules.stats != 0);
    for (size_t i = 0; i < count; i++) {
        const uint32_t tablet = key_tablet(key_mix(keys[i]), t->shape.tablet_bits);
        if (i + AHEAD < count)
            home_prefetch(t, keys[i + AHEAD]);
        if (args->take != NULL && args->take[tablet] == 0)
            continue;
        int rc = assign_one(t, tablet, keys[i], rows + i * floats, args->parts, counts);
        if (rc != 0)
            return rc;
    }
    return age_after(t, &after);
}
