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

static void run_close(struct coord_tensorboard_run *r)
{
    if (r->file != NULL)
        (void)fclose(r->file);
    *r = (struct coord_tensorboard_run){.file = NULL};
}

void coord_tensorboard_close(struct coord_tensorboard *t)
{
    for (uint32_t i = 0; i < COORD_JOBS; i++)
        run_close(&t->run[i]);
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

static int record_write(const struct coord_tensorboard *t, const struct coord_tensorboard_run *r,
                        const unsigned char *record, size_t bytes, struct err *e)
{
    SHOAL_ASSERT(bytes > 0 && bytes <= EVENT_BYTES_MAX);
    if (fwrite(record, 1, bytes, r->file) == bytes && fflush(r->file) == 0)
        return 0;
    return err_set(e, SHOAL_E_IO, "tensorboard: cannot write to %s/%s: %s", t->dir, r->name,
                   strerror(errno));
}

static int run_begin(const struct coord_tensorboard *t, struct coord_tensorboard_run *r,
                     const char *run, struct err *e)
{
    char folder[LIMIT_PATH + LIMIT_NAME + 32], path[sizeof folder + 128], name[LIMIT_NAME + 24],
        host[64] = "host";
    unsigned char record[EVENT_BYTES_MAX];
    run_close(r);
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
    r->file = file_stream(path, true);
    if (r->file == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "tensorboard: cannot write %s: %s", path,
                       strerror(errno));
    text_copy(r->name, sizeof r->name, run);
    return record_write(t, r, record, event_version(now_s(), record), e);
}

/* Returns the place of the run, or the one that was used least lately. */
static struct coord_tensorboard_run *run_of(struct coord_tensorboard *t, const char *run)
{
    struct coord_tensorboard_run *oldest = t->run;
    for (uint32_t i = 0; i < COORD_JOBS; i++) {
        if (strcmp(t->run[i].name, run) == 0)
            return &t->run[i];
        if (t->run[i].written < oldest->written)
            oldest = &t->run[i];
    }
    return oldest;
}

int coord_tensorboard_write(struct coord_tensorboard *t, const char *run, uint64_t step,
                            const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    struct event_scalar list[EVENT_SCALARS_MAX];
    unsigned char record[EVENT_BYTES_MAX];
    struct coord_tensorboard_run *r = run_of(t, run);
    SHOAL_ASSERT(run[0] != '\0' && (r->file == NULL) == (r->name[0] == '\0'));
    int rc = 0;
    if (strcmp(r->name, run) != 0)
        rc = run_begin(t, r, run, e);
    if (rc != 0)
        return rc;
    r->written = ++t->writes;
    if (count > EVENT_SCALARS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "tensorboard: %u figures at once, at most %u", count,
                       EVENT_SCALARS_MAX);
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct event_scalar){scalar[i].tag, scalar[i].value};
    return record_write(t, r, record, event_scalars(now_s(), (int64_t)step, list, count, record),
                        e);
}
