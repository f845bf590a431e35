/* keyfile.c: makes, reads and checks key files. */
#include "proto/net/keyfile.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/secret.h"
#include "proto/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define FILE_BYTES 4096u
#define CREDENTIAL "shoal.key"

bool keyfile_key_ok(const char *text)
{
    uint8_t raw[32];
    return strlen(text) == KEYFILE_KEY - 1 && zmq_z85_decode(raw, text) != NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Checks the open descriptor, because another file could take the name after a check by name. */
static int modes_check(const char *path, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, SHOAL_E_DENIED, "%s is no plain file: a key lies in one", path);
    if ((st.st_mode & secret_file_forbids(path)) != 0)
        return err_set(
            e, SHOAL_E_DENIED,
            "%s: mode %04o lets others than its owner at the key: chmod 0400 %s, and make "
            "a new one (shoal keygen) if somebody may have read it",
            path, (unsigned)(st.st_mode & 07777), path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(e, SHOAL_E_DENIED,
                       "%s belongs to user %u: a key belongs to who uses it (user %u) or to root",
                       path, (unsigned)st.st_uid, (unsigned)geteuid());
    return 0;
}

/* Memory for a text of a file. After a failed step, `*rc` not 0, it returns NULL. */
static char *text_new(int *rc, struct err *e)
{
    if (*rc != 0)
        return NULL;
    char *text = secret_new(FILE_BYTES);
    if (text == NULL)
        *rc = err_set(e, SHOAL_E_NOMEM, "no memory for a key");
    return text;
}

/* Reads the file into memory of secret.h and puts a NUL behind it. */
static int file_read(const char *path, char **out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return err_set(e, errno == EACCES ? SHOAL_E_DENIED : SHOAL_E_NOINPUT,
                       "cannot read the key file %s: %s", path, strerror(errno));
    int rc = modes_check(path, fd, e);
    char *text = text_new(&rc, e);
    size_t bytes = 0;
    ssize_t n = 1;
    while (rc == 0 && n > 0 && bytes < FILE_BYTES - 1) {
        n = read(fd, text + bytes, FILE_BYTES - 1 - bytes);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            rc = err_set(e, SHOAL_E_NOINPUT, "cannot read the key file %s: %s", path,
                         strerror(errno));
        else
            bytes += (size_t)n;
    }
    if (rc == 0 && bytes == FILE_BYTES - 1)
        rc = err_set(e, SHOAL_E_CONFIG, "%s is too long for a key file", path);
    close(fd);
    if (rc != 0) {
        secret_free(text);
        return rc;
    }
    *out = text;
    return 0;
}

struct word { /* a word that a kind of key file may have; a list of them ends in NULL */
    const char *word;
    char *to;
    size_t bytes;
};

static int word_take(const struct word *known, const char *path, int line, const char *word,
                     const char *value, struct err *e)
{
    char words[64] = "";
    bool again = false;
    for (; known->word != NULL; known++) {
        if (strcmp(word, known->word) == 0 && known->to[0] == 0)
            break;
        again = again || strcmp(word, known->word) == 0;
        (void)snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s",
                       text_if(words[0] != 0, ", "), known->word);
    }
    if (known->word == NULL && again)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: one line more of %s than a key file has", path,
                       line, word);
    if (known->word == NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: not a line of such a key file, which has: %s",
                       path, line, words);
    if (strlen(value) != known->bytes - 1)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s is no key of %zu characters", path, line, word,
                       known->bytes - 1);
    memcpy(known->to, value, known->bytes);
    return 0;
}

static bool pin_ok(const char *pin)
{
    return pin[0] == 0 || keyfile_key_ok(pin);
}

/* Checks that both halves of the key are there and fit, and that the pins are keys. */
static int whole_check(const struct keyfile *k, const char *path, struct err *e)
{
    char derived[KEYFILE_KEY] = "";
    if (k->pub[0] == 0 && k->secret[0] == 0)
        return err_set(e, SHOAL_E_CONFIG, "%s holds no key: make one with shoal keygen", path);
    bool good = keyfile_key_ok(k->pub) && keyfile_key_ok(k->secret) &&
                zmq_curve_public(derived, k->secret) == 0 && strcmp(derived, k->pub) == 0 &&
                pin_ok(k->coordinator[0]) && pin_ok(k->coordinator[1]);
    if (!good)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: its keys do not fit each other: make new ones with shoal keygen", path);
    return 0;
}

