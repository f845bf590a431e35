/* machine.h: the memory, cores and files that this process may use on its machine. A control group
 * (v1 or v2) may allow less than there is, and so may its parents.
 *
 * root: the prefix of the files that are read; "" in production, a tree of its own in a test. */
#ifndef PROTO_BASE_MACHINE_H
#define PROTO_BASE_MACHINE_H

#include <stdint.h>

/* Bytes: the machine's memory, or the smallest limit of this process's control groups. */
uint64_t machine_memory(const char *root);
/* Cores that this process may run on, at most its quota of processor time, rounded up; at least
 * 1. */
uint32_t machine_cores(const char *root);
/* Identifies the boot of the machine: each boot has another value. Read from /proc, else from
 * SHOAL_BOOT, which units set. 0: not known. */
uint64_t machine_boot(const char *root);
/* Raises the limit of open files to the most that this process may have, 2^20 at most (a shell's
 * limit is 1,024, and idle connections alone can take all of it). Returns the limit. */
uint64_t machine_files(void);
/* The open files and connections of this process; 0: not known. */
uint64_t machine_files_open(void);

#endif
