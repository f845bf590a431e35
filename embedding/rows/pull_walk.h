/* pull_walk.h: the walk of table_pull. No guard: pull.c includes it once for each vector level,
 * with WALK_TARGET (the level's attribute), WALK_MATCH (its bucket_match), WALK_WIDEN and
 * WALK_NARROW (its half_widen, half_narrow) and WALK_NAME (appends the level to a name) set.
 *
 * Calls with constant arguments make versions for the common shapes: values (enum value_kind
 * of the rows), out (of the output), width, row_bytes and aligned (rows begin at a cache line). */

struct WALK_NAME(step) {
    const struct tablet *tablet;
    struct bucket *home;
};

WALK_TARGET ISA_INLINE void WALK_NAME(walk)(const struct table *t, const struct pull_args *args,
                                            const uint64_t *keys, size_t count, char *rows,
                                            const uint32_t width, const uint32_t row_bytes,
                                            const uint32_t place_bits, const bool aligned,
                                            const uint32_t values, const uint32_t out)
{
    const uint32_t stored = width * half_bytes(values), bytes = width * half_bytes(out);
    /* a copy, because the compiler must assume that stores to rows change the table's shape */
    const struct tablet_shape shape = {t->shape.arena,      t->shape.taken, t->shape.tablet_bits,
                                       t->shape.floats,     row_bytes,      t->shape.page_rows,
                                       t->shape.page_units, place_bits};
    struct tablet *const tablets = t->tablets;
    struct WALK_NAME(step) step[WALK_INDEX];
    const float *row[WALK_ROW];
    for (size_t i = 0; i < count + WALK_ROW + WALK_INDEX; i++) {
        if (i >= WALK_ROW + WALK_INDEX) {
            size_t at = i - WALK_ROW - WALK_INDEX;
            const float *from = row[at % WALK_ROW];
            char *to = rows + at * bytes;
            if (__builtin_expect(from == NULL, 0))
                absent(t, args, keys[at], to);
            else if (values == out)
                memcpy(to, from, bytes);
            else if (out == VALUES_FP32)
                WALK_WIDEN(values, (const uint16_t *)(const void *)from, (float *)(void *)to,
                           width);
            else
                WALK_NARROW(out, from, (uint16_t *)(void *)to, width);
        }
        if (i >= WALK_INDEX && i < count + WALK_INDEX) {
            size_t at = i - WALK_INDEX;
            const struct WALK_NAME(step) *s = &step[at % WALK_INDEX];
            const float *found = NULL;
            TABLET_SEARCH(found, s->tablet, &shape, s->home, keys[at], WALK_MATCH, bucket_seen);
            row[at % WALK_ROW] = found;
            if (__builtin_expect(found != NULL, 1))
                walk_prefetch(found, stored, aligned);
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

/* One walk for each kind of output; the table's values are another kind only if one of them is
 * fp32. */
WALK_TARGET ISA_INLINE void WALK_NAME(shaped)(const struct table *t, const struct pull_args *args,
                                              const uint64_t *keys, size_t count, char *rows,
                                              const uint32_t width, const uint32_t row_bytes,
                                              const uint32_t place_bits, const bool aligned,
                                              const uint32_t values)
{
    if (args->values == VALUES_FP32)
        WALK_NAME(walk)
    (t, args, keys, count, rows, width, row_bytes, place_bits, aligned, values, VALUES_FP32);
    else if (values != VALUES_FP32) WALK_NAME(walk)(t, args, keys, count, rows, width, row_bytes,
                                                    place_bits, aligned, values, values);
    else if (args->values == VALUES_BF16) WALK_NAME(walk)(
        t, args, keys, count, rows, width, row_bytes, place_bits, aligned, values, VALUES_BF16);
    else WALK_NAME(walk)(t, args, keys, count, rows, width, row_bytes, place_bits, aligned, values,
                         VALUES_FP16);
}

WALK_TARGET static void WALK_NAME(pull)(const struct table *t, const struct pull_args *args,
                                        const uint64_t *keys, size_t count, char *rows)
{
    const uint32_t width = t->schema.width, row_bytes = t->shape.row_bytes,
                   place_bits = t->shape.place_bits;
    const bool aligned = row_bytes % 64 == 0;
    /* 32 bytes of weights in a row of 96 lie in one cache line, too */
    const bool common = width == 16 && row_bytes == 96 && place_bits == 6;
#define SHAPED(width, row_bytes, place_bits, aligned, values)                                      \
    WALK_NAME(shaped)(t, args, keys, count, rows, width, row_bytes, place_bits, aligned, values)
    if (t->schema.values == VALUES_FP16 && common)
        SHAPED(16, 96, 6, true, VALUES_FP16);
    else if (t->schema.values == VALUES_FP16)
        SHAPED(width, row_bytes, place_bits, aligned, VALUES_FP16);
    else if (t->schema.values == VALUES_BF16 && common)
        SHAPED(16, 96, 6, true, VALUES_BF16);
    else if (t->schema.values == VALUES_BF16)
        SHAPED(width, row_bytes, place_bits, aligned, VALUES_BF16);
    else if (width == 16 && row_bytes == 128 && place_bits == 5)
        SHAPED(16, 128, 5, true, VALUES_FP32);
    else if (width == 16)
        SHAPED(16, row_bytes, place_bits, aligned, VALUES_FP32);
    else if (width == 8)
        SHAPED(8, row_bytes, place_bits, aligned, VALUES_FP32);
    else
        SHAPED(width, row_bytes, place_bits, aligned, VALUES_FP32);
#undef SHAPED
}