static int text_take(const struct word *known, const char *path, char *text, struct err *e)
{
    int rc = 0, number = 0;
    for (char *line = text, *next; line != NULL && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = 0;
        number++;
        char *word = line + strspn(line, " \t\r");
        char *value = word + strcspn(word, " \t\r");
        if (*word == 0 || *word == '#')
            continue;
        if (*value != 0)
            *value++ = 0;
        value += strspn(value, " \t\r");
        value[strcspn(value, " \t\r")] = 0;
        rc = word_take(known, path, number, word, value, e);
    }
    return rc;
}

/* "none" stands for a missing key: systemd does not pass on an empty credential. */
static bool is_none(const char *text)
{
    return strncmp(text, "none", 4) == 0 && text[4 + strspn(text + 4, "\n")] == 0;
}

/* Returns 0 with *out NULL where the file says "none" and none_good allows it. */
static int load(const char *path, bool none_good, struct keyfile **out, struct err *e)
{
    char *text = NULL;
    int rc = file_read(path, &text, e);
    if (rc != 0)
        return rc;
    if (none_good && is_none(text)) {
        secret_free(text);
        return 0;
    }
    struct keyfile *k = secret_new(sizeof *k);
    rc = 0;
    if (k == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a key");
    if (rc == 0) {
        const struct word known[] = {{"public", k->pub, sizeof k->pub},
                                     {"secret", k->secret, sizeof k->secret},
                                     {"coordinator", k->coordinator[0], KEYFILE_KEY},
                                     {"coordinator", k->coordinator[1], KEYFILE_KEY},
                                     {NULL, NULL, 0}};
        rc = text_take(known, path, text, e);
    }
    if (rc == 0)
        rc = whole_check(k, path, e);
    secret_free(text);
    if (rc != 0) {
        secret_free(k);
        return rc;
    }
    *out = k;
    return 0;
}

int keyfile_load(const char *path, struct keyfile **out, struct err *e)
{
    return load(path, false, out, e);
}

int keyfile_find(const char *path, struct keyfile **out, struct err *e)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    char credential[4096];
    *out = NULL;
    if (path != NULL && path[0] != 0)
        return keyfile_load(path, out, e);
    if (folder == NULL || folder[0] != '/' ||
        snprintf(credential, sizeof credential, "%s/" CREDENTIAL, folder) >= (int)sizeof credential)
        return 0;
    if (access(credential, F_OK) == 0)
        return load(credential, true, out, e);
    return 0;
}

void keyfile_free(struct keyfile *k)
{
    secret_free(k);
}

/* ---- keys that sign -------------------------------------------------------------------------- */

struct signer { /* in memory of secret.h */
    char pub[KEYFILE_SIGNER], secret[2 * SIGN_SEED + 1];
};

