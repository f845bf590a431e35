/* crash.c: the handler writes what the start has prepared: names, numbers and the build id are made
 * in advance, and the report is put together from texts by write(2). */
#include "proto/base/crash.h"

#include "proto/base/file.h"
#include "proto/base/log_ring.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PREFIX "crash-"
#define SUFFIX ".txt"
enum { FRAMES = 64, STACK_BYTES = 64 << 10, BUILD_ID = 64, NUMBER = 24 };

static const struct {
    int signo;
    const char *name;
} signals[] = {{SIGSEGV, "SIGSEGV, a wrong address"},
               {SIGBUS, "SIGBUS, memory that is not there"},
               {SIGFPE, "SIGFPE, wrong arithmetic"},
               {SIGILL, "SIGILL, an instruction that this processor does not know"},
               {SIGABRT, "SIGABRT, a failed assertion or the watchdog"}};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static const char *program_name = "shoal";
static char folder_name[LIMIT_PATH]; /* ends in '/'; "" while there is none */
static char build_id[2 * BUILD_ID + 1] = "unknown";
static char build[CRASH_BUILD] = SHOAL_VERSION " unknown";
static uint64_t begun_ns;
static atomic_flag reported = ATOMIC_FLAG_INIT;

/* ---- texts and numbers, as a handler may write them ---- */

struct out {
    int fd[2]; /* the file or -1, standard error */
    int first; /* 0: to both, 1: to standard error alone */
};

static void say_to(int fd, const char *text)
{
    size_t bytes = strlen(text);
    while (fd >= 0 && bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n <= 0)
            return;
        text += n;
        bytes -= (size_t)n;
    }
}

static void say(const struct out *o, const char *text)
{
    for (int i = o->first; i < 2; i++)
        say_to(o->fd[i], text);
}

/* The number in base 10 or 16, at the end of `out`; returns its first digit. */
static const char *number(uint64_t n, unsigned base, char out[NUMBER])
{
    char *at = out + NUMBER - 1;
    *at = '\0';
    do
        *--at = "0123456789abcdef"[n % base];
    while ((n /= base) != 0);
    return at;
}

static void say_number(const struct out *o, const char *before, uint64_t n, unsigned base,
                       const char *after)
{
    char text[NUMBER];
    say(o, before);
    say(o, number(n, base, text));
    say(o, after);
}

/* ---- the report ---- */

/* Opens the report's file. -1: there is no folder, or it cannot be written. */
static int file_of(char path[LIMIT_PATH + 128], uint64_t seconds)
{
    char text[NUMBER];
    path[0] = '\0';
    if (folder_name[0] == '\0')
        return -1;
    strcpy(path, folder_name);
    strcat(path, PREFIX);
    strcat(path, number(seconds, 10, text));
    strcat(path, "-");
    strncat(path, program_name, 32);
    strcat(path, "-");
    strcat(path, number((uint64_t)getpid(), 10, text));
    strcat(path, SUFFIX);
    return file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

static void head(const struct out *o, int signo, const siginfo_t *info, uint64_t seconds)
{
    char thread[17] = "";
    const char *name = "";
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i].signo == signo)
            name = signals[i].name;
    (void)prctl(PR_GET_NAME, thread);
    say(o, program_name);
    say_number(o, " has crashed: signal ", (uint64_t)signo, 10, " (");
    say(o, name);
    if (info->si_code <= 0)
        say_number(o, "), sent by process ", (uint64_t)info->si_pid, 10, "");
    else
        say_number(o, "), address 0x", (uint64_t)(uintptr_t)info->si_addr, 16, "");
    say(o, "\nversion: " SHOAL_VERSION "\nbuild id: ");
    say(o, build_id);
    say_number(o, "\ntime: ", seconds, 10, "");
    say_number(o, " (date -u -d @", seconds, 10, ")");
    say_number(o, "\nuptime: ", (time_monotonic_ns() - begun_ns) / UINT64_C(1000000000), 10, " s");
    say_number(o, "\nprocess: ", (uint64_t)getpid(), 10, ", thread: ");
    say(o, thread);
    say(o, "\n");
}

static void backtrace_say(const struct out *o)
{
    void *frame[FRAMES];
    int frames = backtrace(frame, FRAMES);
    say(o, "backtrace (addr2line -fe MODULE +OFFSET, with the debug symbols of this build id):\n");
    for (int i = 0; i < 2; i++)
        if (o->fd[i] >= 0)
            backtrace_symbols_fd(frame, frames, o->fd[i]);
}

static void ring_say(int fd)
{
    const char *line;
    say_to(fd, "the last lines of the log:\n");
    for (unsigned i = 0; (line = log_ring_line(i)) != NULL; i++) {
        say_to(fd, line);
        say_to(fd, "\n");
    }
}

