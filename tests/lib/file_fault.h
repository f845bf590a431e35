/* file_fault.h: a disk that fails: the n-th call through proto/base/file.h fails, and optionally
 * all later ones, as after a loss of power. */
#ifndef TESTS_LIB_FILE_FAULT_H
#define TESTS_LIB_FILE_FAULT_H

#include "proto/base/file.h"

#include <stdbool.h>
#include <stdint.h>

struct file_fault {
    uint64_t at; /* the call that fails, counted from 1; 0: none */
    int why;     /* its errno; a write has written half of its bytes before */
    bool dead;   /* all later calls fail, too */
};

/* Replaces the system's calls, and counts from 0; NULL restores them. */
void file_fault_set(const struct file_fault *f);
/* Sets the answer of file_room for any path from now on; such a call is not counted. NULL: the
 * system answers. */
void file_fault_room(const struct file_room *room);
/* Returns the calls since then. */
uint64_t file_fault_calls(void);

#endif
