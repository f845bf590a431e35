/* options.c: the options of each command, in the order of its --help. Rules beyond the range of one
 * option are checked where the line is used. */
#include "proto/job/options.h"

#include "proto/job/options_shared.h"

/* ---- a job ----------------------------------------------------------------------------------- */

const struct config_key options_local[] = {
    OPTIONS_LOCAL,
    OPTION_HELP,
    {0},
};

const struct config_key options_replay[] = {
    {"since", CONFIG_STRING, .values = "TIME", .otherwise = "the log's begin",
     .text = "event time: 2026-03-04, 2026-03-04T05 or seconds since 1970"},
    {"until", CONFIG_STRING, .values = "TIME", .otherwise = "the log's end",
     .text = "up to this, not with it"},
    {"window", CONFIG_STRING, .values = "TIME", .otherwise = "the job's, 1h",
     .text = "no batch is of two windows"},
    {"every", CONFIG_STRING, .values = "TIME", .otherwise = "the job's, 1d",
     .text = "event time from one day's end to the next"},
    {"leave-out", CONFIG_LIST, .values = "SPAN",
     .text = "a day, an hour, or FROM..TO that is not trained"},
    {"rewind", CONFIG_STRING, .values = "TIME",
     .text = "from the newest checkpoint of --of in which nothing from then on is learnt"},
    {"of", CONFIG_STRING, .values = "RUN", .text = "folder of the replay that is rewound"},
    OPTIONS_LOCAL,
    OPTION_HELP,
    {0},
};

const struct config_key options_sweep[] = {
    {"set", CONFIG_LIST, .values = "KEY=VALUE[,VALUE...]",
     .text = "of the job file; with several values, which commas part, a variant has each. A comma "
             "within brackets or quotes parts nothing: model.hidden=[64,32],[128]"},
    {"dir", CONFIG_STRING, .values = "DIR", .otherwise = "sweeps/JOB-DATE-TIME",
     .text = "where everything is kept; one that is there is gone on with"},
    {"at-once", CONFIG_INT, 1, 64, .otherwise = "half the cores", .text = "variants that run"},
    {"metric", CONFIG_ENUM, .choices = "auc|logloss|rmse|mae", .fallback = "auc",
     .text = "by which they are ordered"},
    {"servers", CONFIG_INT, 1, LIMIT_LOCAL_SERVERS, .fallback = "1", .text = "of each"},
    {"workers", CONFIG_INT, 1, LIMIT_LOCAL_WORKERS, .fallback = "1", .text = "of each"},
    OPTION_WORKER,
    OPTION_HELP,
    {0},
};

const struct config_key options_submit[] = {
    OPTION_COORDINATOR, OPTION_KEYS,    OPTION_WORKERS_JOINED, OPTION_SET, OPTION_RESUME,
    OPTION_START_FROM,  OPTION_NO_WAIT, OPTION_HELP,           {0},
};

const struct config_key options_cluster_json[] = {
    OPTION_COORDINATOR, OPTION_KEYS, OPTION_JSON, OPTION_HELP, {0}};
const struct config_key options_cluster[] = {OPTION_COORDINATOR, OPTION_KEYS, OPTION_HELP, {0}};

/* ---- scores ---------------------------------------------------------------------------------- */

const struct config_key options_predict[] = {
    OPTIONS_WHERE,
    OPTION_SPACE_OVER,
    OPTION_IN,
    OPTION_OUT,
    OPTION_FORMAT,
    OPTION_COLUMN,
    {"workers", CONFIG_INT, 1, LIMIT_LOCAL_WORKERS, .fallback = "1",
     .text = "that score a part each; the file is the same"},
    OPTION_SERVERS_OF_OWN,
    OPTION_SET,
    OPTION_HELP,
    {0},
};

const struct config_key options_eval[] = {
    OPTIONS_WHERE,
    OPTION_SPACE_OVER,
    OPTION_IN,
    {"split", CONFIG_ENUM, .choices = "train|valid|test", .fallback = "test",
     .text = "what is measured, without --in"},
    OPTION_SERVERS_OF_OWN,
    OPTION_SET,
    OPTION_HELP,
    {0},
};

/* ---- checkpoints ----------------------------------------------------------------------------- */

