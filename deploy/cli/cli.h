/* cli.h: shared by the verbs of `shoal`: arguments, questions to daemons, and the table of verbs.
 * Everything here is synchronous. */
#ifndef DEPLOY_CLI_CLI_H
#define DEPLOY_CLI_CLI_H

#include "deploy/cli/begin.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/job/config.h"
#include "proto/job/option.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- verbs: each takes its checked line; 0, an error, or (>0) the exit status of a program that
 * has said why ---- */
int cli_local(struct option_line *o, struct err *e);
int cli_replay(struct option_line *o, struct err *e);
int cli_sweep(struct option_line *o, struct err *e);
int cli_submit(struct option_line *o, struct err *e);
int cli_stop(struct option_line *o, struct err *e);
int cli_status(struct option_line *o, struct err *e);
int cli_top(struct option_line *o, struct err *e);
int cli_trace(struct option_line *o, struct err *e);
int cli_doctor(struct option_line *o, struct err *e);
int cli_digest(struct option_line *o, struct err *e);
int cli_inspect(struct option_line *o, struct err *e);
int cli_tables(struct option_line *o, struct err *e);
int cli_blame(struct option_line *o, struct err *e);
int cli_erase(struct option_line *o, struct err *e);
int cli_keys_allow(struct option_line *o, struct err *e);
int cli_keys_block(struct option_line *o, struct err *e);
int cli_keys_reset(struct option_line *o, struct err *e);
int cli_keys_list(struct option_line *o, struct err *e);
int cli_export(struct option_line *o, struct err *e);
int cli_drop(struct option_line *o, struct err *e);
int cli_import(struct option_line *o, struct err *e);
int cli_promote(struct option_line *o, struct err *e);
int cli_replace(struct option_line *o, struct err *e);
int cli_rebalance(struct option_line *o, struct err *e);
int cli_drain(struct option_line *o, struct err *e);
int cli_add(struct option_line *o, struct err *e);
int cli_predict(struct option_line *o, struct err *e);
int cli_eval(struct option_line *o, struct err *e);
int cli_data(struct option_line *o, struct err *e);
int cli_convert(struct option_line *o, struct err *e);
int cli_synth(struct option_line *o, struct err *e);
int cli_bench(struct option_line *o, struct err *e);
int cli_report(struct option_line *o, struct err *e);
int cli_jobs(struct option_line *o, struct err *e);
int cli_keygen(struct option_line *o, struct err *e);

/* ---- jobs ---- */
struct job;
struct submit_order {
    const char *path;              /* path of the job file */
    const struct string_list *set; /* over its keys */
    const char *coordinator;       /* endpoint */
    struct begin begin;            /* the start of the job */
    int64_t workers;               /* number of workers to wait for */
    bool wait;                     /* follow the job to its end and show progress */
};
int cli_submit_job(const struct submit_order *o, struct err *e);
/* Warns of a job with fewer lanes than workers. */
void cli_lanes_say(const struct job *j, const char *path, int64_t workers);

/* ---- arguments ---- */
/* Runs a verb on its line (argv[0] is the verb) and returns the exit status. If standard output
 * cannot be written, that is the status of IO. command: "shoal checkpoint list". */
int cli_run(const char *command, int (*verb)(struct option_line *o, struct err *e), int argc,
            char **argv);
/* The line's --coordinator, else SHOAL_COORDINATOR, else the default socket of a coordinator on
 * this machine. USAGE: there is none of them. */
int cli_coordinator(const struct option_line *l, const char **out, struct err *e);
/* Replaces the keys that cli_run has read (--keys, SHOAL_KEYS); NULL: no keys. */
struct keyfile;
void cli_keys_set(const struct keyfile *keys);
const struct keyfile *cli_keys(void); /* NULL: none */
/* True for a tcp endpoint when there are no keys. Every verb then talks to it without keys, and so
 * may a worker that a verb starts. */
bool cli_plain(const char *endpoint);
/* For a daemon that does not answer: what else to check, printed after "is it running". */
const char *cli_doubt(const char *endpoint);
/* Prints j, indented. */
void cli_json_print(const struct json *j);

