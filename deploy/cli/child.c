/* child.c: starts a child, and turns its end into an error. */
#include "deploy/cli/child.h"
#include "proto/base/array.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int child_start(struct child *c, struct err *e)
{
    const char **argv = calloc((size_t)c->args + c->more_count + 1, sizeof *argv);
    if (argv == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int log = file_open(c->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int out = log;
    if (c->out[0] != 0)
        out = file_open(c->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct process_options options = {
        /* worker-0 keeps standard input: `data.train: -` */
        .in = strcmp(c->name, "worker-0") == 0 ? PROCESS_INHERIT : PROCESS_NULL,
        .out = out < 0 ? PROCESS_INHERIT : out,
        .err = log < 0 ? PROCESS_INHERIT : log,
        .group = true, /* Ctrl-C reaches this process only, which ends the job in order */
        /* A child must not outlive the command that started it, however the command ends. */
        .death_signal = c->program ? SIGUSR1 : SIGTERM}; /* local_setup.c: program_shell */
    for (int i = 0; i < c->args; i++)
        argv[i] = c->arg[i];
    for (size_t i = 0; i < c->more_count; i++)
        argv[(size_t)c->args + i] = c->more[i];
    int rc = process_start(&c->process, argv, &options, e);
    free(argv);
    if (out >= 0 && out != log)
        close(out);
    if (log >= 0)
        close(log);
    c->started_ns = time_monotonic_ns();
    return rc;
}

bool child_ended(struct child *c)
{
    struct process_end end;
    if (!process_poll(&c->process, &end))
        return false;
    c->exit_status = process_exit_status(&end);
    /* SIGKILL comes from outside (an operator, a test, the OOM killer) and tells nothing about the
     * program. A device that fails (69, 70) first takes its time to start, and a child waits for a
     * folder that another process holds (73), so these deaths count as quick for longer. Those
     * of a program of the user's do so too: it imports what it needs before it fails. */
    bool slow = c->program || c->exit_status == 69 || c->exit_status == 70 || c->exit_status == 73;
    uint64_t quick_ns = slow ? 60000000000u : 2000000000u;
    bool by_itself =
        c->exit_status != 128 + SIGKILL && time_monotonic_ns() - c->started_ns < quick_ns;
    c->quick_deaths++;
    if (!by_itself)
        c->quick_deaths = 0;
    return true;
}

void child_signal(struct child *c, int signo)
{
    if (c->group)
        process_stop_group(&c->process, signo);
    else
        process_signal(&c->process, signo);
}

/* Copies the last line that a program wrote to `f`. */
static void last_words(FILE *f, char out[ERR_TEXT_MAX])
{
    char tail[1024];
    if (fseek(f, -(long)sizeof tail, SEEK_END) != 0)
        rewind(f);
    size_t n = fread(tail, 1, sizeof tail - 1, f);
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == 0))
        n--;
    tail[n] = 0;
    const char *line = strrchr(tail, '\n');
    if (line == NULL)
        line = tail;
    else
        line++;
    /* Level, time and program are in the log; only the sentence matters here. */
    const char *sentence = strstr(line, ": ");
    if (sentence != NULL && strncmp(line, "error ", 6) == 0)
        line = sentence + 2;
    (void)snprintf(out, ERR_TEXT_MAX, "%.*s", ERR_TEXT_MAX - 1, line);
}

void child_last_words(const struct child *c, char out[ERR_TEXT_MAX])
{
    FILE *f = fopen(c->log, "rb");
    out[0] = 0;
    if (f == NULL)
        return;
    last_words(f, out);
    fclose(f);
}

/* ---- running another program ----------------------------------------------------------------- */

static int read_all(int fd, char **out, size_t *bytes)
{
    size_t room = 0;
    *out = NULL;
    *bytes = 0;
    for (;;) {
        if (room - *bytes < 2 && (room >= 64u << 20 || array_room(out, room, &room, 4096) != 0))
            return SHOAL_E_NOMEM;
        ssize_t n = read(fd, *out + *bytes, room - *bytes - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            (*out)[*bytes] = 0;
            if (n == 0)
                return 0;
            return SHOAL_E_IO;
        }
        *bytes += (size_t)n;
    }
}

static int code_of_exit(int exit_status)
{
    static const int code[] = {SHOAL_E_USAGE,       SHOAL_E_DATA,       SHOAL_E_NOINPUT,
                               SHOAL_E_UNAVAILABLE, SHOAL_E_CANTCREATE, SHOAL_E_IO,
                               SHOAL_E_DENIED,      SHOAL_E_CONFIG};
    for (size_t i = 0; i < sizeof code / sizeof code[0]; i++)
        if (err_exit_status(code[i]) == exit_status)
            return code[i];
    return SHOAL_E_INTERNAL;
}

/* The kernel gives no reason for a kill; a lack of memory is the usual one. */
static int killed(const char *what, int signal, struct err *e)
{
    return err_set(
        e, SHOAL_E_STOPPED,
        "%s was killed by signal %d (%s)%s; nothing was written, the same line begins again", what,
        signal, strsignal(signal),
        text_if(signal == SIGKILL,
                ": by hand, or by the kernel where memory is short (dmesg tells)"));
}

int child_error(const struct child *c, struct err *e)
{
    char words[ERR_TEXT_MAX];
    child_last_words(c, words);
    if (c->exit_status > 128)
        return killed(c->name, c->exit_status - 128, e);
    int rc = code_of_exit(c->exit_status);
    if (words[0] != 0)
        return err_set(e, rc, "%s", words);
    return err_set(e, rc, "%s ended with status %d", c->name, c->exit_status);
}

/* Takes a program's standard error. If the program failed, its last line becomes *e; otherwise all
 * of it goes to our own standard error. */
static int said(FILE *f, const struct process_end *end, const char *const argv[], struct err *e)
{
    char block[4096];
    if (end->signal == 0 && end->code == 0) {
        rewind(f);
        while (fgets(block, sizeof block, f) != NULL) {
            bool whole = strchr(block, '\n') != NULL;
            block[strcspn(block, "\n")] = '\0';
            fprintf(stderr, "%s%s", text_clean(block), text_if(whole, "\n"));
        }
        return 0;
    }
    last_words(f, block);
    if (end->signal != 0 && block[0] == 0)
        return killed(argv[0], end->signal, e);
    int rc = code_of_exit(end->signal == 0 ? end->code : 70);
    if (block[0] != 0)
        return err_set(e, rc, "%s", block);
    return err_set(e, rc, "%s %s failed", argv[0], argv[1]);
}

int child_program(const char *name, char path[LIMIT_PATH], struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", path, LIMIT_PATH - 64);
    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    path[n] = 0;
    text_copy(strrchr(path, '/') + 1, 64, name);
    if (access(path, X_OK) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s is not there: install or build all of Shoal's programs into one folder",
                       path);
    return 0;
}

static struct process standing_in;

static void hand_on(int signo)
{
    process_signal(&standing_in, signo);
}

int child_stand_in(const char *const argv[], int *status, struct err *e)
{
    char path[LIMIT_PATH];
    struct process *p = &standing_in;
    int rc = child_program(argv[0], path, e);
    if (rc == 0)
        rc = process_start(p, argv,
                           &(struct process_options){.program = path, .death_signal = SIGTERM}, e);
    if (rc != 0)
        return rc;
    /* this process must live to report the child's end */
    (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = hand_on}, NULL);
    (void)sigaction(SIGINT, &(struct sigaction){.sa_handler = hand_on}, NULL);
    struct process_end end = process_wait(p);
    *status = process_exit_status(&end);
    if (end.signal == 0)
        return 0;
    return killed(argv[0], end.signal, e);
}

int child_output(const char *const argv[], char **out, size_t *bytes, struct err *e)
{
    char path[LIMIT_PATH];
    struct process p;
    *out = NULL;
    int rc = child_program(argv[0], path, e);
    if (rc != 0)
        return rc;
    int memory = memfd_create("words", MFD_CLOEXEC);
    FILE *words = NULL;
    if (memory >= 0)
        words = fdopen(memory, "w+");
    if (words == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for what %s says: %s", argv[0],
                       strerror(errno));
    struct process_options options = {
        .program = path, .out = PROCESS_PIPE, .err = memory, .death_signal = SIGTERM};
    rc = process_start(&p, argv, &options, e);
    if (rc == 0) {
        rc = read_all(p.out, out, bytes);
        process_close_out(&p);
        struct process_end end = process_wait(&p);
        if (rc != 0)
            rc = err_set(e, rc, "cannot run %s: %s", argv[0], err_text(rc));
        else
            rc = said(words, &end, argv, e);
    }
    fclose(words);
    if (rc != 0) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
