/* reference.h: `shoal reference`, for those who build: what is generated from the tables of keys
 * and options (proto/job/keys.h, option.h): the manual's tables, a JSON Schema of job.yaml and
 * completion for bash; and the catalog of events. tests/reference.py holds the committed ones
 * against it. */
#ifndef DEPLOY_CLI_REFERENCE_H
#define DEPLOY_CLI_REFERENCE_H

/* page FILE: FILE with each table between "<!-- keys: job|server|coordinator [[-]KEY]... -->" and
 * "<!-- /keys -->" made anew, of all keys at or below one of KEY and none of -KEY; or, between
 * "<!-- keys: options -->" and the same end, of all options. schema; keys; options; completion;
 * catalog. */
int reference_main(int argc, char **argv);

#endif
