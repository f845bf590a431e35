/* import_keys.c: from values in files to keys; keys that occur twice. */
#include "deploy/cli/import.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 24, FIRST = 4096 };
#define CHECK_SEED UINT64_C(0x73686f616c) /* tells two values of one key apart */

struct entry {
    uint64_t key, check, row;
};

struct import_keys {
    struct import_naming naming;
    uint64_t *key, *check; /* owned; (count): of each row; check: hash of the value, 0 for raw */
    size_t count, room, check_room;
    uint64_t *out; /* owned; (outs): rows that are left out, rising */
    size_t outs, outs_room, at;
};

int import_keys_new(const struct import_naming *naming, struct import_keys **out, struct err *e)
{
    struct import_keys *k = calloc(1, sizeof *k);
    if (k == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    k->naming = *naming;
    *out = k;
    return 0;
}

void import_keys_free(struct import_keys *k)
{
    if (k == NULL)
        return;
    free(k->key);
    free(k->check);
    free(k->out);
    free(k);
}

/* ---- a value --------------------------------------------------------------------------------- */

/* An integer in digits, as a log has it. */
static size_t digits_write(const struct import_key *key, char out[DIGITS])
{
    if (key->negative)
        return (size_t)snprintf(out, DIGITS, "%" PRId64, (int64_t)key->number);
    return (size_t)snprintf(out, DIGITS, "%" PRIu64, key->number);
}

static const char *value_text(enum import_form form, const struct import_key *key,
                              char digits[DIGITS], size_t *bytes)
{
    if (form == IMPORT_TEXT) {
        *bytes = key->bytes;
        return key->text;
    }
    *bytes = digits_write(key, digits);
    return digits;
}

static int key_of(const struct import_naming *naming, enum import_form form,
                  const struct import_key *key, uint64_t *out, struct err *e)
{
    char digits[DIGITS];
    size_t bytes;
    if (naming->raw) {
        SHOAL_ASSERT(form == IMPORT_RAW);
        *out = key->number;
        return 0;
    }
    SHOAL_ASSERT(form != IMPORT_RAW);
    const char *text = value_text(form, key, digits, &bytes);
    if (!naming->id) {
        *out = key_of_value(naming->field, text, bytes);
        return 0;
    }
    if (key_of_id(naming->field, text, bytes, out))
        return 0;
    return err_set(e, SHOAL_E_DATA, "'%.*s' is no id: " KEY_ID_WORDS,
                   (int)(bytes < 64 ? bytes : 64), text);
}

int import_keys_add(struct import_keys *k, enum import_form form, const struct import_key *key,
                    struct err *e)
{
    char digits[DIGITS];
    size_t bytes;
    uint64_t own;
    int rc = key_of(&k->naming, form, key, &own, e);
    if (rc != 0)
        return rc;
    if (array_room(&k->key, k->count, &k->room, FIRST) != 0 ||
        array_room(&k->check, k->count, &k->check_room, FIRST) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the keys of more than %zu rows", k->count);
    k->key[k->count] = own;
    k->check[k->count] = 0;
    if (form != IMPORT_RAW) {
        const char *text = value_text(form, key, digits, &bytes);
        k->check[k->count] = hash_bytes(text, bytes, CHECK_SEED);
    }
    k->count++;
    return 0;
}

uint64_t import_keys_count(const struct import_keys *k)
{
    return k->count;
}

uint64_t import_keys_at(const struct import_keys *k, uint64_t row)
{
    SHOAL_ASSERT(row < k->count);
    return k->key[row];
}

/* ---- keys that are there twice --------------------------------------------------------------- */

static int entry_compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int row_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* `list` (count) has one key, by row: the first row keeps it. */
static int group_take(struct import_keys *k, const struct entry *list, size_t count, struct err *e)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            if (list[j].check == list[i].check)
                return err_set(e, SHOAL_E_DATA,
                               "rows %" PRIu64 " and %" PRIu64 " have the same key (%016" PRIx64
                               "): keep one of them",
                               list[j].row, list[i].row, list[i].key);
        if (array_room(&k->out, k->outs, &k->outs_room, 64) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        k->out[k->outs++] = list[i].row;
    }
    return 0;
}

int import_keys_check(struct import_keys *k, struct err *e)
{
    struct entry *list = malloc((k->count + 1) * sizeof *list);
    int rc = 0;
    if (list == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to compare the keys of %zu rows", k->count);
    for (size_t i = 0; i < k->count; i++)
        list[i] = (struct entry){k->key[i], k->check[i], i};
    qsort(list, k->count, sizeof *list, entry_compare);
    for (size_t from = 0, to; from < k->count && rc == 0; from = to) {
        for (to = from + 1; to < k->count && list[to].key == list[from].key;)
            to++;
        rc = group_take(k, list + from, to - from, e);
    }
    free(list);
    if (k->outs > 0)
        qsort(k->out, k->outs, sizeof *k->out, row_compare);
    return rc;
}

uint64_t import_keys_collisions(const struct import_keys *k)
{
    return k->outs;
}

bool import_keys_left_out(struct import_keys *k, uint64_t row)
{
    while (k->at < k->outs && k->out[k->at] < row)
        k->at++;
    return k->at < k->outs && k->out[k->at] == row;
}

void import_keys_rewind(struct import_keys *k)
{
    k->at = 0;
}
