/* erase.c: `shoal erase`: erases a set of keys and prints a receipt. */
#include "deploy/cli/key_list.h"
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

/* ---- checkpoints that still hold them -------------------------------------------------------- */

struct held {
    const struct key_list *keys;
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
static void checkpoint_look(const char *path, const char *table, const struct key_list *k,
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

static int checkpoints_look(const char *dir, const char *table, const struct key_list *k,
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

static struct json *receipt_new(const char *table, const struct key_list *k)
{
    struct json *j = json_new_object();
    time_t now = time(NULL);
    char when[32];
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    (void)json_set_string(j, "table", table);
    (void)json_set_string(j, "when", when);
    (void)json_set_int(j, "keys", (int64_t)k->count);
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

static int erase(struct option_line *o, struct key_list *k, struct err *e)
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
    place.table = name;
    if (rc == 0)
        rc = key_list_take(o, &place, LIMIT_KEYS, k, e);
    key_place_close(&place);
    struct json *receipt = NULL;
    if (rc == 0)
        receipt = receipt_new(name, k);
    if (rc == 0)
        rc = reader_erase(c, table, k->key, (uint32_t)k->count, &shards, e);
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
    struct key_list k = {0};
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE, "name a table; see `shoal erase --help`");
    int rc = erase(o, &k, e);
    key_list_free(&k);
    return rc;
}
