/* test_preview.c: the weights that a push will leave, before it is made. */
#include "proto/job/packed.h"
#include "tests/lib/embedding_rows.h"

enum { WIDTH = 32, BITS = 3, KEYS = 40, STEPS = 6 };

static void previewed(enum optimizer_kind kind, float l2)
{
    static float gradients[KEYS * WIDTH], ahead[KEYS * WIDTH], after[KEYS * WIDTH];
    struct table_schema s = rows_schema(kind, WIDTH, BITS);
    uint64_t keys[KEYS], before, again;
    struct rng r = rng_of(kind, 3, 9);
    if (l2 > 0)
        s.optimizer.l2 = l2;
    s.dense = 1;
    struct rows t = rows_open(&s);
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = rows_key(i);
    for (uint64_t step = 1; step <= STEPS; step++) {
        float lr_scale = 0.3f * (float)step;
        uint64_t all = 0, same = 0;
        for (uint32_t i = 0; i < KEYS * WIDTH; i++)
            gradients[i] = rng_float(&r) - 0.5f;
        for (uint32_t tablet = 0; tablet < 1u << BITS; tablet++) {
            ck_assert_int_eq(table_digest(t.table, tablet, &before), 0);
            all = hash_bytes(&before, sizeof before, all);
        }
        for (uint32_t i = 0; i < KEYS; i++)
            table_preview(t.table, keys[i], gradients + i * WIDTH, lr_scale, ahead + i * WIDTH);
        for (uint32_t tablet = 0; tablet < 1u << BITS; tablet++) {
            ck_assert_int_eq(table_digest(t.table, tablet, &again), 0);
            same = hash_bytes(&again, sizeof again, same);
        }
        ck_assert_uint_eq(all, same);

        const struct push_args args = {.lr_scale = lr_scale,
                                       .batch = step,
                                       .step = 1,
                                       .width = PACKED_NOT,
                                       .tablet_count = 1u << BITS};
        ck_assert_int_eq(table_push(t.table, keys, gradients, KEYS, &args), 0);
        table_pull(t.table, keys, KEYS, after);
        ck_assert_mem_eq(ahead, after, sizeof after);
    }
    rows_close(&t);
}

/* Keys without a row first, then with one. */
START_TEST(preview_has_the_bits_of_the_push)
{
    previewed(OPT_SGD, 0);
    previewed(OPT_SGD, 0.01f);
    previewed(OPT_ADAGRAD, 0);
    previewed(OPT_ROW_ADAGRAD, 0.02f);
    previewed(OPT_ADAM, 0);
    previewed(OPT_ADAM, 0.01f);
    previewed(OPT_FTRL, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("preview");
    TCase *t = suite_case(s, "preview", 60, NULL, NULL);
    tcase_add_test(t, preview_has_the_bits_of_the_push);
    return suite_main(s);
}