static int signer_take(const struct signer *s, const char *path, uint8_t seed[SIGN_SEED],
                       struct err *e)
{
    uint8_t key[SIGN_KEY], derived[SIGN_KEY];
    if (s->pub[0] == 0 || s->secret[0] == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s holds no key that signs: make one with shoal keygen FILE --role sign",
                       path);
    bool good = sign_unhex(s->pub, key, SIGN_KEY) && sign_unhex(s->secret, seed, SIGN_SEED);
    if (good && sign_key_of(seed, derived) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a key");
    if (!good || memcmp(key, derived, SIGN_KEY) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: its keys do not fit each other: make new ones with shoal keygen FILE "
                       "--role sign",
                       path);
    return 0;
}

int keyfile_signer_load(const char *path, uint8_t **seed, struct err *e)
{
    char *text = NULL;
    int rc = file_read(path, &text, e);
    if (rc != 0)
        return rc;
    struct signer *s = secret_new(sizeof *s);
    *seed = secret_new(SIGN_SEED);
    rc = 0;
    if (s == NULL || *seed == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a key");
    if (rc == 0) {
        const struct word known[] = {{"sign-public", s->pub, sizeof s->pub},
                                     {"sign-secret", s->secret, sizeof s->secret},
                                     {NULL, NULL, 0}};
        rc = text_take(known, path, text, e);
    }
    if (rc == 0)
        rc = signer_take(s, path, *seed, e);
    secret_free(text);
    secret_free(s);
    if (rc != 0) {
        secret_free(*seed);
        *seed = NULL;
    }
    return rc;
}

/* Reads the key from a file like FILE.pub: its first word. */
static int public_read(const char *path, char out[KEYFILE_KEY], struct err *e)
{
    char *text;
    size_t bytes;
    if (file_read_whole(path, FILE_BYTES, &text, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    char *word = text + strspn(text, " \t\r\n");
    word[strcspn(word, " \t\r\n")] = 0;
    bool fits = keyfile_key_ok(word);
    if (fits)
        memcpy(out, word, KEYFILE_KEY);
    free(text);
    if (!fits)
        return err_set(e, SHOAL_E_CONFIG, "%s holds no public key", path);
    return 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Makes a new file; an existing one is an error. */
static int file_make(const char *path, const char *text, mode_t mode, struct err *e)
{
    int fd = file_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (fd < 0 && errno == EEXIST)
        return err_set(
            e, SHOAL_E_EXISTS,
            "%s is there already: a key is never overwritten; name another file, or move "
            "it away",
            path);
    if (fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", path, strerror(errno));
    bool good =
        fchmod(fd, mode) == 0 && file_write_all(fd, text, strlen(text)) == 0 && file_sync(fd) == 0;
    int saved = errno;
    good &= close(fd) == 0;
    if (good)
        return 0;
    (void)file_unlink(path);
    return err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(saved));
}

typedef char keyfile_pins[KEYFILE_PINS][KEYFILE_KEY];

/* A path of 40 characters may look like a key: where a file is there it is meant, and no key that
 * this release makes begins as a path does (pair_make). */
static int pin_take(const char *pinned, char out[KEYFILE_KEY], struct err *e)
{
    if (keyfile_key_ok(pinned) && strchr("/.", pinned[0]) == NULL && access(pinned, F_OK) != 0) {
        memcpy(out, pinned, KEYFILE_KEY);
        return 0;
    }
    return public_read(pinned, out, e);
}

/* Splits at commas: no key contains one. */
static int pinned_take(const char *pinned, keyfile_pins out, struct err *e)
{
    char text[2 * 4096], *save, *word;
    uint32_t count = 0;
    memset(out, 0, sizeof(keyfile_pins));
    if (pinned == NULL || pinned[0] == 0)
        return 0;
    if (snprintf(text, sizeof text, "%s", pinned) >= (int)sizeof text)
        return err_set(e, SHOAL_E_USAGE, "the names of the coordinator's keys are too long");
    for (word = strtok_r(text, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save)) {
        if (count == KEYFILE_PINS)
            return err_set(e, SHOAL_E_USAGE,
                           "%s: at most %u keys are pinned: the old one and the new one", pinned,
                           KEYFILE_PINS);
        int rc = pin_take(word, out[count++], e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Draws pairs until the public half begins with a letter or a digit: a line of an allow-list begins
 * with it, and '#' would begin a comment. */
static int pair_make(char pub[KEYFILE_KEY], char secret[KEYFILE_KEY], struct err *e)
{
    do {
        if (zmq_curve_keypair(pub, secret) != 0)
            return err_set(e, SHOAL_E_UNAVAILABLE,
                           "this libzmq has no CURVE: install one that was built with libsodium");
    } while (!isalnum((unsigned char)pub[0]));
    return 0;
}

static void text_write(const char *pub, const char *secret, const keyfile_pins pins, char *text)
{
    int used = snprintf(text, FILE_BYTES,
                        "# made by shoal keygen: whoever reads this file is its owner to Shoal\n"
                        "public %s\nsecret %s\n",
                        pub, secret);
    for (uint32_t i = 0; i < KEYFILE_PINS && pins[i][0] != 0; i++)
        used += snprintf(text + used, FILE_BYTES - (size_t)used, "coordinator %s\n", pins[i]);
}

static int text_make(const keyfile_pins pins, char pub[KEYFILE_KEY], char *text, struct err *e)
{
    char secret[KEYFILE_KEY];
    int rc = pair_make(pub, secret, e);
    if (rc == 0)
        text_write(pub, secret, pins, text);
    secret_wipe(secret, sizeof secret);
    return rc;
}

static int signer_text_make(char pub[KEYFILE_SIGNER], char *text, struct err *e)
{
    uint8_t key[SIGN_KEY], *seed = secret_new(SIGN_SEED);
    struct signer *s = secret_new(sizeof *s);
    int rc = seed == NULL || s == NULL ? SHOAL_E_NOMEM : 0;
    if (rc == 0) {
        sign_key_new(seed);
        rc = sign_key_of(seed, key);
    }
    if (rc == 0) {
        sign_hex(key, SIGN_KEY, pub);
        sign_hex(seed, SIGN_SEED, s->secret);
        (void)snprintf(text, FILE_BYTES,
                       "# made by shoal keygen: whoever reads this file signs checkpoints as its "
                       "owner\nsign-public %s\nsign-secret %s\n",
                       pub, s->secret);
    }
    secret_free(seed);
    secret_free(s);
    if (rc != 0)
        return err_set(e, rc, "no memory for a key");
    return 0;
}

/* Makes both files of a pair, or none. */
static int pair_place(const char *path, const char *text, const char *pub, struct err *e)
{
    char other[4096], line[KEYFILE_SIGNER + 1];
    if (snprintf(other, sizeof other, "%s.pub", path) >= (int)sizeof other)
        return err_set(e, SHOAL_E_USAGE, "the name of the file is too long");
    int rc = file_make(path, text, 0400, e);
    if (rc != 0)
        return rc;
    (void)snprintf(line, sizeof line, "%s\n", pub);
    rc = file_make(other, line, 0444, e);
    if (rc != 0)
        (void)file_unlink(path); /* we have made it */
    return rc;
}

int keyfile_make(const char *path, const char *pinned, char pub[KEYFILE_KEY], struct err *e)
{
    keyfile_pins pins;
    int rc = pinned_take(pinned, pins, e);
    char *text = text_new(&rc, e);
    if (rc == 0)
        rc = text_make(pins, pub, text, e);
    if (rc == 0)
        rc = pair_place(path, text, pub, e);
    secret_free(text);
    return rc;
}

int keyfile_signer_make(const char *path, char pub[KEYFILE_SIGNER], struct err *e)
{
    char *text = secret_new(FILE_BYTES);
    int rc;
    if (text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a key");
    else
        rc = signer_text_make(pub, text, e);
    if (rc == 0)
        rc = pair_place(path, text, pub, e);
    secret_free(text);
    return rc;
}

/* Replaces path by a new file with its owner and mode. */
static int file_replace(const char *path, const char *text, struct err *e)
{
    char beside[4096];
    struct stat st;
    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
        return err_set(e, SHOAL_E_USAGE, "the name of the file is too long");
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return err_set(e, SHOAL_E_DENIED, "%s is no plain file: name the key file itself", path);
    int rc = file_make(beside, text, st.st_mode & 0700, e);
    if (rc != 0)
        return rc;
    if (chown(beside, st.st_uid, st.st_gid) == 0 && file_rename(beside, path) == 0)
        return 0;
    rc = err_set(e, SHOAL_E_CANTCREATE, "cannot write %s anew: %s", path, strerror(errno));
    (void)file_unlink(beside);
    return rc;
}

int keyfile_pin(const char *path, const char *pinned, struct err *e)
{
    keyfile_pins pins;
    struct keyfile *k = NULL;
    int rc = pinned_take(pinned, pins, e);
    if (rc == 0 && pins[0][0] == 0)
        rc = err_set(e, SHOAL_E_USAGE, "name the keys of the coordinator that %s is to pin", path);
    if (rc == 0)
        rc = keyfile_load(path, &k, e);
    char *text = text_new(&rc, e);
    if (rc == 0) {
        text_write(k->pub, k->secret, pins, text);
        rc = file_replace(path, text, e);
    }
    secret_free(text);
    keyfile_free(k);
    return rc;
}
