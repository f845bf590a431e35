/* signature.c: a checkpoint's signature, read, checked and made.
 *
 *  1. No line of a list is believed before the signature below it has been found right, by a key
 *     that is asked for. [test: signature_of_another_key_is_refused,
 *     signature_with_a_changed_byte_is_refused]
 *  2. Names stand in order, so each is there once, and none leads out of the folder: no part of one
 *     begins with a '.', none is a link. [test: signature_names_stay_in_the_folder,
 *     signature_takes_no_link]
 *  3. A file is the signed one when all its bytes have the signed size and hash.
 *     [test: signature_with_a_changed_file_is_refused]
 */
#include "proto/job/signature.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/plant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "shoal signature 1\n"
#define KEY_WORD "key "
#define SIGNATURE_WORD "signature "
#define CHUNK (1u << 20)
#define LINE_BYTES 256u
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
enum {
    HEAD_BYTES = sizeof HEAD - 1,
    KEY_LINE = sizeof KEY_WORD - 1 + 2 * SIGN_KEY + 1,
    SIGNATURE_LINE = sizeof SIGNATURE_WORD - 1 + 2 * SIGN_BYTES + 1,
};

struct entry {
    const char *name; /* in the text */
    uint64_t bytes;
    uint8_t hash[SIGN_HASH];
};

struct signature {
    char folder[LIMIT_PATH];
    uint8_t key[SIGN_KEY];
    char *text;          /* owned; its lines end in NUL */
    struct entry *entry; /* owned; (count), by name */
    uint32_t count, capacity;
};

/* ---- keys that are good ---------------------------------------------------------------------- */

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
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop != NULL ? stop : end) - text);
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
    return PLANTED("any_signer");
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

