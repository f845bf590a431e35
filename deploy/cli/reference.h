/* reference.h: `shoal reference`, for those who build: what is generated from the tables of keys
 * and options (proto/job/keys.h, option.h): the manual's tables, a JSON Schema of job.yaml,
 * completion for bash and zsh, manual pages, and the catalog of events. tests/reference.py holds
 * the committed ones against it. */
#ifndef DEPLOY_CLI_REFERENCE_H
#define DEPLOY_CLI_REFERENCE_H

#include "proto/base/err.h"
#include "proto/job/config.h"

/* page FILE: FILE with each table between "<!-- keys: job|server|coordinator [[-]KEY]... -->" and
 * "<!-- /keys -->" made anew, of all keys at or below one of KEY and none of -KEY; or, between
 * "<!-- keys: options -->" and the same end, of all options. schema; keys; options; completion
 * [zsh]; man PAGE; catalog. */
int reference_main(int argc, char **argv);

/* The keys of job, server or coordinator; NULL: there is no such file. */
const struct config_key *reference_keys(const char *name);
/* A manual page on standard output: of a verb of `shoal`, or a file (with a / in its name) whose
 * marks are filled in. USAGE, NOINPUT, DATA. */
int reference_man(const char *page, struct err *e);
/* Completion for zsh, on standard output. */
void reference_zsh(void);

#endif
