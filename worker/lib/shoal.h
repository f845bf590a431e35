/* shoal.h: libshoal: a fleet's rows, a job's batches and its dense tensors, for programs that are
 * not part of Shoal.
 *
 *     shoal_fleet_open .. shoal_fetch, shoal_assign ..      rows and tensors by name and key
 *     shoal_work_join .. shoal_work_next, shoal_work_done   a worker of a job, with its own network
 *     shoal_read_open .. shoal_read_next                    batches of a job's files, no fleet
 *
 * Errors. Every function that can fail returns SHOAL_OK or one of enum shoal_code, and writes one
 * sentence to *e: what happened, where, and what to do. e may be NULL.
 *
 * Growth. Structs that the caller fills begin with `size`, which the caller sets to sizeof: a later
 * library takes an older program's struct, and treats members that it does not have as 0. Structs
 * that the library fills are read through a pointer that it gives, or have such a `size` too. The
 * others (shoal_error, and shoal_batch_table, .._tensor and .._field, which lie in arrays) never
 * grow.
 *
 * Threads. A handle (shoal_fleet, shoal_work, shoal_read) may be used by one thread at a time;
 * different handles by different threads. shoal_work_next, shoal_work_done and shoal_work_fail of
 * one handle may be called from several threads at a time, each with batches of its own. The
 * library starts threads of its own, blocks all signals in them, and does not survive fork():
 * open handles in the child.
 *
 * Keys. A key is 64 bits: the number of a feature's field in the high 16, a hash of the value below
 * (shoal_fleet_key). Numbers are in the byte order of the machine. */
#ifndef SHOAL_H
#define SHOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHOAL_API __attribute__((visibility("default")))
#else
#define SHOAL_API
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

/* Permanent numbers. */
enum shoal_code {
    SHOAL_OK = 0,
    SHOAL_ERROR_USAGE = 1,       /* an argument is wrong */
    SHOAL_ERROR_DATA = 2,        /* input that cannot be used */
    SHOAL_ERROR_NOT_FOUND = 3,   /* no table, tensor, file or job of that name */
    SHOAL_ERROR_UNREACHABLE = 4, /* the fleet does not answer within the time */
    SHOAL_ERROR_INTERNAL = 5,    /* a fault of the library */
    SHOAL_ERROR_IO = 6,          /* a file cannot be read or written */
    SHOAL_ERROR_DENIED = 7,      /* the key's role may not do this */
    SHOAL_ERROR_CONFIG = 8,      /* a job file or a setting is wrong, or does not fit the fleet */
    SHOAL_ERROR_MEMORY = 9,      /* no memory */
    SHOAL_ERROR_BUSY = 10,       /* a job uses the table, or the disk is full: later it may go */
    SHOAL_ERROR_STOPPED = 11,    /* the handle is being closed, or the worker leaves */
    SHOAL_ERROR_VERSION = 12,    /* fleet and library speak no common protocol */
    SHOAL_ERROR_NOT_FINITE = 13, /* a number is not finite, or larger than a table stores */
    SHOAL_ERROR_NO_INPUT = 14,   /* the job has no input of this kind, as no validation */
    SHOAL_AGAIN = 100,           /* nothing came within the time; not an error */
    SHOAL_END = 101              /* the job is over, or the input is at its end; not an error */
};

#define SHOAL_TEXT_MAX 512

struct shoal_error {
    int code;                  /* enum shoal_code */
    char text[SHOAL_TEXT_MAX]; /* one sentence; empty with SHOAL_OK */
};

/* The name of a code, as "not found"; "unknown code" of any other number. */
SHOAL_API const char *shoal_code_text(int code);
/* The library's version, as "0.3.0". */
SHOAL_API const char *shoal_version(void);

/* ---- a fleet --------------------------------------------------------------------------------- */

typedef struct shoal_fleet shoal_fleet;

struct shoal_fleet_options {
    size_t size;
    const char *coordinator; /* endpoints, as for --coordinator; NULL: $SHOAL_COORDINATOR */
    const char *keys;        /* key file; NULL: as the programs find one */
    const char *space;       /* whose tables; NULL: the only space, or $SHOAL_SPACE */
    uint32_t wait_ms;        /* most time in a call without an answer of the fleet; 0: 30 s */
    bool insecure_plaintext; /* tcp without keys */
};

