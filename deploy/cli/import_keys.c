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

/* An integer in digits, as a log has it; they end at the end of `out`. Returns the first one. */
static const char *digits_write(const struct import_key *key, char out[DIGITS])
{
    uint64_t left = key->negative ? 0 - key->number : key->number;
    char *at = out + DIGITS;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (key->negative)
        *--at = '-';
    return at;
}

static const char *value_text(enum import_form form, const struct import_key *key,
                              char digits[DIGITS], size_t *bytes)
{
    if (form == IMPORT_TEXT) {
        *bytes = key->bytes;
        return key->text;
    }
    const char *text = digits_write(key, digits);
    *bytes = (size_t)(digits + DIGITS - text);
    return text;
}

/* text (bytes): the value. */
static int key_of(const struct import_naming *naming, const char *text, size_t bytes, uint64_t *out,
                  struct err *e)
{
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
    uint64_t own = key->number, check = 0;
    SHOAL_ASSERT(k->naming.raw == (form == IMPORT_RAW));
    if (form != IMPORT_RAW) {
        const char *text = value_text(form, key, digits, &bytes);
        int rc = key_of(&k->naming, text, bytes, &own, e);
        if (rc != 0)
            return rc;
        check = hash_bytes(text, bytes, CHECK_SEED);
    }
    if (array_room(&k->key, k->count, &k->room, FIRST) != 0 ||
        array_room(&k->check, k->count, &k->check_room, FIRST) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the keys of more than %zu rows", k->count);
    k->key[k->count] = own;
    k->check[k->count++] = check;
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

/* The first row of each key, by the key: open addressing, at most half full. A place has the row's
 * number + 1; 0: it is free. */
struct first {
    uint32_t *row; /* owned; (places) */
    uint64_t places;
};

static uint64_t home(const struct first *f, uint64_t key)
{
    return key_mix(key) & (f->places - 1);
}

static int first_new(struct first *f, size_t count, struct err *e)
{
    if (count >= UINT32_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%zu rows are too many for one import: divide the files",
                       count);
    f->places = 64;
    while (f->places < 2 * count)
        f->places *= 2;
    f->row = calloc(f->places, sizeof *f->row);
    if (f->row == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to compare the keys of %zu rows", count);
    return 0;
}

static int twice(const struct import_keys *k, uint64_t first, uint64_t second, struct err *e)
{
    return err_set(e, SHOAL_E_DATA,
                   "rows %" PRIu64 " and %" PRIu64 " have the same key (%016" PRIx64
                   "): keep one of them",
                   first, second, k->key[second]);
}

/* `row` has the key of `first`: it is left out, unless one of them has the same value. */
static int row_leave_out(struct import_keys *k, uint64_t first, uint64_t row, struct err *e)
{
    if (k->check[first] == k->check[row])
        return twice(k, first, row, e);
    for (size_t i = 0; i < k->outs; i++)
        if (k->key[k->out[i]] == k->key[row] && k->check[k->out[i]] == k->check[row])
            return twice(k, k->out[i], row, e);
    if (array_room(&k->out, k->outs, &k->outs_room, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    k->out[k->outs++] = row;
    return 0;
}

int import_keys_check(struct import_keys *k, struct err *e)
{
    enum { AHEAD = 16 };
    struct first f = {.row = NULL};
    int rc = first_new(&f, k->count, e);
    for (uint64_t row = 0; row < k->count && rc == 0; row++) {
        if (row + AHEAD < k->count)
            __builtin_prefetch(&f.row[home(&f, k->key[row + AHEAD])], 1);
        uint64_t at = home(&f, k->key[row]);
        while (f.row[at] != 0 && k->key[f.row[at] - 1] != k->key[row])
            at = (at + 1) & (f.places - 1);
        if (f.row[at] == 0)
            f.row[at] = (uint32_t)row + 1;
        else
            rc = row_leave_out(k, f.row[at] - 1, row, e);
    }
    free(f.row);
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
