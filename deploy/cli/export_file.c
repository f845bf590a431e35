/* export_file.c: a file of an export. */
#include "deploy/cli/export_file.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 256 << 10, HEAD_MOST = 4 << 10 };

struct export_file {
    char path[2 * LIMIT_PATH];
    int fd, why; /* errno of the first failure; 0: none */
    size_t head, used;
    char buffer[BUFFER];
};

int export_file_open(const char *folder, const char *name, size_t head, struct export_file **out,
                     struct err *e)
{
    struct export_file *f = malloc(sizeof *f);
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    SHOAL_ASSERT(head <= HEAD_MOST);
    (void)snprintf(f->path, sizeof f->path, "%s/%s", folder, name);
    f->fd = file_open(f->path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (f->fd < 0) {
        int rc = err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", f->path, strerror(errno));
        free(f);
        return rc;
    }

    f->why = 0;
    f->head = head;
    f->used = head;
    memset(f->buffer, 0, head);
    *out = f;
    return 0;
}

static void failed(struct export_file *f)
{
    if (f->why == 0)
        f->why = errno;
}

static void write_through(struct export_file *f, const void *data, size_t bytes)
{
    if (f->why == 0 && file_write_all(f->fd, data, bytes) != 0)
        failed(f);
}

static void buffer_write(struct export_file *f)
{
    write_through(f, f->buffer, f->used);
    f->used = 0;
}

void export_file_add(struct export_file *f, const void *data, size_t bytes)
{
    if (f->used + bytes > BUFFER)
        buffer_write(f);
    if (bytes > BUFFER) {
        write_through(f, data, bytes);
        return;
    }
    if (bytes > 0)
        memcpy(f->buffer + f->used, data, bytes);
    f->used += bytes;
}

void export_file_join(struct export_file *f, const char *folder, const char *name)
{
    char path[2 * LIMIT_PATH];
    buffer_write(f);
    if (f->why != 0)
        return;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || file_copy(from, f->fd, UINT64_MAX) != 0 || file_unlink(path) != 0)
        failed(f);
    if (from >= 0)
        close(from);
}

int export_file_check(const struct export_file *f, struct err *e)
{
    if (f->why == 0)
        return 0;
    errno = f->why;
    return err_set(e, file_write_status(), "cannot write %s: %s", f->path, strerror(f->why));
}

int export_file_end(struct export_file *f, const void *head, struct err *e)
{
    if (f == NULL)
        return 0;
    buffer_write(f);
    if (f->why == 0 && head != NULL && lseek(f->fd, 0, SEEK_SET) != 0)
        failed(f);
    if (head != NULL)
        write_through(f, head, f->head);
    if (f->why == 0 && file_sync_data(f->fd) != 0)
        failed(f);
    if (close(f->fd) != 0)
        failed(f);
    int rc = export_file_check(f, e);
    free(f);
    return rc;
}

void export_file_free(struct export_file *f)
{
    if (f == NULL)
        return;
    (void)close(f->fd);
    free(f);
}
