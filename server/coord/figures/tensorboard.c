/* tensorboard.c: folders, files and records. */
#include "server/coord/figures/tensorboard.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/wire/event.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void coord_tensorboard_open(struct coord_tensorboard *t, const char *dir)
{
    memset(t, 0, sizeof *t);
    text_copy(t->dir, sizeof t->dir, dir);
}

void coord_tensorboard_close(struct coord_tensorboard *t)
{
    if (t->file != NULL)
        (void)fclose(t->file);
    t->file = NULL;
    t->run[0] = '\0';
}

/* A job's name may have any characters; the folder's name must not lead elsewhere. */
static void name_clean(char *name)
{
    if (name[0] == '.')
        name[0] = '_';
    for (char *p = name; *p != '\0'; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              strchr("-_.", *p) != NULL))
            *p = '_';
}

static int folder_make(const char *path, struct err *e)
{
    if (file_mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    return err_set(e, SHOAL_E_CANTCREATE, "tensorboard: cannot make the folder %s: %s", path,
                   strerror(errno));
}

static double now_s(void)
{
    return (double)time_wall_ns() * 1e-9;
}

static int record_write(struct coord_tensorboard *t, const unsigned char *record, size_t bytes,
                        struct err *e)
{
    SHOAL_ASSERT(bytes > 0 && bytes <= EVENT_BYTES_MAX);
    if (fwrite(record, 1, bytes, t->file) == bytes && fflush(t->file) == 0)
        return 0;
    return err_set(e, SHOAL_E_IO, "tensorboard: cannot write to %s/%s: %s", t->dir, t->run,
                   strerror(errno));
}

static int run_begin(struct coord_tensorboard *t, const char *run, struct err *e)
{
    char folder[LIMIT_PATH + LIMIT_NAME + 32], path[sizeof folder + 128], name[LIMIT_NAME + 24],
        host[64] = "host";
    unsigned char record[EVENT_BYTES_MAX];
    coord_tensorboard_close(t);
    (void)gethostname(host, sizeof host - 1);
    name_clean(host);
    text_copy(name, sizeof name, run);
    name_clean(name);
    SHOAL_ASSERT(name[0] != '.' && strchr(name, '/') == NULL); /* the folder is below dir */
    (void)snprintf(folder, sizeof folder, "%s/%s", t->dir, name);
    int rc = folder_make(t->dir, e);
    if (rc == 0)
        rc = folder_make(folder, e);
    if (rc != 0)
        return rc;
    (void)snprintf(path, sizeof path, "%s/events.out.tfevents.%010.0f.%s.%d", folder, now_s(), host,
                   (int)getpid());
    t->file = file_stream(path, true);
    if (t->file == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "tensorboard: cannot write %s: %s", path,
                       strerror(errno));
    text_copy(t->run, sizeof t->run, run);
    return record_write(t, record, event_version(now_s(), record), e);
}

int coord_tensorboard_write(struct coord_tensorboard *t, const char *run, uint64_t step,
                            const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    struct event_scalar list[EVENT_SCALARS_MAX];
    unsigned char record[EVENT_BYTES_MAX];
    SHOAL_ASSERT(run[0] != '\0' && (t->file == NULL) == (t->run[0] == '\0'));
    int rc = 0;
    if (t->file == NULL || strcmp(t->run, run) != 0)
        rc = run_begin(t, run, e);
    if (rc != 0)
        return rc;
    if (count > EVENT_SCALARS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "tensorboard: %u figures at once, at most %u", count,
                       EVENT_SCALARS_MAX);
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct event_scalar){scalar[i].tag, scalar[i].value};
    return record_write(t, record, event_scalars(now_s(), (int64_t)step, list, count, record), e);
}
