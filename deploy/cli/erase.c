/* erase.c: `shoal erase`: erases a set of keys and prints a receipt. */
#include "deploy/cli/key.h"
#include "deploy/cli/reader.h"
#include "embedding/checkpoint.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct keys {
    uint64_t key[LIMIT_KEYS];
    uint32_t count;
};

/* ---- which keys ------------------------------------------------------------------------------ */

static int key_add(struct keys *k, uint64_t key, struct err *e)
{
    if (k->count == LIMIT_KEYS)
        return err_set(e, SHOAL_E_TOO_BIG, "more than %u keys; erase them in several goes",
                       LIMIT_KEYS);
    k->key[k->count++] = key;
    return 0;
}

/* Takes a line without its end. A line with a NUL is no text: it would be cut there. */
static int line_take(char *line, size_t bytes, const struct key_place *place, struct keys *k,
                     struct err *e)
{
    uint64_t key;
    if (memchr(line, 0, bytes) != NULL)
        return err_set(e, SHOAL_E_DATA, "a NUL in it: the file is to be plain text, a key a line");
    if (bytes > 0 && line[bytes - 1] == '\n')
        line[--bytes] = 0;
    if (bytes > 0 && line[bytes - 1] == '\r')
        line[--bytes] = 0;
    if (bytes == 0)
        return 0;
    int rc = key_take(place, line, NULL, NULL, &key, e);
    if (rc != 0)
        return rc;
    return key_add(k, key, e);
}

static int file_take(const char *path, const struct key_place *place, struct keys *k, struct err *e)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    FILE *f = fopen(path, "re");
    int rc = 0;
    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    for (uint32_t number = 1; rc == 0 && (bytes = getline(&line, &room, f)) >= 0; number++) {
        rc = line_take(line, (size_t)bytes, place, k, e);
        if (rc != 0)
            (void)err_wrap(e, rc, "%s:%u", path, number);
    }
    if (rc == 0 && !feof(f)) /* otherwise the rest of the keys would not be erased */
        rc = err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    fclose(f);
    return rc;
}

/* Sorts the keys and removes duplicates. */
static int keys_take(struct option_line *o, const struct key_place *place, struct keys *k,
                     struct err *e)
{
    const char *path = option_text(o, "keys"), *field = option_text(o, "field");
    const struct string_list *values = option_list(o, "value");
    uint32_t unique = 0;
    int rc = 0;
    if ((path != NULL) == (field != NULL) || (field != NULL && values->count == 0))
        return err_set(e, SHOAL_E_USAGE,
                       "say which keys: --keys FILE, or --field NAME and --value TEXT");
    if (path != NULL)
        rc = file_take(path, place, k, e);
    for (size_t i = 0; i < values->count && rc == 0; i++) {
        uint64_t key;
        rc = key_take(place, NULL, field, values->item[i], &key, e);
        if (rc == 0)
            rc = key_add(k, key, e);
    }
    if (rc == 0 && k->count == 0)
        rc = err_set(e, SHOAL_E_DATA, "%s names no key", path);
    qsort(k->key, k->count, sizeof k->key[0], key_by_value);
    for (uint32_t i = 0; i < k->count; i++)
        if (unique == 0 || k->key[unique - 1] != k->key[i])
            k->key[unique++] = k->key[i];
    k->count = unique;
    return rc;
}

/* ---- checkpoints that still hold them -------------------------------------------------------- */

struct held {
    const struct keys *keys;
    uint64_t count;
};

static void held_visit(void *context, const void *row)
{
    struct held *h = context;
    h->count +=
        bsearch(row, h->keys->key, h->keys->count, sizeof h->keys->key[0], key_by_value) != NULL;
}

static int held_use(void *context, const struct table *t, uint32_t tablet)
{
    table_visit(t, tablet, held_visit, context);
    return 0;
}

