/* test_broken.c: breaks the invariants of messages on purpose: each breach must be caught by its
 * own assert. */
#include "proto/wire/wire.h"
#include "proto/wire/wire_inner.h"
#include "tests/lib/broken.h"
#include "tests/lib/suite.h"

#include <check.h>

static void a_list_has_a_field_that_the_proto_message_lacks(void)
{
    uint32_t frames;
    struct shape s = *wire_shape_of(WIRE_TYPE_SUBMIT, false, &frames);
    wire_shape_assert(&s);
    s.field_count++;
    wire_shape_assert(&s);
}

static const struct broken list[] = {
    {"proto/wire/wire_shape.c", 1, a_list_has_a_field_that_the_proto_message_lacks,
     "s->proto->n_fields == s->field_count && "},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return suite_main(suite);
}
