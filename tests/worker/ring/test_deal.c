/* test_deal.c: blocks are dealt to shares by their tablets, and units and keys find each other. */
#include "tests/lib/suite.h"
#include "tests/worker/ring/network_case.h"
#include "worker/ring/deal.h"

enum { COUNT = 700, BITS = 5 };
static uint64_t keys[COUNT];
static uint32_t block[COUNT];

static void blocks_make(void)
{
    for (uint32_t i = 0; i < COUNT; i++)
        keys[i] = key_make(i / 64, i % 64);
    qsort(keys, COUNT, sizeof *keys, case_by_mix);
    for (uint32_t i = 0; i < COUNT; i++)
        block[i] = key_field(keys[i]) * 64 + (uint32_t)(keys[i] & 63);
}

static void dealt(uint32_t starts)
{
    struct deal d;
    bool seen[COUNT] = {false};
    ck_assert_int_eq(deal_new(BITS, block, COUNT, &d), 0);
    deal_out(&d, starts, keys, block);
    uint32_t unit = 0;
    for (uint32_t k = 0; k < starts; k++) {
        ck_assert_uint_eq(d.key[k], unit);
        for (uint32_t last = 0, i = 0; i < d.share[k]; i++, unit++) {
            uint32_t of = d.order[unit], key = d.key_of[unit];
            ck_assert(!seen[of] && (i == 0 || of > last)); /* in the model's order */
            ck_assert_uint_eq(block[key], of);
            ck_assert_uint_eq(d.place[key], unit);
            uint32_t tablet = key_tablet(key_mix(keys[key]), BITS);
            ck_assert_uint_eq(deal_share(&d, tablet), k);
            ck_assert(tablet >= deal_tablet(&d, k) && tablet < deal_tablet(&d, k + 1));
            seen[of] = true;
            last = of;
        }
    }
    ck_assert_uint_eq(unit, COUNT);
    ck_assert_uint_eq(deal_tablet(&d, starts), 1u << BITS);
    deal_free(&d);
}

START_TEST(deal_gives_whole_tablets_to_shares)
{
    blocks_make();
    dealt(1);
    dealt(3);
    dealt(4);
    dealt(32);
    dealt(64); /* more than tablets: some shares have nothing */
}
END_TEST

/* Nothing is dealt yet: units are blocks. */
START_TEST(deal_begins_with_the_order_of_the_model)
{
    struct deal d;
    blocks_make();
    ck_assert_int_eq(deal_new(BITS, block, COUNT, &d), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(d.order[i], i);
        ck_assert_uint_eq(d.place[i], block[i]);
    }
    deal_free(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("deal");
    TCase *t = suite_case(s, "deal", 60, NULL, NULL);
    tcase_add_test(t, deal_gives_whole_tablets_to_shares);
    tcase_add_test(t, deal_begins_with_the_order_of_the_model);
    return suite_main(s);
}
