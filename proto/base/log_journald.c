/* log_journald.c: the fields of a line, and sd_journal_sendv. */
#include "proto/base/log_journald.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

bool log_journald_listens(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    uint64_t device, inode;
    struct stat s;
    return stream != NULL && sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &s) == 0 && s.st_dev == device && s.st_ino == inode;
}

struct fields {
    char text[4096]; /* all fields, one behind another */
    size_t used;
    struct iovec of[12];
    int count;
};

/* A field that does not fit is left out; the message comes first, so it is kept. */
static void add(struct fields *f, const char *name, const char *value)
{
    size_t room = sizeof f->text - f->used;
    int n = -1;
    if (value != NULL)
        n = snprintf(f->text + f->used, room, "%s=%s", name, value);
    if (n < 0 || (size_t)n >= room)
        return;
    f->of[f->count++] = (struct iovec){f->text + f->used, (size_t)n};
    f->used += (size_t)n;
}

static void add_number(struct fields *f, const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    add(f, name, text);
}

bool log_journald_send(const struct log_record *r)
{
    struct fields f = {.count = 0};
    const char *file = r->file;
    /* the path is relative to the build's folder */
    while (file != NULL && strncmp(file, "../", 3) == 0)
        file += 3;
    add(&f, "MESSAGE", r->text);
    add_number(&f, "PRIORITY", r->priority);
    add(&f, "SYSLOG_IDENTIFIER", r->program);
    add(&f, "MESSAGE_ID", r->message_id);
    if (r->field != NULL)
        add(&f, r->field, r->about);
    add(&f, "CODE_FILE", file);
    add(&f, "CODE_FUNC", r->function);
    if (r->line > 0)
        add_number(&f, "CODE_LINE", r->line);
    return sd_journal_sendv(f.of, f.count) == 0;
}
