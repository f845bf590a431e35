/* keys_coordinator.c: every key of coordinator.yaml. */
#include "proto/base/limits.h"
#include "proto/job/keys.h"

const struct config_key keys_coordinator[] = {
    {"listen", CONFIG_STRING, 0, 0, NULL, .fallback = "tcp://127.0.0.1:7000", .values = "endpoint"},
    {"data_dir", CONFIG_STRING, 0, 0, NULL, .fallback = "shoal-coordinator", .values = "folder",
     .text = "`state.log`: what it must not forget"},
    {"report", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none", .values = "file",
     .text = "`report.json` of each job that ends"},
    {"tensorboard", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "none",
     .values = "folder", .text = "or `--tensorboard DIR`: event files of jobs, in DIR/JOB-NUMBER"},
    {"shards", CONFIG_INT, 1, LIMIT_SHARDS, NULL, .fallback = "1",
     .text = "of all servers: a job waits until so many are ready"},
    {"lease", CONFIG_SIZE, 500, 3.6e6, NULL, .unit = "ms", .fallback = "10s",
     .text = "a worker silent for so long loses its lanes"},
    {"resend", CONFIG_SIZE, 10, 60000, NULL, .unit = "ms", .fallback = "500ms",
     .text = "requests to shards are sent again after this"},
    {"keys", CONFIG_STRING, 0, 0, NULL, .fallback = "", .otherwise = "empty", .values = "empty",
     .text = "other values are refused"},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL, .fallback = "0",
     .text = "share of replies lost on purpose, for tests"},
    {"publish", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "whether jobs may run `checkpoint.publish` here: whoever submits a job then runs "
             "commands as this user"},
    {"insecure_plaintext", CONFIG_BOOL, 0, 0, NULL, .fallback = "false",
     .text = "listen on an address that is not loopback: [Security](#security)"},
    {0},
};
