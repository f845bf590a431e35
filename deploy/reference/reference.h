/* reference.h: shared by the files of the program `reference`. The build runs it for the manual
 * pages, and tests/reference.py for the files that are committed; it is not installed. */
#ifndef DEPLOY_REFERENCE_REFERENCE_H
#define DEPLOY_REFERENCE_REFERENCE_H

#include "proto/base/err.h"
#include "proto/job/config.h"

/* The keys of job, server, coordinator or worker; NULL: there is no such file. */
const struct config_key *reference_keys(const char *name);
/* Prints a manual page on standard output: of a verb of `shoal`, or a file (with a / in its name)
 * with its marks filled in. USAGE, NOINPUT, DATA. */
int reference_man(const char *page, struct err *e);
/* Prints the completion for zsh on standard output. */
void reference_zsh(void);

#endif
