/* keys_daemon.c: every key of server.yaml, coordinator.yaml and worker.yaml. */
#include "proto/job/keys.h"

#include "proto/base/limits.h"

#define KEYS_OTHERWISE "`$CREDENTIALS_DIRECTORY/shoal.key`, if there is one"

#define KEYS_LOG                                                                                   \
    {                                                                                              \
        "log", CONFIG_STRING, 0, 0, NULL, .otherwise = "`SHOAL_LOG`, else `info`",                 \
                                          .values = "`LEVEL,ROOM=LEVEL`",                          \
                                          .text = "what is said; counts at once after a reload: "  \
                                                  "[What is logged](#what-is-logged)"              \
    }

#define KEYS_METRICS                                                                               \
    {                                                                                              \
        "metrics", CONFIG_STRING, 0, 0, NULL,                                                      \
            .fallback = "", .otherwise = "none", .values = "`HOST:PORT`, `unix:/PATH`",            \
            .text = "where `/metrics`, `/healthz` and `/readyz` are served over HTTP: "            \
                    "[Metrics](metrics.md)"                                                        \
    }
#define KEYS_METRICS_TOKEN                                                                         \
    {                                                                                              \
        "metrics_token", CONFIG_STRING, 0, 0, NULL,                                                \
            .fallback = "", .otherwise = "none", .values = "file",                                 \
            .text = "the bearer token of `/metrics`, required where other machines reach it: "     \
                    "[Metrics](metrics.md)"                                                        \
    }

#define KEYS_DAEMON KEYS_LOG, KEYS_METRICS, KEYS_METRICS_TOKEN /* keys of every daemon */

const struct config_key keys_server[] = {
    {"name", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "of a unit HOST-INSTANCE, else drawn once; kept in `data_dir/name`",
     .values = "name", .text = "what the coordinator knows the server by"},
    {"listen", CONFIG_STRING, 0, 0, NULL, .fallback = "ipc:///run/shoal/server/socket",
     .otherwise = "`ipc://$RUNTIME_DIRECTORY/socket` of a unit",
     .values = "`tcp://HOST:PORT`, `ipc://PATH`",
     .text = "shard i listens on PORT + i (`*`: any port), or PATH-i"},
    {"advertise", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "the address of `listen`; of `0.0.0.0` and `[::]` the one by which the "
                  "coordinator is reached",
     .values = "host", .text = "what workers are told"},
    {"data_dir", CONFIG_STRING, 0, 0, NULL, .fallback = "shoal-data",
     .otherwise = "a unit's `$STATE_DIRECTORY`, else `shoal-data`", .values = "folder",
     .text = "journal, rows, cuts; locked while the server runs"},
    {"shards", CONFIG_INT, 1, 256, NULL, .fallback = "1",
     .text = "a thread each; fixed once `data_dir` is in use"},
    {"memory", CONFIG_SIZE, 0, 0, NULL, .fallback = "0", .otherwise = "70 % of what is allowed",
     .text = "of all shards: [Memory](#memory)"},
    {"disk", CONFIG_SIZE, 0, 0, NULL, .fallback = "0", .otherwise = "no bound",
     .text = "of all shards: [Disk](#disk)"},
    {"disk_free", CONFIG_SIZE, 0, 0, NULL, .fallback = "0",
     .otherwise = "min(5 %, 8 GiB) of the file system",
     .text = "below it pushes are refused; below half of it the row store is not written at all"},
    {"journal.max", CONFIG_SIZE, 0, 0, NULL, .fallback = "0",
     .otherwise = "max(1 GiB, bytes of the rows)",
     .text = "of all shards; a larger one writes less and recovers slower"},
    {"journal.keep", CONFIG_SIZE, 0, 0, NULL, .fallback = "0",
     .text = "of all shards: trimmed journal kept in `archive/` for `shoal blame`, oldest dropped "
             "first; counts against `disk`"},
    {"journal.segment", CONFIG_SIZE, 65536, 1073741824, NULL, .fallback = "0",
     .otherwise = "64 MiB", .text = "one file of it", .unit = "bytes"},
    {"coordinator", CONFIG_STRING, 0, 0, NULL, .fallback = KEYS_COORDINATOR, .values = "endpoint",
     .text = "or those of all coordinators that stand by for each other, at most 5, with commas: "
             "`tcp://a:7100,tcp://b:7100`"},
    {"zone", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none", .values = "name",
     .text = "of the rack or room: copies of a shard go to different ones where there are any"},
    {"keys", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = KEYS_OTHERWISE,
     .values = "file", .text = "this server's, of `shoal keygen`: [Security](#security)"},
    {"allow", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "the coordinator's",
     .values = "file", .text = "who may come; of a server without a coordinator alone"},
    {"durability", CONFIG_ENUM, 0, 0, "memory|journal|fsync", .fallback = "journal",
     .text = "what an acknowledged push survives"},
    {"checkpoint_root", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "anywhere",
     .values = "folder, from `/` on",
     .text = "below it alone checkpoints are written and loaded: [Security](#security)"},
    {"checkpoint_signers", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "any checkpoint",
     .values = "file",
     .text = "a list of keys: a checkpoint that none of them has signed is not loaded: "
             "[Security](#security)"},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL, .fallback = "0",
     .text = "share of replies lost on purpose, for tests"},
    {"net.io_threads", CONFIG_INT, 1, 64, NULL, .fallback = "1", .text = "ZeroMQ's"},
    {"net.copy_rate", CONFIG_SIZE, 0, 0, NULL, .fallback = "0", .otherwise = "no bound",
     .text =
         "bytes a second, of all shards, that a copy of a shard that begins anew takes from its "
         "leader: [Replicas](#replicas)"},
    {"insecure_plaintext", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "listen on tcp without keys: [Security](#security)"},
    KEYS_DAEMON,
    {0},
};

