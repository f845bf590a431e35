/* options.h: the tables of options, one for each command or for commands that have the same ones.
 * option_commands.c tells which command has which. Each ends with a NULL path and has "help". */
#ifndef PROTO_JOB_OPTIONS_H
#define PROTO_JOB_OPTIONS_H

#include "proto/job/config.h"

extern const struct config_key options_local[];
extern const struct config_key options_replay[];
extern const struct config_key options_sweep[];
extern const struct config_key options_submit[];
extern const struct config_key options_cluster_json[];
extern const struct config_key options_cluster[];
extern const struct config_key options_predict[];
extern const struct config_key options_eval[];
extern const struct config_key options_create[];
extern const struct config_key options_remove[];
extern const struct config_key options_diff[];
extern const struct config_key options_json[];
extern const struct config_key options_none[];
extern const struct config_key options_restore[];
extern const struct config_key options_export[];
extern const struct config_key options_status[];
extern const struct config_key options_digest[];
extern const struct config_key options_trace[];
extern const struct config_key options_top[];
extern const struct config_key options_doctor[];
extern const struct config_key options_tables[];
extern const struct config_key options_inspect[];
extern const struct config_key options_blame[];
extern const struct config_key options_rebalance[];
extern const struct config_key options_drain[];
extern const struct config_key options_promote[];
extern const struct config_key options_replace[];
extern const struct config_key options_import[];
extern const struct config_key options_erase[];
extern const struct config_key options_keys[];
extern const struct config_key options_keys_list[];
extern const struct config_key options_verify[];
extern const struct config_key options_sign[];
extern const struct config_key options_keygen[];
extern const struct config_key options_report[];
extern const struct config_key options_convert[];
extern const struct config_key options_data[];
extern const struct config_key options_synth[];
extern const struct config_key options_bench[];
extern const struct config_key options_shoal[];
extern const struct config_key options_server[];
extern const struct config_key options_coordinator[];
extern const struct config_key options_worker[];

#endif
