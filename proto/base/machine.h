/* machine.h: what this process may take of the machine that it runs on: memory, cores, files. A
 * control group (v1 or v2) may allow less than there is, and so may one above it.
 *
 * root: of the files that are read, "" in life; a test has a tree of its own. */
#ifndef PROTO_BASE_MACHINE_H
#define PROTO_BASE_MACHINE_H

#include <stdint.h>

/* Bytes: the machine's own, or the least that a control group of this process allows. */
uint64_t machine_memory(const char *root);
/* Cores that this process may run on, and not more than its quota of processor time makes up, a
 * part of one counted whole; 1 at least. */
uint32_t machine_cores(const char *root);
/* Of this start of the machine: every other one has another. By /proc, else by SHOAL_BOOT, which
 * units set. 0: it is not told. */
uint64_t machine_boot(const char *root);
/* Raises the limit of open files to the most that this process may have (a shell's is 1,024, of
 * which idle connections take all), 2^20 at most. Returns the limit. */
uint64_t machine_files(void);

#endif
