/* test_host.c: the names in a header Host that no web site can have. */
#include "proto/http/host.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

START_TEST(host_of_an_address_or_of_this_machine_is_known)
{
    static const char *const known[] = {"127.0.0.1",   "127.0.0.1:9464", "10.1.2.3:80", "[::1]",
                                        "[::1]:9464",  "localhost",      "LocalHost:1", "db.lan",
                                        "DB.LAN:9464", "[fe80::1]:1"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_msg(host_known(known[i], "db.lan"), "%s", known[i]);
    ck_assert(host_known(NULL, "db.lan"));
}
END_TEST

START_TEST(host_of_a_site_is_not)
{
    char longest[1000] = "";
    static const char *const unknown[] = {"",
                                          "evil.example",
                                          "evil.example:9464",
                                          "127.0.0.1.evil.example",
                                          "localhost.x",
                                          "localhos",
                                          "[::1].evil",
                                          "[",
                                          "[evil.example]",
                                          "[]",
                                          "127.0.0.1x",
                                          "0x7f.1",
                                          "2130706433",
                                          "::1",
                                          ":9464",
                                          "db.lan.",
                                          "user@localhost"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        ck_assert_msg(!host_known(unknown[i], "db.lan"), "%s", unknown[i]);
    ck_assert(!host_known("", ""));
    memset(longest, '1', sizeof longest - 1);
    ck_assert(!host_known(longest, "db.lan"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host");
    TCase *t = suite_case(s, "host", 10, NULL, NULL);
    tcase_add_test(t, host_of_an_address_or_of_this_machine_is_known);
    tcase_add_test(t, host_of_a_site_is_not);
    return suite_main(s);
}
