/* taken.h: how many bytes of input this process has read, as they lie on disk or come from
 * commands. They show from outside that a thread that reads for minutes makes progress. Any
 * thread. */
#ifndef WORKER_DATA_TAKEN_H
#define WORKER_DATA_TAKEN_H

#include <stdint.h>

void taken_note(uint64_t bytes);
uint64_t taken_bytes(void);

#endif
