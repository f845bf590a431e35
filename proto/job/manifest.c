/* manifest.c: text of a checkpoint's manifest, and back. */
#include "proto/job/manifest.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last member, of fixed length, follows the summed bytes. */
#define TAIL_FORMAT ",\n  \"xxh3\": \"0x%016" PRIx64 "\"\n}\n"
enum { TAIL_BYTES = 2 + 2 + 8 + 20 + 3 };

bool manifest_name_ok(const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= LIMIT_NAME || name[0] == '.')
        return false;
    for (const char *p = name; *p != 0; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              *p == '.' || *p == '_' || *p == '-'))
            return false;
    return bytes < 4 || strcmp(name + bytes - 4, ".tmp") != 0;
}

bool manifest_name_counts(const char *name)
{
    return name[0] != 0 && strspn(name, "0123456789") == strlen(name) && strlen(name) < 16;
}

static int64_t number_of(const struct json *m)
{
    const char *name = json_get_string(m, "name", "");
    int64_t named = 0;
    if (manifest_name_counts(name))
        named = (int64_t)strtoull(name, NULL, 10);
    if (m == NULL)
        return -1;
    return json_get_int(m, "number", named);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int manifest_order(const struct json *a, const struct json *b)
{
    static const char *const keys[] = {"run", "epoch", "examples"};
    const char *x = json_get_string(a, "name", ""), *y = json_get_string(b, "name", "");
    int order = compare(number_of(a), number_of(b));
    if (order == 0)
        order = compare(manifest_name_counts(x), manifest_name_counts(y));
    for (size_t i = 0; order == 0 && i < sizeof keys / sizeof keys[0]; i++)
        order = compare(json_get_int(a, keys[i], 0), json_get_int(b, keys[i], 0));
    if (order != 0)
        return order;
    return strcmp(x, y);
}

static void tail_write(const char *text, size_t bytes, char out[TAIL_BYTES + 1])
{
    (void)snprintf(out, TAIL_BYTES + 1, TAIL_FORMAT, hash_bytes(text, bytes, 0));
}

char *manifest_text(const struct json *m)
{
    char *text = json_text(m, 2);
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text);
    if (bytes > 2) /* the object stays open: its last line, "}", is cut */
        bytes -= 2;
    char *whole = realloc(text, bytes + TAIL_BYTES + 1);
    if (whole == NULL) {
        free(text);
        return NULL;
    }
    tail_write(whole, bytes, whole + bytes);
    return whole;
}

char *manifest_text_with(const struct json *m, const char *key, struct json *value)
{
    struct json *out = json_new_object();

    for (size_t i = 0; i < json_members(m); i++) {
        const char *name = json_member_name(m, i);
        if (strcmp(name, "xxh3") != 0 && strcmp(name, key) != 0)
            json_set(out, name, json_hold(json_member_at(m, i)));
    }
    int rc = json_set(out, key, value);
    char *text = NULL;
    if (rc == 0)
        text = manifest_text(out);
    json_free(out);
    return text;
}

