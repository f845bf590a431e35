/* cli.h: what the verbs of `shoal` share: arguments, questions to daemons, and the table of verbs.
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
int cli_doctor(struct option_line *o, struct err *e);
int cli_digest(struct option_line *o, struct err *e);
int cli_inspect(struct option_line *o, struct err *e);
int cli_tables(struct option_line *o, struct err *e);
int cli_blame(struct option_line *o, struct err *e);
int cli_erase(struct option_line *o, struct err *e);
int cli_drop(struct option_line *o, struct err *e);
int cli_predict(struct option_line *o, struct err *e);
int cli_eval(struct option_line *o, struct err *e);
int cli_convert(struct option_line *o, struct err *e);
int cli_synth(struct option_line *o, struct err *e);
int cli_bench(struct option_line *o, struct err *e);
int cli_report(struct option_line *o, struct err *e);
int cli_jobs(struct option_line *o, struct err *e);
int cli_keygen(struct option_line *o, struct err *e);

/* ---- jobs ---- */
struct submit_order {
    const char *path;              /* of the job file */
    const struct string_list *set; /* over its keys */
    const char *coordinator;       /* endpoint */
    struct begin begin;            /* with what it begins */
    int64_t workers;               /* to wait for */
    bool wait;                     /* for the job's end, showing it */
};
int cli_submit_job(const struct submit_order *o, struct err *e);

/* ---- arguments ---- */
/* Runs a verb on its line (argv[0] is the verb) and returns the exit status, which is IO's where
 * standard output cannot be written. command: "shoal checkpoint list". */
int cli_run(const char *command, int (*verb)(struct option_line *o, struct err *e), int argc,
            char **argv);
/* Of a line that has it: its --coordinator, else the socket where one listens that was told nothing
 * else. USAGE: neither. */
int cli_coordinator(const struct option_line *l, const char **out, struct err *e);
/* In the place of the keys that cli_run has read (--keys, SHOAL_KEYS); NULL: none. */
struct keyfile;
void cli_keys_set(const struct keyfile *keys);
/* Whether all verbs talk to it over tcp without keys, and so a worker that one starts may. */
bool cli_plain(const char *endpoint);
/* Of one that does not answer: what else to look at, behind "is it running". */
const char *cli_doubt(const char *endpoint);
/* Prints j, indented. */
void cli_json_print(const struct json *j);

/* ---- questions ---- */
struct ask; /* one connection */
/* key: that of a shard, as the map has it; NULL: of the coordinator, which our own keys pin. */
int cli_ask_open(const char *endpoint, const char *key, struct ask **out, struct err *e);
void cli_ask_close(struct ask *a);
/* For answers that take long: from now on who is asked is taken for gone after so long without a
 * word (UNAVAILABLE), whatever the question. */
void cli_ask_silence(struct ask *a, uint32_t silent_ms);
/* Sends a request (frames: raw frames, lent) and waits for its reply; resends each second.
 * reply_message, when not NULL, gets the message whose frames belong to reply (msg_free). A refusal
 * is an error with the peer's sentence. TIMEOUT after timeout_ms. */
int cli_ask(struct ask *a, struct wire *request, const struct frame *frames, uint32_t timeout_ms,
            struct wire *reply, struct msg **reply_message, struct err *e);

/* The problems of a status, a line each behind `before`; how many. */
size_t cli_problems_print(const struct json *list, const char *before);
/* Units of this machine that fail to start, likewise. */
size_t cli_units_print(const char *before);
/* A status of the coordinator as one line: phase, epoch, examples, speed, loss, time left. */
/* The number at a path of a report; NaN where there is none. */
double cli_number(const struct json *r, const char *path);
/* 1234567 -> "1,234,567"; NaN, of a report that does not say -> "-". */
const char *cli_number_text(double x, char out[32]);
/* The lines that tell of a job's input (`input` of status and report.json), from 0: a head, each
 * field, notes. False: there are no more. */
bool cli_input_line(const struct json *input, size_t line, char *out, size_t bytes);
/* Which job a report is of, when and where it ran. */
void cli_report_job_print(const struct json *report);
/* Values without a row (proto/metric/unseen.h): of a part of a report, as a line of it; of a list,
 * of what was scored, with a note where a field stands out, on standard error. */
void cli_unseen_print(const struct json *of, const char *name);
void cli_unseen_say(const struct json *list, const char *where);
void cli_progress_text(const struct json *status, char out[256]);
/* A day of a replay, of its status or its report, as a line. */
void cli_day_text(const struct json *day, char out[256]);
/* A file's JSON. NOINPUT, DATA (no JSON, or over 32 MiB). */
int cli_json_file(const char *path, struct json **out, struct err *e);
/* Prints a report for people; with a run_dir (else NULL), files, and with `again`, the line that
 * started the run (else NULL), what to try next. */
void cli_report_print(const struct json *report, const char *run_dir, const char *again);
/* A word as a shell takes it: in quotes where it needs them. */
void cli_word_print(FILE *f, const char *word);

#endif
