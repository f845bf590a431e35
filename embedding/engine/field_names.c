/* field_names.c: DIR/names, written whole before the coordinator hears that it was taken. A folder
 * of an older release has none. */
#include "embedding/engine/field_names.h"

#include "embedding/engine/engine_state.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/job/legend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x31454d4e4c504853) /* "SHPLNME1" */

struct head {
    uint64_t magic, checksum; /* XXH3 of all that follows it */
    uint64_t version;
    uint32_t bytes, zero;
};
_Static_assert(sizeof(struct head) == 32, "head is a disk format");
#define CHECKED_FROM offsetof(struct head, version)

const struct engine_names *engine_names(const struct engine *g)
{
    return &g->names;
}

static void path_of(const struct engine *g, char out[LIMIT_PATH], const char *name)
{
    SHOAL_ASSERT(strlen(g->dir) + 64 <= LIMIT_PATH); /* engine_open has checked */
    (void)snprintf(out, LIMIT_PATH, "%s/%s", g->dir, name);
}

/* Takes the line over. */
static void take(struct engine *g, uint64_t version, char *line, uint32_t bytes)
{
    free(g->names_line);
    g->names_line = line;
    g->names = (struct engine_names){version, line, bytes, hash_bytes(line, bytes, 0)};
}

static int field_names_write(const struct engine *g, uint64_t version, const char *line,
                             uint32_t bytes, struct err *e)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH];
    size_t whole = sizeof(struct head) + bytes;
    struct head *h = calloc(1, whole);
    if (h == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of fields");
    *h = (struct head){.magic = MAGIC, .version = version, .bytes = bytes};
    memcpy(h + 1, line, bytes);
    h->checksum = hash_bytes((const char *)h + CHECKED_FROM, whole - CHECKED_FROM, 0);
    path_of(g, path, "names");
    path_of(g, temporary, "names.new");
    int rc = file_write_whole(path, temporary, h, whole, 0600, FILE_LASTS_ALL);
    free(h);
    return rc == 0 ? 0 : err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
}

int engine_names_set(struct engine *g, uint64_t version, const char *line, uint32_t bytes,
                     struct err *e)
{
    SHOAL_ASSERT(version > 0 && bytes > 0 && bytes <= LEGEND_BYTES_MAX);
    char *copy = malloc(bytes);
    if (copy == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of fields");
    memcpy(copy, line, bytes);
    int rc = g->dir == NULL ? 0 : field_names_write(g, version, line, bytes, e);
    if (rc != 0)
        free(copy);
    else
        take(g, version, copy, bytes);
    return rc;
}

static bool head_fits(const struct head *h, size_t bytes)
{
    return bytes >= sizeof *h && h->magic == MAGIC && h->version > 0 && h->bytes > 0 &&
           bytes == sizeof *h + h->bytes &&
           hash_bytes((const char *)h + CHECKED_FROM, bytes - CHECKED_FROM, 0) == h->checksum;
}

int field_names_open(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH], *text;
    size_t bytes;
    path_of(g, path, "names");
    if (file_read_whole(path, sizeof(struct head) + LEGEND_BYTES_MAX, &text, &bytes) != 0) {
        if (errno == ENOENT)
            return 0;
        if (errno != EFBIG)
            return err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
        text = NULL;
        bytes = 0;
    }
    struct head h = {0};
    bool good = text != NULL && head_fits((const void *)text, bytes);
    if (!good) {
        free(text);
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s is damaged: it says what the fields in the keys are called; move it "
                       "away, and the coordinator, which has it too, tells it again",
                       path);
    }
    memcpy(&h, text, sizeof h);
    memmove(text, text + sizeof h, h.bytes);
    take(g, h.version, text, h.bytes);
    return 0;
}

void field_names_free(struct engine *g)
{
    free(g->names_line);
    g->names_line = NULL;
    g->names = (struct engine_names){0};
}
