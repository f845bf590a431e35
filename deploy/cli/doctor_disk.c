/* doctor_disk.c: checks of the folder of a daemon: writable, fast, large enough. */
#include "deploy/cli/doctor.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
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
    text_copy(out, LIMIT_PATH, s->folder);
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
