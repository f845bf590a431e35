/* options_shared.h: options that several commands have, each once. options.c makes the tables of
 * them. */
#ifndef PROTO_JOB_OPTIONS_SHARED_H
#define PROTO_JOB_OPTIONS_SHARED_H

#include "proto/base/limits.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"

/* clang-format off */
#define OPTION_HELP {"help", CONFIG_BOOL, .text = "this text"}
#define OPTION_VERSION {"version", CONFIG_BOOL, .text = "print it"}
#define OPTION_LOG_FORMAT \
    {"log-format", CONFIG_ENUM, .choices = "text|json", .fallback = "text", \
     .text = "of the log on standard error; json: an object a line"}
#define OPTION_JSON {"json", CONFIG_BOOL, .text = "JSON instead of text"}

#define OPTION_COORDINATOR \
    {"coordinator", CONFIG_STRING, .values = "EP", \
     .otherwise = "SHOAL_COORDINATOR, else " KEYS_COORDINATOR, \
     .text = "endpoint of a running cluster's coordinator, such as tcp://10.0.0.1:7000, or " \
             "several with commas"}
#define OPTION_KEYS \
    {"keys", CONFIG_STRING, .values = "FILE", .otherwise = "SHOAL_KEYS, or none", \
     .text = "of `shoal keygen`, for a coordinator on tcp"}
#define OPTION_RUN_DIR \
    {"run-dir", CONFIG_STRING, .values = "DIR", \
     .text = "run folder of `shoal local`, running or ended"}
#define OPTION_FROM \
    {"from", CONFIG_STRING, .values = "WHERE", \
     .text = "where the tables are: a checkpoint's folder, that of a run of `shoal local`, " \
             "running or ended, or `fleet`"}
#define OPTION_FROM_RUNNING \
    {"from", CONFIG_STRING, .values = "WHERE", \
     .text = "where the tables are: the folder of a running `shoal local`, or `fleet`"}
/* A list of keys (deploy/cli/key_list.h). */
#define OPTIONS_KEY_LIST(most) \
    {"keys", CONFIG_STRING, .values = "FILE", \
     .text = "a key a line: 0x..., decimal, or FIELD:VALUE; " most}, \
    {"field", CONFIG_STRING, .values = "NAME", \
     .text = "with --values or --value: values of a field instead"}, \
    {"values", CONFIG_STRING, .values = "FILE", \
     .text = "a value of the field a line, as it stands in the input"}, \
    {"value", CONFIG_LIST, .values = "TEXT", .text = "of the field, as it stands in the input"}
/* Another name of --from, for commands that take OPTION_FROM. */
#define OPTION_FROM_RUN \
    {"run-dir", CONFIG_STRING, .values = "DIR", .text = "the same as --from DIR"}
#define OPTION_SPACE \
    {"space", CONFIG_STRING, .values = "NAME", .otherwise = "the only one that has tables", \
     .text = "whose tables: the `space` of a job file; `shoal tables` lists those of a fleet"}
/* The same where a request goes to the job at hand. */
#define OPTION_SPACE_OF \
    {"space", CONFIG_STRING, .values = "NAME", \
     .otherwise = "that of the job that runs, else the only one", \
     .text = "whose checkpoint: the `space` of a job file; no job of it need run"}
/* The same over a job file. */
#define OPTION_SPACE_OVER \
    {"space", CONFIG_STRING, .values = "NAME", .otherwise = "the job's", \
     .text = "whose tables, over `space` of the job file"}
#define OPTIONS_WHERE OPTION_FROM, OPTION_FROM_RUN, OPTION_COORDINATOR, OPTION_KEYS
#define OPTION_JOB \
    {"job", CONFIG_STRING, .values = "JOB.yaml", .otherwise = "the job that made the tables", \
     .text = "by which values of buckets and shared fields are read"}
#define OPTION_FIELD {"field", CONFIG_STRING, .values = "NAME", .text = "with --value: not a KEY"}
#define OPTION_VALUE \
    {"value", CONFIG_STRING, .values = "TEXT", .text = "of the field, as it stands in the input"}

#define OPTION_SET \
    {"set", CONFIG_LIST, .values = "KEY=VALUE", \
     .text = "change a key of the job file, such as train.batch=8192"}
