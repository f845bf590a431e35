/* command.c: runs a shell command and reads its output and the end of its standard error. */
#include "worker/data/command.h"

#include "proto/base/process.h"
#include "proto/base/time.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_BYTES 1024u /* kept of the end of standard error */
#define READ_BYTES 4096u
#define READS_MAX 16u /* reads of READ_BYTES at the end: the capacity of a pipe */
#define LAST_BYTES 200
#define MS UINT64_C(1000000)

/* The command's standard error, a pipe that is read while it runs, so that it never blocks on
 * it. */
struct words {
    /* owned; the read end; -1: it inherits this process's standard error, or has closed it */
    int fd;
    char text[WORDS_BYTES];
    size_t bytes;
};

struct running {
    const struct command *command;
    struct process process;
    struct words words;
};

static void words_close(struct words *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static void words_add(struct words *w, const char *data, size_t bytes)
{
    if (bytes > WORDS_BYTES) {
        data += bytes - WORDS_BYTES;
        bytes = WORDS_BYTES;
    }
    size_t kept;
    if (w->bytes < WORDS_BYTES - bytes)
        kept = w->bytes;
    else
        kept = WORDS_BYTES - bytes;
    memmove(w->text, w->text + w->bytes - kept, kept);
    memcpy(w->text + kept, data, bytes);
    w->bytes = kept + bytes;
}

/* Reads once; the pipe is readable. */
static void words_read(struct words *w)
{
    char data[READ_BYTES];
    ssize_t n = read(w->fd, data, sizeof data);
    if (n > 0)
        words_add(w, data, (size_t)n);
    else if (n == 0 || errno != EINTR)
        words_close(w);
}

/* Reads what the pipe holds at the end. A child that outlives the command may write more, which is
 * not read. */
static void words_end(struct words *w)
{
    struct pollfd said = {.fd = w->fd, .events = POLLIN};
    for (uint32_t i = 0; i < READS_MAX && w->fd >= 0 && poll(&said, 1, 0) > 0; i++)
        words_read(w);
    words_close(w);
}

/* The last line that is not empty, without control characters; empty: there was none. */
static void words_last(const struct words *w, char out[LAST_BYTES])
{
    const char *text = w->text;
    size_t n = w->bytes;
    out[0] = '\0';
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    size_t start = n;
    while (start > 0 && text[start - 1] != '\n' && n - start < LAST_BYTES - 3)
        start--;
    if (n == 0)
        return;
    (void)snprintf(out, LAST_BYTES, ": %.*s", (int)(n - start), text + start);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
}

/* The timeout for poll in milliseconds; -1: no timeout. */
static int left_ms(const struct command *c, uint64_t since_ns)
{
    uint64_t quiet = c->quiet_s * 1000 * MS, passed = time_monotonic_ns() - since_ns;

    if (c->quiet_s == 0)
        return -1;
    if (passed >= quiet)
        return 0;

    return (int)((quiet - passed) / MS + 1);
}

/* decode_from.wait: waits for output and drains standard error meanwhile. Standard error does not
 * count as progress. */
static int printed_wait(void *context, struct err *e)
{
    struct running *r = context;
    uint64_t since = time_monotonic_ns();
    for (;;) {
        struct pollfd on[2] = {{.fd = r->process.out, .events = POLLIN},
                               {.fd = r->words.fd, .events = POLLIN}};
        int left = left_ms(r->command, since), n = poll(on, 2, left);
        if (n < 0 && errno != EINTR)
            return 0; /* the read that follows reports the error */
        if (n > 0 && on[1].revents != 0)
            words_read(&r->words);
        if (n > 0 && on[0].revents != 0)
            return 0;
        if (n >= 0 && left == 0)
            return err_set(e, SHOAL_E_UNAVAILABLE, "%s: not a byte came for %u s", r->command->name,
                           r->command->quiet_s);
    }
}

/* Waits for the end of a command that may exit by itself; kills it with all that it has started
 * when that takes too long, or at once when !by_itself. */
static struct process_end end_wait(struct running *r, bool by_itself)
{
    struct process *p = &r->process;
    struct process_end end;
    uint64_t since = time_monotonic_ns();
    while (by_itself && left_ms(r->command, since) != 0) {
        struct pollfd said = {.fd = r->words.fd, .events = POLLIN};
        if (process_poll(p, &end))
            return end;
        if (poll(&said, 1, 10) > 0)
            words_read(&r->words);
    }
    if (p->group)
        process_stop_group(p, SIGKILL);
    else
        process_signal(p, SIGKILL);
    return process_wait(p);
}

/* Standard error is a pipe or, when none can be made, inherited. */
static int running_start(struct running *r, const char *const argv[],
                         struct process_options *options, struct err *e)
{
    int words[2] = {-1, -1};
    r->words.fd = -1;
    if (pipe2(words, O_CLOEXEC) == 0)
        r->words.fd = words[0];

    options->err = PROCESS_INHERIT;
    if (words[1] >= 0)
        options->err = words[1];

    int rc = process_start(&r->process, argv, options, e), why = errno;
    if (words[1] >= 0)
        close(words[1]);
    if (rc == 0)
        return 0;
    words_close(&r->words);
    return err_set(e, SHOAL_E_IO, "%s: cannot start it: %s", r->command->name, strerror(why));
}

int command_read(const struct command *c, decode_sink sink, void *to, uint64_t *raw, struct err *e)
{
    const char *const argv[] = {"/bin/sh", "-c", c->text, "sh", c->argument, NULL};
    /* a command that may be killed for its silence has a process group, and so no terminal to read
     * from */
    bool own = c->quiet_s > 0;
    struct process_options options = {.in = own ? PROCESS_NULL : PROCESS_INHERIT,
                                      .out = PROCESS_PIPE,
                                      .group = own,
                                      .death_signal = SIGKILL};
    struct running r = {.command = c};
    char last[LAST_BYTES];
    int rc = running_start(&r, argv, &options, e);
    if (rc != 0)
        return rc;
    struct decode_from from = {r.process.out, c->name, printed_wait, &r};
    rc = decode(&from, sink, to, raw, e);
    bool quiet = rc == SHOAL_E_UNAVAILABLE;
    process_close_out(&r.process);
    struct process_end end = end_wait(&r, rc == 0 || rc == SHOAL_E_DATA);
    words_end(&r.words);
    words_last(&r.words, last);
    const char *how = "ended with status";
    int number = end.code;
    if (end.signal != 0) {
        how = "was killed by signal";
        number = end.signal;
    }
    /* the command's failure explains more than its damaged output does */
    if (quiet)
        rc = err_set(e, rc, "%s: not a byte came for %u s, the command was ended%s", c->name,
                     c->quiet_s, last);
    else if ((rc == 0 || rc == SHOAL_E_DATA) && (end.signal != 0 || end.code != 0) &&
             (rc == 0 || end.signal != SIGPIPE)) /* this side stopped reading */
        rc = err_set(e, SHOAL_E_NOINPUT, "%s: the command %s %d%s; run it by hand to see why",
                     c->name, how, number, last);
    return rc;
}