const struct config_key options_create[] = {
    OPTION_SPACE_OF,
    OPTION_COORDINATOR,
    OPTION_KEYS,
    {"run-dir", CONFIG_STRING, .values = "DIR", .text = "run folder of a running `shoal local`"},
    {"without", CONFIG_STRING, .values = "SERVER[,SERVER]",
     .text = "do without these servers, which are gone for good (replicas: 1): the checkpoint has "
             "the rows of the others alone, and says everywhere what it lacks; it needs a NAME, "
             "and no job goes on from it"},
    OPTION_JSON,
    OPTION_HELP,
    {0},
};

const struct config_key options_remove[] = {OPTION_SPACE_OF, OPTION_COORDINATOR, OPTION_KEYS,
                                            OPTION_RUN_DIR,  OPTION_HELP,        {0}};
const struct config_key options_diff[] = {OPTION_SPACE, OPTION_JSON, OPTION_HELP, {0}};
const struct config_key options_json[] = {OPTION_JSON, OPTION_HELP, {0}};
const struct config_key options_none[] = {OPTION_HELP, {0}};

const struct config_key options_restore[] = {
    OPTION_COORDINATOR, OPTION_KEYS, OPTION_WORKERS_JOINED, OPTION_SET, OPTION_NO_WAIT,
    OPTION_HELP,        {0}};

const struct config_key options_export[] = {
    {"out", CONFIG_STRING, .values = "FOLDER", .text = "the folder that is made; must not exist"},
    {"format", CONFIG_ENUM, .choices = "npy|safetensors|tsv|csv", .fallback = "npy",
     .text = "npy: a file for each array; safetensors: one file, or several of 4 GiB with an "
             "index; tsv, csv: a file for each table, a line of names first"},
    {"onnx", CONFIG_BOOL,
     .text = "the network too, as FOLDER/model.onnx, for services that score without Shoal: its "
             "inputs are the pooled vectors of the fields, and the numbers"},
    {"state", CONFIG_BOOL,
     .text = "the optimizer's state too, and where rows have statistics show, click, time (seconds "
             "since 1970, 0: not told), flags (1: has its vector) and delta_score"},
    {"values", CONFIG_ENUM, .choices = "float32|stored", .fallback = "float32",
     .text = "the weights of tables of 16 bits: as float32, which is exact, or as they are stored, "
             "F16 or BF16 (safetensors; npy has no BF16)"},
    {"since", CONFIG_STRING, .values = "WHERE",
     .text = "only the rows that differ from those of an older checkpoint or ended run, and the "
             "keys that only it has, in an array `erased`; tensors are written whole"},
    {"missing-ok", CONFIG_BOOL,
     .text = "write the rows that are there, where WHERE lacks those of a server: of a checkpoint "
             "made with --without, or a run whose server-* folder is lost"},
    OPTION_SPACE,
    OPTION_HELP,
    {0},
};

/* ---- looking --------------------------------------------------------------------------------- */

const struct config_key options_status[] = {
    {"job", CONFIG_INT, 1, 9e15, .values = "NUMBER",
     .text = "the job with this number (shoal jobs)", .otherwise = "the newest that runs"},
    OPTIONS_WHERE,
    OPTION_JSON,
    OPTION_HELP,
    {0},
};
const struct config_key options_digest[] = {
    OPTION_SPACE, OPTIONS_WHERE, OPTION_JSON, OPTION_HELP, {0}};

const struct config_key options_trace[] = {
    {"every", CONFIG_INT, 0, 1000000000, .values = "N",
     .text = "instead: has workers trace one batch in N of each lane, of all jobs, from now on; 0: "
             "none, as at the coordinator's start"},
    OPTIONS_WHERE,
    OPTION_JSON,
    OPTION_HELP,
    {0},
};

const struct config_key options_top[] = {
    {"batch", CONFIG_BOOL, .letter = 'b',
     .text = "prints, without a screen: for scripts, and where output is no terminal"},
    {"count", CONFIG_INT, 1, 1000000000, .letter = 'n',
     .text = "ends after so many looks, one a second", .otherwise = "1 with --batch, else no end"},
    {"job", CONFIG_INT, 1, 9e15, .values = "NUMBER",
     .text = "the job with this number (shoal jobs)", .otherwise = "the newest that runs"},
    {"sort", CONFIG_ENUM, .choices = "load|name|memory|rows", .fallback = "load",
     .text = "the order of servers and workers; those with a fault come first"},
    OPTIONS_WHERE,
    OPTION_HELP,
    {0}};

