/* source_stream.c: standard input, pipes and commands, spooled once for each job. */
#include "worker/data/source_inner.h"

#include "worker/data/command.h"
#include "worker/data/decode.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAMS_MAX 64u

bool source_no_path(const char *item)
{
    return strcmp(item, "-") == 0 || strncmp(item, "cmd:", 4) == 0 ||
           strncmp(item, "object:", 7) == 0 || strncmp(item, "kafka:", 6) == 0;
}

bool source_is_stream(const char *name)
{
    struct stat st;
    if (source_no_path(name))
        return true;
    return stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

struct stream {
    char *name; /* owned */
    int fd;     /* owned; lives as long as the job; -1: it was consumed and cannot be read again */
    uint64_t bytes;
};
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[STREAMS_MAX]; /* guarded by stream_lock */
static uint32_t stream_count;

static bool repeats(const char *name)
{
    return strncmp(name, "cmd:", 4) == 0;
}

/* Spools a stream. *out has a name when the stream must be remembered, even if it failed. */
static int stream_spool(const char *name, const char *shown, const struct cache *cache,
                        struct stream *out, struct err *e)
{
    struct source_sink sink = {.cache = cache};
    bool begun = true;
    *out = (struct stream){.fd = -1};
    int rc = cache_spool(cache, &sink.fd, e);
    if (rc != 0)
        return rc;
    if (repeats(name)) {
        rc = command_read(&(struct command){.text = name + 4, .name = shown}, source_sink_add,
                          &sink, NULL, e);
    } else if (strncmp(name, "kafka:", 6) == 0) {
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: %s is a topic, which only a job that trains can read: name files", shown,
                     name + 6);
        begun = false;
    } else if (strcmp(name, "-") == 0) {
        rc = decode(&(struct decode_from){.fd = STDIN_FILENO, .name = "standard input"},
                    source_sink_add, &sink, NULL, e);
    } else {
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            rc = err_set(e, SHOAL_E_NOINPUT, "%s: %s; check the path", shown, strerror(errno));
        else
            rc = decode(&(struct decode_from){.fd = fd, .name = shown}, source_sink_add, &sink,
                        NULL, e);

        begun = fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    out->name = NULL;
    if (rc == 0 || (begun && !repeats(name)))
        out->name = strdup(name);
    if (rc == 0 && out->name == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", shown);
    if (rc != 0) {
        close(sink.fd);
        return rc;
    }
    out->fd = sink.fd;
    out->bytes = sink.bytes;
    return 0;
}

int source_stream_open(const char *name, const char *shown, const struct cache *cache, int *fd,
                       uint64_t *bytes, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&stream_lock);
    uint32_t i = 0;
    while (i < stream_count && strcmp(streams[i].name, name) != 0)
        i++;
    if (i == STREAMS_MAX)
        rc =
            err_set(e, SHOAL_E_CONFIG, "%s: more than %u streams and commands; write them to files",
                    shown, STREAMS_MAX);
    else if (i == stream_count) {
        rc = stream_spool(name, shown, cache, &streams[i], e);
        stream_count += streams[i].name != NULL;
    } else if (streams[i].fd < 0) {
        rc = err_set(e, SHOAL_E_NOINPUT,
                     "%s has been read and gives nothing again: start the worker anew, or name a "
                     "file or a command",
                     strcmp(name, "-") == 0 ? "standard input" : shown);
    }
    if (rc == 0) {
        *bytes = streams[i].bytes;
        *fd = fcntl(streams[i].fd, F_DUPFD_CLOEXEC, 0);
        if (*fd < 0)
            rc = err_set(e, SHOAL_E_IO, "%s: %s", shown, strerror(errno));
    }
    pthread_mutex_unlock(&stream_lock);
    return rc;
}

void source_streams_forget(void)
{
    pthread_mutex_lock(&stream_lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stream_count; i++) {
        struct stream *s = &streams[i];
        if (s->fd >= 0)
            close(s->fd);
        s->fd = -1;
        if (repeats(s->name))
            free(s->name);
        else
            streams[kept++] = *s;
    }
    for (uint32_t i = kept; i < stream_count; i++)
        streams[i] = (struct stream){.fd = -1};
    stream_count = kept;
    pthread_mutex_unlock(&stream_lock);
}
