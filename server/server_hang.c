/* server_hang.c: reads the threads of this process from /proc. */
#include "server/server_hang.h"

#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses a line of /proc/PID/task/TID/stat: the state, which follows the name (the name may hold
 * any characters), and the thread's user and kernel time. */
static bool state_of(const char *line, char *state, uint64_t *used)
{
    const char *behind = strrchr(line, ')');
    uint64_t user, kernel;
    if (behind == NULL ||
        sscanf(behind + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %" SCNu64,
               state, &user, &kernel) != 3)
        return false;
    *used = user + kernel;
    return true;
}

/* True when the thread waits for a disk now. */
static bool waits(const char *thread, uint64_t *used)
{
    char path[64], line[512], state = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%.16s/stat", thread);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false; /* the thread has ended */
    bool good = fgets(line, sizeof line, f) != NULL && state_of(line, &state, used);
    fclose(f);
    return good && state == 'D';
}

static uint64_t since_of(const struct server_hang *before, int thread, uint64_t used,
                         uint64_t now_ns)
{
    for (uint32_t i = 0; i < before->count; i++)
        if (before->at[i].thread == thread && before->at[i].used == used)
            return before->at[i].since_ns;
    return now_ns;
}

uint64_t server_hang_look(struct server_hang *h, uint64_t now_ns)
{
    const struct server_hang before = *h;
    uint64_t longest = 0, used;
    struct file_walk all;
    const char *name;
    (void)file_walk_open(&all, "/proc/self/task");
    h->count = 0;
    while (h->count < SERVER_HANG_THREADS && (name = file_walk_next(&all)) != NULL) {
        if (!waits(name, &used))
            continue;
        struct server_hang_thread *t = &h->at[h->count++];
        t->thread = atoi(name);
        t->used = used;
        t->since_ns = since_of(&before, t->thread, used, now_ns);
        longest = MAX(longest, now_ns - t->since_ns);
    }
    file_walk_close(&all);
    return longest;
}

uint64_t server_hang_tell(struct server_hang *h, const char *server, const char *folder,
                          uint64_t now_ns)
{
    uint64_t ns = server_hang_look(h, now_ns);
    if (ns >= SERVER_HANG_NS && h->told_ns == 0)
        log_warn("server %s: the disk of %s has not answered for %" PRIu64 " s: what waits for it "
                 "stands still, and a restart would, too; see the kernel's log and that disk",
                 server, folder, ns / UINT64_C(1000000000));
    else if (ns < SERVER_HANG_NS && h->told_ns != 0)
        log_warn("server %s: the disk of %s answers again; it had not for %" PRIu64 " s", server,
                 folder, h->told_ns / UINT64_C(1000000000));
    h->told_ns = 0;
    if (ns >= SERVER_HANG_NS)
        h->told_ns = ns;
    return ns;
}
