/* quarantine.c: lines gathered, written elsewhere. */
#include "embedding/engine/quarantine.h"

#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct quarantine {
    char path[LIMIT_PATH], older[LIMIT_PATH]; /* path empty: nothing is kept */
    uint64_t file_bytes;
    struct env *env;         /* borrowed */
    struct work_list *works; /* borrowed */
    char *line;              /* owned, (QUARANTINE_QUEUE_BYTES): not handed over yet */
    size_t bytes;
    uint64_t lines, lost;
    bool busy; /* a batch is on its way */
    bool told; /* that the disk does not take it */
};

struct batch {
    struct work work;     /* first */
    struct quarantine *q; /* borrowed; on the I/O thread its paths and file_bytes alone */
    uint64_t lines;
    size_t bytes;
    int error;
    char text[];
};

struct quarantine *quarantine_new(const char *dir, uint64_t file_bytes, struct env *env,
                                  struct work_list *works)
{
    struct quarantine *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->line = malloc(QUARANTINE_QUEUE_BYTES);
    if (q->line == NULL) {
        free(q);
        return NULL;
    }
    q->file_bytes = file_bytes == 0 ? QUARANTINE_FILE_BYTES : file_bytes;
    q->env = env;
    q->works = works;
    if (dir != NULL) {
        (void)snprintf(q->path, sizeof q->path, "%s/quarantine.jsonl", dir);
        (void)snprintf(q->older, sizeof q->older, "%s/quarantine.1.jsonl", dir);
    }
    return q;
}

/* 0 or errno. Whole lines or none, but for a disk that is full. */
static int lines_write(const struct quarantine *q, const char *text, size_t bytes)
{
    struct stat st;
    if (stat(q->path, &st) == 0 && (uint64_t)st.st_size + bytes > q->file_bytes &&
        file_rename(q->path, q->older) != 0)
        return errno;
    int fd = file_open(q->path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return errno;
    int rc = file_write_all(fd, text, bytes) == 0 ? 0 : errno;
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    return rc;
}

static void outcome(struct quarantine *q, uint64_t lines, int error)
{
    if (error == 0)
        return;
    q->lost += lines;
    if (!q->told)
        log_warn("%s: %s: refused pushes are counted, not kept", q->path, strerror(error));
    q->told = true;
}

static void batch_run(struct work *w)
{
    struct batch *b = container_of(w, struct batch, work);
    b->error = lines_write(b->q, b->text, b->bytes);
}

static void hand_over(struct quarantine *q);

static void batch_done(struct work *w)
{
    struct batch *b = container_of(w, struct batch, work);
    struct quarantine *q = b->q;
    q->busy = false;
    outcome(q, b->lines, w->cancelled ? lines_write(q, b->text, b->bytes) : b->error);
    if (!w->cancelled)
        hand_over(q);
}

static void hand_over(struct quarantine *q)
{
    if (q->busy || q->bytes == 0)
        return;
    struct batch *b = malloc(sizeof *b + q->bytes);
    if (b != NULL) {
        *b = (struct batch){.work = {.run = batch_run, .done = batch_done},
                            .q = q,
                            .lines = q->lines,
                            .bytes = q->bytes};
        memcpy(b->text, q->line, q->bytes);
        q->busy = true;
        work_start(q->works, q->env, &b->work);
    } else {
        q->lost += q->lines;
    }
    q->bytes = 0;
    q->lines = 0;
}

void quarantine_add(struct quarantine *q, const char *line)
{
    size_t bytes = strlen(line);
    if (q->path[0] == 0)
        return;
    if (q->bytes + bytes + 1 > QUARANTINE_QUEUE_BYTES) {
        q->lost++;
        return;
    }
    memcpy(q->line + q->bytes, line, bytes);
    q->line[q->bytes + bytes] = '\n';
    q->bytes += bytes + 1;
    q->lines++;
    hand_over(q);
}

void quarantine_free(struct quarantine *q)
{
    if (q == NULL)
        return;
    if (q->bytes > 0)
        outcome(q, q->lines, lines_write(q, q->line, q->bytes));
    free(q->line);
    free(q);
}

uint64_t quarantine_lost(const struct quarantine *q)
{
    return q->lost;
}

const char *quarantine_path(const struct quarantine *q)
{
    return q->path;
}