const struct config_key options_doctor[] = {
    {"config", CONFIG_STRING, .values = "FILE",
     .text = "the file of a daemon or a job, by its name: server*, coordinator*, worker*, else a "
             "job's; what it asks for is checked against the machine"},
    {"set", CONFIG_LIST, .values = "KEY=VALUE", .text = "over a key of that file"},
    {"bundle", CONFIG_STRING, .values = "FILE.tar.zst",
     .text = "pack findings, logs (journal, those of --run-dir), status, settings without commands "
             "and tokens, the last report and crash reports; .tar.gz without the program zstd"},
    {"cluster", CONFIG_BOOL,
     .text = "instead: the shards of a cluster, what each owns, and who was refused"},
    OPTIONS_WHERE,
    OPTION_JSON,
    OPTION_HELP,
    {0}};

const struct config_key options_tables[] = {
    {"what-if", CONFIG_LIST, .values = "RULE=VALUE",
     .text = "what would be left if rows went, a dry run, nothing changes: shows=N: with fewer "
             "shows; score=S: with a lower score; ttl=DAYS: without an event for longer; "
             "memory=SIZE: all but as many rows as fit SIZE (over all shards): the newest stay, or "
             "those of the highest score where the table's evict.by says so"},
    {"heat", CONFIG_BOOL,
     .text = "instead: the load of each table and shard, and the hottest tablets: seconds of pulls "
             "and pushes, as sums that halve every five minutes; of servers that run"},
    {"sample", CONFIG_STRING, .values = "JOB.yaml",
     .text = "instead: reads the job's training input and tells how many rows it makes, by field, "
             "with admission by count 1, 2, 3, 5 and 10; no cluster is needed"},
    {"share", CONFIG_FLOAT, 0, 1, .values = "P", .fallback = "1",
     .text = "of --sample: share of the input that is read; the whole log is reckoned from it"},
    OPTION_JOB,
    OPTION_SPACE,
    OPTIONS_WHERE,
    OPTION_JSON,
    OPTION_HELP,
    {0},
};

const struct config_key options_inspect[] = {
    OPTION_FIELD,  OPTION_VALUE, OPTION_JOB,  OPTION_SPACE,
    OPTIONS_WHERE, OPTION_JSON,  OPTION_HELP, {0},
};

const struct config_key options_blame[] = {
    {"limit", CONFIG_INT, 1, 65536, .fallback = "20", .text = "at most so many"},
    OPTION_FIELD,
    OPTION_VALUE,
    OPTION_JOB,
    OPTION_SPACE,
    {"from", CONFIG_STRING, .values = "WHERE",
     .text = "where the tables are: the folder of a run of `shoal local`, running or ended (an "
             "ended one does not know workers any more), or `fleet`"},
    OPTION_FROM_RUN,
    OPTION_COORDINATOR,
    OPTION_KEYS,
    OPTION_JSON,
    OPTION_HELP,
    {0},
};

const struct config_key options_rebalance[] = {
    OPTION_COORDINATOR,
    OPTION_KEYS,
    {"dry-run", CONFIG_BOOL, .text = "only say what would move"},
    {"stop", CONFIG_BOOL, .text = "no further tablets move; those that have moved stay there"},
    OPTION_JSON,
    OPTION_HELP,
    {0}};
const struct config_key options_drain[] = {
    OPTION_COORDINATOR, OPTION_KEYS, {"dry-run", CONFIG_BOOL, .text = "only say what would move"},
    OPTION_JSON,        OPTION_HELP, {0}};
const struct config_key options_promote[] = {
    {"accept-loss", CONFIG_BOOL, .text = "do it, and lose what the copy lacks"},
    OPTION_COORDINATOR,
    OPTION_KEYS,
    OPTION_HELP,
    {0}};
const struct config_key options_replace[] = {
    {"from", CONFIG_STRING, .values = "CHECKPOINT",
     .text = "without replicas: its folder; or the folder of a run, whose newest counts"},
    OPTION_COORDINATOR,
    OPTION_KEYS,
    OPTION_HELP,
    {0}};