/* Connects, and reads the tables of the space and their names. NOT_FOUND: there is no such space;
 * USAGE: there are several, and none is named; UNREACHABLE: nothing answers, or no job has made
 * tables yet. */
SHOAL_API int shoal_fleet_open(const struct shoal_fleet_options *options, shoal_fleet **out,
                               struct shoal_error *e);
SHOAL_API void shoal_fleet_close(shoal_fleet *fleet); /* NULL is allowed */

enum shoal_values { SHOAL_FP32 = 0, SHOAL_FP16 = 1, SHOAL_BF16 = 2 };

/* A table of rows by key. */
struct shoal_table {
    size_t size;
    char name[64];
    uint32_t width;      /* floats of a row's weights: `first` and then `dim` */
    uint32_t first, dim; /* first-order weights (0 or 1), and the vector's length */
    uint32_t state;      /* floats of a row's optimizer state */
    uint32_t values;     /* enum shoal_values: the stored form; weights are given as float */
    uint32_t stats;      /* 1: rows have shows and clicks */
    char optimizer[32];  /* "adagrad" */
    float lr;            /* its learning rate */
};

SHOAL_API uint32_t shoal_fleet_tables(const shoal_fleet *fleet);
/* out->size is set by the caller. USAGE: no table of this index. */
SHOAL_API int shoal_fleet_table(const shoal_fleet *fleet, uint32_t index, struct shoal_table *out,
                                struct shoal_error *e);
/* The index of a table. NOT_FOUND lists the names that there are. */
SHOAL_API int shoal_fleet_find(const shoal_fleet *fleet, const char *name, uint32_t *index,
                               struct shoal_error *e);
/* The key of a value of a field, as the readers make it: field by the name of its column. value:
 * `bytes` bytes, as they stand in the input; of a cross "a x b". NOT_FOUND: the table has no such
 * field; DATA: no such value can stand there, as text in a field of ids; CONFIG: the fleet's names
 * do not define the field's keys. */
SHOAL_API int shoal_fleet_key(const shoal_fleet *fleet, uint32_t table, const char *field,
                              const char *value, size_t bytes, uint64_t *key,
                              struct shoal_error *e);

/* Reads rows. keys: (count), in any order, also more than once. weights: (count, width); zeros for
 * a key without a row. state: (count, state), or NULL; found: (count), 1 for a key with a row, or
 * NULL. Arrays are filled in place. Rows are those of one moment of each tablet, not of one of all.
 * DENIED: state needs the role admin. VERSION: a server is too old to give state. */
SHOAL_API int shoal_fetch(shoal_fleet *fleet, uint32_t table, const uint64_t *keys, size_t count,
                          float *weights, float *state, uint8_t *found, struct shoal_error *e);

struct shoal_assigned {
    size_t size;
    uint64_t made, replaced, kept, blocked; /* keys */
};

#define SHOAL_KEEP 1u /* a key that has a row keeps it */

/* Writes rows, each in place of what its key has; the same call again changes nothing more. keys:
 * (count), each once. weights: (count, width); state: (count, state), or NULL: the optimizer begins
 * anew. flags: SHOAL_KEEP. counts may be NULL. DENIED: it needs the role admin. BUSY: a job that
 * trains in the table runs, or has begun in between: then a part was written. NOT_FINITE: nothing
 * or a part was written. After any error, the same call again completes it. */
SHOAL_API int shoal_assign(shoal_fleet *fleet, uint32_t table, const uint64_t *keys, size_t count,
                           const float *weights, const float *state, uint32_t flags,
                           struct shoal_assigned *counts, struct shoal_error *e);

/* A dense tensor of the space's network. */
struct shoal_tensor {
    size_t size;
    char name[96];
    uint32_t rank;
    uint32_t shape[4]; /* (rank) */
    size_t floats;     /* their product */
};

SHOAL_API uint32_t shoal_fleet_tensors(const shoal_fleet *fleet);
SHOAL_API int shoal_fleet_tensor(const shoal_fleet *fleet, uint32_t index, struct shoal_tensor *out,
                                 struct shoal_error *e);
