/* keys.c: `shoal keys allow`, `block` and `reset`: keys that get a row whatever the table's
 * admission says, keys that get none, and keys that are neither any more. keys_list.c lists
 * them. */
#include "deploy/cli/key_list.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <stdio.h>
#include <stdlib.h>

#define PROGRESS_KEYS (16u * LIMIT_KEYS) /* keys from one line of progress to the next */

static const struct {
    const char *verb, *done; /* "block", "blocked" */
} words[] = {[WIRE_KEY_BLOCK] = {"block", "blocked"},
             [WIRE_KEY_ALLOW] = {"allow", "allowed"},
             [WIRE_KEY_RESET] = {"reset", "reset"}};

static void progress(size_t done, size_t count)
{
    char a[32], b[32];
    if (done < count && done % PROGRESS_KEYS == 0)
        fprintf(stderr, "%s of %s keys\n", cli_number_text((double)done, a),
                cli_number_text((double)count, b));
}

static struct json *named_json(const struct reader_naming *n, const struct reader_named *named,
                               const char *table)
{
    struct json *j = json_new_object(), *shards = json_new_array();
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++) {
        if (named->keys_of[i] == 0 && named->changed_of[i] == 0)
            continue;
        struct json *one = json_new_object();
        (void)json_set_int(one, "shard", i);
        (void)json_set_int(one, "keys", (int64_t)named->keys_of[i]);
        (void)json_set_int(one, "changed", (int64_t)named->changed_of[i]);
        (void)json_append(shards, one);
    }
    (void)json_set_string(j, "table", table);
    (void)json_set_string(j, "action", words[n->action].verb);
    (void)json_set_int(j, "keys", (int64_t)n->count);
    (void)json_set_int(j, "changed", (int64_t)named->changed);
    (void)json_set_int(j, "unchanged", (int64_t)(n->count - named->changed));
    (void)json_set_int(j, "resent", (int64_t)named->resent);
    (void)json_set(j, "shards", shards);
    return j;
}

static void named_print(const struct reader_naming *n, const struct reader_named *named,
                        const char *table)
{
    char keys[32], changed[32], before[32], resent[32];
    printf("%s: %s keys: %s newly %s, %s already\n", table, cli_number_text((double)n->count, keys),
           cli_number_text((double)named->changed, changed), words[n->action].done,
           cli_number_text((double)(n->count - named->changed), before));
    if (named->resent > 0)
        printf("%s keys were sent again because a shard did not answer: some that count as "
               "\"already\" may be new\n",
               cli_number_text((double)named->resent, resent));
}

/* Sends the keys in the order of their tablets, so that a shard changes each tablet once. */
static int list_send(struct option_line *o, struct reader *c, uint32_t table,
                     const struct reader_naming *n, struct err *e)
{
    const char *name = o->word[0];
    struct reader_named *named = malloc(sizeof *named);
    char done[32];
    if (named == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = reader_name(c, table, n, named, e);
    if (rc != 0 && named->changed + named->resent > 0)
        (void)err_wrap(e, rc,
                       "at least %s of the keys are %s already; the same command does the rest",
                       cli_number_text((double)named->changed, done), words[n->action].done);
    if (rc == 0 && option_given(o, "json")) {
        struct json *j = named_json(n, named, name);
        cli_json_print(j);
        json_free(j);
    } else if (rc == 0) {
        named_print(n, named, name);
    }
    free(named);
    return rc;
}

static int keys_name(struct option_line *o, enum wire_key_action action, struct err *e)
{
    struct key_place place = {.job = NULL};
    struct key_list keys = {0};
    struct reader *c = NULL;
    uint32_t table = 0;
    SHOAL_ASSERT(action >= WIRE_KEY_BLOCK && action <= WIRE_KEY_RESET);
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE, "name a table; see `shoal keys %s --help`",
                       words[action].verb);
    int rc = reader_open(o, &c, e);
    if (rc == 0)
        rc = reader_table(c, o->word[0], &table, e);
    if (rc == 0)
        rc = key_place_open(o, c, &place, e);
    place.table = o->word[0];
    if (rc == 0)
        rc = key_list_take(o, &place, KEY_LIST_MOST, &keys, e);
    key_place_close(&place);
    if (rc == 0) {
        qsort(keys.key, keys.count, sizeof keys.key[0], key_by_mixed);
        rc = list_send(o, c, table, &(struct reader_naming){action, keys.key, keys.count, progress},
                       e);
    }
    key_list_free(&keys);
    reader_close(c);
    return rc;
}

int cli_keys_allow(struct option_line *o, struct err *e)
{
    return keys_name(o, WIRE_KEY_ALLOW, e);
}

int cli_keys_block(struct option_line *o, struct err *e)
{
    return keys_name(o, WIRE_KEY_BLOCK, e);
}

int cli_keys_reset(struct option_line *o, struct err *e)
{
    return keys_name(o, WIRE_KEY_RESET, e);
}