bool manifest_hex(const struct json *j, uint64_t *out)
{
    const char *s = json_as_string(j, "");
    char *end;
    if (strlen(s) != 18 || strncmp(s, "0x", 2) != 0 || strspn(s + 2, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(s + 2, &end, 16);
    return *end == 0;
}

/* Adds `width` values of a type, unless width is 0. */
static void layout_add(struct json *layout, const char *part, const char *type, uint32_t width)
{
    if (width == 0)
        return;
    struct json *item = json_new_object();
    json_set_string(item, "part", part);
    json_set_string(item, "type", type);
    json_set_int(item, "width", width);
    json_append(layout, item);
}

static struct json *layout_of(const struct table_schema *s)
{
    const uint32_t whole = sizeof(struct row_stats) / 4,
                   floats = offsetof(struct row_stats, time) / 4;
    const char *values = schema_values_name(s);
    struct json *layout = json_new_array();

    layout_add(layout, "first", values, s->zero_first);
    layout_add(layout, "vector", values, schema_vector(s));
    layout_add(layout, "state", "fp32", schema_state_floats(s) - (s->rules.stats != 0 ? whole : 0));
    if (s->rules.stats != 0) {
        layout_add(layout, "statistics", "fp32", floats);
        layout_add(layout, "statistics", "u32", whole - floats);
    }
    return layout;
}

struct json *manifest_table(const struct table_schema *s, const char *space)
{
    struct json *item = json_new_object();

    json_set_string(item, "name", s->name);
    json_set_int(item, "table", s->table);
    json_set_string(item, "space", space);
    json_set_int(item, "dense", s->dense);
    json_set_int(item, "width", s->width);
    json_set_int(item, "tablet_bits", s->tablet_bits);
    json_set_int(item, "tablet_first", s->tablet_first);
    json_set(item, "layout", layout_of(s));
    return item;
}

bool manifest_tables(const struct json *m)
{
    return strcmp(json_get_string(m, "phase", ""), "tables") == 0;
}

/* Appends to a text of limited size. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t bytes, const char *form,
                                                      ...)
{
    size_t used = strlen(text);
    va_list values;
    va_start(values, form);
    (void)vsnprintf(text + used, bytes - used, form, values);
    va_end(values);
}

/* Returns how many tablets of a table the missing shards had. */
static int64_t tablets_missing(const struct json *missing, const char *table)
{
    int64_t sum = 0;
    for (size_t i = 0; i < json_count(missing); i++) {
        const struct json *of = json_get(json_array_at(missing, i), "tables");
        for (size_t t = 0; t < json_count(of); t++)
            if (strcmp(json_get_string(json_array_at(of, t), "name", ""), table) == 0)
                sum += json_get_int(json_array_at(of, t), "tablets", 0);
    }
    return sum;
}

bool manifest_lacks(const struct json *m, char *text, size_t bytes)
{
    const struct json *missing = json_get(m, "missing"), *tables = json_get(m, "tables");
    const char *before = "it lacks shard ";
    text[0] = 0;
    for (size_t i = 0; i < json_count(missing); i++) {
        const struct json *shard = json_array_at(missing, i);
        add(text, bytes, "%s%" PRId64 " (server %s)", before, json_get_int(shard, "shard", 0),
            json_get_string(shard, "server", "?"));
        before = ", ";
    }
    before = ": ";
    for (size_t i = 0; text[0] != 0 && i < json_count(tables); i++) {
        const struct json *table = json_array_at(tables, i);
        const char *name = json_get_string(table, "name", "?");
        int64_t lost = tablets_missing(missing, name);
        if (lost == 0)
            continue;
        add(text, bytes, "%s%" PRId64 " of %" PRIu64 " tablets of table %s", before, lost,
            UINT64_C(1) << (json_get_int(table, "tablet_bits", 0) & 31), name);
        before = ", ";
    }
    return text[0] != 0;
}

const struct json *manifest_file(const struct json *m, const char *name)
{
    const struct json *files = json_get(m, "files");
    for (size_t i = 0; i < json_count(files); i++)
        if (strcmp(json_get_string(json_array_at(files, i), "file", ""), name) == 0)
            return json_array_at(files, i);
    return NULL;
}

int manifest_file_check(const struct json *m, const char *name, const void *content, size_t bytes,
                        struct err *e)
{
    const struct json *file = manifest_file(m, name);
    uint64_t sum = 0;
    if (file == NULL || !manifest_hex(json_get(file, "xxh3"), &sum))
        return err_set(e, SHOAL_E_CORRUPT, "%s is not in the manifest", name);
    if ((uint64_t)json_get_int(file, "bytes", -1) != bytes)
        return err_set(e, SHOAL_E_CHECKSUM, "%s has %zu bytes, %" PRId64 " were written", name,
                       bytes, json_get_int(file, "bytes", -1));
    if (hash_bytes(content, bytes, 0) != sum)
        return err_set(e, SHOAL_E_CHECKSUM, "%s: its checksum does not match", name);
    return 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool whole_number(const struct json *m, const char *key)
{
    return json_get_int(m, key, -1) >= 0;
}

static bool parts_ok(const struct json *m)
{
    const struct json *parts = json_get(m, "parts");
    uint64_t sum;
    if (json_count(parts) < 1 || json_count(parts) > LIMIT_SHARDS)
        return false;
    for (size_t i = 0; i < json_count(parts); i++) {
        const struct json *p = json_array_at(parts, i);
        char folder[32];
        (void)snprintf(folder, sizeof folder, "part-%04zu", i);
        if (strcmp(json_get_string(p, "folder", ""), folder) != 0 || !whole_number(p, "rows") ||
            !whole_number(p, "bytes") || !manifest_hex(json_get(p, "manifest"), &sum))
            return false;
    }
    return true;
}

static int content_check(const struct json *m, struct err *e)
{
    static const char *const numbers[] = {"run", "epoch", "rows", "bytes", "examples"};
    uint64_t sum;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!whole_number(m, numbers[i]))
            return err_set(e, SHOAL_E_CORRUPT, "'%s' is missing or no whole number", numbers[i]);
    if (!manifest_name_ok(json_get_string(m, "name", "")) ||
        strlen(json_get_string(m, "job", "")) >= LIMIT_NAME)
        return err_set(e, SHOAL_E_CORRUPT, "'name' or 'job' is missing or no name");
    if (!parts_ok(m))
        return err_set(e, SHOAL_E_CORRUPT, "'parts' is missing or not a list of 1 to %u parts",
                       LIMIT_SHARDS);
    size_t lanes = json_count(json_get(m, "lanes"));
    if ((lanes < 1 && !manifest_tables(m)) || lanes > LIMIT_LANES)
        return err_set(e, SHOAL_E_CORRUPT, "'lanes' is missing or not a list of 1 to %u lanes",
                       LIMIT_LANES);
    static const char *const files[] = {MANIFEST_STATE_FILE, MANIFEST_JOB_FILE};
    for (size_t i = 0; i < 2; i++) {
        const struct json *file = manifest_file(m, files[i]);
        if (file == NULL || !whole_number(file, "bytes") ||
            !manifest_hex(json_get(file, "xxh3"), &sum))
            return err_set(e, SHOAL_E_CORRUPT, "'files' does not name %s", files[i]);
    }
    return 0;
}

/* Checks the sum of the whole text before any of it is used. */
static int sum_check(const char *text, size_t bytes, struct err *e)
{
    char tail[TAIL_BYTES + 1];
    if (bytes <= TAIL_BYTES || bytes > MANIFEST_BYTES_MAX)
        return err_set(e, SHOAL_E_CHECKSUM, "%zu bytes are no manifest", bytes);
    tail_write(text, bytes - TAIL_BYTES, tail);
    if (memcmp(tail, text + bytes - TAIL_BYTES, TAIL_BYTES) != 0)
        return err_set(e, SHOAL_E_CHECKSUM,
                       "its checksum does not match: the file was changed or cut short");
    return 0;
}

int manifest_frame(const char *text, size_t bytes, struct json **out, struct err *e)
{
    int rc = sum_check(text, bytes, e);

    *out = NULL;
    if (rc == 0)
        rc = json_parse(text, bytes, out, e);
    if (rc != 0)
        return rc;
    int64_t format = json_get_int(*out, "format", -1);
    if (format > MANIFEST_FORMAT)
        rc = err_set(e, SHOAL_E_VERSION,
                     "format %" PRId64
                     " is newer than this release reads (%d): take the release that wrote it",
                     format, MANIFEST_FORMAT);
    else if (format < 1)
        rc = err_set(e, SHOAL_E_CORRUPT, "'format' is missing");
    if (rc != 0) {
        json_free(*out);
        *out = NULL;
    }
    return rc;
}

int manifest_parse(const char *text, size_t bytes, struct json **out, struct err *e)
{
    struct json *m;
    int rc = manifest_frame(text, bytes, &m, e);

    if (rc == 0)
        rc = content_check(m, e);
    if (rc != 0) {
        json_free(m);
        return rc;
    }
    *out = m;
    return 0;
}
