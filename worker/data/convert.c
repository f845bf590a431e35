/* convert.c: writes input to an event file, and checks one.
 *
 * 1. A file gets its name only when it is whole and synced.
 *    [test: events_write_has_its_name_when_whole]
 * 2. Nothing is overwritten. [test: events_write_overwrites_nothing] */
#include "worker/data/convert.h"

#include "proto/base/file.h"
#include "worker/data/dataset.h"
#include "worker/data/parsed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Gives the file its name when it is synced, unless the name was taken meanwhile. */
static int place(int fd, const char *temporary, const char *path, struct err *e)
{
    if (file_sync_data(fd) == 0 && file_place(temporary, path) == 0)
        return 0;
    if (errno == EEXIST)
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; name another file", path);
    return err_set(e, file_write_status(), "%s: %s; free some space", path, strerror(errno));
}

static int parsed_convert(struct parsed *p, const char *path, struct events_wish *w,
                          struct events_sums *out, struct err *e)
{
    char temporary[LIMIT_PATH + 32];
    if (strlen(path) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: the path is longer than %u bytes", path,
                       LIMIT_PATH - 1);
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; name another file", path);
    snprintf(temporary, sizeof temporary, "%s.tmp-XXXXXX", path);
    w->fd = file_nameless(temporary, sizeof temporary);
    if (w->fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; name a file in a folder that can be written",
                       path, strerror(errno));
    int rc = events_write(w, p, out, e);
    if (rc == 0)
        rc = place(w->fd, temporary, path, e);
    if (rc != 0)
        file_unlink(temporary);
    close(w->fd);
    return rc;
}

int convert_split(const struct job *job, uint32_t split, const char *path,
                  void (*see)(void *context, uint64_t rows), void *context,
                  struct convert_sums *out, struct err *e)
{
    struct events_wish wish = {
        .name = path, .packed = true, .most = UINT64_MAX, .see = see, .context = context};
    struct dataset *d;
    struct parsed *p;
    int rc = dataset_parsed(job, split, &d, &p, e);
    if (rc != 0)
        return rc;
    rc = parsed_convert(p, path, &wish, &out->file, e);
    out->joined = dataset_join(d) != NULL;
    if (out->joined)
        out->join = *dataset_join(d);
    parsed_close(p);
    dataset_close(d);
    return rc;
}

struct json *convert_sums_json(const struct convert_sums *sums)
{
    const struct events_sums *s = &sums->file;
    struct json *j = json_new_object();
    if (j == NULL)
        return NULL;
    json_set_int(j, "rows", (int64_t)s->rows);
    json_set_int(j, "blocks", (int64_t)s->blocks);
    json_set_int(j, "malformed", (int64_t)s->malformed);
    json_set_int(j, "bytes", (int64_t)s->bytes);
    json_set_int(j, "decoded_bytes", (int64_t)s->decoded);
    json_set_int(j, "first", s->first);
    json_set_int(j, "last", s->last);
    if (sums->joined)
        json_set(j, "join", join_text_json(&sums->join));
    return j;
}

static int blocks_read(const struct events *v, struct events_sums *sums, struct err *e)
{
    struct events_room room = {0};
    int rc = 0;
    for (uint32_t i = 0; i < v->blocks && rc == 0; i++) {
        const struct events_entry *x = &v->block[i];
        rc = events_read(v, i, NULL, &room, NULL, e);
        if (rc == 0) {
            sums->decoded += strips_bytes(&room.packer.strips, x->rows);
            sums->malformed += room.packer.bad_rows;
        }
        if (x->first != 0 && (sums->first == 0 || x->first < sums->first))
            sums->first = x->first;
        if (x->last > sums->last)
            sums->last = x->last;
    }
    events_room_free(&room);
    return rc;
}

static struct json *columns_json(const struct columns *c)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < c->count; i++)
        json_append(list, json_new_string(c->one[i].line));
    return list;
}

int convert_check(const char *path, struct json **out, struct err *e)
{
    struct events v;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int rc = err_set(e, SHOAL_E_NOINPUT, "%s: %s", path,
                         fd < 0 ? strerror(errno) : "this is no file");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = events_open(fd, path, &v, e);
    if (rc == 0) {
        struct convert_sums sums = {
            .file = {.rows = v.rows, .blocks = v.blocks, .bytes = (uint64_t)st.st_size}};
        rc = blocks_read(&v, &sums.file, e);
        if (rc == 0) {
            *out = convert_sums_json(&sums);
            json_set(*out, "columns", columns_json(&v.columns));
        }
        events_close(&v);
    }
    close(fd);
    return rc;
}