const struct config_key keys_coordinator[] = {
    {"listen", CONFIG_STRING, 0, 0, NULL, .fallback = KEYS_COORDINATOR,
     .otherwise = "`ipc://$RUNTIME_DIRECTORY/socket` of a unit", .values = "endpoint"},
    {"advertise", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "the address of `listen`; of `0.0.0.0` and `[::]` this machine's name",
     .values = "host",
     .text = "with `store`: what a coordinator that stands by tells of the one that leads"},
    {"store", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "the folder `data_dir/store`",
     .values = "`zookeeper://HOST:PORT,HOST:PORT/PATH`",
     .text = "one store for several coordinators, of which one leads: [Coordinators that stand "
             "by](#coordinators-that-stand-by)"},
    {"data_dir", CONFIG_STRING, 0, 0, NULL, .fallback = "shoal-coordinator",
     .otherwise = "a unit's `$STATE_DIRECTORY`, else `shoal-coordinator`", .values = "folder",
     .text = "the folder `store`: what it must not forget"},
    {"report", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none", .values = "file",
     .text = "`report.json` of each job that ends"},
    {"tensorboard", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none",
     .values = "folder", .text = "or `--tensorboard DIR`: event files of jobs, in DIR/JOB-NUMBER"},
    {"shards", CONFIG_INT, 1, LIMIT_SHARDS, NULL, .fallback = "1",
     .text = "of all servers when the cluster is founded; later see `shoal add` and `shoal drain`: "
             "[Moving tablets](#moving-tablets)"},
    {"replicas", CONFIG_INT, 1, LIMIT_COPIES, NULL, .fallback = "1",
     .text = "copies of each shard, on different servers: the servers have `shards` x `replicas` "
             "shards together: [Replicas](#replicas)"},
    {"min_in_sync", CONFIG_INT, 1, LIMIT_COPIES, NULL, .fallback = "1",
     .text = "with fewer copies in sync the pushes of a shard wait; at most `replicas`"},
    {"shard_lease", CONFIG_SIZE, 500, 3.6e6, NULL, .unit = "ms", .fallback = "6s",
     .text = "with `replicas` a leader that was not answered for so long stops, and a copy in sync "
             "takes over"},
    {"replace_after", CONFIG_SIZE, 0, 1e9, NULL, .unit = "ms", .fallback = "0",
     .otherwise = "by order alone",
     .text = "with `replicas` a server that was silent for so long is replaced, as by `shoal "
             "replace`, while the leaders of its shards are there"},
    {"jobs", CONFIG_INT, 1, 8, NULL, .fallback = "4",
     .text = "that run at the same time, each in another space; further ones wait for their turn: "
             "[Several models](#several-models)"},
    {"lease", CONFIG_SIZE, 500, 3.6e6, NULL, .unit = "ms", .fallback = "10s",
     .text = "a worker silent for so long loses its lanes"},
    {"resend", CONFIG_SIZE, 10, 60000, NULL, .unit = "ms", .fallback = "500ms",
     .text = "requests to shards are sent again after this"},
    {"keys", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = KEYS_OTHERWISE,
     .values = "file", .text = "the coordinator's, of `shoal keygen`: [Security](#security)"},
    {"allow", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none", .values = "file",
     .text = "who may come, and as what; read again when it changes, and at SIGHUP"},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL, .fallback = "0",
     .text = "share of replies lost on purpose, for tests"},
    {"checkpoint_root", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "anywhere",
     .values = "folder, from `/` on",
     .text =
         "`checkpoint.dir`, `resume` and `start_from` of jobs lie below it: [Security](#security)"},
    {"checkpoint_signers", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "any checkpoint",
     .values = "file",
     .text = "a list of keys: of a checkpoint that none of them has signed no job begins: "
             "[Security](#security)"},
    {"memory.{}", CONFIG_FLOAT, 0.001, 1000, NULL, .otherwise = "1",
     .text = "by space: its weight in the memory of the servers, once several spaces hold tables; "
             "read again at SIGHUP: [Shares of the memory](#shares-of-the-memory)"},
    {"publish", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "whether jobs may run `checkpoint.publish` here: whoever submits a job then runs "
             "commands as this user"},
    {"insecure_plaintext", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "listen on tcp without keys: [Security](#security)"},
    KEYS_DAEMON,
    {0},
};