const struct config_key options_import[] = {
    {"field", CONFIG_STRING, .values = "NAME",
     .text = "the files have values of this field: integers, or a column `value`"},
    {"raw", CONFIG_BOOL,
     .text = "the files have the table's own keys, though no `shoal export` says so"},
    {"ids", CONFIG_STRING, .values = "ARRAY",
     .text = "keys or values: an npy file (integers, one dimension), or an array of the "
             "safetensors file"},
    {"weights", CONFIG_STRING, .values = "ARRAY",
     .text = "as many rows: all weights, or vectors alone; first-order weights then begin at 0"},
    {"state", CONFIG_STRING, .values = "ARRAY", .text = "the optimizer's state of each row",
     .otherwise = "it begins anew"},
    {"keep", CONFIG_BOOL, .text = "a key that has a row keeps it; else it is replaced"},
    {"map", CONFIG_STRING, .values = "FILE",
     .text = "where each row's key and value are written, tab-separated"},
    {"job", CONFIG_STRING, .values = "JOB.yaml",
     .text = "a cluster that lacks the table first gets the tables of this job, without rows "
             "(train.skip); a worker must be there"},
    {"check", CONFIG_BOOL, .text = "read and check everything, and send nothing"},
    OPTION_SPACE,
    OPTION_JSON,
    OPTION_COORDINATOR,
    OPTION_KEYS,
    {"from", CONFIG_STRING, .values = "WHERE",
     .text = "where the table is: the folder of a running `shoal local`, or `fleet`"},
    OPTION_FROM_RUN,
    OPTION_HELP,
    {0},
};

const struct config_key options_erase[] = {
    OPTIONS_KEY_LIST("at most 65,536"),
    {"receipt", CONFIG_STRING, .values = "FILE", .otherwise = "standard output",
     .text = "where the receipt goes, JSON"},
    {"checkpoints", CONFIG_STRING, .values = "DIR",
     .text = "folder of checkpoints: those that still hold any of the keys are listed in the "
             "receipt"},
    OPTION_JOB,
    OPTION_SPACE,
    OPTION_COORDINATOR,
    OPTION_FROM_RUNNING,
    OPTION_FROM_RUN,
    OPTION_HELP,
    {0},
};

const struct config_key options_keys[] = {
    OPTIONS_KEY_LIST("at most 16,777,216"),
    OPTION_JOB,
    OPTION_SPACE,
    OPTION_COORDINATOR,
    OPTION_FROM_RUNNING,
    OPTION_FROM_RUN,
    OPTION_JSON,
    OPTION_HELP,
    {0},
};
const struct config_key options_keys_list[] = {
    OPTION_JOB,         OPTION_SPACE, OPTION_FROM, OPTION_FROM_RUN,
    OPTION_COORDINATOR, OPTION_JSON,  OPTION_HELP, {0},
};

const struct config_key options_verify[] = {
    {"signers", CONFIG_STRING, .values = "FILE", .otherwise = "no signature is asked for",
     .text = "the keys that are good, a line each: one of them must have signed all of it"},
    OPTION_HELP,
    {0},
};

const struct config_key options_sign[] = {
    {"key", CONFIG_STRING, .values = "FILE", .text = "of `shoal keygen FILE --role sign`"},
    OPTION_HELP,
    {0},
};

const struct config_key options_keygen[] = {
    {"coordinator", CONFIG_STRING, .values = "KEY",
     .text =
         "the public key, or the file of it (FILE.pub), of the coordinator that the holder is to "
         "trust; all but the coordinator itself need it. Two with a comma between while the "
         "coordinator's key is changed"},
    {"rotate", CONFIG_BOOL,
     .text = "keep the key in FILE, which is there, and change which keys of the coordinator it "
             "pins to those of --coordinator"},
    {"role", CONFIG_ENUM, .choices = "serve|worker|coord|metrics|admin|sign",
     .otherwise = "no line: the coordinator's own",
     .text = "in the line for the list; sign: a key for `shoal checkpoint sign`"},
    {"name", CONFIG_STRING, .values = "NAME", .otherwise = "FILE's, without its ending",
     .text = "likewise"},
    OPTION_HELP,
    {0},
};

const struct config_key options_report[] = {
    {"html", CONFIG_STRING, .values = "FILE",
     .otherwise = "beside REPORT.json, with .html at the end; of a job by its number, none",
     .text = "where to write the page"},
    OPTION_COORDINATOR,
    OPTION_KEYS,
    {"json", CONFIG_BOOL, .text = "print the report as JSON"},
    OPTION_HELP,
    {0},
};

/* ---- logs and measurements ------------------------------------------------------------------- */

const struct config_key options_convert[] = {
    {"out", CONFIG_STRING, .values = "FILE", .text = "the event file to write"},
    {"split", CONFIG_ENUM, .choices = "train|valid|test", .fallback = "train",
     .text = "whose files are converted"},
    OPTION_CHECK,
    OPTION_SET,
    {"json", CONFIG_BOOL, .text = "one JSON object"},
    OPTION_HELP,
    {0},
};

