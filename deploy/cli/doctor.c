/* doctor.c: `shoal doctor`: the table of checks, and the processes that run them. */
#include "deploy/cli/doctor.h"

#include "proto/base/process.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#define A_DISK                                                                                     \
    "a disk or a file system of the network does not answer: see the kernel's log (dmesg) and "    \
    "what is mounted there; a daemon would hang as well"
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

/* ---- checks that run ------------------------------------------------------------------------- */

struct run { /* one check's run, in memory that its process shares with this one */
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

/* Waits for a check. A process that a disk holds in the kernel cannot be killed: it is left. */
static void check_end(struct process *p, uint64_t deadline_ns, const struct run *run,
                      uint32_t patience_ms, struct doctor_report *out)
{
    struct process_end end;
    bool ended = process_wait_until(p, deadline_ns, &end);
    if (!ended)
        process_signal(p, SIGKILL);
    out->check = checks[run->check].name;
    doctor_add(out, &run->report);
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
    text_copy(settings.coordinator, sizeof settings.coordinator, (char *)context);
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
        text_copy(settings.coordinator, sizeof settings.coordinator, option_text(o, "coordinator"));
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