/* Reads, or writes, a tensor by name; values: (floats). A tensor that no batch has trained has its
 * initial values. Writing needs what shoal_assign needs; the tensor's optimizer begins anew.
 * NOT_FOUND: the network has no such tensor; USAGE: it has another number of floats. */
SHOAL_API int shoal_tensor_read(shoal_fleet *fleet, const char *name, float *values, size_t floats,
                                struct shoal_error *e);
SHOAL_API int shoal_tensor_write(shoal_fleet *fleet, const char *name, const float *values,
                                 size_t floats, struct shoal_error *e);

/* ---- batches --------------------------------------------------------------------------------- */

/* The unique keys of a batch in one table. */
struct shoal_batch_table {
    char name[64];
    uint32_t width, first, dim; /* as in shoal_table */
    uint32_t count;             /* unique keys */
    uint32_t base;              /* index of its first key among those of all tables */
    const uint64_t *keys;       /* (count) */
    const float *rows;          /* (count, width): pulled; NULL without a fleet */
    float *gradients;           /* (count, width): the caller's to fill; NULL without a fleet */
};

/* A dense tensor of a batch: model.tensors of the job. */
struct shoal_batch_tensor {
    char name[96];
    uint32_t rank;
    uint32_t shape[4];
    size_t floats;
    const float *values; /* (floats): pulled */
    float *gradients;    /* (floats): the caller's to fill */
};

/* A field of an example: its values are rows of one table. */
struct shoal_batch_field {
    char name[64];
    uint32_t table;   /* index among the batch's tables */
    uint32_t pooling; /* 0: sum, 1: mean, 2: the values stay in order (attention) */
};

enum shoal_batch_kind {
    SHOAL_TRAIN = 0, /* the caller fills gradients and scores */
    SHOAL_SCORE = 1  /* validation or test: scores alone */
};

/* Valid until shoal_work_done or shoal_work_fail takes it, or the next shoal_read_next. All arrays
 * are the library's. Values lie example by example, and within an example field by field: those of
 * example i and field f are index[offset[i * fields + f]] up to index[offset[i * fields + f + 1]].
 */
struct shoal_batch {
    size_t size;
    uint32_t kind; /* enum shoal_batch_kind */
    uint32_t lane;
    uint64_t number; /* of the batch in its lane, from 1 */
    uint32_t epoch;
    uint32_t examples, fields, numerics, tasks;
    uint32_t values;        /* of all examples and fields */
    const uint32_t *index;  /* (values): index of the value's key among those of all tables */
    const uint32_t *offset; /* (examples * fields + 1); NULL: one value a field, always */
    const float *factor;  /* (values): weight of each value in its pooled sum; NULL: see pooling */
    const float *numeric; /* (examples, numerics) */
    const float *label;   /* (examples, tasks); NaN: the example has no such label */
    const float *weight;  /* (examples); NULL: all weigh 1 */
    uint32_t tables, tensors;
    const struct shoal_batch_table *table;   /* (tables) */
    const struct shoal_batch_tensor *tensor; /* (tensors) */
    const struct shoal_batch_field *field;   /* (fields) */
    float *scores; /* (examples, tasks): the caller's to fill: probabilities, or numbers */
};

/* ---- a worker of a job ----------------------------------------------------------------------- */

/* A worker whose network is the caller's: the job has model.kind: external. The library reads the
 * input, pulls rows, looks ahead, pushes gradients and renews leases, as shoal-worker does, and
 * with the same code. A batch counts once: when the worker dies, its lanes' next batches go to
 * other workers, and none is lost or learnt twice. */
typedef struct shoal_work shoal_work;

struct shoal_work_options {
    size_t size;
    const char *coordinator; /* as in shoal_fleet_options */
    const char *keys;
    const char *name;       /* of the worker; NULL: host and process number */
    uint32_t lanes;         /* batches that may be out at a time (1024); 0: 1 */
    uint32_t cores;         /* threads that read and divide batches (4096); 0: the machine's */
    const char *const *set; /* (set_count): "data.train=..": keys of the job on this machine */
    size_t set_count;
    uint32_t wait_ms; /* for the coordinator's first answer; 0: 30 s */
    bool commands;    /* the job may run commands here (data.train: {cmd: ..}) */
    bool insecure_plaintext;
    /* Called on the caller's thread, several times a second, while shoal_work_join waits; false:
     * it gives up with STOPPED. NULL: it waits on */
    bool (*goes_on)(void *context);
    void *context; /* the argument of goes_on */
};