#define OPTION_WORKERS_JOINED \
    {"workers", CONFIG_INT, 1, LIMIT_WORKERS, .fallback = "1", \
     .text = "begin when N workers have joined"}
#define OPTION_NO_WAIT {"no-wait", CONFIG_BOOL, .text = "return as soon as the job is taken"}
#define OPTION_RESUME \
    {"resume", CONFIG_STRING, .values = "WHERE", \
     .text = "go on at the very batch: from a checkpoint, or the newest of a run's folder; as " \
             "`resume` of the job file"}
#define OPTION_START_FROM \
    {"start-from", CONFIG_STRING, .values = "WHERE", \
     .text = "begin with the tables of a checkpoint, of the one that a run made at its end, or " \
             "(`fleet`) of the servers; as `start_from` of the job file"}
#define OPTION_TENSORBOARD \
    {"tensorboard", CONFIG_STRING, .values = "DIR", \
     .text = "write event files for TensorBoard into DIR/JOB-NUMBER"}
#define OPTION_WORKER \
    {"worker", CONFIG_STRING, .values = "COMMAND", .otherwise = "the worker of Shoal", \
     .text = "each worker: a program with a network of its own, for model.kind: external"}
/* A run on this machine: `shoal local`, and verbs that start such a run. */
#define OPTIONS_LOCAL \
    {"servers", CONFIG_INT, 1, LIMIT_LOCAL_SERVERS, .fallback = "1", .text = "server processes"}, \
    {"shards", CONFIG_INT, 1, LIMIT_LOCAL_SHARDS, .fallback = "1", \
     .text = "of each server, a thread each"}, \
    {"workers", CONFIG_INT, 1, LIMIT_LOCAL_WORKERS, .fallback = "1", .text = "worker processes"}, \
    {"run-dir", CONFIG_STRING, .values = "DIR", .otherwise = "runs/JOB-DATE-TIME", \
     .text = "where everything of this run is kept; must be new or empty"}, \
    OPTION_SET, \
    {"server-set", CONFIG_LIST, .values = "KEY=VALUE", \
     .text = "change a key of each server's file, such as memory=4GiB"}, \
    OPTION_WORKER, \
    {"worker-io-threads", CONFIG_INT, 1, 64, .fallback = "1", \
     .text = "threads that carry a worker's messages"}, \
    OPTION_TENSORBOARD, \
    {"no-restart", CONFIG_BOOL, .text = "do not start a dead server or worker again"}, \
    OPTION_RESUME, \
    OPTION_START_FROM

#define OPTION_IN \
    {"in", CONFIG_LIST, .values = "FILE", .otherwise = "data.test", \
     .text = "what is scored, in the job's format; predict: with or without labels"}
#define OPTION_OUT \
    {"out", CONFIG_STRING, .values = "FILE", .fallback = "-", \
     .text = "where the scores go; must not exist; -: standard output"}
#define OPTION_FORMAT \
    {"format", CONFIG_ENUM, .choices = "csv|tsv|npy", .otherwise = "as --out ends, or csv", \
     .text = "csv, tsv: a line of names first; npy: float32, NaN for a malformed row"}
#define OPTION_COLUMN \
    {"column", CONFIG_LIST, .values = "NAME", \
     .text = "of the input, to be passed on before the score"}
#define OPTION_SERVERS_OF_OWN \
    {"servers", CONFIG_INT, 1, LIMIT_LOCAL_SERVERS, .fallback = "1", \
     .text = "that load a checkpoint"}

#define OPTION_CONFIG(file) \
    {"config", CONFIG_STRING, .values = "FILE", .otherwise = "none", .text = file}
#define OPTION_SET_FILE(example) \
    {"set", CONFIG_LIST, .values = "KEY=VALUE", .text = "over a key of the file: " example}
#define OPTION_INSTANCE(kind) \
    {"instance", CONFIG_STRING, .values = "NAME", \
     .text = "of several on this machine: /etc/shoal/" kind "-NAME.yaml where it is there, " \
             "else /etc/shoal/" kind ".yaml"}
#define OPTION_CHECK \
    {"check", CONFIG_STRING, .values = "FILE", \
     .text = "read an event file through and say what is in it"}
/* --check of a daemon reads its files and starts no service. */
#define OPTION_CHECK_START \
    {"check", CONFIG_BOOL, \
     .text = "read the files, keys and list, say the first fault or ok, and start nothing"}
/* clang-format on */

#endif
