/* test_later.c: two releases side by side, with the lists of later.h: this program is the newer
 * one. */
#include "proto/wire/wire.h"

#include <check.h>
#include <string.h>

static struct msg *stop_reply(bool ends)
{
    struct wire w = {.type = WIRE_TYPE_STOP, .reply = true, .id = 3};
    w.u.STOP_reply.ends = ends;
    return wire_encode(&w);
}

/* Returns the version of a header, its first field. */
static unsigned char *header_version(const struct msg *m)
{
    unsigned char *p = m->frame[0].data;
    ck_assert_uint_eq(p[0], 8);
    return p + 1;
}

START_TEST(wire_header_has_the_oldest_release_that_takes_it)
{
    struct wire w = {.type = WIRE_TYPE_JOBS};
    struct msg *old = stop_reply(true), *new = wire_encode(&w);
    ck_assert_uint_eq(*header_version(old), WIRE_OLDEST);
    ck_assert_uint_eq(*header_version(new), WIRE_VERSION);
    msg_free(old);
    msg_free(new);
}
END_TEST

/* The older release sends the same without the last two fields of the last message. */
START_TEST(wire_older_release_is_understood)
{
    static const unsigned char tail[] = {6, 8, 0, 16, 1, 26, 0};
    unsigned char bytes[256];
    struct wire got;
    struct err e = {0};
    struct msg *m = stop_reply(true);
    size_t n = m->frame[0].bytes;
    ck_assert_uint_lt(n, sizeof bytes);
    memcpy(bytes, m->frame[0].data, n);
    ck_assert_int_eq(wire_decode(m, &got, &e), 0);
    ck_assert(got.u.STOP_reply.ends);
    msg_free(m);

    ck_assert_mem_eq(bytes + n - sizeof tail, tail, sizeof tail);
    bytes[n - sizeof tail] = 2;
    m = msg_new();
    memcpy(msg_add(m, n - 4), bytes, n - 4);
    memset(&got, 0xff, sizeof got);
    ck_assert_msg(wire_decode(m, &got, &e) == 0, "%s", e.text);
    ck_assert_int_eq(got.type, WIRE_TYPE_STOP);
    ck_assert_uint_eq(got.u.STOP_reply.unused, 0);
    ck_assert(!got.u.STOP_reply.ends);
    ck_assert_str_eq(got.u.STOP_reply.said, "");
    msg_free(m);
}
END_TEST

/* _i 0: newer than we take; 1: older than the message; 2: older than we take */
START_TEST(wire_other_releases_are_refused_by_name)
{
    static const struct {
        enum wire_type type;
        unsigned char version;
        const char *text;
    } cases[] = {
        {WIRE_TYPE_STOP, 13, "message STOP is of protocol 13, this release takes 11 to 12"},
        {WIRE_TYPE_JOBS, 11, "message JOBS is of protocol 11, this release takes it from 12"},
        {WIRE_TYPE_STOP, 10, "takes it from 11 on: upgrade the other side"}};
    struct wire w = {.type = cases[_i].type}, got;
    struct err e = {0};
    struct msg *m = wire_encode(&w);
    *header_version(m) = cases[_i].version;
    ck_assert_int_eq(wire_decode(m, &got, &e), SHOAL_E_VERSION);
    ck_assert_msg(strstr(e.text, cases[_i].text) != NULL, "%s", e.text);
    ck_assert_int_eq(got.type, cases[_i].type); /* it can be answered */
    msg_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("later");
    TCase *t = tcase_create("later");
    tcase_add_test(t, wire_header_has_the_oldest_release_that_takes_it);
    tcase_add_test(t, wire_older_release_is_understood);
    tcase_add_loop_test(t, wire_other_releases_are_refused_by_name, 0, 3);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
