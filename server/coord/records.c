/* records.c: see records.h. */
#include "server/coord/records.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/plant.h"
#include "server/coord/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_MAGIC UINT64_C(0x474f4c4c414f4853) /* "SHOALLOG" */
#define RECORD_MAGIC 0x44524f43u                /* "CORD" */
#define RECORD_MAGIC_1 0x53434f52u              /* "ROCS" */
#define REMOVED UINT32_MAX
#define ADVICE                                                                                     \
    "; restore the folder from a copy, or move it away and start the coordinator again while all " \
    "its servers run: it takes them over, the job in hand ends, its checkpoints stay"

struct head {
    uint64_t magic;
    uint32_t version, zero;
    uint64_t salt;
    uint64_t checksum; /* of all above */
};
_Static_assert(sizeof(struct head) == 32, "head is a disk format");

struct record {                                   /* then key, then value */
    uint32_t magic, key_bytes, value_bytes, zero; /* value_bytes REMOVED: the key is gone */
    uint64_t synced;                              /* at most where the record begins */
    uint64_t body_checksum;                       /* XXH3 of key and value */
    uint64_t checksum;                            /* of all above, seeded with salt and place */
};
_Static_assert(sizeof(struct record) == 40, "record is a disk format");

struct record_1 { /* of version 1 */
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum; /* XXH3 of key and value, seeded with the three numbers */
};
_Static_assert(sizeof(struct record_1) == 24, "record_1 is a disk format");

static uint64_t head_checksum(const struct head *h)
{
    return hash_bytes(h, offsetof(struct head, checksum), 0);
}

static uint64_t record_checksum(const struct record *r, uint64_t salt, uint64_t at)
{
    return hash_bytes(r, offsetof(struct record, checksum), salt ^ at);
}

/* ---- writing --------------------------------------------------------------------------------- */

int coord_records_begin(struct coord_records *l, int fd)
{
    struct head h = {.magic = HEAD_MAGIC, .version = COORD_RECORDS_VERSION};
    *l = (struct coord_records){.fd = fd};
    if (getentropy(&h.salt, sizeof h.salt) != 0)
        return -1;
    h.checksum = head_checksum(&h);
    if (file_write_all(fd, &h, sizeof h) != 0)
        return -1;
    l->salt = h.salt;
    l->bytes = sizeof h;
    return 0;
}

static int record_write(struct coord_records *l, struct record *r, const char *key,
                        const void *value, size_t bytes)
{
    size_t body = r->key_bytes + bytes;
    unsigned char *buffer = malloc(sizeof *r + body);
    SHOAL_ASSERT(l->bytes >= sizeof(struct head) && r->synced <= l->bytes);
    if (buffer == NULL) {
        errno = ENOMEM;
        return -1;
    }
    memcpy(buffer + sizeof *r, key, r->key_bytes);
    if (bytes > 0)
        memcpy(buffer + sizeof *r + r->key_bytes, value, bytes);
    r->magic = RECORD_MAGIC;
    r->body_checksum = hash_bytes(buffer + sizeof *r, body, 0);
    r->checksum = record_checksum(r, l->salt, l->bytes);
    memcpy(buffer, r, sizeof *r);
    int rc = file_write_all(l->fd, buffer, sizeof *r + body);
    free(buffer);
    l->bytes += sizeof *r + body;
    return rc;
}

int coord_records_put(struct coord_records *l, const char *key, const void *value, size_t bytes)
{
    struct record r = {.key_bytes = (uint32_t)strlen(key),
                       .value_bytes = value == NULL ? REMOVED : (uint32_t)bytes,
                       .synced = l->synced + (PLANTED("synced_too_high") ? 1 : 0)};
    /* else reading would refuse it, and with it the log */
    SHOAL_ASSERT(r.key_bytes > 0 && r.key_bytes < COORD_KEY_MAX);
    SHOAL_ASSERT(bytes <= (value == NULL ? 0 : COORD_VALUE_MAX));
    return record_write(l, &r, key, value, bytes);
}

int coord_records_mark(struct coord_records *l)
{
    struct record r = {.synced = l->bytes};
    return PLANTED("sync_unmarked") ? 0 : record_write(l, &r, "", NULL, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    const char *path;
    const unsigned char *log;
    uint64_t bytes, salt;
    uint64_t synced; /* as said by the records seen so far */
    coord_records_take take;
    void *context;
};

static bool form_is_good(uint32_t key_bytes, uint32_t value_bytes, uint64_t *value)
{
    *value = value_bytes == REMOVED ? 0 : value_bytes;
    return key_bytes < COORD_KEY_MAX && *value <= COORD_VALUE_MAX;
}

static int damaged(const struct reading *l, uint64_t at, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "%s: the record at byte %" PRIu64 " is damaged%s" ADVICE,
                   l->path, at, why);
}

/* A NUL in a key would make it another one here, which could be written and not read again. */
static int body_take(const struct reading *l, uint64_t at, const unsigned char *body,
                     uint32_t key_bytes, uint32_t value_bytes, struct err *e)
{
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(key_bytes < COORD_KEY_MAX);
    if (key_bytes == 0 || memchr(body, 0, key_bytes) != NULL)
        return damaged(l, at, ": its key is none", e);
    memcpy(key, body, key_bytes);
    key[key_bytes] = 0;
    bool removed = value_bytes == REMOVED;
    return l->take(l->context, key, removed ? NULL : body + key_bytes, removed ? 0 : value_bytes,
                   e);
}

