/* taken.h: how much input this process has read, as it lies on disk or comes from commands: whether
 * a thread that reads for minutes gets on is seen by that, from outside. Any thread. */
#ifndef WORKER_DATA_TAKEN_H
#define WORKER_DATA_TAKEN_H

#include <stdint.h>

void taken_note(uint64_t bytes);
uint64_t taken_bytes(void);

#endif
