/* suite.c: the end of every test program. */
#include "tests/lib/suite.h"

#include <stdlib.h>

TCase *suite_case(Suite *suite, const char *name, double timeout_s, void (*setup)(void),
                  void (*teardown)(void))
{
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, timeout_s);
    if (setup != NULL)
        tcase_add_checked_fixture(c, setup, teardown);
    suite_add_tcase(suite, c);
    return c;
}

int suite_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
