/* pull_walk.h: the walk of table_pull. No guard: pull.c includes it once for each vector level,
 * with WALK_TARGET (the level's attribute), WALK_MATCH (its bucket_match), WALK_WIDEN (its
 * half_widen) and WALK_NAME (appends the level to a name) set.
 *
 * Calls with constant arguments make versions for the common shapes: values (enum value_kind),
 * width, row_bytes and aligned (rows begin at a cache line). */

struct WALK_NAME(step) {
    const struct tablet *tablet;
    struct bucket *home;
};

WALK_TARGET ISA_INLINE void WALK_NAME(walk)(const struct table *t, const uint64_t *keys,
                                            size_t count, float *rows, const uint32_t width,
                                            const uint32_t row_bytes, const uint32_t place_bits,
                                            const bool aligned, const uint32_t values,
                                            const bool initial)
{
    /* a copy, because the compiler must assume that stores to rows change the table's shape */
    const struct tablet_shape shape = {t->shape.arena, t->shape.tablet_bits, t->shape.floats,
                                       row_bytes,      t->shape.page_rows,   t->shape.page_units,
                                       place_bits};
    struct tablet *const tablets = t->tablets;
    struct WALK_NAME(step) step[WALK_INDEX];
    const float *row[WALK_ROW];
    for (size_t i = 0; i < count + WALK_ROW + WALK_INDEX; i++) {
        if (i >= WALK_ROW + WALK_INDEX) {
            size_t at = i - WALK_ROW - WALK_INDEX;
            const float *from = row[at % WALK_ROW];
            if (__builtin_expect(from != NULL, 1) && values == VALUES_FP32)
                memcpy(rows + at * width, from, width * sizeof *rows);
            else if (__builtin_expect(from != NULL, 1))
                WALK_WIDEN(values, (const uint16_t *)(const void *)from, rows + at * width, width);
            else if (initial)
                table_absent(t, table_tablet(t, key_mix(keys[at])), keys[at], rows + at * width);
            else
                for (uint32_t k = 0; k < width; k++)
                    rows[at * width + k] = TABLE_ABSENT;
        }
        if (i >= WALK_INDEX && i < count + WALK_INDEX) {
            size_t at = i - WALK_INDEX;
            const struct WALK_NAME(step) *s = &step[at % WALK_INDEX];
            const float *found = NULL;
            TABLET_SEARCH(found, s->tablet, &shape, s->home, keys[at], WALK_MATCH, bucket_seen);
            row[at % WALK_ROW] = found;
            if (__builtin_expect(found != NULL, 1))
                walk_prefetch(
                    found,
                    width * (uint32_t)(values == VALUES_FP32 ? sizeof(float) : sizeof(uint16_t)),
                    aligned);
        }
        if (i < count) {
            uint64_t mixed = key_mix(keys[i]);
            struct WALK_NAME(step) *s = &step[i % WALK_INDEX];
            s->tablet = &tablets[key_tablet(mixed, shape.tablet_bits)];
            s->home = tablet_home(s->tablet, shape.tablet_bits, mixed);
            __builtin_prefetch(s->home);
        }
    }
}

WALK_TARGET static void WALK_NAME(pull)(const struct table *t, const uint64_t *keys, size_t count,
                                        float *rows, bool initial)
{
    const uint32_t width = t->schema.width, row_bytes = t->shape.row_bytes,
                   place_bits = t->shape.place_bits;
    const bool aligned = row_bytes % 64 == 0;
    /* 32 bytes of weights in a row of 96 lie in one cache line, too */
    const bool common = width == 16 && row_bytes == 96 && place_bits == 6;
    if (t->schema.values == VALUES_FP16 && common)
        WALK_NAME(walk)(t, keys, count, rows, 16, 96, 6, true, VALUES_FP16, initial);
    else if (t->schema.values == VALUES_FP16)
        WALK_NAME(walk)
    (t, keys, count, rows, width, row_bytes, place_bits, aligned, VALUES_FP16, initial);
    else if (t->schema.values == VALUES_BF16 && common)
        WALK_NAME(walk)(t, keys, count, rows, 16, 96, 6, true, VALUES_BF16, initial);
    else if (t->schema.values == VALUES_BF16) WALK_NAME(walk)(
        t, keys, count, rows, width, row_bytes, place_bits, aligned, VALUES_BF16, initial);
    else if (width == 16 && row_bytes == 128 && place_bits == 5)
        WALK_NAME(walk)(t, keys, count, rows, 16, 128, 5, true, VALUES_FP32, initial);
    else if (width == 16) WALK_NAME(walk)(t, keys, count, rows, 16, row_bytes, place_bits, aligned,
                                          VALUES_FP32, initial);
    else if (width == 8) WALK_NAME(walk)(t, keys, count, rows, 8, row_bytes, place_bits, aligned,
                                         VALUES_FP32, initial);
    else WALK_NAME(walk)(t, keys, count, rows, width, row_bytes, place_bits, aligned, VALUES_FP32,
                         initial);
}