const struct config_key options_data[] = {
    {"job", CONFIG_STRING, .values = "FILE",
     .text = "write the whole job there; must not exist; -: to standard output, and nothing else"},
    {"label", CONFIG_STRING, .values = "NAME", .otherwise = "by names and values",
     .text = "the column that is the label"},
    {"rows", CONFIG_INT, 0, 9.3e18, .fallback = "200000",
     .text = "rows of each part that are looked at, from the beginning of its files; 0: all"},
    {"json", CONFIG_BOOL, .text = "one JSON object"},
    OPTION_HELP,
    {0},
};

const struct config_key options_synth[] = {
    {"out", CONFIG_STRING, .values = "FILE", .text = "the log to write"},
    {"kind", CONFIG_ENUM, .choices = "criteo|sequence|tasks", .fallback = "criteo",
     .text = "what a line is"},
    {"rows", CONFIG_INT, 1, 9.3e18, .fallback = "1000000", .text = "rows of it"},
    {"seed", CONFIG_INT, 0, 9.3e18, .fallback = "2026",
     .text = "the same seed gives the same files"},
    {"part", CONFIG_INT, 0, 9.3e18, .fallback = "0",
     .text = "other rows of the same teacher (1 is what --valid-out has): a log in several files, "
             "each by a process of its own"},
    {"valid-out", CONFIG_STRING, .values = "FILE",
     .text = "another log of the same teacher, with other rows"},
    {"valid-rows", CONFIG_INT, 1, 9.3e18, .otherwise = "a tenth of --rows", .text = "rows of that"},
    OPTION_HELP,
    {0},
};

const struct config_key options_bench[] = {
    {"rows", CONFIG_INT, 8192, 1e8, .fallback = "10000000", .text = "rows of the table"},
    {"spaces", CONFIG_INT, 1, LIMIT_SPACES, .fallback = "1",
     .text = "of memory and journal: the rows are those of so many spaces, of two tables each, to "
             "which requests go in turn"},
    {"seconds", CONFIG_INT, 1, 3600, .fallback = "3", .text = "length of each in-memory phase"},
    {"journal-seconds", CONFIG_INT, 1, 3600, .fallback = "60",
     .text = "length of the journal phase after 10 s of warm-up"},
    {"only", CONFIG_STRING, .values = "LIST", .fallback = "checkpoint,import,memory,journal,train",
     .text = "parts: checkpoint (recovery after kill -9, restoring a checkpoint), import (rows of "
             "files), memory, journal (pull and push with that durability), train"},
    {"checkpoint-rows", CONFIG_INT, 8192, 1e8, .fallback = "1000000",
     .text = "rows of the table that is recovered and restored"},
    {"import-rows", CONFIG_INT, 8192, 1e8, .fallback = "1000000", .text = "rows of the files"},
    {"train-rows", CONFIG_INT, 1, 1e9, .fallback = "1000000",
     .text = "examples of the log that is trained on"},
    {"dir", CONFIG_STRING, .values = "DIR", .fallback = "shoal-bench",
     .text = "where server and log keep their files; on the disk to be measured"},
    {"json", CONFIG_BOOL,
     .text = "one flat JSON object: pull_w1, pull_w4, push_memory_w4, ... in keys/s, train_deepfm "
             "in examples/s"},
    OPTION_HELP,
    {0},
};

/* ---- programs -------------------------------------------------------------------------------- */

const struct config_key options_shoal[] = {OPTION_HELP, OPTION_VERSION, {0}};

const struct config_key options_server[] = {
    OPTION_CONFIG("server.yaml"),
    OPTION_INSTANCE("server"),
    OPTION_SET_FILE("journal.max=4GiB"),
    OPTION_CHECK_START,
    OPTION_LOG_FORMAT,
    OPTION_HELP,
    OPTION_VERSION,
    {0},
};

const struct config_key options_coordinator[] = {
    OPTION_CONFIG("coordinator.yaml"),
    OPTION_SET_FILE("shards=4"),
    OPTION_CHECK_START,
    OPTION_TENSORBOARD,
    OPTION_LOG_FORMAT,
    OPTION_HELP,
    OPTION_VERSION,
    {0},
};

