/* signature.c: a checkpoint's signature, read, checked and made.
 *
 *  1. No word of a manifest is used before the signature beside it has been found right, by an
 *     accepted key. [test: signature_of_another_key_is_refused,
 *     signature_with_a_changed_byte_is_refused]
 *  2. Names are sorted, so each is there once, and none leads out of the folder: no part of one
 *     begins with a '.', none is a link. [test: signature_names_stay_in_the_folder,
 *     signature_takes_no_link]
 *  3. A file is the signed one when all its bytes have the signed size and hash.
 *     [test: signature_with_a_changed_file_is_refused]
 */
#include "proto/job/signature.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "proto/job/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The file has exactly this text; only the digits differ. */
#define TEXT_KEY "{\n  \"format\": 2,\n  \"key\": \""
#define TEXT_MADE "\",\n  \"signature\": \""
#define TEXT_END "\"\n}\n"
#define HASHES "hashes" /* the member of the manifest */
#define CHUNK (1u << 20)
#define LINE_BYTES 256u
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
enum {
    KEY_AT = sizeof TEXT_KEY - 1,
    MADE_AT = KEY_AT + 2 * SIGN_KEY + sizeof TEXT_MADE - 1,
    TEXT_BYTES = MADE_AT + 2 * SIGN_BYTES + sizeof TEXT_END - 1,
};
/* A reader holds the lock on the replaced manifest while it loads. */
enum { READERS_WAIT_S = 60 };

struct entry {
    const char *name; /* in the manifest */
    uint64_t bytes;
    uint8_t hash[SIGN_HASH];
};

struct signature {
    char folder[LIMIT_PATH];
    uint8_t key[SIGN_KEY];
    struct json *manifest; /* owned; entries point into it */
    struct entry own;      /* the manifest's file */
    struct entry *entry;   /* owned; (count), by name */
    uint32_t count, capacity;
};

/* ---- accepted keys --------------------------------------------------------------------------- */

static int signer_take(struct signature_signers *s, const char *line, size_t bytes,
                       const char *name, uint32_t number, struct err *e)
{
    static const char blanks[] = " \t\r";
    char text[LINE_BYTES];
    if (bytes >= sizeof text || memchr(line, 0, bytes) != NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s:%u: a line has at most %u characters", name, number,
                       LINE_BYTES - 1);
    memcpy(text, line, bytes);
    text[bytes] = 0;
    char *key = text + strspn(text, blanks), *more = key + strcspn(key, blanks);
    size_t length = (size_t)(more - key);
    more += strspn(more, blanks);
    if (*key == 0 || *key == '#')
        return 0;
    if (s->count == SIGNATURE_SIGNERS)
        return err_set(e, SHOAL_E_CONFIG, "%s: more than %u keys are listed", name,
                       SIGNATURE_SIGNERS);
    if (length != 2 * SIGN_KEY || !sign_unhex(key, s->key[s->count], SIGN_KEY) ||
        (*more != 0 && *more != '#'))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%u: a line is a public key of %u digits, as `shoal keygen FILE --role "
                       "sign` prints it, and behind it at most # and a comment",
                       name, number, 2 * SIGN_KEY);
    s->count++;
    return 0;
}

