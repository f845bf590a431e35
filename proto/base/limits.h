/* limits.h: every limit in one place. Input from outside is checked against these before it is
 * used. */
#ifndef PROTO_BASE_LIMITS_H
#define PROTO_BASE_LIMITS_H

#include <stdint.h>

#define LIMIT_HEADER_BYTES (64u << 10)  /* protobuf header of a message */
#define LIMIT_FRAME_BYTES (16u << 20)   /* one bulk frame, ZMQ_MAXMSGSIZE */
#define LIMIT_FRAMES 4                  /* header and at most three raw frames */
#define LIMIT_MESSAGE_BYTES (21u << 20) /* all frames: one is a header, one has at most 4 MiB */
#define LIMIT_UNPACK_BYTES (256u << 10) /* memory of protobuf-c for one header */
#define LIMIT_KEYS 65536u               /* keys of one pull or push */
#define LIMIT_WIDTH 4096u               /* floats of one row's weights */
#define LIMIT_TABLES 256u               /* tables of a fleet, all spaces together */
#define LIMIT_SPACES 32u                /* models of a fleet */
#define LIMIT_JOB_TABLES 32u            /* tables of a job file: sparse ones */
#define LIMIT_TABLETS 65536u            /* tablets of one table */
#define LIMIT_FLEET_TABLETS 4194304u    /* tablets of all tables: their map is one frame */
#define LIMIT_SHARDS 1024u
#define LIMIT_COPIES 5u             /* copies of a shard, its leader among them */
#define LIMIT_SHARD_TABLETS_MIN 16u /* tablets of a table on a shard; fewer are refused */
#define LIMIT_LANES 1024u
#define LIMIT_OBJECTS 65536u /* objects of a log */
#define LIMIT_WORKERS 4096u
#define LIMIT_WORKERS_HOLDER                                                                       \
    (LIMIT_WORKERS / 2)        /* workers of one key; without keys, of one user or address */
#define LIMIT_WORKERS_PEER 16u /* on one connection: a process is one worker */
#define LIMIT_LOCAL_SERVERS 16 /* servers of shoal local */
#define LIMIT_LOCAL_SHARDS 16  /* shards of each server */
#define LIMIT_LOCAL_WORKERS 64
#define LIMIT_RUNS 16u /* open at once on a shard */
#define LIMIT_NAME 64u /* bytes of a name, final NUL counted */
#define LIMIT_PATH 1024u
#define LIMIT_FIELDS 512u /* feature fields of an example */
#define LIMIT_NUMERIC 512u
#define LIMIT_DEVICES 16u           /* devices of a worker */
#define LIMIT_MICRO_BATCHES 256u    /* micro-batches of a batch */
#define LIMIT_SITES 16u             /* sites of a model: stages times split */
#define LIMIT_TASKS 8u              /* labels of an example */
#define LIMIT_EXPERTS 640u          /* experts of a job, all levels, whose examples are counted */
#define LIMIT_PASS 64u              /* columns that a prediction passes on */
#define LIMIT_BY 32u                /* fields of evaluate.by */
#define LIMIT_LINE_BYTES (1u << 20) /* one input line */
#define LIMIT_CONFIG_BYTES (1u << 20)
#define LIMIT_BATCH 65536u           /* rows of a lane's batch */
#define LIMIT_WINDOW 64u             /* batches of a window */
#define LIMIT_NEAR_ROWS (1u << 18)   /* rough distance of lanes in a drawn epoch of event files */
#define LIMIT_GRADIENT 1e15f         /* a pushed value beyond this is refused */
#define LIMIT_PEER_QUEUE 256u        /* messages queued to one peer */
#define LIMIT_PEER_BYTES (64u << 20) /* bytes queued to one peer */
#define LIMIT_PEERS 4096u
#define LIMIT_KEYS_LISTED 8192u     /* keys in an allow-list */
#define LIMIT_KEYS_BYTES (1u << 20) /* bytes of the file of an allow-list */
#define LIMIT_WAITING 4096u         /* pulls and held pushes waiting in a shard */
#define LIMIT_HELD 65536u           /* messages that wait for the coordinator's store */
#define LIMIT_HELD_BYTES (256u << 20)

_Static_assert(2ull * LIMIT_FLEET_TABLETS <= LIMIT_FRAME_BYTES / 2,
               "a map of u16 for each tablet is sent as one frame");

#endif
