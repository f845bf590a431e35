/* test_sequence.c: the chunks that a field's values are divided into, and the kernels over them.
 * Gradients and the use by DIN: test_model_attention.c. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include <string.h>

enum { EXAMPLES = 7, FIELDS = 3, FIELD = 1, DIM = 5, ROWS = 11, MOST = 40, ROOM = 16 };

/* A batch and the arrays of one chunk, on the host. */
struct sequences {
    uint32_t index[EXAMPLES * FIELDS * MOST], offset[EXAMPLES * FIELDS + 1];
    float rows[ROWS * (1 + DIM)], target[EXAMPLES * DIM], weight[ROOM], y[EXAMPLES * DIM],
        features[ROOM * 4 * DIM];
    float dfeatures[ROOM * 4 * DIM], dweight[ROOM], dy[EXAMPLES * DIM], dtarget[EXAMPLES * DIM],
        row_gradients[ROWS * (1 + DIM)];
    uint32_t owner[ROOM], value[ROOM];
};

/* Example i has `length[i]` values in the field, and one in each other. */
static void sequences_draw(struct sequences *q, const uint32_t length[EXAMPLES])
{
    struct rng r = rng_of(4, 4, 4);
    uint32_t values = 0;
    memset(q, 0, sizeof *q);
    for (uint32_t slot = 0; slot < EXAMPLES * FIELDS; slot++) {
        q->offset[slot] = values;
        for (uint32_t v = 0; v < (slot % FIELDS == FIELD ? length[slot / FIELDS] : 1); v++)
            q->index[values++] = (uint32_t)rng_below(&r, ROWS);
    }
    q->offset[EXAMPLES * FIELDS] = values;
    dense_fill(&r, q->rows, ROWS * (1 + DIM));
    dense_fill(&r, q->target, EXAMPLES * DIM);
    dense_fill(&r, q->weight, ROOM);
    dense_fill(&r, q->y, EXAMPLES * DIM);
    dense_fill(&r, q->dfeatures, ROOM * 4 * DIM);
    dense_fill(&r, q->dy, EXAMPLES * DIM);
    dense_fill(&r, q->dtarget, EXAMPLES * DIM);
}

/* q may be on the device, where the host must not read it. */
static struct sequence_args args_of(struct sequences *q, uint32_t values)
{
    return (struct sequence_args){.count = EXAMPLES,
                                  .values = values,
                                  .row_count = ROWS,
                                  .fields = FIELDS,
                                  .field = FIELD,
                                  .dim = DIM,
                                  .first_order = 1,
                                  .room = ROOM,
                                  .index = q->index,
                                  .offset = q->offset,
                                  .rows = q->rows,
                                  .target = q->target,
                                  .ldtarget = DIM,
                                  .features = q->features,
                                  .weight = q->weight,
                                  .y = q->y,
                                  .ldy = DIM,
                                  .dy = q->dy,
                                  .lddy = DIM,
                                  .dfeatures = q->dfeatures,
                                  .dweight = q->dweight,
                                  .dtarget = q->dtarget,
                                  .lddtarget = DIM,
                                  .row_gradients = q->row_gradients};
}

static const uint32_t lengths[][EXAMPLES] = {{3, 0, 1, 5, 2, 0, 4},
                                             {0, 0, 0, 0, 0, 0, 0},
                                             {40, 0, 16, 1, 33, 0, 0},
                                             {0, 0, 0, 16, 0, 0, 16},
                                             {0, 0, 0, 0, 0, 0, 1}};

/* Whatever the size of a chunk on this backend, the values with an owner are those of the field,
 * each once, in order. */