int signature_signers_parse(const char *text, size_t bytes, const char *name,
                            struct signature_signers **out, struct err *e)
{
    const char *end = text + bytes;
    uint32_t number = 0;
    struct signature_signers *s = calloc(1, sizeof *s);
    if (s == NULL || (s->key = calloc(SIGNATURE_SIGNERS, sizeof *s->key)) == NULL) {
        free(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory for a list of keys");
    }
    int rc = 0;
    while (text < end && rc == 0) {
        size_t length = text_line(text, (size_t)(end - text));
        rc = signer_take(s, text, length, name, ++number, e);
        text += length + 1;
    }
    if (rc == 0 && s->count == 0)
        rc = err_set(
            e, SHOAL_E_CONFIG,
            "%s lists no key: put in the line that `shoal keygen FILE --role sign` printed", name);
    if (rc != 0) {
        signature_signers_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int signature_signers_read(const char *path, struct signature_signers **out, struct err *e)
{
    struct stat st;
    char *text;
    size_t bytes;
    if (stat(path, &st) != 0 || file_read_whole(path, SIGNATURE_SIGNERS_BYTES, &text, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read the list of signers %s: %s", path,
                       strerror(errno));
    int rc = 0;
    if ((st.st_mode & 02) != 0)
        rc = err_set(e, SHOAL_E_DENIED,
                     "%s: mode %04o lets everybody change whose checkpoints are good: chmod o-w %s",
                     path, (unsigned)(st.st_mode & 07777), path);
    if (rc == 0)
        rc = signature_signers_parse(text, bytes, path, out, e);
    free(text);
    return rc;
}

void signature_signers_free(struct signature_signers *s)
{
    if (s != NULL)
        free(s->key);
    free(s);
}

static bool listed(const struct signature_signers *s, const uint8_t key[SIGN_KEY])
{
    for (uint32_t i = 0; i < s->count; i++)
        if (memcmp(s->key[i], key, SIGN_KEY) == 0)
            return true;
    return false;
}

/* ---- the list of files ----------------------------------------------------------------------- */

static int malformed(const struct signature *s, struct err *e)
{
    return err_set(e, SHOAL_E_DENIED,
                   "%s/" SIGNATURE_FILE " is no whole signature of this release: take another "
                   "checkpoint, or sign this one again (shoal checkpoint sign) if it is yours",
                   s->folder);
}

static bool name_ok(const char *name)
{
    size_t part = 0;
    if (strlen(name) >= SIGNATURE_NAME)
        return false;
    for (; name[0] != 0; name += part + (name[part] == '/')) {
        part = strspn(name, NAME_BYTES);
        if (part == 0 || name[0] == '.' || (name[part] != 0 && name[part] != '/') ||
            (name[part] == '/' && name[part + 1] == 0))
            return false;
    }
    return part > 0;
}

static int entry_take(struct signature *s, const struct json *file, struct err *e)
{
    const char *hex = json_get_string(file, "blake2b", "");
    int64_t bytes = json_get_int(file, "bytes", -1);
    struct entry n = {.name = json_get_string(file, "file", ""), .bytes = (uint64_t)bytes};

    if (bytes < 0 || strlen(hex) != 2 * SIGN_HASH || !sign_unhex(hex, n.hash, SIGN_HASH) ||
        !name_ok(n.name) || (s->count > 0 && strcmp(s->entry[s->count - 1].name, n.name) >= 0))
        return malformed(s, e); /* 2 */
    if (array_room(&s->entry, s->count, &s->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %s/" SIGNATURE_FILE, s->folder);
    s->entry[s->count++] = n;
    return 0;
}

static int entries_take(struct signature *s, const char *text, size_t bytes, struct err *e)
{
    int rc = manifest_frame(text, bytes, &s->manifest, e);

    if (rc != 0 && rc != SHOAL_E_NOMEM)
        return malformed(s, e);
    if (rc != 0)
        return rc;
    const struct json *hashes = json_get(s->manifest, HASHES);
    for (size_t i = 0; i < json_count(hashes) && rc == 0; i++)
        rc = entry_take(s, json_array_at(hashes, i), e);
    if (rc != 0 || s->count > 0)
        return rc;
    return malformed(s, e);
}

static void text_of(const uint8_t key[SIGN_KEY], const uint8_t made[SIGN_BYTES],
                    char out[TEXT_BYTES + 1])
{
    char key_hex[SIGNATURE_KEY], made_hex[2 * SIGN_BYTES + 1];

    sign_hex(key, SIGN_KEY, key_hex);
    sign_hex(made, SIGN_BYTES, made_hex);
    (void)snprintf(out, TEXT_BYTES + 1, TEXT_KEY "%s" TEXT_MADE "%s" TEXT_END, key_hex, made_hex);
}

static int signed_check(struct signature *s, const char *text, size_t bytes, const char *manifest,
                        size_t manifest_bytes, const struct signature_signers *signers,
                        struct err *e)
{
    uint8_t made[SIGN_BYTES];
    char again[TEXT_BYTES + 1], key[SIGNATURE_KEY];

    if (bytes != TEXT_BYTES || !sign_unhex(text + KEY_AT, s->key, SIGN_KEY) ||
        !sign_unhex(text + MADE_AT, made, SIGN_BYTES))
        return malformed(s, e);
    text_of(s->key, made, again);
    if (memcmp(text, again, TEXT_BYTES) != 0)
        return malformed(s, e);
    signature_key(s, key);
    if (signers != NULL && !listed(signers, s->key))
        return err_set(e, SHOAL_E_DENIED,
                       "%s is signed by %.16s..., which is none of the keys that are good here "
                       "(checkpoint_signers, --signers): list it if you trust its holder, or take "
                       "another checkpoint",
                       s->folder, key);
    if (!sign_good(s->key, manifest, manifest_bytes, made))
        return err_set(e, SHOAL_E_DENIED,
                       "%s/" MANIFEST_FILE
                       " is not the file that was signed by %.16s...: it or " SIGNATURE_FILE
                       " was changed since; take another checkpoint",
                       s->folder, key);
    return 0;
}

int signature_parse(const char *text, size_t bytes, const char *manifest, size_t manifest_bytes,
                    const char *folder, const struct signature_signers *signers,
                    struct signature **out, struct err *e)
{
    struct signature *s = calloc(1, sizeof *s);

    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %s/" SIGNATURE_FILE, folder);
    text_copy(s->folder, sizeof s->folder, folder);
    s->own = (struct entry){.name = MANIFEST_FILE, .bytes = manifest_bytes};
    sign_hash_bytes(manifest, manifest_bytes, s->own.hash);
    int rc = signed_check(s, text, bytes, manifest, manifest_bytes, signers, e); /* 1 */
    if (rc == 0)
        rc = entries_take(s, manifest, manifest_bytes, e);
    if (rc != 0) {
        signature_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static int manifest_get(const char *folder, char **text, size_t *bytes, struct err *e)
{
    char path[LIMIT_PATH + sizeof MANIFEST_FILE + 1];

    (void)snprintf(path, sizeof path, "%s/" MANIFEST_FILE, folder);
    if (file_read_whole(path, MANIFEST_BYTES_MAX, text, bytes) == 0)
        return 0;
    return err_set(e, SHOAL_E_DENIED, "cannot read %s: %s", path, strerror(errno));
}

static int open_read(const char *folder, const struct signature_signers *signers,
                     struct signature **out, struct err *e)
{
    char path[LIMIT_PATH + sizeof SIGNATURE_FILE + 1], *text, *manifest = NULL;
    size_t bytes, manifest_bytes;
    (void)snprintf(path, sizeof path, "%s/" SIGNATURE_FILE, folder);
    if (file_read_whole(path, SIGNATURE_BYTES_MAX, &text, &bytes) != 0) {
        if (errno == ENOENT)
            return err_set(e, SHOAL_E_DENIED,
                           "%s is not signed, and here checkpoints must be: take one that is, or "
                           "sign it if it is yours (shoal checkpoint sign %s --key FILE)",
                           folder, folder);
        return err_set(e, SHOAL_E_DENIED, "cannot read %s: %s", path, strerror(errno));
    }
    int rc = manifest_get(folder, &manifest, &manifest_bytes, e);
    if (rc == 0)
        rc = signature_parse(text, bytes, manifest, manifest_bytes, folder, signers, out, e);
    free(manifest);
    free(text);
    return rc;
}

int signature_open(const char *folder, const char *signers, struct signature **out, struct err *e)
{
    struct signature_signers *list = NULL;
    char *whole = realpath(folder, NULL);
    int rc = 0;
    if (whole == NULL || strlen(whole) >= LIMIT_PATH)
        rc = err_set(e, SHOAL_E_NOINPUT, "cannot open %s: %s", folder,
                     strerror(whole == NULL ? errno : ENAMETOOLONG));
    if (rc == 0 && signers != NULL)
        rc = signature_signers_read(signers, &list, e);
    if (rc == 0)
        rc = open_read(whole, list, out, e);
    signature_signers_free(list);
    free(whole);
    return rc;
}

void signature_free(struct signature *s)
{
    if (s == NULL)
        return;
    free(s->entry);
    json_free(s->manifest);
    free(s);
}

void signature_key(const struct signature *s, char out[SIGNATURE_KEY])
{
    sign_hex(s->key, SIGN_KEY, out);
}

uint32_t signature_files(const struct signature *s)
{
    return s->count + 1;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Size and hash of all bytes of a plain file. EFBIG: it has more than `most` bytes. 0, or errno. */
static int file_hash(int fd, uint64_t most, uint64_t *bytes, uint8_t hash[SIGN_HASH])
{
    char *chunk = malloc(CHUNK);
    struct sign_hash *h = sign_hash_new();
    int why = chunk == NULL || h == NULL ? ENOMEM : 0;
    *bytes = 0;
    for (ssize_t n = 1; why == 0 && n != 0;) {
        n = read(fd, chunk, CHUNK);
        if (n < 0 && errno != EINTR)
            why = errno;
        if (n <= 0)
            continue;
        sign_hash_add(h, chunk, (size_t)n);
        *bytes += (uint64_t)n;
        if (*bytes > most)
            why = EFBIG;
    }
    if (why == 0)
        sign_hash_end(h, hash);
    sign_hash_free(h);
    free(chunk);
    return why;
}

/* Opens a file below a folder without following links. 0, or errno. */
static int below_open(const char *folder, const char *name, int *fd)
{
    char path[LIMIT_PATH + SIGNATURE_NAME];
    struct stat st;
    SHOAL_ASSERT(name_ok(name)); /* 2 */
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_below(folder, path) != 0)
        return errno;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return errno;
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    close(*fd);
    return EINVAL;
}

static int entry_compare(const void *name, const void *entry)
{
    return strcmp(name, ((const struct entry *)entry)->name);
}

static int entry_find(const struct signature *s, const char *name, const struct entry **out,
                      struct err *e)
{
    if (strcmp(name, MANIFEST_FILE) == 0) {
        *out = &s->own;
        return 0;
    }
    *out = bsearch(name, s->entry, s->count, sizeof *s->entry, entry_compare);
    if (*out == NULL)
        return err_set(e, SHOAL_E_DENIED,
                       "%s/%s is not among the signed files: it was put there since; take "
                       "another checkpoint",
                       s->folder, name);
    return 0;
}

static int compare(const struct signature *s, const struct entry *n, uint64_t bytes,
                   const uint8_t hash[SIGN_HASH], struct err *e)
{
    if (n->bytes == bytes && memcmp(n->hash, hash, SIGN_HASH) == 0)
        return 0; /* 3 */
    return err_set(e, SHOAL_E_DENIED,
                   "%s/%s is not the file that was signed: it was changed since; take another "
                   "checkpoint",
                   s->folder, n->name);
}

int signature_check_bytes(const struct signature *s, const char *name, const void *content,
                          size_t bytes, struct err *e)
{
    const struct entry *n;
    uint8_t hash[SIGN_HASH];
    int rc = entry_find(s, name, &n, e);
    if (rc != 0)
        return rc;
    sign_hash_bytes(content, bytes, hash);
    return compare(s, n, bytes, hash, e);
}

int signature_check_file(const struct signature *s, const char *name, struct err *e)
{
    const struct entry *n;
    uint64_t bytes;
    uint8_t hash[SIGN_HASH];
    int fd, rc = entry_find(s, name, &n, e);
    if (rc != 0)
        return rc;
    int why = below_open(s->folder, name, &fd);
    if (why == 0) {
        why = file_hash(fd, n->bytes, &bytes, hash);
        close(fd);
    }
    if (why == ENOMEM)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read %s/%s", s->folder, name);
    if (why != 0 && why != EFBIG)
        return err_set(e, SHOAL_E_DENIED,
                       "%s/%s was signed and cannot be read (%s): take another "
                       "checkpoint",
                       s->folder, name, strerror(why));
    return compare(s, n, bytes, hash, e);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int name_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int hash_add(const char *folder, const char *name, struct json *list, struct err *e)
{
    uint64_t bytes;
    uint8_t hash[SIGN_HASH];
    char hex[2 * SIGN_HASH + 1];
    int fd;

    if (!name_ok(name))
        return err_set(e, SHOAL_E_DENIED, "'%.100s' is no name of a file of a checkpoint", name);
    int why = below_open(folder, name, &fd);
    if (why == 0) {
        why = file_hash(fd, UINT64_MAX, &bytes, hash);
        close(fd);
    }
    if (why != 0)
        return err_set(e, why == ENOMEM ? SHOAL_E_NOMEM : SHOAL_E_NOINPUT, "cannot read %s/%s: %s",
                       folder, name, strerror(why));
    sign_hex(hash, SIGN_HASH, hex);
    struct json *item = json_new_object();
    json_set_string(item, "file", name);
    json_set_int(item, "bytes", (int64_t)bytes);
    json_set_string(item, "blake2b", hex);
    return json_append(list, item);
}

/* The manifest's text with the hashes of these files. */
static int manifest_hashed(const char *folder, char (*name)[SIGNATURE_NAME], uint32_t count,
                           char **text, struct err *e)
{
    struct json *list = json_new_array(), *m = NULL;
    char *was = NULL;
    size_t bytes;
    int rc = manifest_get(folder, &was, &bytes, e);

    *text = NULL;
    if (rc == 0)
        rc = manifest_frame(was, bytes, &m, e);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = hash_add(folder, name[i], list, e);
    if (rc == 0) {
        *text = manifest_text_with(m, HASHES, list);
        list = NULL;
        if (*text == NULL)
            rc = err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
    }
    json_free(list);
    json_free(m);
    free(was);
    return rc;
}

/* Keeps the owner and mode of the file that is replaced; where the owner cannot be kept, all users
 * may read the new file. */
static bool owner_keep(int fd, const char *path)
{
    struct stat was;

    if (stat(path, &was) != 0 || fchown(fd, was.st_uid, was.st_gid) != 0)
        return fchmod(fd, 0644) == 0;
    return fchmod(fd, was.st_mode & 0777) == 0;
}

/* Writes a file in a folder that others may write to: the temporary name is one under which no link
 * can lie. */
static int text_place(const char *folder, const char *file, const char *text, struct err *e)
{
    char path[LIMIT_PATH + 32], temporary[LIMIT_PATH + 32];
    size_t bytes = strlen(text);

    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    (void)snprintf(temporary, sizeof temporary, "%s/%s.XXXXXX", folder, file);
    if (bytes > MANIFEST_BYTES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%s has too many files to be signed", folder);
    int fd = file_temporary(temporary);
    if (fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", temporary, strerror(errno));
    bool good = owner_keep(fd, path) && file_write_all(fd, text, bytes) == 0 && file_sync(fd) == 0;
    good &= close(fd) == 0;
    if (good && file_rename(temporary, path) == 0 && file_sync_folder(folder) == 0)
        return 0;
    int why = errno;
    (void)file_unlink(temporary);
    return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(why));
}

/* Waits until no reader holds the manifest that is about to be replaced: such a reader would lose
 * its protection from removal. On a file system without locks there is nothing to wait for. */
static int readers_wait(const char *folder, int *hold, struct err *e)
{
    const struct timespec look = {.tv_nsec = 100000000};
    int rc = reading_shut(folder, hold, NULL);

    for (int i = 0; rc == SHOAL_E_BUSY && i < READERS_WAIT_S * 10; i++) {
        (void)nanosleep(&look, NULL);
        rc = reading_shut(folder, hold, NULL);
    }
    if (rc == 0 || rc == SHOAL_E_IO)
        return 0;
    return err_set(e, rc, "%s is being read: sign it when that is over", folder);
}

int signature_write(const char *folder, char (*name)[SIGNATURE_NAME], uint32_t count,
                    const uint8_t seed[SIGN_SEED], struct err *e)
{
    char *whole = realpath(folder, NULL), *manifest = NULL, text[TEXT_BYTES + 1];
    uint8_t key[SIGN_KEY], made[SIGN_BYTES];
    int hold = READING_NONE, rc = 0;

    if (whole == NULL || strlen(whole) >= LIMIT_PATH) {
        rc = err_set(e, SHOAL_E_NOINPUT, "cannot open %s", folder);
        goto out;
    }
    qsort(name, count, sizeof *name, name_compare);
    rc = manifest_hashed(whole, name, count, &manifest, e);
    if (rc != 0)
        goto out;
    if (sign_key_of(seed, key) != 0 || sign_make(seed, manifest, strlen(manifest), made) != 0) {
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
        goto out;
    }
    text_of(key, made, text);
    rc = readers_wait(whole, &hold, e);
    if (rc == 0)
        rc = text_place(whole, MANIFEST_FILE, manifest, e);
    if (rc == 0)
        rc = text_place(whole, SIGNATURE_FILE, text, e);
out:
    reading_end(&hold);
    free(manifest);
    free(whole);
    return rc;
}
