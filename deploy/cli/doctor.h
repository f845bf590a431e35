/* doctor.h: `shoal doctor`: checks of this machine, of the file of a daemon or job, and of a
 * cluster.
 *
 *     doctor_settings_read(file) -> doctor_run: each check of the table -> findings -> text, JSON
 *
 * A check looks at the machine through struct doctor_probe alone, so that a test can plant a fault.
 * Each runs in a process of its own, all at once: one that a disk or a name server keeps waiting is
 * left behind after `patience_ms`, and the report says so.
 * Thread: main only. */
#ifndef DEPLOY_CLI_DOCTOR_H
#define DEPLOY_CLI_DOCTOR_H

#include "deploy/cli/cli.h"
#include "proto/wire/coordinators.h"

/* ---- what is checked ---- */

enum doctor_kind { DOCTOR_MACHINE, DOCTOR_SERVER, DOCTOR_COORDINATOR, DOCTOR_WORKER, DOCTOR_JOB };

struct doctor_settings { /* the settings of a file; empty and 0 where it states nothing */
    enum doctor_kind kind;
    char file[LIMIT_PATH];
    char listen[256], advertise[256];
    char coordinator[COORDINATORS_LIST], store[1024];
    char folder[LIMIT_PATH]; /* data_dir, cache or checkpoint.dir */
    char keys[LIMIT_PATH], allow[LIMIT_PATH], signers[LIMIT_PATH];
    char metrics[256], token[LIMIT_PATH];      /* metrics, metrics_token */
    uint32_t shards;                           /* this server's */
    uint64_t memory, disk, disk_free, journal; /* journal: journal.max and journal.keep */
    bool cuda;                                 /* backend: cuda */
    bool kafka;                                /* the job reads a topic */
};

struct doctor_disk {   /* a measurement */
    double write_mb_s; /* 16 MiB written and synced; less on a slow disk */
    double sync_ms;    /* the median of five synced writes of 4 KiB */
};

/* The doors to the machine. The functions of doctor_probe_host ask the machine itself. */
struct doctor_probe {
    const char *root; /* before /proc, /sys, /dev, /var, /run; "": the machine */
    const char *(*environment)(const char *name);
    const char *(*libraries)(void); /* "libzmq 4.3.4, libuv 1.44.2" */
    /* the OPENBLAS_CORETYPE that fits this processor; NULL: any */
    const char *(*core_type)(void);
    bool (*opens)(const char *library); /* dlopen, or a module of Shoal ("libshoal_cuda.so") */
    int (*resolve)(const char *endpoint, char numeric[256], struct err *e);
    bool (*own)(const char *endpoint); /* false: its address is none of this machine */
    int (*space)(const char *folder, uint64_t *bytes, uint64_t *left); /* -1: errno */
    int (*disk)(const char *folder, struct doctor_disk *out, struct err *e);
    /* by how much the coordinator's calendar is ahead of ours */
    int (*clock)(const char *coordinator, int64_t *ahead_s, struct err *e);
    uint32_t patience_ms; /* for all checks together */
};
extern const struct doctor_probe doctor_probe_host;

/* Reads a file of settings. Its kind is that of its name: server*, coordinator*, worker*, else a
 * job's. CONFIG, NOINPUT. */
int doctor_settings_read(const char *path, const struct string_list *set,
                         struct doctor_settings *out, struct err *e);

/* The whole file that the settings are of. CONFIG, NOINPUT. */
int doctor_settings_load(const struct doctor_settings *s, const struct string_list *set,
                         struct config **out, struct err *e);

/* ---- findings ---- */

enum { DOCTOR_FINDINGS = 96, DOCTOR_TEXT = 2 * ERR_TEXT_MAX };
/* A note has advice, and nothing is wrong. */
enum doctor_rank { DOCTOR_FINE, DOCTOR_NOTE, DOCTOR_PROBLEM };
struct doctor_finding {
    const char *check; /* its name in the table */
    enum doctor_rank rank;
    char text[DOCTOR_TEXT];
};
struct doctor_report {
    struct doctor_finding finding[DOCTOR_FINDINGS];
    uint32_t count, problems, left_out; /* left_out: findings for which there was no room */
    const char *check;                  /* the one that runs */
};