/* Joins the newest job that waits for workers, and returns when its input is read and its rows can
 * be pulled, or with the error. There may be no job yet: it waits for one, without a limit. */
SHOAL_API int shoal_work_join(const struct shoal_work_options *options, shoal_work **out,
                              struct shoal_error *e);
/* The text of the job, as submitted; valid until shoal_work_close. */
SHOAL_API const char *shoal_work_job(const shoal_work *work);
/* Waits for a batch whose rows are there. END: the job is over. AGAIN: none came within wait_ms
 * (UINT32_MAX: no limit). STOPPED: the worker is being closed, or the coordinator has given it
 * another job, as after it was away for longer than its lease: a handle is of one job. Batches of
 * one lane come in their order, one at a time.
 *
 * A batch stays the caller's for as long as it takes; the lane's lease is renewed meanwhile. So a
 * caller that never gives a batch back holds its lane, and the job does not end before the worker
 * leaves (shoal_work_close) or dies. */
SHOAL_API int shoal_work_next(shoal_work *work, uint32_t wait_ms, struct shoal_batch **out,
                              struct shoal_error *e);
/* Gives a batch back: its scores are filled, and for SHOAL_TRAIN the gradients of its mean loss,
 * which the library pushes; the servers apply the tables' optimizers. The batch is acknowledged
 * when every shard has its part (shoal_work_progress). OK also if the lane was lost while the batch
 * was out (the coordinator took the worker for dead, or the job was stopped): its gradients are
 * dropped then, because another worker has the batch or will get it. NOT_FINITE: a score or
 * gradient is not finite: the batch is pushed without gradients, or, where it was only to be
 * scored, the job ends. USAGE: the batch is not out. */
SHOAL_API int shoal_work_done(shoal_work *work, struct shoal_batch *batch, struct shoal_error *e);
/* Gives a batch back undone: the lane goes back to the coordinator, and another worker, or this
 * one, gets the batch again. */
SHOAL_API int shoal_work_fail(shoal_work *work, struct shoal_batch *batch, const char *reason,
                              struct shoal_error *e);

struct shoal_progress {
    size_t size;
    uint64_t batches, examples; /* given back for training */
    uint64_t acknowledged;      /* of these batches: on every shard */
    uint64_t keys_pulled, keys_pushed;
};
SHOAL_API void shoal_work_progress(shoal_work *work, struct shoal_progress *out);
/* Wakes the threads that are inside shoal_work_next, .._done or .._fail and waits until they have
 * left, gives the lanes back, waits for what is in flight, and frees the handle with all its
 * batches. Batches that are out count as given back undone; no thread may use them or the handle
 * any more. NULL is allowed. */
SHOAL_API void shoal_work_close(shoal_work *work);

/* ---- reading without a fleet ----------------------------------------------------------------- */

typedef struct shoal_read shoal_read;

struct shoal_read_options {
    size_t size;
    const char *job;        /* path of a job file */
    const char *const *set; /* (set_count): as --set of the programs */
    size_t set_count;
    const char *split; /* "train", "valid" or "test"; NULL: train */
    uint32_t epoch;    /* from 1 on training data is in the drawn order of that epoch */
    bool commands;
};

/* Opens the input of a job as its workers read it. NO_INPUT: the job names none for the split;
 * NOT_FOUND: a file is missing; DENIED: the input is a command, and options.commands is not set. */
SHOAL_API int shoal_read_open(const struct shoal_read_options *options, shoal_read **out,
                              struct shoal_error *e);
/* The next train.batch rows. END: there are none. */
SHOAL_API int shoal_read_next(shoal_read *read, struct shoal_batch **out, struct shoal_error *e);
SHOAL_API void shoal_read_close(shoal_read *read); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
