/* log_journald.h: sends a line of the log to the systemd journal, with fields (man 7
 * systemd.journal-fields). Internal to log.h. Only log_journald.c includes systemd/sd-journal.h. */
#ifndef PROTO_BASE_LOG_JOURNALD_H
#define PROTO_BASE_LOG_JOURNALD_H

#include <stdbool.h>

struct log_record { /* texts are borrowed; NULL: absent */
    const char *program, *text;
    int priority; /* as in syslog(3) */
    const char *file, *function;
    int line;
    const char *message_id;    /* the event's id */
    const char *field, *about; /* the event's subject: "SHOAL_JOB", its name */
};

/* True when standard error goes to the journal: $JOURNAL_STREAM names its device and inode. */
bool log_journald_listens(void);
/* False: the journal did not take it. Any thread. */
bool log_journald_send(const struct log_record *r);

#endif
