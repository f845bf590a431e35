/* command.h: a shell command whose standard output is input. Any thread; blocks. */
#ifndef WORKER_DATA_COMMAND_H
#define WORKER_DATA_COMMAND_H

#include "worker/data/decode.h"

struct command {
    const char *text;     /* for /bin/sh; borrowed, as all of these */
    const char *argument; /* its $1; NULL: it has none */
    const char *name;     /* for messages */
    uint32_t quiet_s;     /* without a byte for so long it has failed; 0: it may take its time */
};

/* Runs it to its end and hands what it prints, unpacked, to the sink; where that has enough, or
 * something fails, it is killed with all that it has started. As decode; and NOINPUT, with its last
 * words, when it fails, whatever it had printed. */
int command_read(const struct command *c, decode_sink sink, void *to, uint64_t *raw, struct err *e);

#endif
