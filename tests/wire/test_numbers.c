/* test_numbers.c: the numbers and types of all fields on the wire are those of fields.txt. A new
 * field is appended to its message; a used number never changes. */
#include "proto/wire/wire.h"
#include "proto/wire/wire_inner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "tests/wire/fields.txt"
#define ANEW                                                                                       \
    "a number once given stays: put new fields at the end of their list, name them in "            \
    "WIRE_LATER, and append them to " GOLDEN " (SHOAL_WRITE_FIELDS=1)"

extern const ProtobufCMessageDescriptor pb__header__descriptor;

struct text {
    char *at;
    size_t bytes;
};

static const char *type_name(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
        return "uint32";
    case PROTOBUF_C_TYPE_UINT64:
        return "uint64";
    case PROTOBUF_C_TYPE_SINT32:
        return "sint32";
    case PROTOBUF_C_TYPE_FLOAT:
        return "float";
    case PROTOBUF_C_TYPE_DOUBLE:
        return "double";
    case PROTOBUF_C_TYPE_BOOL:
        return "bool";
    case PROTOBUF_C_TYPE_STRING:
        return "string";
    case PROTOBUF_C_TYPE_BYTES:
        return "bytes";
    default:
        return "?";
    }
}

static void message_lines(FILE *out, const ProtobufCMessageDescriptor *d)
{
    for (unsigned i = 0; i < d->n_fields; i++)
        fprintf(out, "%s.%s=%u %s%s\n", d->short_name, d->fields[i].name, d->fields[i].id,
                d->fields[i].label == PROTOBUF_C_LABEL_REQUIRED ? "" : "optional ",
                type_name(d->fields[i].type));
}

/* Returns one line for each field of the present protocol. */
static struct text today(void)
{
    struct text t = {0};
    uint32_t frames;
    FILE *out = open_memstream(&t.at, &t.bytes);
    ck_assert_ptr_nonnull(out);
    message_lines(out, &pb__header__descriptor);
#define X(name, number, request_frames, reply_frames)                                              \
    message_lines(out, wire_shape_of(number, false, &frames)->proto);                              \
    message_lines(out, wire_shape_of(number, true, &frames)->proto);
    WIRE_MAP(X)
#undef X
    ck_assert_int_eq(fclose(out), 0);
    return t;
}

/* True when each line of `some` is one of `all`; otherwise `line` gets the first missing one. */
static bool lines_within(const char *some, const char *all, char line[256])
{
    char sought[256], *whole = NULL;
    bool within = true;
    ck_assert_int_gt(asprintf(&whole, "\n%s", all), 0);
    for (const char *end; within && (end = strchr(some, '\n')) != NULL; some = end + 1) {
        snprintf(line, 256, "%.*s", (int)(end - some), some);
        snprintf(sought, sizeof sought, "\n%.240s\n", line);
        within = strstr(whole, sought) != NULL;
    }
    free(whole);
    return within;
}

static char *read_list(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    ck_assert_int_eq(fclose(file), 0);
    text[bytes] = 0;
    return text;
}

START_TEST(wire_numbers_stay)
{
    struct text t = today();
    char line[256];
    ck_assert_msg(lines_within(read_list(GOLDEN), t.at, line), "%s is not so any more: " ANEW,
                  line);
    if (getenv("SHOAL_WRITE_FIELDS") != NULL) {
        FILE *file = fopen(GOLDEN, "w");
        ck_assert_uint_eq(fwrite(t.at, 1, t.bytes, file), t.bytes);
        ck_assert_int_eq(fclose(file), 0);
    }
    ck_assert_msg(lines_within(t.at, read_list(GOLDEN), line), "%s is not in the list: " ANEW,
                  line);
    free(t.at);
}
END_TEST

/* Returns the first line of `now` whose message the release before has, without the field: that
 * release does not send it, so it must be optional. NULL: none. */
static const char *field_missed(const char *before, const char *now, char line[256])
{
    char message[128];
    for (const char *end; (end = strchr(now, '\n')) != NULL; now = end + 1) {
        snprintf(line, 256, "%.*s\n", (int)(end - now), now);
        snprintf(message, sizeof message, "%.*s.", (int)strcspn(line, "."), line);
        if (strstr(before, message) != NULL && strstr(before, line) == NULL &&
            strstr(line, " optional ") == NULL)
            return line;
    }
    return NULL;
}

/* No release of this protocol exists yet. The list of the first release will be added to this test
 * with the second one. */
START_TEST(wire_of_the_release_before_is_understood)
{
    char line[256];
    ck_assert_ptr_nonnull(
        field_missed("Pull.run=1 uint64\n", "Pull.run=1 uint64\nPull.lane=2 uint32\n", line));
    ck_assert_ptr_null(field_missed("Pull.run=1 uint64\n",
                                    "Pull.run=1 uint64\nPull.lane=2 optional uint32\n", line));
}
END_TEST

/* Changes that the test above must find. */
START_TEST(wire_number_that_moves_is_noticed)
{
    char line[256];
    const char *before = "Pull.run=1 uint64\nPull.lane=2 uint32\n";
    ck_assert(lines_within(before, before, line));
    ck_assert(!lines_within(before, "Pull.run=2 uint64\nPull.lane=1 uint32\n", line));
    ck_assert_str_eq(line, "Pull.run=1 uint64");
    ck_assert(!lines_within(before, "Pull.run=1 uint64\nPull.lane=2 uint64\n", line));
    ck_assert(!lines_within(before, "Pull.run=1 uint64\n", line));
    ck_assert(!lines_within(before, "Pull.run=1 uint64\nPull.lane=22 uint32\n", line));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("numbers");
    TCase *t = tcase_create("numbers");
    tcase_add_test(t, wire_numbers_stay);
    tcase_add_test(t, wire_of_the_release_before_is_understood);
    tcase_add_test(t, wire_number_that_moves_is_noticed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
