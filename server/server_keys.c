/* server_keys.c: keys at the start, and the allow-list, which is read again when it changes. */
#include "server/server_keys.h"

#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/job/signature.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool server_keys_insecure(const struct server_keys_ask *ask, const struct keyfile *keys)
{
    return coordinators_tcp(ask->listen) && keys == NULL && ask->insecure;
}

static int together_check(const struct server_keys_ask *ask, const struct keyfile *keys,
                          struct err *e)
{
    if (keys != NULL && ask->insecure)
        return err_set(e, SHOAL_E_CONFIG,
                       "keys and insecure_plaintext: the one asks everybody for a key, the other "
                       "nobody; take one of them away");
    if (ask->allow[0] != 0 && keys == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "allow: without `keys` nobody is asked for one: make them with shoal keygen "
                       "FILE, and set keys: FILE");
    int rc = net_listen_check(ask->listen, keys != NULL, ask->insecure, e);
    if (rc != 0)
        return rc;
    if (keys != NULL && ask->coordinator[0] == 0 && ask->allow[0] == 0 &&
        coordinators_tcp(ask->listen))
        return err_set(e, SHOAL_E_CONFIG,
                       "listen: %s: with keys, and without a list of whose keys are good, nobody "
                       "could come: set allow: FILE, with the lines that shoal keygen prints",
                       ask->listen);
    if (keys != NULL && coordinators_tcp(ask->listen) && strstr(ask->coordinator, "ipc://") != NULL)
        return err_set(
            e, SHOAL_E_CONFIG,
            "listen: %s and coordinator: %s: a coordinator gives shards their keys a place in "
            "its map where it sees them, over tcp: let both listen on tcp, or both on ipc",
            ask->listen, ask->coordinator);
    return 0;
}

static int signers_check(const char *path, struct err *e)
{
    struct signature_signers *list = NULL;
    if (path[0] == 0)
        return 0;
    int rc = signature_signers_read(path, &list, e);
    signature_signers_free(list);
    return rc;
}

int server_keys_open(const struct server_keys_ask *ask, struct keyfile **out, struct err *e)
{
    int rc = keyfile_find(ask->keys, out, e);
    if (rc == 0)
        rc = together_check(ask, *out, e);
    if (rc == 0)
        rc = signers_check(ask->signers, e);
    if (rc != 0) {
        keyfile_free(*out);
        *out = NULL;
        return rc;
    }
    if (!server_keys_insecure(ask, *out))
        return 0;
    log_warn("insecure_plaintext: %s is open to whoever reaches it: nothing is encrypted, and all "
             "are obeyed",
             ask->listen);
    log_audit(.operation = "START", .object = ask->listen, .result = "insecure");
    return 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool server_keys_list_changed(struct server_list *s)
{
    struct stat now;
    if (stat(s->path, &now) != 0)
        memset(&now, 0, sizeof now);
    bool rests = same(&now, &s->seen);
    s->seen = now;
    return rests && !same(&now, &s->was);
}

/* A user with write access to the list decides which keys are allowed: others must not have it. */
static int writers_check(const char *path, const struct stat *st, struct err *e)
{
    if ((st->st_mode & 02) == 0)
        return 0;
    return err_set(e, SHOAL_E_DENIED,
                   "%s: mode %04o lets everybody change who may come: chmod o-w %s", path,
                   (unsigned)(st->st_mode & 07777), path);
}

static int read_one(const char *path, const struct stat *st, struct keylist **list, char **text,
                    size_t *bytes, struct err *e)
{
    int rc = writers_check(path, st, e);
    if (rc != 0)
        return rc;
    if (file_read_whole(path, LIMIT_KEYS_BYTES, text, bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read the allow-list %s: %s", path,
                       strerror(errno));
    rc = keylist_parse(*text, *bytes, path, list, e);
    if (rc != 0)
        free(*text);
    return rc;
}

int server_keys_list_read(struct server_list *s, struct keylist **list, char **text, size_t *bytes,
                          struct err *e)
{
    if (stat(s->path, &s->was) != 0) {
        memset(&s->was, 0, sizeof s->was);
        return err_set(e, SHOAL_E_NOINPUT, "cannot read the allow-list %s: %s", s->path,
                       strerror(errno));
    }
    return read_one(s->path, &s->was, list, text, bytes, e);
}

void server_keys_list_keep(const struct server_list *s, const char *text, size_t bytes)
{
    char temporary[LIMIT_PATH + 8];
    if (s->last == NULL)
        return;
    (void)snprintf(temporary, sizeof temporary, "%s.new", s->last);
    if (file_write_whole(s->last, temporary, text, bytes, (s->was.st_mode & 0777) | 0600,
                         FILE_LASTS_ALL) != 0)
        log_warn("%s: no copy of the allow-list can be kept: %s; a start with a list that is wrong "
                 "goes by an older one, or fails",
                 s->last, strerror(errno));
}

int server_keys_list_last(const struct server_list *s, int rc, struct keylist **list, char **text,
                          size_t *bytes, struct err *e)
{
    struct stat st;
    struct err why;
    if (s->last == NULL || stat(s->last, &st) != 0 ||
        read_one(s->last, &st, list, text, bytes, &why) != 0)
        return rc;
    why = *e;
    (void)err_set(e, rc, "%s; until that is mended the list that was taken last counts, %s",
                  why.text, s->last);
    return 0;
}

/* ---- --check --------------------------------------------------------------------------------- */

int server_keys_check(const struct server_keys_ask *ask, struct err *e)
{
    struct keyfile *keys;
    struct keylist *list = NULL;
    struct server_list file = {.path = ask->allow};
    char *text = NULL;
    size_t bytes;
    int rc = keyfile_find(ask->keys, &keys, e);
    bool unseen = rc == 0 && keys == NULL && !ask->insecure;
    if (rc == 0 && !unseen)
        rc = together_check(ask, keys, e);
    if (rc == 0)
        rc = signers_check(ask->signers, e);
    if (rc == 0 && ask->allow[0] != 0)
        rc = server_keys_list_read(&file, &list, &text, &bytes, e);
    if (list != NULL)
        free(text);
    keylist_free(list);
    keyfile_free(keys);
    if (rc == 0)
        puts(unseen && coordinators_tcp(ask->listen) ? KEYFILE_UNSEEN : "ok");
    return rc;
}
