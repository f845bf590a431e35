/* command.c: a process, its output, its last words. */
#include "worker/data/command.h"

#include "proto/base/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WORDS_BYTES (64 << 10) /* of what it says on standard error; more is not kept */
#define LAST_BYTES 200

/* Where it complains: in memory, of a fixed size. -1: where this process does. */
static int words_open(void)
{
    static const char none[WORDS_BYTES];
    int fd = memfd_create("words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (pwrite(fd, none, sizeof none, 0) != (ssize_t)sizeof none ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The last line that has something, as one can print it; empty: it said nothing. */
static void words_last(int fd, char out[LAST_BYTES])
{
    char text[4 * LAST_BYTES];
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_CUR); /* the child's place too: one description */
    off_t from = end > (off_t)sizeof text ? end - (off_t)sizeof text : 0;
    ssize_t n = end > 0 ? pread(fd, text, (size_t)(end - from), from) : 0;
    out[0] = '\0';
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    ssize_t start = n;
    while (start > 0 && text[start - 1] != '\n' && n - start < LAST_BYTES - 3)
        start--;
    if (n <= 0)
        return;
    (void)snprintf(out, LAST_BYTES, ": %.*s", (int)(n - start), text + start);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
}

/* Its end, of one that may end by itself; for so long it may take, then, and else at once, it is
 * ended with all that it has started. */
static struct process_end end_wait(struct process *p, bool by_itself, uint32_t quiet_s)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    struct process_end end;
    for (uint32_t i = 0; by_itself && (quiet_s == 0 || i < quiet_s * 100); i++) {
        if (process_poll(p, &end))
            return end;
        (void)nanosleep(&pause, NULL);
    }
    if (p->group)
        process_stop_group(p, SIGKILL);
    else
        process_signal(p, SIGKILL);
    return process_wait(p);
}

int command_read(const struct command *c, decode_sink sink, void *to, uint64_t *raw, struct err *e)
{
    const char *const argv[] = {"/bin/sh", "-c", c->text, "sh", c->argument, NULL};
    int words = words_open();
    /* one that may be ended for its silence has a group, and so no terminal to read from */
    bool own = c->quiet_s > 0;
    struct process_options options = {.in = own ? PROCESS_NULL : PROCESS_INHERIT,
                                      .out = PROCESS_PIPE,
                                      .err = words < 0 ? PROCESS_INHERIT : words,
                                      .group = own,
                                      .death_signal = SIGKILL};
    struct process p;
    char last[LAST_BYTES];
    if (process_start(&p, argv, &options, e) != 0) {
        int why = errno;
        if (words >= 0)
            close(words);
        return err_set(e, SHOAL_E_IO, "%s: cannot start it: %s", c->name, strerror(why));
    }
    struct decode_from from = {p.out, c->name, c->quiet_s};
    int rc = decode(&from, sink, to, raw, e);
    bool quiet = rc == SHOAL_E_UNAVAILABLE;
    process_close_out(&p);
    struct process_end end = end_wait(&p, rc == 0 || rc == SHOAL_E_DATA, c->quiet_s);
    words_last(words, last);
    if (words >= 0)
        close(words);
    /* that it failed tells more than that its output is damaged, which then is no wonder */
    if (quiet)
        rc = err_set(e, rc, "%s: not a byte came for %u s, the command was ended%s", c->name,
                     c->quiet_s, last);
    else if ((rc == 0 || rc == SHOAL_E_DATA) && (end.signal != 0 || end.code != 0) &&
             (rc == 0 || end.signal != SIGPIPE)) /* we read no further */
        rc = err_set(e, SHOAL_E_NOINPUT, "%s: the command %s %d%s; run it by hand to see why",
                     c->name, end.signal != 0 ? "was killed by signal" : "ended with status",
                     end.signal != 0 ? end.signal : end.code, last);
    return rc;
}
