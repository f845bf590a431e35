/* doctor.c: `shoal doctor`: the table of checks, the settings that they look at, and their
 * output. */
#include "deploy/cli/doctor.h"

#include "proto/base/minmax.h"
#include "proto/base/process.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/keys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define A_DISK                                                                                     \
    "a disk or a file system of the network does not answer: see the kernel's log (dmesg) and "    \
    "what "                                                                                        \
    "is mounted there; a daemon would hang as well"
#define A_NAME                                                                                     \
    "a name server does not answer: see /etc/resolv.conf, or give addresses in place of names"
#define ELSE "see the kernel's log (dmesg), and `top` for what keeps this machine busy"

static const struct {
    const char *name;
    void (*run)(const struct doctor_host *h, struct doctor_report *r);
    const char *hangs; /* why it may not end, and what to do then */
} checks[] = {
    {"libraries", doctor_check_libraries, ELSE},
    {"limits", doctor_check_limits, ELSE},
    {"ports", doctor_check_ports, A_NAME},
    {"disk", doctor_check_disk, A_DISK},
    {"space", doctor_check_space, A_DISK},
    {"memory", doctor_check_memory, ELSE},
    {"pages", doctor_check_pages, ELSE},
    {"clock", doctor_check_clock, A_NAME},
    {"keys", doctor_check_keys, A_DISK},
    {"names", doctor_check_names, A_NAME},
    {"gpu", doctor_check_gpu, "the GPU's driver does not answer: see the kernel's log (dmesg)"},
    {"blas", doctor_check_blas, ELSE},
    {"crashes", doctor_check_crashes, A_DISK},
    {"units", doctor_check_units, A_DISK},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

/* ---- findings -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 0))) static void
say(struct doctor_report *r, enum doctor_rank rank, const char *format, va_list arguments)
{
    r->problems += rank == DOCTOR_PROBLEM;
    if (r->count == DOCTOR_FINDINGS) {
        r->left_out++;
        return;
    }
    struct doctor_finding *f = &r->finding[r->count++];
    f->check = r->check;
    f->rank = rank;
    (void)vsnprintf(f->text, sizeof f->text, format, arguments);
}

void doctor_wrong(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_PROBLEM, format, arguments);
    va_end(arguments);
}

void doctor_note(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_NOTE, format, arguments);
    va_end(arguments);
}

void doctor_fine(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(r, DOCTOR_FINE, format, arguments);
    va_end(arguments);
}

struct run { /* of one check, in memory that its process shares with this one */
    const struct doctor_host *host;
    size_t check;
    struct doctor_report report;
};

static void run_check(void *context)
{
    struct run *r = context;
    r->report.check = checks[r->check].name;
    checks[r->check].run(r->host, &r->report);
}

/* Adds what a check has found, so far where it goes on. */
static void report_add(struct doctor_report *to, const struct doctor_report *from)
{
    for (uint32_t i = 0; i < MIN(from->count, DOCTOR_FINDINGS); i++)
        if (to->count == DOCTOR_FINDINGS)
            to->left_out++;
        else
            to->finding[to->count++] = from->finding[i];
    to->problems += from->problems;
    to->left_out += from->left_out;
}

/* Waits for a check. A process that a disk holds in the kernel cannot be killed: it is left. */
static void check_end(struct process *p, uint64_t deadline_ns, const struct run *run,
                      uint32_t patience_ms, struct doctor_report *out)
{
    struct process_end end;
    bool ended = process_wait_until(p, deadline_ns, &end);
    if (!ended)
        process_signal(p, SIGKILL);
    out->check = checks[run->check].name;
    report_add(out, &run->report);
    if (!ended)
        doctor_wrong(out, "this check has not ended after %u s: %s", patience_ms / 1000,
                     checks[run->check].hangs);
    else if (end.signal != 0)
        doctor_wrong(out,
                     "this check was ended by signal %d: see the kernel's log (dmesg); if it is no "
                     "lack of memory, report it with shoal doctor --bundle FILE.tar.gz",
                     end.signal);
}