/* ---- questions ---- */
struct ask; /* one connection */
/* key: that of a shard, from the map; NULL: of the coordinator, which the caller's own keys pin.
 * Coordinators may be a list (coordinators.h): the one that leads is asked. */
int cli_ask_open(const char *endpoint, const char *key, struct ask **out, struct err *e);
void cli_ask_close(struct ask *a);
/* For answers that take long: from now on the peer is regarded as gone when it has been silent for
 * silent_ms (UNAVAILABLE), whatever the question. */
void cli_ask_silence(struct ask *a, uint32_t silent_ms);
/* Sends a request (frames: raw frames, borrowed) and waits for its reply; resends each second.
 * reply_message, when not NULL, gets the message whose frames belong to reply (msg_free). A refusal
 * is an error with the peer's sentence. TIMEOUT after timeout_ms. */
int cli_ask(struct ask *a, struct wire *request, const struct frame *frames, uint32_t timeout_ms,
            struct wire *reply, struct msg **reply_message, struct err *e);
/* Asks the coordinator of the line (cli_coordinator) one question, on a connection of its own.
 * silent_ms: as for cli_ask_silence; 0: none. told, when not NULL, gets the JSON of the reply's
 * frame; the caller owns it. An error names the coordinator. */
int cli_coordinator_ask(const struct option_line *l, struct wire *request, uint32_t timeout_ms,
                        uint32_t silent_ms, struct wire *reply, struct json **told, struct err *e);

/* Problem i of a status, and since when it is found. False: there is none of that number. */
bool cli_problem_text(const struct json *status, size_t i, char *out, size_t bytes);
/* copies.c: prints a line on a shard's copies (list: "cluster.copies" of the status); nothing when
 * it has no followers. */
void cli_copies_print(const struct json *list, int64_t shard);
/* Prints a line for copies of one shard that are on one machine. */
void cli_copies_beside_print(const struct json *list);
/* The units of this machine that fail to start, a sentence each; the caller owns the list. */
struct json *cli_units(void);
/* The number at a path of a report; NaN where there is none. */
double cli_number(const struct json *r, const char *path);
/* The same; 0 where there is none. */
double cli_count(const struct json *r, const char *path);
/* 1234567 -> "1,234,567"; NaN, where a report has no figure -> "-". */
const char *cli_number_text(double x, char out[32]);
/* "1.2 GB" */
const char *cli_size_text(double bytes, char out[32]);
/* Goes on with a line of a space of the status: its rows and memory, where several spaces share the
 * memory. Prints nothing else. */
void cli_share_print(const struct json *space);
/* Line `line` (from 0) of the text about a job's input (`input` of status and report.json): a head,
 * each field, notes. False: there are no more lines. */
bool cli_input_line(const struct json *input, size_t line, char *out, size_t bytes);
/* Prints the job of a report, and when and where it ran. */
void cli_report_job_print(const struct json *report);
/* Values without a row (proto/metric/unseen.h). cli_unseen_print prints those of one part of a
 * report, as a line. cli_unseen_say prints on standard error a note on each field that stands out
 * in `list`, after scoring. */
void cli_unseen_print(const struct json *of, const char *name);
void cli_unseen_say(const struct json *list, const char *where);
/* A status of the coordinator as one line: phase, epoch, examples, speed, loss, time left. */
void cli_progress_text(const struct json *status, char out[256]);
/* A day of a replay, from its status or its report, as a line. */
void cli_day_text(const struct json *day, char out[256]);
/* A file's JSON. NOINPUT, DATA (no JSON, or over 32 MiB). */
int cli_json_file(const char *path, struct json **out, struct err *e);
/* Prints a report. run_dir: the run's folder, whose files are named, or NULL. again: the line that
 * started the run, for suggestions what to try next, or NULL. */
void cli_report_print(const struct json *report, const char *run_dir, const char *again);
/* A word as a shell takes it: quoted where necessary. */
void cli_word_print(FILE *f, const char *word);

#endif
