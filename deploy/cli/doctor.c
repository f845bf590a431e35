/* doctor.c: `shoal doctor`: the table of checks, the settings that they look at, and their
 * output. */
#include "deploy/cli/doctor.h"

#include "proto/base/text.h"
#include "proto/job/keys.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const struct doctor_host *h, struct doctor_report *r);
} checks[] = {
    {"libraries", doctor_check_libraries},
    {"limits", doctor_check_limits},
    {"ports", doctor_check_ports},
    {"disk", doctor_check_disk},
    {"space", doctor_check_space},
    {"memory", doctor_check_memory},
    {"pages", doctor_check_pages},
    {"clock", doctor_check_clock},
    {"keys", doctor_check_keys},
    {"names", doctor_check_names},
    {"gpu", doctor_check_gpu},
    {"blas", doctor_check_blas},
    {"crashes", doctor_check_crashes},
};

/* ---- findings -------------------------------------------------------------------------------- */

static void note(struct doctor_report *r, bool problem, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void note(struct doctor_report *r, bool problem, const char *format, va_list arguments)
{
    r->problems += problem;
    if (r->count == DOCTOR_FINDINGS) {
        r->left_out++;
        return;
    }
    struct doctor_finding *f = &r->finding[r->count++];
    f->check = r->check;
    f->problem = problem;
    (void)vsnprintf(f->text, sizeof f->text, format, arguments);
}

void doctor_wrong(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(r, true, format, arguments);
    va_end(arguments);
}

void doctor_fine(struct doctor_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(r, false, format, arguments);
    va_end(arguments);
}

void doctor_run(const struct doctor_host *h, struct doctor_report *out)
{
    *out = (struct doctor_report){.count = 0};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        out->check = checks[i].name;
        checks[i].run(h, out);
    }
}

struct json *doctor_json(const struct doctor_report *r)
{
    struct json *j = json_new_object(), *list = json_new_array();
    json_set_int(j, "problems", r->problems);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        struct json *item = json_new_object();
        json_set_string(item, "check", f->check);
        json_set_bool(item, "problem", f->problem);
        json_set_string(item, "text", f->text);
        json_append(list, item);
    }
    json_set(j, "findings", list);
    return j;
}

static void report_print(const struct doctor_report *r)
{
    char text[ERR_TEXT_MAX];
    for (uint32_t i = 0; i < r->count; i++) {
        const struct doctor_finding *f = &r->finding[i];
        (void)snprintf(text, sizeof text, "%s", f->text);
        printf("%-8s %-9s  %s\n", f->problem ? "problem:" : "ok", f->check, text_clean(text));
    }
    if (r->left_out > 0)
        printf("and %u findings more\n", r->left_out);
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
    doctor_run(&h, &report);

    if (option_given(o, "json")) {
        struct json *j = doctor_json(&report);
        cli_json_print(j);
        json_free(j);
    } else
        report_print(&report);
    if (bundle != NULL)
        return doctor_bundle(o, bundle, &settings, &report, e);
    size_t units = 0;
    if (!option_given(o, "json"))
        units = cli_units_print("");
    if (report.problems + units > 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "problems found: %zu, see above",
                       report.problems + units);
    return 0;
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