const struct config_key keys_worker[] = {
    {"coordinator", CONFIG_STRING, 0, 0, NULL, .fallback = KEYS_COORDINATOR, .values = "endpoint",
     .text = "or those of all coordinators that stand by for each other, at most 5, with commas: "
             "`tcp://a:7100,tcp://b:7100`"},
    {"keys", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = KEYS_OTHERWISE,
     .values = "file", .text = "this worker's, of `shoal keygen`: [Security](#security)"},
    {"listen", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise =
         "with a coordinator on tcp this machine's address on the way to it, any port; else "
         "`ipc://$RUNTIME_DIRECTORY/socket` of a unit, or a socket beside the "
         "coordinator's",
     .values = "`tcp://HOST:PORT`, `ipc://PATH`",
     .text = "where other workers reach this one, in jobs with `train.dense: allreduce` alone: "
             "[Workers that listen](#workers-that-listen)"},
    {"advertise", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "the address of `listen`; of `0.0.0.0` and `[::]` the one by which the "
                  "coordinator is reached",
     .values = "host", .text = "what other workers are told"},
    {"name", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "of a unit HOST-INSTANCE, else HOST-PID", .values = "name",
     .text = "what the coordinator calls the worker"},
    {"lanes", CONFIG_INT, 1, LIMIT_LANES, NULL, .fallback = "2",
     .text = "how many it works on, a computing thread each"},
    {"cores", CONFIG_INT, 0, 1024, NULL, .fallback = "0", .otherwise = "as many as the CPUs",
     .text = "batches that it parses at a time"},
    {"backend", CONFIG_ENUM, 0, 0, "auto|cpu|cuda", .fallback = "auto"},
    {"devices", CONFIG_LIST, 0, 0, NULL, .otherwise = "`device`, else `SHOAL_DEVICE`, else 0",
     .values = "up to 16 numbers",
     .text = "its GPUs, counted round: lanes, and the parts of a network, are dealt over them"},
    {"device", CONFIG_INT, 0, 65535, NULL, .otherwise = "none",
     .text = "one GPU, in the place of `devices`; a file has one of the two keys"},
    {"io_threads", CONFIG_INT, 1, 64, NULL, .fallback = "1", .text = "ZeroMQ's"},
    {"cache", CONFIG_STRING, 0, 0, NULL, .fallback = "",
     .otherwise = "a unit's `$CACHE_DIRECTORY/data`, else that of the job", .values = "folder",
     .text = "`data.cache` of every job: what was decoded"},
    {"set", CONFIG_LIST, 0, 0, NULL, .values = "`KEY=VALUE`",
     .text = "over keys of every job: where the input lies on this machine"},
    {"allow_commands", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "whether jobs may run `{cmd: ...}` here: whoever submits one then runs commands as "
             "this user"},
    {"insecure_plaintext", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "reach a coordinator over tcp, and listen there, without keys: "
             "[Security](#security)"},
    KEYS_DAEMON,
    {0},
};
