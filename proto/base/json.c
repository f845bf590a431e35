/* json.c: implements json.h with jansson. A struct json is a json_t under another name; only this
 * file casts between the two. */
#include "proto/base/json.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX (64u << 20)

static json_t *in(const struct json *j)
{
    return (json_t *)(uintptr_t)j;
}

static struct json *out_of(json_t *t)
{
    return (struct json *)t;
}

/* jansson refuses a string that is not UTF-8. The name of a file or a peer may be any bytes, and a
 * report with a '?' is better than none. So when jansson refuses a string, all its bytes above 127
 * are replaced. */
static json_t *string_value(const char *s)
{
    json_t *t = json_string(text_or(s, ""));
    if (t != NULL || s == NULL)
        return t;
    char *copy = strdup(s);
    if (copy == NULL)
        return NULL;
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p > 127)
            *p = '?';
    t = json_string(copy);
    free(copy);
    return t;
}

struct json *json_new_object(void)
{
    return out_of(json_object());
}

struct json *json_new_array(void)
{
    return out_of(json_array());
}

struct json *json_new_string(const char *s)
{
    return out_of(string_value(s));
}

/* null when not finite: JSON has no NaN */
static struct json *number_value(double x)
{
    if (!isfinite(x))
        return out_of(json_null());
    return out_of(json_real(x));
}

struct json *json_new_int(int64_t x)
{
    return out_of(json_integer(x));
}

struct json *json_new_null(void)
{
    return out_of(json_null());
}

int json_set(struct json *object, const char *key, struct json *child)
{
    if (json_object_set_new(in(object), key, in(child)))
        return SHOAL_E_NOMEM;
    return 0;
}

int json_set_string(struct json *object, const char *key, const char *s)
{
    return json_set(object, key, json_new_string(s));
}

int json_set_number(struct json *object, const char *key, double x)
{
    return json_set(object, key, number_value(x));
}

int json_set_int(struct json *object, const char *key, int64_t x)
{
    return json_set(object, key, json_new_int(x));
}

int json_set_bool(struct json *object, const char *key, bool x)
{
    return json_set(object, key, out_of(json_boolean(x)));
}

int json_set_null(struct json *object, const char *key)
{
    return json_set(object, key, out_of(json_null()));
}

int json_set_hex(struct json *object, const char *key, uint64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "0x%016" PRIx64, x);
    return json_set_string(object, key, text);
}

int json_append(struct json *array, struct json *child)
{
    if (json_array_append_new(in(array), in(child)))
        return SHOAL_E_NOMEM;
    return 0;
}

int json_append_number(struct json *array, double x)
{
    return json_append(array, number_value(x));
}

int json_append_string(struct json *array, const char *s)
{
    return json_append(array, json_new_string(s));
}

char *json_text(const struct json *j, int indent)
{
    /* 17 digits give a double back bit for bit; JSON_ENCODE_ANY lets a bare number stand alone. */
    size_t flags = JSON_PRESERVE_ORDER | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (indent > 0)
        flags |= JSON_INDENT((size_t)indent);
    if (j == NULL)
        return NULL;
    return json_dumps(in(j), flags);
}

int json_parse(const char *text, size_t bytes, struct json **out, struct err *e)
{
    *out = NULL;
    if (bytes > JSON_BYTES_MAX)
        return err_set(e, SHOAL_E_DATA, "JSON text of %zu bytes is over the limit of %u", bytes,
                       JSON_BYTES_MAX);
    json_error_t why;
    json_t *t = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (t == NULL)
        return err_set(e, SHOAL_E_DATA, "JSON line %d, column %d: %s", why.line, why.column,
                       why.text);
    *out = out_of(t);
    return 0;
}

void json_free(struct json *j)
{
    json_decref(in(j));
}

static json_t *string_printable(const char *s)
{
    char *copy = strdup(s);
    json_t *t = NULL;
    if (copy != NULL)
        t = string_value(text_clean(copy));
    free(copy);
    return t;
}