/* Standard error comes first, for the disk of the file may hang: then the watchdog's signal is what
 * is reported. The lines of the log come before the backtrace, which may fail where memory is
 * damaged: the kernel then ends the process by the second signal, which is blocked here. */
static void report(int signo, const siginfo_t *info)
{
    char path[LIMIT_PATH + 128];
    uint64_t seconds = time_wall_ns() / UINT64_C(1000000000);
    struct out o = {.fd = {-1, STDERR_FILENO}};
    head(&o, signo, info, seconds);
    o.fd[0] = file_of(path, seconds);
    head(&(struct out){.fd = {o.fd[0], -1}}, signo, info, seconds);
    ring_say(o.fd[0]);
    if (o.fd[0] >= 0) {
        o.first = 1;
        say(&o, "report: ");
        say(&o, path);
        say(&o, "\n");
        o.first = 0;
    }
    backtrace_say(&o);
    if (o.fd[0] >= 0)
        (void)file_sync(o.fd[0]);
}

/* A fault happens again when the handler returns, and then takes its default action. A signal that
 * was sent must be sent again. */
static void crash_cb(int signo, siginfo_t *info, void *context)
{
    (void)context;
    while (atomic_flag_test_and_set(&reported))
        (void)pause(); /* another thread reports, and then ends the process */
    report(signo, info);
    (void)signal(signo, SIG_DFL);
    if (info->si_code <= 0)
        (void)raise(signo);
}

/* ---- the start ---- */

/* Finds the note NT_GNU_BUILD_ID among the notes in one segment. */
static bool note_find(const char *at, size_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) n;
        memcpy(&n, at, sizeof n);
        size_t name = (n.n_namesz + 3u) & ~(size_t)3,
               all = sizeof n + name + ((n.n_descsz + 3u) & ~3u);
        if (all > bytes)
            return false;
        const char *id = at + sizeof n + name;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_descsz <= BUILD_ID) {
            for (size_t i = 0; i < n.n_descsz; i++)
                (void)snprintf(build_id + 2 * i, 3, "%02x", (unsigned char)id[i]);
            return true;
        }
        at += all;
        bytes -= all;
    }
    return false;
}

/* The first object is the program itself. */
static int object_look(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE &&
            note_find((const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                      info->dlpi_phdr[i].p_memsz))
            break;
    return 1;
}

const char *crash_build(void)
{
    return build;
}

void crash_begin(const char *program)
{
    struct sigaction act = {.sa_sigaction = crash_cb, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *frame[1];
    (void)dl_iterate_phdr(object_look, NULL);
    (void)snprintf(build, sizeof build, SHOAL_VERSION " %.12s", build_id);
    if (CRASH_OFF)
        return;
    program_name = program;
    begun_ns = time_monotonic_ns();
    (void)backtrace(frame, 1); /* loads the library that it needs */
    crash_thread();
    (void)sigemptyset(&act.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaddset(&act.sa_mask, signals[i].signo);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i].signo, &act, NULL);
}

void crash_thread(void)
{
#if !CRASH_OFF
    static _Thread_local char stack[STACK_BYTES];
    static _Thread_local bool has;
    const stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
    if (!has)
        has = sigaltstack(&s, NULL) == 0;
#endif
}

void crash_unblock(sigset_t *set)
{
    for (int i = 0; i < SIGNALS; i++)
        (void)sigdelset(set, signals[i].signo);
}

bool crash_is_report(const char *name)
{
    size_t bytes = strlen(name), end = strlen(SUFFIX);
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && bytes > end &&
           strcmp(name + bytes - end, SUFFIX) == 0;
}

/* Counts the reports; `oldest` gets the first name by its time. */
static unsigned reports_count(const char *folder, char oldest[256])
{
    struct file_walk w;
    const char *name;
    unsigned count = 0;
    oldest[0] = '\0';
    (void)file_walk_open(&w, folder);
    while ((name = file_walk_next(&w)) != NULL) {
        if (!crash_is_report(name))
            continue;
        count++;
        if (oldest[0] == '\0' || strcmp(name, oldest) < 0)
            text_copy(oldest, 256, name);
    }
    file_walk_close(&w);
    return count;
}

void crash_folder(const char *folder)
{
    char oldest[256], path[LIMIT_PATH + 264];
    if (CRASH_OFF || (size_t)snprintf(path, LIMIT_PATH, "%s/", folder) >= LIMIT_PATH)
        return;
    strcpy(folder_name, path);
    while (reports_count(folder, oldest) >= CRASH_KEPT) {
        (void)snprintf(path, sizeof path, "%s%s", folder_name, oldest);
        if (file_unlink(path) != 0)
            return;
    }
}
