/* keys.h: every key of the files that an operator writes, a table for each kind of file
 * (config.h). The parser, the manual's tables, deploy/job.schema.json and `--help` are made from
 * them. */
#ifndef PROTO_JOB_KEYS_H
#define PROTO_JOB_KEYS_H

#include "proto/job/config.h"

#include <stdio.h>

extern const struct config_key keys_job[];         /* job.yaml */
extern const struct config_key keys_server[];      /* server.yaml */
extern const struct config_key keys_coordinator[]; /* coordinator.yaml */
extern const struct config_key keys_worker[];      /* worker.yaml */

/* Where a coordinator listens that was told nothing else. */
#define KEYS_COORDINATOR "ipc:///run/shoal/coordinator/socket"

/* What a preset of a table (tables[].preset) gives to a key, as a file would say it; a NULL preset
 * ends the list. */
struct keys_preset {
    const char *preset, *key, *value;
};
extern const struct keys_preset keys_presets[];
/* NULL: nothing. */
const char *keys_preset(const char *preset, const char *key);

/* For people, in Markdown: what a key may hold, and what it is by default. Return text. */
#define KEYS_TEXT_MAX 256
const char *keys_values(const struct config_key *k, char text[KEYS_TEXT_MAX]);
const char *keys_default(const struct config_key *k, char text[KEYS_TEXT_MAX]);
/* For --help: a line a key, without Markdown. */
void keys_print(const struct config_key *keys, FILE *f);

#endif