static struct json *object_printable(json_t *from)
{
    json_t *to = json_object(), *value;
    const char *key;
    json_object_foreach(from, key, value)
    {
        char *name = strdup(key);
        struct json *child = NULL;
        int rc = SHOAL_E_NOMEM;
        if (name != NULL)
            child = json_printable(out_of(value));
        if (child != NULL)
            rc = json_set(out_of(to), text_clean(name), child);
        free(name);
        if (rc != 0) {
            json_decref(to);
            return NULL;
        }
    }
    return out_of(to);
}

static struct json *array_printable(json_t *from)
{
    json_t *to = json_array();
    for (size_t i = 0; i < json_array_size(from); i++)
        if (json_append(out_of(to), json_printable(out_of(json_array_get(from, i)))) != 0) {
            json_decref(to);
            return NULL;
        }
    return out_of(to);
}

struct json *json_printable(const struct json *j)
{
    json_t *t = in(j);
    if (json_is_object(t))
        return object_printable(t);
    if (json_is_array(t))
        return array_printable(t);
    if (json_is_string(t))
        return out_of(string_printable(json_string_value(t)));
    return out_of(json_deep_copy(t));
}

struct json *json_hold(struct json *j)
{
    return out_of(json_incref(in(j)));
}

static json_t *member(json_t *t, const char *name, size_t bytes)
{
    char key[256];
    if (bytes >= sizeof key)
        return NULL;
    memcpy(key, name, bytes);
    key[bytes] = 0;
    if (!json_is_array(t))
        return json_object_get(t, key);
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    if (end == key || *end)
        return NULL;
    return json_array_get(t, index);
}

struct json *json_get(const struct json *object, const char *path)
{
    json_t *t = in(object);
    while (t && *path) {
        size_t bytes = strcspn(path, ".");
        t = member(t, path, bytes);
        path += bytes + (path[bytes] == '.');
    }
    return out_of(t);
}

size_t json_count(const struct json *array)
{
    return json_array_size(in(array));
}

struct json *json_array_at(const struct json *array, size_t index)
{
    return out_of(json_array_get(in(array), index));
}

size_t json_members(const struct json *object)
{
    return json_object_size(in(object));
}

static void *member_walk(const struct json *object, size_t index)
{
    void *at = json_object_iter(in(object));
    for (size_t i = 0; i < index && at; i++)
        at = json_object_iter_next(in(object), at);
    return at;
}

const char *json_member_name(const struct json *object, size_t index)
{
    void *at = member_walk(object, index);
    if (at == NULL)
        return NULL;
    return json_object_iter_key(at);
}

struct json *json_member_at(const struct json *object, size_t index)
{
    void *at = member_walk(object, index);
    if (at == NULL)
        return NULL;
    return out_of(json_object_iter_value(at));
}

bool json_absent(const struct json *j)
{
    return j == NULL || json_is_null(in(j));
}

double json_as_number(const struct json *j, double fallback)
{
    if (json_is_boolean(in(j)))
        return json_is_true(in(j)) ? 1 : 0;
    if (json_is_number(in(j)))
        return json_number_value(in(j));
    return fallback;
}

int64_t json_as_int(const struct json *j, int64_t fallback)
{
    if (json_is_integer(in(j)))
        return json_integer_value(in(j));
    double x = json_as_number(j, NAN);
    return x > -9.2e18 && x < 9.2e18 ? (int64_t)x : fallback; /* a peer may send any number */
}

bool json_as_bool(const struct json *j, bool fallback)
{
    if (json_is_boolean(in(j)))
        return json_is_true(in(j));
    return fallback;
}

const char *json_as_string(const struct json *j, const char *fallback)
{
    if (json_is_string(in(j)))
        return json_string_value(in(j));
    return fallback;
}

double json_get_number(const struct json *object, const char *path, double fallback)
{
    return json_as_number(json_get(object, path), fallback);
}

int64_t json_get_int(const struct json *object, const char *path, int64_t fallback)
{
    return json_as_int(json_get(object, path), fallback);
}

bool json_get_bool(const struct json *object, const char *path, bool fallback)
{
    return json_as_bool(json_get(object, path), fallback);
}

const char *json_get_string(const struct json *object, const char *path, const char *fallback)
{
    return json_as_string(json_get(object, path), fallback);
}

const char *json_library(void)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "jansson %s", jansson_version_str());
    return text;
}