/* Skips a folder that is no checkpoint; lists one that cannot be read with the reason. */
static void checkpoint_look(const char *path, const char *table, const struct keys *k,
                            struct json *list)
{
    struct held h = {.keys = k};
    struct checkpoint *c = NULL;
    struct err e = {0};
    int rc = checkpoint_open(path, NULL, &c, &e);
    if (rc == SHOAL_E_NOT_FOUND)
        return;
    uint32_t i = rc == 0 ? checkpoint_find(c, table) : UINT32_MAX;
    if (rc == 0 && i != UINT32_MAX)
        rc = checkpoint_tablets(c, i, held_use, &h, &e);
    if (c != NULL)
        checkpoint_close(c);
    if (rc == 0 && h.count == 0)
        return;
    struct json *j = json_new_object();
    (void)json_set_string(j, "path", path);
    if (rc == 0)
        (void)json_set_int(j, "keys", (int64_t)h.count);
    else
        (void)json_set_string(j, "unreadable", e.text);
    (void)json_append(list, j);
}

static int checkpoints_look(const char *dir, const char *table, const struct keys *k,
                            struct json *list, struct err *e)
{
    char path[LIMIT_PATH];
    struct file_walk walk;
    const char *entry;
    if (!file_walk_open(&walk, dir))
        return err_set(e, SHOAL_E_NOINPUT, "cannot read the folder %s: %s", dir, strerror(errno));
    checkpoint_look(dir, table, k, list);
    while ((entry = file_walk_next(&walk)) != NULL)
        if (entry[0] != '.' && snprintf(path, sizeof path, "%s/%s", dir, entry) < (int)sizeof path)
            checkpoint_look(path, table, k, list);
    file_walk_close(&walk);
    return 0;
}

/* ---- the receipt ----------------------------------------------------------------------------- */

static struct json *receipt_new(const char *table, const struct keys *k)
{
    struct json *j = json_new_object();
    time_t now = time(NULL);
    char when[32];
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    (void)json_set_string(j, "table", table);
    (void)json_set_string(j, "when", when);
    (void)json_set_int(j, "keys", k->count);
    (void)json_set_hex(j, "digest", hash_bytes(k->key, k->count * sizeof k->key[0], 0));
    return j;
}

static int receipt_write(const struct json *j, const char *path, struct err *e)
{
    char *text = json_text(j, 2);
    FILE *f = path == NULL ? stdout : file_stream(path, false);
    int failed = text == NULL || f == NULL || fprintf(f, "%s\n", text) < 0;
    if (f != NULL && f != stdout)
        failed |= fclose(f) != 0;
    free(text);
    if (failed)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "the keys are erased, but the receipt cannot be written to %s: %s",
                       text_or(path, "standard output"), strerror(errno));
    return 0;
}

static int erase(struct option_line *o, struct keys *k, struct err *e)
{
    const char *name = o->word[0], *checkpoints_dir = option_text(o, "checkpoints");
    struct json *shards = NULL, *checkpoints = json_new_array();
    struct reader *c = NULL;
    struct key_place place = {.job = NULL};
    uint32_t table = 0;
    int rc = reader_open(o, &c, e);
    if (rc == 0)
        rc = reader_table(c, name, &table, e);
    if (rc == 0)
        rc = key_place_open(o, c, &place, e);
    if (rc == 0)
        rc = keys_take(o, &place, k, e);
    key_place_close(&place);
    struct json *receipt = NULL;
    if (rc == 0)
        receipt = receipt_new(name, k);
    if (rc == 0)
        rc = reader_erase(c, table, k->key, k->count, &shards, e);
    if (rc == 0 && checkpoints_dir != NULL)
        rc = checkpoints_look(checkpoints_dir, name, k, checkpoints, e);
    if (rc == 0) {
        (void)json_set(receipt, "shards", json_hold(shards));
        (void)json_set(receipt, "checkpoints", json_hold(checkpoints));
        rc = receipt_write(receipt, option_text(o, "receipt"), e);
    }
    json_free(receipt);
    json_free(shards);
    json_free(checkpoints);
    reader_close(c);
    return rc;
}

int cli_erase(struct option_line *o, struct err *e)
{
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE, "name a table; see `shoal erase --help`");
    struct keys *k = calloc(1, sizeof *k);
    int rc;
    if (k == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    else
        rc = erase(o, k, e);
    free(k);
    return rc;
}
