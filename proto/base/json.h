/* json.h: JSON values to build, dump and parse: reports, status pages and one-row answers. Only
 * json.c includes jansson.
 *
 * Ownership: json_set and json_append give the child to the parent; json_get and json_array_at lend
 * what the parent keeps. json_free releases a value that has no parent. Every function takes NULL
 * for a value: setters return SHOAL_E_NOMEM (and free the child), getters their fallback. So a tree
 * may be built without a check at each step, and json_text of NULL is NULL. Names that jansson
 * itself exports (json_object, json_string, ...) are avoided: they would clash at link time. Keys
 * and strings are UTF-8; other bytes become '?'. Thread: a value is used by one thread at a
 * time. */
#ifndef PROTO_BASE_JSON_H
#define PROTO_BASE_JSON_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

/* ---- building ---- */
struct json *json_new_object(void); /* members keep the order in which they were set */
struct json *json_new_array(void);
struct json *json_new_string(const char *s);
struct json *json_new_int(int64_t x);
struct json *json_new_null(void);
/* takes child in any case */
int json_set(struct json *object, const char *key, struct json *child);
int json_set_string(struct json *object, const char *key, const char *s);
int json_set_number(struct json *object, const char *key, double x);
int json_set_int(struct json *object, const char *key, int64_t x);
int json_set_bool(struct json *object, const char *key, bool x);
int json_set_null(struct json *object, const char *key);
/* "0x" and 16 digits, because keys and digests exceed 2^53 */
int json_set_hex(struct json *object, const char *key, uint64_t x);
int json_append(struct json *array, struct json *child); /* takes child in any case */
int json_append_number(struct json *array, double x);
int json_append_string(struct json *array, const char *s);

/* ---- text ---- */
/* indent 0: one line. The caller frees the text with free(). NULL when out of memory. */
char *json_text(const struct json *j, int indent);
/* SHOAL_E_DATA with line and reason. At most 64 MiB, nesting as jansson bounds it (2048). */
int json_parse(const char *text, size_t bytes, struct json **out, struct err *e);
void json_free(struct json *j);
/* A copy to print: each string and member name is cleaned by text_clean (text.h), because it may
 * come from a file or a peer. Output to files and `--json` is not cleaned. NULL when out of
 * memory. */
struct json *json_printable(const struct json *j);
/* adds one more owner, which may give the value to another parent; NULL is fine */
struct json *json_hold(struct json *j);

/* ---- reading ---- */
/* Member by dotted path ("test.auc"); an element of an array by number ("epochs.0.valid.auc"). NULL
 * when there is none.
 */
struct json *json_get(const struct json *object, const char *path);
size_t json_count(const struct json *array); /* elements of an array, 0 of anything else */
struct json *json_array_at(const struct json *array, size_t index);
size_t json_members(const struct json *object); /* members of an object, 0 of anything else */
/* By index, in the order of setting or of the text. NULL beyond the last. Each call walks from the
 * first. */
const char *json_member_name(const struct json *object, size_t index);
struct json *json_member_at(const struct json *object, size_t index);
bool json_absent(const struct json *j); /* absent or null */
/* an integer, a real, or true/false as 1/0 */
double json_as_number(const struct json *j, double fallback);
int64_t json_as_int(const struct json *j, int64_t fallback); /* fallback also beyond 63 bits */
bool json_as_bool(const struct json *j, bool fallback);
const char *json_as_string(const struct json *j, const char *fallback); /* lent */
/* The same for the member at a path. */
double json_get_number(const struct json *object, const char *path, double fallback);
int64_t json_get_int(const struct json *object, const char *path, int64_t fallback);
bool json_get_bool(const struct json *object, const char *path, bool fallback);
const char *json_get_string(const struct json *object, const char *path, const char *fallback);

/* "jansson 2.14" */
const char *json_library(void);

#endif
