/* kept_taken.c: DIR/taken, written whole before the coordinator hears that it was taken. A folder
 * of an older release has none. */
#include "embedding/engine/kept_taken.h"

#include "embedding/engine/engine_state.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x314b41544c504853) /* "SHPLTAK1" */

struct head {
    uint64_t magic, checksum; /* XXH3 of all that follows it */
    uint64_t version;
    uint32_t bytes, zero;
};
_Static_assert(sizeof(struct head) == 32, "head is a disk format");
#define CHECKED_FROM offsetof(struct head, version)

uint64_t engine_taken_version(const struct engine *g)
{
    return g->taken_version;
}

static void path_of(const struct engine *g, char out[LIMIT_PATH], const char *name)
{
    SHOAL_ASSERT(strlen(g->dir) + 64 <= LIMIT_PATH); /* engine_open has checked */
    (void)snprintf(out, LIMIT_PATH, "%s/%s", g->dir, name);
}

static int taken_write(const struct engine *g, const struct head *h, struct err *e)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH];
    path_of(g, path, "taken");
    path_of(g, temporary, "taken.new");
    int rc = file_write_whole(path, temporary, h, sizeof *h + h->bytes, 0600, FILE_LASTS_ALL);
    return rc == 0 ? 0 : err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
}

int engine_taken_set(struct engine *g, uint64_t version, const void *bytes, uint32_t count,
                     struct err *e)
{
    SHOAL_ASSERT(version > 0 && count <= ENGINE_TAKEN_MAX);
    size_t whole = sizeof(struct head) + count;
    struct head *h = malloc(whole);
    if (h == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of what is learnt");
    *h = (struct head){.magic = MAGIC, .version = version, .bytes = count};
    if (count > 0)
        memcpy(h + 1, bytes, count);
    h->checksum = hash_bytes((const char *)h + CHECKED_FROM, whole - CHECKED_FROM, 0);
    int rc = g->dir == NULL ? 0 : taken_write(g, h, e);
    if (rc == 0)
        g->taken_version = version;
    if (rc != 0 || g->dir != NULL) {
        free(h);
        return rc;
    }
    free(g->taken);
    g->taken = h;
    return 0;
}

static bool head_fits(const struct head *h, size_t bytes)
{
    return bytes >= sizeof *h && h->magic == MAGIC && h->version > 0 &&
           bytes == sizeof *h + h->bytes &&
           hash_bytes((const char *)h + CHECKED_FROM, bytes - CHECKED_FROM, 0) == h->checksum;
}

/* The file, checked; *h is the caller's, or NULL: there is none. */
static int taken_read(const struct engine *g, struct head **h, struct err *e)
{
    char path[LIMIT_PATH], *text;
    size_t bytes;
    *h = NULL;
    path_of(g, path, "taken");
    if (file_read_whole(path, sizeof **h + ENGINE_TAKEN_MAX, &text, &bytes) != 0) {
        if (errno == ENOENT)
            return 0;
        if (errno != EFBIG)
            return err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
        text = NULL;
        bytes = 0;
    }
    if (text != NULL && head_fits((const void *)text, bytes)) {
        *h = (struct head *)text;
        return 0;
    }
    free(text);
    return err_set(e, SHOAL_E_CORRUPT,
                   "%s is damaged: it says which files and objects the tables have learnt; move it "
                   "away, and the coordinator, which has it too, tells it again",
                   path);
}

int engine_taken_get(const struct engine *g, void **bytes, uint32_t *count, struct err *e)
{
    struct head *read = NULL;
    int rc = g->dir == NULL ? 0 : taken_read(g, &read, e);
    const struct head *h = g->dir == NULL ? g->taken : read;
    *count = rc == 0 && h != NULL ? h->bytes : 0;
    *bytes = rc == 0 ? malloc(*count + 1) : NULL;
    if (rc == 0 && *bytes == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the names of what is learnt");
    if (rc == 0 && *count > 0)
        memcpy(*bytes, h + 1, *count);
    free(read);
    return rc;
}

int kept_taken_open(struct engine *g, struct err *e)
{
    struct head *h;
    int rc = taken_read(g, &h, e);
    if (rc == 0 && h != NULL)
        g->taken_version = h->version;
    free(h);
    return rc;
}

void kept_taken_free(struct engine *g)
{
    free(g->taken);
    g->taken = NULL;
    g->taken_version = 0;
}
