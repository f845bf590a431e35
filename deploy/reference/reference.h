/* reference.h: what the files of the program `reference` share. The build runs it for the manual
 * pages, tests/reference.py for the files that are committed; it is not installed. */
#ifndef DEPLOY_REFERENCE_REFERENCE_H
#define DEPLOY_REFERENCE_REFERENCE_H

#include "proto/base/err.h"
#include "proto/job/config.h"

/* The keys of job, server or coordinator; NULL: there is no such file. */
const struct config_key *reference_keys(const char *name);
/* A manual page on standard output: of a verb of `shoal`, or a file (with a / in its name) whose
 * marks are filled in. USAGE, NOINPUT, DATA. */
int reference_man(const char *page, struct err *e);
/* Completion for zsh, on standard output. */
void reference_zsh(void);

#endif
