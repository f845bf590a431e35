/* file_fault.h: a disk that fails: the n-th call through proto/base/file.h, and if wanted all that
 * follow it, as when power goes. */
#ifndef TESTS_LIB_FILE_FAULT_H
#define TESTS_LIB_FILE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct file_fault {
    uint64_t at; /* the call that fails, counted from 1; 0: none */
    int why;     /* its errno; a write has written half of its bytes before */
    bool dead;   /* all later ones fail as well */
};

/* Takes the system's place; NULL gives it back. Counts from 0. */
void file_fault_set(const struct file_fault *f);
/* Calls since then. */
uint64_t file_fault_calls(void);

#endif