int doctor_run(const struct doctor_host *h, struct doctor_report *out, struct err *e)
{
    struct process process[CHECKS] = {{0}};
    uint64_t deadline_ns =
        time_monotonic_ns() + (uint64_t)h->probe->patience_ms * UINT64_C(1000000);
    int rc = 0;
    *out = (struct doctor_report){.count = 0};
    struct run *run =
        mmap(NULL, CHECKS * sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run == MAP_FAILED)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the checks");
    for (size_t i = 0; i < CHECKS && rc == 0; i++) {
        run[i].host = h;
        run[i].check = i;
        rc = process_branch(&process[i], run_check, &run[i], e);
    }
    for (size_t i = 0; i < CHECKS && rc == 0; i++)
        check_end(&process[i], deadline_ns, &run[i], h->probe->patience_ms, out);
    (void)munmap(run, CHECKS * sizeof *run);
    return rc;
}

static void names_ask(void *context)
{
    static struct doctor_report unused;
    struct doctor_settings settings = {.kind = DOCTOR_MACHINE};
    (void)snprintf(settings.coordinator, sizeof settings.coordinator, "%s", (char *)context);
    doctor_check_names(&(struct doctor_host){&settings, &doctor_probe_host}, &unused);
}

int doctor_names_wait(const char *coordinator, struct err *e)
{
    struct process p;
    struct process_end end;
    uint32_t patience_ms = doctor_probe_host.patience_ms;
    int rc = process_branch(&p, names_ask, (void *)(uintptr_t)coordinator, e);
    if (rc != 0 ||
        process_wait_until(&p, time_monotonic_ns() + patience_ms * UINT64_C(1000000), &end))
        return rc;
    process_signal(&p, SIGKILL);
    return err_set(e, SHOAL_E_UNAVAILABLE, "coordinator %s: after %u s no address: " A_NAME,
                   coordinator, patience_ms / 1000);
}

struct json *doctor_json(const struct doctor_report *r)
{
    struct json *j = json_new_object(), *list = json_new_array();
    json_set_int(j, "problems", r->problems);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        struct json *item = json_new_object();
        json_set_string(item, "check", f->check);
        json_set_bool(item, "problem", f->rank == DOCTOR_PROBLEM);
        json_set_bool(item, "note", f->rank == DOCTOR_NOTE);
        json_set_string(item, "text", f->text);
        json_append(list, item);
    }
    json_set(j, "findings", list);
    return j;
}

void doctor_print(const struct doctor_report *r)
{
    static const char *const before[] = {
        [DOCTOR_FINE] = "ok", [DOCTOR_NOTE] = "note:", [DOCTOR_PROBLEM] = "problem:"};
    char text[DOCTOR_TEXT];
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        (void)snprintf(text, sizeof text, "%s", f->text);
        printf("%-8s %-9s  %s\n", before[f->rank], f->check, text_clean(text));
    }
    if (r->left_out > 0)
        printf("and %u findings more\n", r->left_out);
}

int doctor_end(const struct doctor_report *r, struct err *e)
{
    if (r->problems == 0)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE, "problems found: %u, see above", r->problems);
}

void doctor_check_units(const struct doctor_host *h, struct doctor_report *r)
{
    (void)h;
    struct json *units = cli_units();
    for (size_t i = 0; i < json_count(units); i++)
        doctor_wrong(r, "%s", json_as_string(json_array_at(units, i), "?"));
    if (json_count(units) == 0)
        doctor_fine(r, "all of this machine start");
    json_free(units);
}

const char *doctor_join(char out[DOCTOR_PATH], const char *folder, const char *name)
{
    (void)snprintf(out, DOCTOR_PATH, "%s/%s", folder, name);
    return out;
}

const char *doctor_below(const struct doctor_host *h, char out[DOCTOR_PATH], const char *path)
{
    (void)snprintf(out, DOCTOR_PATH, "%s%s", h->probe->root, path);
    return out;
}