START_TEST(chunks_have_every_value_once_in_order)
{
    static struct sequences q;
    struct dense_device d;
    struct sequence_chunk c = {.rows = 0};
    uint32_t example = 0, place = 0, chunks = 0;
    sequences_draw(&q, lengths[_i]);
    dense_device_open(&d);
    struct sequences *up = dense_up(&d, &q, sizeof q);
    struct sequence_args a = args_of(up, q.offset[EXAMPLES * FIELDS]);
    c.owner = up->owner;
    c.value = up->value;
    a.kept = d.k->attention.sequence_begin(d.s, &a, false);
    while (d.k->attention.sequence_next(d.s, &a, &c)) {
        uint32_t owner[ROOM], value[ROOM];
        ck_assert_uint_le(c.rows, ROOM);
        ck_assert_uint_gt(c.rows, 0);
        ck_assert_uint_lt(chunks++, 1000);
        dense_down(&d, up->owner, owner, sizeof owner);
        dense_down(&d, up->value, value, sizeof value);
        for (uint32_t r = 0; r < c.rows; r++) {
            if (owner[r] == SEQUENCE_NOBODY)
                continue;
            for (; example < EXAMPLES && place == lengths[_i][example]; example++)
                place = 0;
            ck_assert_uint_eq(owner[r], example);
            ck_assert_uint_eq(value[r], q.offset[example * FIELDS + FIELD] + place++);
        }
    }
    for (; example < EXAMPLES && place == lengths[_i][example]; example++)
        place = 0;
    ck_assert_uint_eq(example, EXAMPLES);
    dense_down(&d, up, &q, sizeof q);
    for (uint32_t i = 0; i < EXAMPLES * DIM; i++)
        ck_assert_float_eq(q.y[i], 0.0f);
    dense_device_close(&d);
}
END_TEST

START_TEST(features_are_value_target_difference_product)
{
    static struct sequences q;
    struct dense_device d;
    struct sequence_chunk c = {.rows = 0};
    sequences_draw(&q, lengths[0]);
    dense_device_open(&d);
    struct sequences *up = dense_up(&d, &q, sizeof q);
    struct sequence_args a = args_of(up, q.offset[EXAMPLES * FIELDS]);
    c.owner = up->owner;
    c.value = up->value;
    a.kept = d.k->attention.sequence_begin(d.s, &a, false);
    ck_assert(d.k->attention.sequence_next(d.s, &a, &c));
    d.k->attention.sequence_features(d.s, &a, &c);
    d.k->attention.sequence_pool(d.s, &a, &c);
    dense_down(&d, up, &q, sizeof q);
    double y[DIM] = {0}; /* example 0's */
    for (uint32_t r = 0; r < c.rows; r++) {
        bool of_field = q.owner[r] != SEQUENCE_NOBODY;
        for (uint32_t i = 0; i < DIM; i++) {
            const float *f = q.features + r * 4 * DIM + i;
            float h = of_field ? q.rows[q.index[q.value[r]] * (1 + DIM) + 1 + i] : 0,
                  t = of_field ? q.target[q.owner[r] * DIM + i] : 0;
            ck_assert_float_eq(f[0], h);
            ck_assert_float_eq(f[DIM], t);
            ck_assert_float_eq(f[2 * DIM], h - t);
            ck_assert_float_eq(f[3 * DIM], h * t);
            y[i] += q.owner[r] == 0 ? (double)q.weight[r] * (double)h : 0;
        }
    }
    for (uint32_t i = 0; i < DIM; i++)
        ck_assert_double_eq_tol((double)q.y[i], y[i], 1e-6);
    dense_device_close(&d);
}
END_TEST

START_TEST(every_width_gives_the_same_bits)
{
    static struct sequences of[DENSE_WIDTHS];
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        struct sequence_chunk c = {.owner = of[w].owner, .value = of[w].value};
        if (k == NULL)
            continue;
        sequences_draw(&of[w], lengths[2]);
        struct sequence_args a = args_of(&of[w], of[w].offset[EXAMPLES * FIELDS]);
        a.kept = k->attention.sequence_begin(NULL, &a, false);
        while (k->attention.sequence_next(NULL, &a, &c)) {
            k->attention.sequence_features(NULL, &a, &c);
            k->attention.sequence_pool(NULL, &a, &c);
            k->attention.sequence_pool_backward(NULL, &a, &c);
            k->attention.sequence_features_backward(NULL, &a, &c);
        }
        ck_assert_msg(memcmp(&of[w], &of[0], sizeof of[0]) == 0, "%s", dense_width_name[w]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sequence");
    TCase *t = tcase_create("sequence");
    tcase_add_loop_test(t, chunks_have_every_value_once_in_order, 0,
                        sizeof lengths / sizeof *lengths);
    tcase_add_test(t, features_are_value_target_difference_product);
    tcase_add_test(t, every_width_gives_the_same_bits);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
