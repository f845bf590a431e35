/* test_name.c: endpoints with a host name, the addresses that it stands for, and the address that
 * is shown. */
#include "proto/net/name.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

START_TEST(names_are_told_from_addresses)
{
    static const struct {
        const char *endpoint;
        bool named, any;
    } cases[] = {
        {"tcp://localhost:7070", true, false},  {"tcp://mybox.example:7070", true, false},
        {"tcp://127.0.0.1:7070", false, false}, {"tcp://0.0.0.0:*", false, true},
        {"tcp://[::1]:7070", false, false},     {"tcp://[::]:7070", false, true},
        {"tcp://*:7070", false, true},          {"tcp://lo:7070", false, false},
        {"ipc:///run/x:1", false, false},       {"tcp://:7070", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(name_in(cases[i].endpoint) == cases[i].named, "%s", cases[i].endpoint);
        ck_assert_msg(name_any(cases[i].endpoint) == cases[i].any, "%s", cases[i].endpoint);
    }
}
END_TEST

START_TEST(a_name_gives_way_to_its_address)
{
    char numeric[256];
    struct err e;
    ck_assert_int_eq(name_resolve("tcp://localhost:7070", numeric, &e), 0);
    ck_assert_str_eq(numeric, "tcp://127.0.0.1:7070");
    ck_assert_int_eq(name_resolve("tcp://localhost:*", numeric, &e), 0);
    ck_assert_str_eq(numeric, "tcp://127.0.0.1:*");
    ck_assert_int_eq(name_resolve("tcp://[::1]:7070", numeric, &e), 0);
    ck_assert_str_eq(numeric, "tcp://[::1]:7070");
    ck_assert_int_eq(name_resolve("ipc:///x", numeric, &e), 0);
    ck_assert_str_eq(numeric, "ipc:///x");
}
END_TEST

START_TEST(a_name_without_an_address_is_told)
{
    char numeric[256];
    struct err e;
    ck_assert_int_eq(name_resolve("tcp://no-such-host.invalid:7070", numeric, &e),
                     SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "no-such-host.invalid has no address"));
}
END_TEST

START_TEST(the_address_shown_is_of_the_way_there)
{
    char address[64];
    struct err e;
    ck_assert_int_eq(name_toward("tcp://127.0.0.9:7070", address, &e), 0);
    ck_assert_int_eq(strncmp(address, "127.0.0.", 8), 0);
    ck_assert_int_eq(name_toward("tcp://localhost:7070", address, &e), 0);
    ck_assert_str_eq(address, "127.0.0.1");
    ck_assert_int_eq(name_toward("ipc:///x", address, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_int_eq(name_toward("tcp://no-such-host.invalid:7070", address, &e),
                     SHOAL_E_UNAVAILABLE);
}
END_TEST

START_TEST(workers_are_told_an_address_that_is_one)
{
    static const struct {
        const char *advertise, *bound, *shown, *told;
    } cases[] = {
        {"", "tcp://0.0.0.0:9000", "10.0.0.7", "tcp://10.0.0.7:9000"},
        {"", "tcp://[::]:9000", "[fd00::7]", "tcp://[fd00::7]:9000"},
        {"", "tcp://10.0.0.8:9000", "10.0.0.7", "tcp://10.0.0.8:9000"},
        {"", "tcp://0.0.0.0:9000", "", "tcp://0.0.0.0:9000"},
        {"host7", "tcp://0.0.0.0:9000", "10.0.0.7", "tcp://host7:9000"},
        {"fd00::9", "tcp://[::]:9000", "[fd00::7]", "tcp://[fd00::9]:9000"},
        {"[fd00::9]", "tcp://[::]:9000", "", "tcp://[fd00::9]:9000"},
        {"host7", "ipc:///x", "10.0.0.7", "ipc:///x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char told[256];
        name_advertised(cases[i].advertise, cases[i].bound, cases[i].shown, told);
        ck_assert_str_eq(told, cases[i].told);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name");
    TCase *t = suite_case(suite, "name", 30, NULL, NULL);
    tcase_add_test(t, names_are_told_from_addresses);
    tcase_add_test(t, a_name_gives_way_to_its_address);
    tcase_add_test(t, a_name_without_an_address_is_told);
    tcase_add_test(t, the_address_shown_is_of_the_way_there);
    tcase_add_test(t, workers_are_told_an_address_that_is_one);
    return suite_main(suite);
}
