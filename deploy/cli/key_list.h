/* key_list.h: the keys that a line of `shoal erase` or `shoal keys` names.
 *
 *     --keys FILE                   a key a line: 0x1f, 31 or FIELD:VALUE
 *     --field NAME --values FILE    a value of the field a line
 *     --field NAME --value TEXT     a value, may be repeated
 *
 * A line is taken exactly as it is, without its end (\n or \r\n); an empty one is skipped. A file
 * with a line that is not understood is refused with the line's number, and names no key. Thread:
 * main only. */
#ifndef DEPLOY_CLI_KEY_LIST_H
#define DEPLOY_CLI_KEY_LIST_H

#include "deploy/cli/key.h"

#include <stdio.h>

#define KEY_LIST_MOST (1u << 24) /* keys of a list: 128 MiB */

struct key_list {
    uint64_t *key; /* owned; (count): sorted by value, each once */
    size_t count, room;
};

/* Takes the keys of a line of one of these verbs. most: at most KEY_LIST_MOST. USAGE: it names no
 * keys, or in two ways; DATA: the list is empty; TOO_BIG: it has more than `most` keys; NOINPUT,
 * NOMEM, IO, and those of key_take. The caller frees the list, also after an error. */
int key_list_take(struct option_line *o, struct key_place *at, size_t most, struct key_list *out,
                  struct err *e);
void key_list_free(struct key_list *k);
/* Adds the keys of an open file, in its order. field: its lines are values of that field; NULL:
 * keys. path: for errors. */
int key_list_read(FILE *f, const char *path, struct key_place *at, const char *field, size_t most,
                  struct key_list *out, struct err *e);

#endif
