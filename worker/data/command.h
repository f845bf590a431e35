/* command.h: a shell command whose standard output is input. Any thread; blocks. */
#ifndef WORKER_DATA_COMMAND_H
#define WORKER_DATA_COMMAND_H

#include "worker/data/decode.h"

struct command {
    const char *text;     /* for /bin/sh; borrowed, as all members */
    const char *argument; /* its $1; NULL: none */
    const char *name;     /* for messages */
    uint32_t quiet_s;     /* seconds without output after which it has failed; 0: no limit */
};

/* Runs the command and hands its unpacked output to the sink. When the sink has enough, or
 * something fails, the command is killed with all that it has started. Errors as decode; NOINPUT,
 * with its last message, when the command fails, even after output. */
int command_read(const struct command *c, decode_sink sink, void *to, uint64_t *raw, struct err *e);

#endif