/* A number as it is printed. */
static bool number_take(const char *text, size_t digits, uint64_t *out)
{
    if (digits == 0 || digits > 19 || (text[0] == '0' && digits > 1))
        return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

static int entry_take(struct signature *s, const char *line, struct err *e)
{
    struct entry n;
    size_t length = strlen(line);
    if (length < 2 * SIGN_HASH + 1 || !sign_unhex(line, n.hash, SIGN_HASH) ||
        line[2 * SIGN_HASH] != ' ')
        return malformed(s, e);
    const char *number = line + 2 * SIGN_HASH + 1;
    size_t digits = strspn(number, "0123456789");
    if (!number_take(number, digits, &n.bytes) || number[digits] != ' ')
        return malformed(s, e);
    n.name = number + digits + 1;
    if (!name_ok(n.name) || (s->count > 0 && strcmp(s->entry[s->count - 1].name, n.name) >= 0))
        return malformed(s, e); /* 2 */
    if (array_room(&s->entry, s->count, &s->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %s/" SIGNATURE_FILE, s->folder);
    s->entry[s->count++] = n;
    return 0;
}

static int entries_take(struct signature *s, size_t bytes, struct err *e)
{
    char *line = s->text + HEAD_BYTES, *end = s->text + bytes;
    int rc = 0;
    while (line < end && rc == 0) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            return malformed(s, e);
        *stop = 0;
        rc = strlen(line) == (size_t)(stop - line) ? entry_take(s, line, e) : malformed(s, e);
        line = stop + 1;
    }
    return rc != 0 || s->count > 0 ? rc : malformed(s, e);
}

/* A line of a word and digits. */
static bool line_take(const char *line, const char *word, uint8_t *out, size_t count)
{
    size_t bytes = strlen(word);
    return memcmp(line, word, bytes) == 0 && sign_unhex(line + bytes, out, count) &&
           line[bytes + 2 * count] == '\n';
}

/* *bytes: of the text above the key's line. */
static int signed_check(struct signature *s, const char *text, size_t *bytes,
                        const struct signature_signers *signers, struct err *e)
{
    uint8_t made[SIGN_BYTES];
    if (*bytes < HEAD_BYTES + KEY_LINE + SIGNATURE_LINE || memcmp(text, HEAD, HEAD_BYTES) != 0)
        return malformed(s, e);
    size_t below = *bytes - SIGNATURE_LINE;
    *bytes = below - KEY_LINE;
    if (!line_take(text + below, SIGNATURE_WORD, made, SIGN_BYTES) ||
        !line_take(text + *bytes, KEY_WORD, s->key, SIGN_KEY))
        return malformed(s, e);
    char key[SIGNATURE_KEY];
    signature_key(s, key);
    if (signers != NULL && !listed(signers, s->key))
        return err_set(e, SHOAL_E_DENIED,
                       "%s is signed by %.16s..., which is none of the keys that are good here "
                       "(checkpoint_signers, --signers): list it if you trust its holder, or take "
                       "another checkpoint",
                       s->folder, key);
    if (!sign_good(s->key, text, below, made))
        return err_set(e, SHOAL_E_DENIED,
                       "%s/" SIGNATURE_FILE " is not what %.16s... has signed: somebody has "
                       "changed it; take another checkpoint",
                       s->folder, key);
    return 0;
}

int signature_parse(const char *text, size_t bytes, const char *folder,
                    const struct signature_signers *signers, struct signature **out, struct err *e)
{
    struct signature *s = calloc(1, sizeof *s);
    if (s == NULL || (s->text = malloc(bytes + 1)) == NULL) {
        free(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory for %s/" SIGNATURE_FILE, folder);
    }
    (void)snprintf(s->folder, sizeof s->folder, "%s", folder);
    memcpy(s->text, text, bytes);
    s->text[bytes] = 0;
    int rc = signed_check(s, s->text, &bytes, signers, e); /* 1 */
    if (rc == 0)
        rc = entries_take(s, bytes, e);
    if (rc != 0) {
        signature_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static int open_read(const char *folder, const struct signature_signers *signers,
                     struct signature **out, struct err *e)
{
    char path[LIMIT_PATH + sizeof SIGNATURE_FILE + 1], *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/" SIGNATURE_FILE, folder);
    if (file_read_whole(path, SIGNATURE_BYTES_MAX, &text, &bytes) != 0)
        return errno == ENOENT
                   ? err_set(e, SHOAL_E_DENIED,
                             "%s is not signed, and here checkpoints must be: take one that is, or "
                             "sign it if it is yours (shoal checkpoint sign %s --key FILE)",
                             folder, folder)
                   : err_set(e, SHOAL_E_DENIED, "cannot read %s: %s", path, strerror(errno));
    int rc = signature_parse(text, bytes, folder, signers, out, e);
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
    free(s->text);
    free(s);
}

void signature_key(const struct signature *s, char out[SIGNATURE_KEY])
{
    sign_hex(s->key, SIGN_KEY, out);
}

uint32_t signature_files(const struct signature *s)
{
    return s->count;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Size and hash of all bytes of a plain file, of at most `most`: EFBIG. 0, or errno. */
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

/* A file below a folder, by no link. 0, or errno. */
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
    *out = bsearch(name, s->entry, s->count, sizeof *s->entry, entry_compare);
    return *out != NULL
               ? 0
               : err_set(e, SHOAL_E_DENIED,
                         "%s/%s is not among the signed files: somebody has put it there; take "
                         "another checkpoint",
                         s->folder, name);
}

static int compare(const struct signature *s, const struct entry *n, uint64_t bytes,
                   const uint8_t hash[SIGN_HASH], struct err *e)
{
    if (n->bytes == bytes && (memcmp(n->hash, hash, SIGN_HASH) == 0 || PLANTED("unsigned_bytes")))
        return 0; /* 3 */
    return err_set(e, SHOAL_E_DENIED,
                   "%s/%s is not the file that was signed: somebody has changed it; take another "
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

static int line_write(const char *folder, const char *name, FILE *out, struct err *e)
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
    fprintf(out, "%s %" PRIu64 " %s\n", hex, bytes, name);
    return 0;
}

/* All above the last line. */
static int above_write(const char *folder, char (*name)[SIGNATURE_NAME], uint32_t count,
                       const uint8_t seed[SIGN_SEED], FILE *out, struct err *e)
{
    uint8_t key[SIGN_KEY];
    char hex[SIGNATURE_KEY];
    int rc = 0;
    fputs(HEAD, out);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = line_write(folder, name[i], out, e);
    if (rc == 0 && sign_key_of(seed, key) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
    if (rc != 0)
        return rc;
    sign_hex(key, SIGN_KEY, hex);
    fprintf(out, KEY_WORD "%s\n", hex);
    if (ferror(out) != 0 || fflush(out) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
    return 0;
}

/* In a folder that others may write to: a name that nobody can have laid a link under. */
static int text_place(const char *folder, const char *text, size_t bytes, struct err *e)
{
    char path[LIMIT_PATH + 32], temporary[LIMIT_PATH + 32];
    (void)snprintf(path, sizeof path, "%s/" SIGNATURE_FILE, folder);
    (void)snprintf(temporary, sizeof temporary, "%s/" SIGNATURE_FILE ".XXXXXX", folder);
    if (bytes > SIGNATURE_BYTES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%s has too many files to be signed", folder);
    int fd = file_temporary(temporary);
    if (fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", temporary, strerror(errno));
    bool good = fchmod(fd, 0644) == 0 && file_write_all(fd, text, bytes) == 0 && file_sync(fd) == 0;
    good &= close(fd) == 0;
    if (good && file_rename(temporary, path) == 0 && file_sync_folder(folder) == 0)
        return 0;
    int why = errno;
    (void)file_unlink(temporary);
    return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(why));
}

int signature_write(const char *folder, char (*name)[SIGNATURE_NAME], uint32_t count,
                    const uint8_t seed[SIGN_SEED], struct err *e)
{
    char *whole = realpath(folder, NULL), *text = NULL, hex[2 * SIGN_BYTES + 1];
    size_t bytes = 0;
    uint8_t made[SIGN_BYTES];
    if (whole == NULL || strlen(whole) >= LIMIT_PATH) {
        free(whole);
        return err_set(e, SHOAL_E_NOINPUT, "cannot open %s", folder);
    }
    FILE *out = open_memstream(&text, &bytes);
    int rc = out == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder) : 0;
    qsort(name, count, sizeof *name, name_compare);
    if (rc == 0)
        rc = above_write(whole, name, count, seed, out, e);
    if (rc == 0 && sign_make(seed, text, bytes, made) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
    if (rc == 0) {
        sign_hex(made, SIGN_BYTES, hex);
        fprintf(out, SIGNATURE_WORD "%s\n", hex);
    }
    if (out != NULL && fclose(out) != 0 && rc == 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to sign %s", folder);
    if (rc == 0)
        rc = text_place(whole, text, bytes, e);
    free(text);
    free(whole);
    return rc;
}