/* A sentence that says what is wrong and what to do. */
void doctor_wrong(struct doctor_report *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_note(struct doctor_report *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_fine(struct doctor_report *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the findings of one report to another. */
void doctor_add(struct doctor_report *to, const struct doctor_report *from);
/* {"problems", "findings": [{"check", "problem", "note", "text"}]} */
struct json *doctor_json(const struct doctor_report *r);
/* For people; UNAVAILABLE when there is a problem. */
void doctor_print(const struct doctor_report *r);
int doctor_end(const struct doctor_report *r, struct err *e);

struct doctor_host {
    const struct doctor_settings *settings;
    const struct doctor_probe *probe;
};
/* NOMEM. */
int doctor_run(const struct doctor_host *h, struct doctor_report *out, struct err *e);

/* ---- the checks, by file ---- */

/* doctor_machine.c */
void doctor_check_libraries(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_limits(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_memory(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_pages(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_blas(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_gpu(const struct doctor_host *h, struct doctor_report *r);
/* doctor_disk.c */
void doctor_check_disk(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_space(const struct doctor_host *h, struct doctor_report *r);
/* doctor_crashes.c */
void doctor_check_crashes(const struct doctor_host *h, struct doctor_report *r);
/* doctor.c: units that fail to start; h is not looked at. */
void doctor_check_units(const struct doctor_host *h, struct doctor_report *r);
/* doctor_ports.c */
void doctor_check_ports(const struct doctor_host *h, struct doctor_report *r);
/* doctor_net.c */
void doctor_check_names(const struct doctor_host *h, struct doctor_report *r);
void doctor_check_clock(const struct doctor_host *h, struct doctor_report *r);
/* doctor_keys.c */
void doctor_check_keys(const struct doctor_host *h, struct doctor_report *r);

/* doctor_crashes.c: calls `visit` for the folder of a daemon (empty: none) and, below the root, for
 * those that units have for their data. */
void doctor_each_folder(const char *root, const char *own,
                        void (*visit)(void *context, const char *folder), void *context);

enum { DOCTOR_PATH = 2 * LIMIT_PATH + 256 };
/* FOLDER/NAME, and a path below the probe's root, cut to DOCTOR_PATH bytes. Both return out. */
const char *doctor_join(char out[DOCTOR_PATH], const char *folder, const char *name);
const char *doctor_below(const struct doctor_host *h, char out[DOCTOR_PATH], const char *path);
/* Opens a plain file of another user's folder for reading. -1: it is none, or a link: root looks
 * there, and a link could name a file that root alone may read. */
int doctor_open(const char *path);
/* The text of a small file below the root, without its last newline; "" where there is none. */
void doctor_text(const struct doctor_host *h, const char *path, char *out, size_t bytes);

/* ---- the rest of the verb ---- */

/* doctor.c: waits for the addresses of the coordinators' names. UNAVAILABLE: a name server does not
 * answer. A name without an address is no error here. */
int doctor_names_wait(const char *coordinator, struct err *e);
/* doctor_cluster.c: --cluster. */
int doctor_cluster(struct option_line *o, struct err *e);
/* By how much two calendars may differ, in seconds, and what to do above it. */
#define DOCTOR_CLOCK_S 3
#define DOCTOR_CLOCK_ADVICE                                                                        \
    "run a time service (chrony) on both; event times and the times in logs would differ"
/* doctor_probe.c: the status of a coordinator, asked for three seconds. */
int doctor_status(const char *coordinator, struct json **out, struct err *e);
/* doctor_bundle.c: packs the findings, logs, status, settings and reports into `path`, which ends
 * in .tar.zst or .tar.gz. settings: of the file that the line names, or of none. */
int doctor_bundle(struct option_line *o, const char *path, const struct doctor_settings *settings,
                  const struct doctor_report *findings, struct err *e);

#endif
