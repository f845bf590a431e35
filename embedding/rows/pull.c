/* pull.c: table_pull: walks over keys and copies weights out, widened or narrowed where they are to
 * be of other values than they are stored; changes nothing. */
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <string.h>

/* The output of a key without a row. */
static __attribute__((noinline)) void absent(const struct table *t, const struct pull_args *args,
                                             uint64_t key, void *out)
{
    float row[LIMIT_WIDTH];
    const uint32_t width = t->schema.width;
    if (!args->reader || t->schema.dense != 0)
        table_absent(t, table_tablet(t, key_mix(key)), key, row);
    else
        for (uint32_t k = 0; k < width; k++)
            row[k] = TABLE_ABSENT;
    half_narrow(args->values, row, out, width);
}

/* Puts the undo's rows in the place of those that the clock has changed. */
static void pull_before(const struct table *t, const struct pull_args *args, const uint64_t *keys,
                        size_t count, char *rows)
{
    const uint32_t width = t->schema.width, bytes = width * half_bytes(args->values);
    for (size_t i = 0; i < count; i++) {
        const struct undo *undo = table_tablet(t, key_mix(keys[i]))->undo;
        if (undo == NULL || undo->clock != args->before)
            continue;
        const float *kept = undo_find(undo, keys[i]);
        if (kept != NULL)
            half_narrow(args->values, kept, rows + i * bytes, width);
    }
}

#define WALK_TARGET
#define WALK_MATCH bucket_match
#define WALK_WIDEN half_widen_base
#define WALK_NARROW half_narrow_base
#define WALK_NAME(x) x##_base
#include "embedding/rows/pull_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_WIDEN
#undef WALK_NARROW
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX2
#define WALK_MATCH walk_match_avx2
#define WALK_WIDEN half_widen_avx2
#define WALK_NARROW half_narrow_avx2
#define WALK_NAME(x) x##_avx2
#include "embedding/rows/pull_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_WIDEN
#undef WALK_NARROW
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX512
#define WALK_MATCH walk_match_avx512
#define WALK_WIDEN half_widen_avx512
#define WALK_NARROW half_narrow_avx512
#define WALK_NAME(x) x##_avx512
#include "embedding/rows/pull_walk.h"

void table_pull_as(const struct table *t, const struct pull_args *args, const uint64_t *keys,
                   size_t count, void *rows)
{
    static void (*const pull[ISA_COUNT])(const struct table *, const struct pull_args *,
                                         const uint64_t *, size_t,
                                         char *) = {pull_base, pull_avx2, pull_avx512};
    SHOAL_ASSERT(t->isa < ISA_COUNT);
    SHOAL_ASSERT(args->values == VALUES_FP32 || t->schema.values == VALUES_FP32 ||
                 t->schema.values == args->values);
    pull[t->isa](t, args, keys, count, rows);
    if (args->before != 0)
        pull_before(t, args, keys, count, rows);
}

void table_pull(const struct table *t, const uint64_t *keys, size_t count, float *rows)
{
    table_pull_as(t, &(struct pull_args){.values = VALUES_FP32}, keys, count, rows);
}