int doctor_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void doctor_text(const struct doctor_host *h, const char *path, char *out, size_t bytes)
{
    char whole[DOCTOR_PATH];
    out[0] = '\0';
    FILE *f = fopen(doctor_below(h, whole, path), "re");
    if (f == NULL)
        return;
    size_t got = fread(out, 1, bytes - 1, f);
    (void)fclose(f);
    while (got > 0 && out[got - 1] == '\n')
        got--;
    out[got] = '\0';
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum doctor_kind kind_of(const char *path)
{
    static const char *const name[] = {[DOCTOR_SERVER] = "server",
                                       [DOCTOR_COORDINATOR] = "coordinator",
                                       [DOCTOR_WORKER] = "worker"};
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    for (int i = DOCTOR_SERVER; i <= DOCTOR_WORKER; i++)
        if (strncmp(base, name[i], strlen(name[i])) == 0)
            return (enum doctor_kind)i;
    return DOCTOR_JOB;
}

static void take(const struct config *c, const char *key, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s", config_string_or(c, key, ""));
}

static void daemon_take(const struct config *c, struct doctor_settings *out)
{
    take(c, "keys", out->keys, sizeof out->keys);
    take(c, "metrics", out->metrics, sizeof out->metrics);
    take(c, "metrics_token", out->token, sizeof out->token);
    if (out->kind == DOCTOR_WORKER) {
        take(c, "cache", out->folder, sizeof out->folder);
        out->cuda = config_enum(c, "backend") == 2;
    } else {
        take(c, "listen", out->listen, sizeof out->listen);
        take(c, "advertise", out->advertise, sizeof out->advertise);
        take(c, "data_dir", out->folder, sizeof out->folder);
        take(c, "allow", out->allow, sizeof out->allow);
        take(c, "checkpoint_signers", out->signers, sizeof out->signers);
    }
    if (out->kind == DOCTOR_COORDINATOR)
        take(c, "store", out->store, sizeof out->store);
    else
        take(c, "coordinator", out->coordinator, sizeof out->coordinator);
    if (out->kind != DOCTOR_SERVER)
        return;
    out->shards = (uint32_t)config_int(c, "shards");
    out->memory = config_size(c, "memory");
    out->disk = config_size(c, "disk");
    out->disk_free = config_size(c, "disk_free");
    out->journal = config_size(c, "journal.max") + config_size(c, "journal.keep");
}

int doctor_settings_read(const char *path, const struct string_list *set,
                         struct doctor_settings *out, struct err *e)
{
    static const struct config_key *const keys[] = {[DOCTOR_SERVER] = keys_server,
                                                    [DOCTOR_COORDINATOR] = keys_coordinator,
                                                    [DOCTOR_WORKER] = keys_worker,
                                                    [DOCTOR_JOB] = keys_job};
    struct config *c;
    *out = (struct doctor_settings){.kind = kind_of(path), .shards = 1};
    (void)snprintf(out->file, sizeof out->file, "%s", path);
    int rc = config_load(path, set, keys[out->kind], &c, e);
    if (rc != 0)
        return rc;
    if (out->kind != DOCTOR_JOB) {
        daemon_take(c, out);
    } else {
        take(c, "checkpoint.dir", out->folder, sizeof out->folder);
        out->cuda = config_enum(c, "train.backend") == 2;
    }
    config_free(c);
    return 0;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int host(struct option_line *o, struct err *e)
{
    static struct doctor_report report;
    struct doctor_settings settings = {.kind = DOCTOR_MACHINE};
    const char *file = option_text(o, "config"), *bundle = option_text(o, "bundle");
    int rc = 0;
    if (file != NULL)
        rc = doctor_settings_read(file, option_list(o, "set"), &settings, e);
    if (rc != 0)
        return rc;
    if (settings.coordinator[0] == '\0' && option_given(o, "coordinator"))
        (void)snprintf(settings.coordinator, sizeof settings.coordinator, "%s",
                       option_text(o, "coordinator"));
    const struct doctor_host h = {&settings, &doctor_probe_host};
    rc = doctor_run(&h, &report, e);
    if (rc != 0)
        return rc;

    if (option_given(o, "json")) {
        struct json *j = doctor_json(&report);
        cli_json_print(j);
        json_free(j);
    } else
        doctor_print(&report);
    if (bundle != NULL)
        return doctor_bundle(o, bundle, &settings, &report, e);
    return doctor_end(&report, e);
}

int cli_doctor(struct option_line *o, struct err *e)
{
    bool cluster = option_given(o, "cluster");
    if (cluster && (option_given(o, "config") || option_given(o, "bundle")))
        return err_set(e, SHOAL_E_USAGE,
                       "--cluster looks at a cluster, --config and --bundle at this machine: give "
                       "one of them");
    if (cluster)
        return doctor_cluster(o, e);
    return host(o, e);
}
