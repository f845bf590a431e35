/* doctor_disk.c: checks of the folder of a daemon: writable, fast, large enough; crash reports. */
#include "deploy/cli/doctor.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB (1024.0 * 1024 * 1024)
#define UNITS_DATA "/var/lib/shoal"
#define SLOW_MB_S 50.0
#define SLOW_SYNC_MS 50.0

/* The folder of the settings, or of its parents the innermost that is there; of a server or
 * coordinator without one that of the units; "": there is none to look at. */
static void folder_there(const struct doctor_host *h, char out[LIMIT_PATH])
{
    const struct doctor_settings *s = h->settings;
    char units[DOCTOR_PATH];
    (void)snprintf(out, LIMIT_PATH, "%s", s->folder);
    if (out[0] == '\0' && (s->kind == DOCTOR_SERVER || s->kind == DOCTOR_COORDINATOR) &&
        access(doctor_below(h, units, UNITS_DATA), F_OK) == 0)
        (void)snprintf(out, LIMIT_PATH, "%.*s", LIMIT_PATH - 1, units);
    while (out[0] != '\0' && access(out, F_OK) != 0) {
        char *slash = strrchr(out, '/');
        if (slash == NULL)
            (void)snprintf(out, LIMIT_PATH, ".");
        else
            slash[slash == out] = '\0';
    }
}

void doctor_check_disk(const struct doctor_host *h, struct doctor_report *r)
{
    char folder[LIMIT_PATH];
    struct doctor_disk d;
    struct err e;
    folder_there(h, folder);
    if (folder[0] == '\0')
        return;
    if (h->probe->disk(folder, &d, &e) != 0)
        doctor_wrong(r,
                     "%s cannot be written: %s; free some of it where it is full, else give it to "
                     "the daemon's user, or run shoal doctor as that user",
                     folder, e.text);
    else if (d.sync_ms > SLOW_SYNC_MS)
        doctor_wrong(r,
                     "a synced write in %s takes %.0f ms, and with durability: fsync every group "
                     "of pushes waits for one: use a local SSD, and look at the kernel's log for "
                     "errors of the disk",
                     folder, d.sync_ms);
    else if (d.write_mb_s < SLOW_MB_S)
        doctor_wrong(r,
                     "%s takes %.0f MB/s, and journal, flushes and checkpoints want %.0f or more: "
                     "use a local SSD, or end what else writes there",
                     folder, d.write_mb_s, SLOW_MB_S);
    else
        doctor_fine(r, "%s: %.0f MB/s, a synced write in %.1f ms", folder, d.write_mb_s, d.sync_ms);
}

void doctor_check_space(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    static const char *const full[] = {
        [DOCTOR_SERVER] = "pushes are refused until more is free",
        [DOCTOR_COORDINATOR] = "a job's place cannot be stored when it is full",
        [DOCTOR_WORKER] = "input is decoded anew each time when it is full",
        [DOCTOR_JOB] = "checkpoints fail when it is full"};
    char folder[LIMIT_PATH];
    uint64_t bytes, left, least = s->disk_free;
    folder_there(h, folder);
    if (folder[0] == '\0')
        return;
    if (h->probe->space(folder, &bytes, &left) != 0) {
        doctor_wrong(
            r, "the file system of %s cannot be asked for its space: %s; see that it is mounted",
            folder, strerror(errno));
        return;
    }
    if (least == 0)
        least = MIN(bytes / 20, UINT64_C(8) << 30);
    uint64_t journal_most = bytes;
    if (s->disk > 0)
        journal_most = MIN(bytes, s->disk / 2); /* as the server demands */
    if (left < least)
        doctor_wrong(r,
                     "the file system of %s has %.1f GiB free, less than %.1f GiB%s: %s; remove "
                     "what does not belong to Shoal there, or use a larger disk",
                     folder, (double)left / GIB, (double)least / GIB,
                     text_if(s->kind == DOCTOR_SERVER, " (disk_free)"), full[s->kind]);
    else if (s->disk > bytes)
        doctor_wrong(r,
                     "disk: %.1f GiB is more than the whole file system of %s, %.1f GiB: lower "
                     "disk, or use a larger file system",
                     (double)s->disk / GIB, folder, (double)bytes / GIB);
    else if (s->journal > journal_most)
        doctor_wrong(r,
                     "journal.max and journal.keep may take %.1f GiB together, and the rows leave "
                     "them %.1f GiB at most in %s: lower journal.keep or journal.max",
                     (double)s->journal / GIB, (double)journal_most / GIB, folder);
    else
        doctor_fine(r, "%.1f of %.1f GiB are free", (double)left / GIB, (double)bytes / GIB);
}

/* ---- crash reports ---- */

/* The first line of a report; "": it cannot be read. */
static void report_line(const char *path, char out[256])
{
    int fd = doctor_open(path);
    ssize_t n = -1;
    if (fd >= 0) {
        n = read(fd, out, 255);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static void reports_look(struct doctor_report *r, const char *folder)
{
    char newest[256] = "", path[DOCTOR_PATH], line[256];
    struct file_walk w;
    const char *name;
    uint32_t count = 0;
    if (!file_walk_open(&w, folder))
        return;
    while ((name = file_walk_next(&w)) != NULL) {
        if (!crash_is_report(name))
            continue;
        count++;
        if (strcmp(name, newest) > 0)
            (void)snprintf(newest, sizeof newest, "%s", name);
    }
    file_walk_close(&w);
    if (count == 0)
        return;
    report_line(doctor_join(path, folder, newest), line);
    doctor_wrong(r,
                 "%u crash reports in %s, the newest %s: %s; pack what is needed to look into it "
                 "with shoal doctor --bundle FILE.tar.gz, then remove the reports",
                 count, folder, newest, text_unless_empty(line, "it cannot be read"));
}

/* The folder of the settings, and those of the units. */
void doctor_check_crashes(const struct doctor_host *h, struct doctor_report *r)
{
    static const char *const places[] = {UNITS_DATA, "/var/cache/shoal"};
    char path[DOCTOR_PATH], below[DOCTOR_PATH];
    struct file_walk w;
    const char *name;
    uint32_t wrong = r->problems;
    if (h->settings->folder[0] != '\0')
        reports_look(r, h->settings->folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)file_walk_open(&w, doctor_below(h, path, places[i]));
        while ((name = file_walk_next(&w)) != NULL)
            if (strcmp(doctor_join(below, path, name), h->settings->folder) != 0)
                reports_look(r, below);
        file_walk_close(&w);
    }
    if (r->problems == wrong)
        doctor_fine(r, "no crash report");
}
