/* pull.c: table_pull: walks over keys and copies weights out; changes nothing. */
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <string.h>

#define WALK_TARGET
#define WALK_MATCH bucket_match
#define WALK_WIDEN half_widen_base
#define WALK_NAME(x) x##_base
#include "embedding/rows/pull_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_WIDEN
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX2
#define WALK_MATCH walk_match_avx2
#define WALK_WIDEN half_widen_avx2
#define WALK_NAME(x) x##_avx2
#include "embedding/rows/pull_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_WIDEN
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX512
#define WALK_MATCH walk_match_avx512
#define WALK_WIDEN half_widen_avx512
#define WALK_NAME(x) x##_avx512
#include "embedding/rows/pull_walk.h"

static void pull_any(const struct table *t, const uint64_t *keys, size_t count, float *rows,
                     bool initial)
{
    static void (*const pull[ISA_COUNT])(const struct table *, const uint64_t *, size_t, float *,
                                         bool) = {pull_base, pull_avx2, pull_avx512};
    SHOAL_ASSERT(t->isa < ISA_COUNT);
    pull[t->isa](t, keys, count, rows, initial);
}

void table_pull(const struct table *t, const uint64_t *keys, size_t count, float *rows)
{
    pull_any(t, keys, count, rows, true);
}

void table_pull_rows(const struct table *t, const uint64_t *keys, size_t count, float *rows)
{
    pull_any(t, keys, count, rows, t->schema.dense != 0);
}

void table_pull_before(const struct table *t, const uint64_t *keys, size_t count, uint64_t clock,
                       float *rows)
{
    uint32_t width = t->schema.width;
    table_pull(t, keys, count, rows);
    if (clock == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct undo *undo = table_tablet(t, key_mix(keys[i]))->undo;
        if (undo == NULL || undo->clock != clock)
            continue;
        const float *kept = undo_find(undo, keys[i]);
        if (kept != NULL)
            memcpy(rows + i * width, kept, width * sizeof *rows);
    }
}