/* Whether a header was written at `at`. */
static bool header_read(const struct reading *l, uint64_t at, struct record *r)
{
    if (l->bytes - at < sizeof *r)
        return false;
    memcpy(r, l->log + at, sizeof *r);
    return r->magic == RECORD_MAGIC && r->checksum == record_checksum(r, l->salt, at);
}

/* What the records behind `at` say of it, where none can be read. */
static void behind_look(struct reading *l, uint64_t at)
{
    const uint32_t magic = RECORD_MAGIC;
    struct record r;
    while (++at < l->bytes) {
        const unsigned char *next =
            memmem(l->log + at, (size_t)(l->bytes - at), &magic, sizeof magic);
        if (next == NULL)
            return;
        at = (uint64_t)(next - l->log);
        if (header_read(l, at, &r) && r.synced > l->synced)
            l->synced = r.synced;
    }
}

/* The record at `at`: its length; 0: torn; or CORRUPT. */
static int record_read(struct reading *l, uint64_t at, uint64_t *length, struct err *e)
{
    struct record r;
    uint64_t value;
    *length = 0;
    bool header = header_read(l, at, &r);
    if (header && (!form_is_good(r.key_bytes, r.value_bytes, &value) || r.synced > at))
        return damaged(l, at, ": no version writes such a one", e);
    uint64_t body = header ? r.key_bytes + value : 0;
    const unsigned char *from = l->log + at + sizeof r;
    if (!header || body > l->bytes - at - sizeof r ||
        hash_bytes(from, (size_t)body, 0) != r.body_checksum) {
        if (!PLANTED("torn_anywhere"))
            behind_look(l, at);
        return l->synced > at ? damaged(l, at, ", and it had been on disk", e) : 0;
    }
    l->synced = r.synced > l->synced ? r.synced : l->synced;
    *length = sizeof r + body;
    if (r.key_bytes == 0 && r.value_bytes == 0)
        return 0; /* a mark */
    return body_take(l, at, from, r.key_bytes, r.value_bytes, e);
}

/* ---- version 1 ------------------------------------------------------------------------------- */

static bool whole_1(const struct reading *l, uint64_t at, struct record_1 *r, uint64_t *length)
{
    uint64_t value;
    if (l->bytes - at < sizeof *r)
        return false;
    memcpy(r, l->log + at, sizeof *r);
    if (r->magic != RECORD_MAGIC_1 || !form_is_good(r->key_bytes, r->value_bytes, &value))
        return false;
    *length = sizeof *r + r->key_bytes + value;
    return *length <= l->bytes - at &&
           hash_bytes(l->log + at + sizeof *r, r->key_bytes + value,
                      ((uint64_t)r->key_bytes << 32 | r->value_bytes) ^ r->magic) == r->checksum;
}

static bool follows_1(const struct reading *l, uint64_t at)
{
    struct record_1 r;
    uint64_t length;
    while (++at < l->bytes)
        if (whole_1(l, at, &r, &length))
            return true;
    return false;
}

static int record_read_1(struct reading *l, uint64_t at, uint64_t *length, struct err *e)
{
    struct record_1 r;
    uint64_t value, left = l->bytes - at;
    if (whole_1(l, at, &r, length))
        return body_take(l, at, l->log + at + sizeof r, r.key_bytes, r.value_bytes, e);
    *length = 0;
    bool torn = left < sizeof r;
    if (!torn)
        torn = r.magic == RECORD_MAGIC_1 && form_is_good(r.key_bytes, r.value_bytes, &value) &&
               sizeof r + r.key_bytes + value >= left && !follows_1(l, at);
    return torn ? 0 : damaged(l, at, "; others follow it", e);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* *begin: where records do; *version. */
static int head_read(struct reading *l, uint64_t *begin, uint32_t *version, struct err *e)
{
    struct head h;
    *begin = 0;
    *version = 1;
    memset(&h, 0, sizeof h);
    memcpy(&h, l->log, l->bytes < sizeof h ? (size_t)l->bytes : sizeof h);
    const uint32_t magic_1 = RECORD_MAGIC_1;
    if (memcmp(&h, &magic_1, l->bytes < sizeof magic_1 ? (size_t)l->bytes : sizeof magic_1) == 0)
        return 0;
    bool head = l->bytes >= sizeof h && h.magic == HEAD_MAGIC && h.checksum == head_checksum(&h);
    if (!head || h.version < 2)
        return err_set(e, SHOAL_E_CORRUPT, "%s: its head is damaged" ADVICE, l->path);
    if (h.version > COORD_RECORDS_VERSION)
        return err_set(e, SHOAL_E_VERSION,
                       "%s has version %u, this Shoal reads up to %u: it was written by a later "
                       "one; start that one",
                       l->path, h.version, COORD_RECORDS_VERSION);
    l->salt = h.salt;
    l->synced = sizeof h; /* it got its name when it was on disk */
    *begin = sizeof h;
    *version = h.version;
    return 0;
}

int coord_records_read(const char *path, const void *log, uint64_t bytes, coord_records_take take,
                       void *context, uint64_t *whole, struct err *e)
{
    struct reading l = {.path = path, .log = log, .bytes = bytes, .take = take, .context = context};
    uint64_t at, length = 1;
    uint32_t version;
    int rc = head_read(&l, &at, &version, e);
    while (rc == 0 && at < bytes && length > 0) {
        rc = version == 1 ? record_read_1(&l, at, &length, e) : record_read(&l, at, &length, e);
        at += length;
        SHOAL_ASSERT(at <= bytes);
    }
    SHOAL_ASSERT(rc != 0 || l.synced <= at); /* 2 */
    *whole = at;
    return rc;
}
