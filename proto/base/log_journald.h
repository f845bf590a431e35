/* log_journald.h: a line of the log as the journal's own, with fields (man 7
 * systemd.journal-fields). Inside of log.h; the door to systemd/sd-journal.h. */
#ifndef PROTO_BASE_LOG_JOURNALD_H
#define PROTO_BASE_LOG_JOURNALD_H

#include <stdbool.h>

struct log_record { /* texts are borrowed; NULL: there is none */
    const char *program, *text;
    int priority; /* of syslog(3) */
    const char *file, *function;
    int line;
    const char *message_id;    /* of an event */
    const char *field, *about; /* what it is about: "SHOAL_JOB", its name */
};

/* Whether standard error is the journal's: $JOURNAL_STREAM names its device and inode. */
bool log_journald_listens(void);
/* false: it does not listen. Any thread. */
bool log_journald_send(const struct log_record *r);

#endif
