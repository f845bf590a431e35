/* quarantine.c: facts gathered; made into lines and written elsewhere. */
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
    quarantine_line line;
    size_t fact_bytes;
    char *fact; /* owned, (QUARANTINE_QUEUE_BYTES): `facts` that are not handed over yet */
    uint64_t facts, lost;
    bool busy; /* a batch is on its way */
    bool told; /* that the disk does not take it */
};

struct batch {
    struct work work;     /* first */
    struct quarantine *q; /* borrowed; on the I/O thread what is never changed alone */
    uint64_t facts;
    int error;
    char fact[];
};

struct quarantine *quarantine_new(const char *dir, uint64_t file_bytes, size_t fact_bytes,
                                  quarantine_line line, struct env *env, struct work_list *works)
{
    struct quarantine *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->line = line;
    q->fact_bytes = fact_bytes;
    q->fact = malloc(QUARANTINE_QUEUE_BYTES);
    if (q->fact == NULL) {
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

/* 0 or errno. Any thread. */
static int facts_write(const struct quarantine *q, const char *fact, uint64_t facts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *lines = open_memstream(&text, &bytes);
    bool good = lines != NULL;
    for (uint64_t i = 0; good && i < facts; i++) {
        char *line = q->line(fact + i * q->fact_bytes);
        good = line != NULL && fprintf(lines, "%s\n", line) > 0;
        free(line);
    }
    if (lines != NULL && fclose(lines) != 0)
        good = false;
    int rc = good ? lines_write(q, text, bytes) : ENOMEM;
    free(text);
    return rc;
}

static void outcome(struct quarantine *q, uint64_t facts, int error)
{
    if (error == 0)
        return;
    q->lost += facts;
    if (!q->told)
        log_warn("%s: %s: refused pushes are counted, not kept", q->path, strerror(error));
    q->told = true;
}

static void batch_run(struct work *w)
{
    struct batch *b = container_of(w, struct batch, work);
    b->error = facts_write(b->q, b->fact, b->facts);
}

static void hand_over(struct quarantine *q);

static void batch_done(struct work *w)
{
    struct batch *b = container_of(w, struct batch, work);
    struct quarantine *q = b->q;
    q->busy = false;
    outcome(q, b->facts, w->cancelled ? facts_write(q, b->fact, b->facts) : b->error);
    if (!w->cancelled)
        hand_over(q);
}

static void hand_over(struct quarantine *q)
{
    if (q->busy || q->facts == 0)
        return;
    size_t bytes = q->facts * q->fact_bytes;
    struct batch *b = malloc(sizeof *b + bytes);
    if (b != NULL) {
        *b = (struct batch){
            .work = {.run = batch_run, .done = batch_done}, .q = q, .facts = q->facts};
        memcpy(b->fact, q->fact, bytes);
        q->busy = true;
        work_start(q->works, q->env, &b->work);
    } else {
        q->lost += q->facts;
    }
    q->facts = 0;
}

void quarantine_add(struct quarantine *q, const void *fact)
{
    if (q->path[0] == 0)
        return;
    if ((q->facts + 1) * q->fact_bytes > QUARANTINE_QUEUE_BYTES) {
        q->lost++;
        return;
    }
    memcpy(q->fact + q->facts++ * q->fact_bytes, fact, q->fact_bytes);
    hand_over(q);
}

void quarantine_free(struct quarantine *q)
{
    if (q == NULL)
        return;
    if (q->facts > 0)
        outcome(q, q->facts, facts_write(q, q->fact, q->facts));
    free(q->fact);
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