const struct config_key options_worker[] = {
    {"coordinator", CONFIG_STRING, .values = "EP",
     .otherwise = "SHOAL_COORDINATOR, else " KEYS_COORDINATOR,
     .text = "of shoal-coordinator: tcp://HOST:PORT or ipc://PATH, or several with commas"},
    OPTION_KEYS,
    {"config", CONFIG_STRING, .values = "FILE",
     .text =
         "job file: train, replay take train.lanes and train.backend from it, the job itself comes "
         "from the coordinator; run: the worker's file"},
    {"set", CONFIG_LIST, .values = "KEY=VALUE",
     .text = "over a key of the job on this machine; run: of the worker's file"},
    OPTION_INSTANCE("worker"),
    {"lanes", CONFIG_INT, 1, LIMIT_LANES, .otherwise = "the job file's, or 2",
     .text = "lanes to work on at the same time"},
    {"name", CONFIG_STRING, .values = "NAME", .otherwise = "HOST-PID", .text = "of this worker"},
    {"listen", CONFIG_STRING, .values = "EP",
     .otherwise = "over tcp this machine's address on the way to the coordinator, any port; else a "
                  "socket beside the coordinator's",
     .text = "train, replay: where other workers reach this one, in jobs with train.dense: "
             "allreduce alone; run has it in its file"},
    {"advertise", CONFIG_STRING, .values = "HOST", .otherwise = "the address of --listen",
     .text = "train, replay: what other workers are told in its place"},
    {"backend", CONFIG_ENUM, .choices = "auto|cpu|cuda", .otherwise = "the job file's, or auto",
     .text = "what computes"},
    {"devices", CONFIG_STRING, .values = "N[,N...]", .otherwise = "SHOAL_DEVICE, or 0",
     .text =
         "which GPUs: each N modulo the number of GPUs of this machine; lanes, and the parts of "
         "a network, are dealt over them"},
    {"device", CONFIG_STRING, .values = "N[,N...]", .text = "the same as --devices"},
    {"cores", CONFIG_INT, 1, 65535, .otherwise = "those that this process may run on",
     .text = "cores that parsing may keep busy"},
    {"io-threads", CONFIG_INT, 1, 64, .fallback = "1",
     .text = "threads that carry messages; more for one worker with many lanes on a fast device"},
    {"wait", CONFIG_INT, 1, 86400, .fallback = "30",
     .text = "seconds to wait for the coordinator's first answer"},
    {"split", CONFIG_ENUM, .choices = "train|valid|test", .fallback = "test",
     .text = "eval: what is scored"},
    OPTION_IN,
    OPTION_OUT,
    OPTION_FORMAT,
    OPTION_COLUMN,
    {"part", CONFIG_STRING, .values = "I/N",
     .text = "predict: only the I-th of N parts, from 0; all of them one behind another are the "
             "whole file"},
    {"report", CONFIG_STRING, .values = "FILE",
     .text =
         "predict: JSON: rows, bad_lines and where the first of these is; values: what is read"},
    {"field", CONFIG_STRING, .values = "NAME",
     .text = "fields: a column's name, or a field's number"},
    {"value", CONFIG_STRING, .values = "TEXT",
     .text = "fields: a value of it as it stands in the input"},
    {"made-by", CONFIG_STRING, .values = "FILE",
     .text = "fields: text of the job that made the tables, with the names that they know"},
    {"share", CONFIG_FLOAT, 0, 1, .values = "P", .fallback = "1",
     .text = "count: share of the input"},
    {"check", CONFIG_BOOL,
     .text = "read files and keys, say the first fault or ok, and start nothing; convert: read an "
             "event file through and say what is in it"},
    {"rows", CONFIG_INT, 0, 9.3e18, .fallback = "200000",
     .text = "data: rows of each part that are looked at; 0: all"},
    {"label", CONFIG_STRING, .values = "NAME", .text = "data: the column that is the label"},
    {"job", CONFIG_STRING, .values = "FILE",
     .text = "data: where the whole job is written; -: standard output"},
    {"json", CONFIG_BOOL, .text = "convert, data: one JSON object"},
    {"metrics", CONFIG_STRING, .values = "127.0.0.1:PORT|unix:PATH",
     .text = "train, replay: where /metrics, /healthz and /readyz are served; run has it in its "
             "file"},
    {"insecure-plaintext", CONFIG_BOOL, .text = "talk over tcp without keys"},
    {"allow-commands", CONFIG_BOOL,
     .text = "train: run the commands of a job's input ({cmd: ...}), whoever submitted it"},
    OPTION_LOG_FORMAT,
    OPTION_HELP,
    OPTION_VERSION,
    {0},
};
