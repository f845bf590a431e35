/* keys.h: every key of the files that an operator writes, a table for each kind of file (config.h).
 * The parser, the manual's tables, deploy/job.schema.json and `--help` are made from these
 * tables. */
#ifndef PROTO_JOB_KEYS_H
#define PROTO_JOB_KEYS_H

#include "proto/job/config.h"

#include <stdio.h>

extern const struct config_key keys_job[];         /* job.yaml */
extern const struct config_key keys_server[];      /* server.yaml */
extern const struct config_key keys_coordinator[]; /* coordinator.yaml */
extern const struct config_key keys_worker[];      /* worker.yaml */

/* The default endpoint of a coordinator. */
#define KEYS_COORDINATOR "ipc:///run/shoal/coordinator/socket"

/* The value that a preset of a table (tables[].preset) gives to a key, written as in a file; a NULL
 * preset ends the list. */
struct keys_preset {
    const char *preset, *key, *value;
};
extern const struct keys_preset keys_presets[];
/* The value, or NULL when the preset gives none. */
const char *keys_preset(const char *preset, const char *key);

/* For people, in Markdown: the values of a key, and its default. Both return text. */
#define KEYS_TEXT_MAX 256
const char *keys_values(const struct config_key *k, char text[KEYS_TEXT_MAX]);
const char *keys_default(const struct config_key *k, char text[KEYS_TEXT_MAX]);
/* Prints a line for each key, without Markdown, for --help. */
void keys_print(const struct config_key *keys, FILE *f);

#endif
