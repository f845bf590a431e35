/* convert.c: input -> event file, and an event file looked through. */
#include "worker/data/convert.h"

#include "worker/data/dataset.h"
#include "worker/data/parsed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int all_write(struct parsed *p, struct events_writer *w,
                     void (*see)(void *context, uint64_t rows), void *context, struct err *e)
{
    struct slice *slice;
    uint64_t rows = 0;
    int rc;
    while ((rc = parsed_next(p, &slice, e)) == 0 && (rc = events_add(w, slice, e)) == 0) {
        rows += slice->rows;
        if (see != NULL)
            see(context, rows);
    }
    return rc == SHOAL_E_END ? 0 : rc;
}

int convert_split(const struct job *job, uint32_t split, const char *path,
                  void (*see)(void *context, uint64_t rows), void *context,
                  struct convert_sums *out, struct err *e)
{
    struct events_writer *w;
    struct dataset *d;
    struct parsed *p;
    int rc = dataset_parsed(job, split, &d, &p, e);
    if (rc != 0)
        return rc;
    rc = events_create(path, parsed_columns(p), &w, e);
    if (rc == 0) {
        rc = all_write(p, w, see, context, e);
        if (rc == 0)
            rc = events_finish(w, &out->file, e);
        else
            events_abandon(w);
    }
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
        sums->decoded += rc == 0 ? strips_bytes(&room.packer.strips, x->rows) : 0;
        sums->malformed += rc == 0 ? room.packer.bad_rows : 0;
        if (x->first != 0 && (sums->first == 0 || x->first < sums->first))
            sums->first = x->first;
        sums->last = x->last > sums->last ? x->last : sums->last;
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
