/* doctor_crashes.c: a check for reports of crashes (proto/base/crash.h). */
#include "deploy/cli/doctor.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void doctor_each_folder(const char *root, const char *own,
                        void (*visit)(void *context, const char *folder), void *context)
{
    static const char *const places[] = {"/var/lib/shoal", "/var/cache/shoal"};
    char place[DOCTOR_PATH], folder[DOCTOR_PATH];
    struct file_walk w;
    const char *name;
    if (own[0] != '\0')
        visit(context, own);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(place, sizeof place, "%s%s", root, places[i]);
        (void)file_walk_open(&w, place);
        while ((name = file_walk_next(&w)) != NULL)
            if (strcmp(doctor_join(folder, place, name), own) != 0)
                visit(context, folder);
        file_walk_close(&w);
    }
}

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

static void reports_look(void *context, const char *folder)
{
    struct doctor_report *r = context;
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
            text_copy(newest, sizeof newest, name);
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

void doctor_check_crashes(const struct doctor_host *h, struct doctor_report *r)
{
    uint32_t wrong = r->problems;
    doctor_each_folder(h->probe->root, h->settings->folder, reports_look, r);
    if (r->problems == wrong)
        doctor_fine(r, "no crash report");
}
