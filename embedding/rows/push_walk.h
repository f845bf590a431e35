/* push_walk.h: the walk of table_push. No guard: push.c includes it once for each vector level, as
 * pull.c does with pull_walk.h. */

WALK_TARGET ISA_INLINE int WALK_NAME(walk)(struct table *t, const uint64_t *keys,
                                           const float *gradients, size_t count,
                                           const struct push_args *args, const uint32_t row_bytes,
                                           const uint32_t place_bits, const bool aligned,
                                           const bool ruled, const bool halves)
{
    const struct tablet_shape shape = {t->shape.arena,      t->shape.taken, t->shape.tablet_bits,
                                       t->shape.floats,     row_bytes,      t->shape.page_rows,
                                       t->shape.page_units, place_bits};
    const opt_update_fn update = t->optimizer.update;
    /* floats of a key in gradients */
    const uint32_t floats = ruled ? t->push_floats : t->schema.width;
    const uint8_t *const take = args->take;
    struct tablet *const tablets = t->tablets;
    struct opt_step step;
    uint64_t mixed_of[WALK_INDEX];
    float *row_of[WALK_ROW];
    optimizer_step(&t->schema, args->lr_scale, &step);
    const uint64_t draws = halves ? half_draws(t->schema.seed, args->lane, args->batch) : 0;
    for (size_t i = 0; i < count + WALK_ROW + WALK_INDEX; i++) {
        if (i >= WALK_ROW + WALK_INDEX) {
            size_t at = i - WALK_ROW - WALK_INDEX;
            float *row = row_of[at % WALK_ROW];
            if (__builtin_expect(row != NULL, 1)) {
                float *const stored = row;
                if (halves)
                    t->half.open(stored, row = t->wide, t->schema.width, t->state_floats);
                if (__builtin_expect(args->undo_clock != 0, 0) &&
                    undo_keep(t, keys[at], row, args->undo_clock) != 0)
                    return SHOAL_E_NOMEM;
                const float *gradient = gradients + at * floats;
                if (ruled) {
                    rules_push(t, keys[at], row, gradient, &step);
                } else {
                    if (__builtin_expect(t->pulled_back != NULL, 0))
                        gradient = l2_gradient(t, keys[at], row, gradient, &step);
                    update(row, gradient, &step);
                }
                if (halves)
                    t->half.close(stored, row, t->schema.width, t->state_floats,
                                  half_draw(draws, key_mix(keys[at])));
            }
        }
        if (i >= WALK_INDEX && i < count + WALK_INDEX) {
            size_t at = i - WALK_INDEX;
            uint64_t mixed = mixed_of[at % WALK_INDEX];
            uint32_t number = key_tablet(mixed, shape.tablet_bits);
            float *row = NULL;
            if (take == NULL || take[number] != 0) {
                /* Finds the home again: an insert after the prefetch may have moved the index. */
                const struct tablet *tablet = &tablets[number];
                struct bucket *home = tablet_home(tablet, shape.tablet_bits, mixed);
                TABLET_SEARCH(row, tablet, &shape, home, keys[at], WALK_MATCH, bucket_changed);
                if (__builtin_expect(row != NULL, 1))
                    walk_prefetch(row, row_bytes, aligned);
                else if (admit_row(t, number, keys[at], gradients + at * floats, args, &row) != 0)
                    return SHOAL_E_NOMEM;
            }
            row_of[at % WALK_ROW] = row;
        }
        if (i < count) {
            uint64_t mixed = key_mix(keys[i]);
            mixed_of[i % WALK_INDEX] = mixed;
            __builtin_prefetch(tablet_home(&tablets[key_tablet(mixed, shape.tablet_bits)],
                                           shape.tablet_bits, mixed));
        }
    }
    return 0;
}

WALK_TARGET static int WALK_NAME(push)(struct table *t, const uint64_t *keys,
                                       const float *gradients, size_t count,
                                       const struct push_args *args)
{
    const uint32_t row_bytes = t->shape.row_bytes, place_bits = t->shape.place_bits;
    const bool aligned = row_bytes % 64 == 0;
    if (t->wide != NULL && t->ruled)
        return WALK_NAME(walk)(t, keys, gradients, count, args, row_bytes, place_bits, aligned,
                               true, true);
    if (t->wide != NULL)
        return WALK_NAME(walk)(t, keys, gradients, count, args, row_bytes, place_bits, aligned,
                               false, true);
    if (t->ruled)
        return WALK_NAME(walk)(t, keys, gradients, count, args, row_bytes, place_bits, aligned,
                               true, false);
    if (row_bytes == 128 && place_bits == 5)
        return WALK_NAME(walk)(t, keys, gradients, count, args, 128, 5, true, false, false);
    return WALK_NAME(walk)(t, keys, gradients, count, args, row_bytes, place_bits, aligned, false,
                           false);
}
