/* sweep.h: `shoal sweep`: one job in variants, each a run of `shoal local`, and what came out.
 *
 *     line -> sweep_grid: variants -> sweep.c: runs, as many at a time as cores allow
 *          -> sweep_page: table, sweep.json, sweep.html
 *
 * A variant's folder is named by what is its own, so that the same line again takes what is
 * done, and one with further values runs only those. Thread: main only. */
#ifndef DEPLOY_CLI_SWEEP_H
#define DEPLOY_CLI_SWEEP_H

#include "deploy/cli/child.h"
#include "proto/base/json.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SWEEP_KEYS_MAX = 8, SWEEP_VARIANTS_MAX = 256, SWEEP_NAME = 160 };

struct sweep_key {
    char *name;               /* owned: "tables[0].dim" */
    const char *brief;        /* of name: "dim"; the whole where another key ends so too */
    struct string_list value; /* two or more, as YAML */
};

struct sweep_variant {
    size_t at[SWEEP_KEYS_MAX]; /* by key: which of its values */
    char name[SWEEP_NAME];     /* of its folder: "dim=8,lr=0.01" */
    struct string_list set;    /* all of it: keys of every variant, its own, what the sweep adds */
    char *text;                /* owned: the job as its run submits it */
    const char **line;         /* owned, lent to child: --set and each of set */
    struct child child;
    bool started, ended;
    struct err error;    /* error.code 0: it is done */
    struct json *report; /* owned; NULL while not done */
};

struct sweep {
    const char *job_path;
    char dir[LIMIT_PATH]; /* absolute */
    char copy
        [LIMIT_PATH]; /* of the job file, in dir: what runs read, whatever becomes of the file */
    char job[LIMIT_NAME + 1];
    struct string_list fixed; /* KEY=VALUE of every variant */
    struct sweep_key key[SWEEP_KEYS_MAX];
    size_t keys;
    struct sweep_variant *variant; /* owned (count) */
    size_t count;
    const char *metric; /* "auc" or "logloss" */
    const char *split;  /* that variants are compared on: "valid", "test" or "train" */
    double seconds;
};

/* ---- sweep_grid.c ---- */

/* Keys and variants of --set: an item with a comma outside of brackets and quotes is several
 * values. USAGE: none is, or too many. */
int sweep_grid(struct sweep *s, const struct string_list *set, struct err *e);
void sweep_free(struct sweep *s);

/* ---- sweep_page.c ---- */

/* Variants in order: the best first, what failed last; owned by the caller. NULL: no memory. */
const struct sweep_variant **sweep_order(const struct sweep *s);
/* A figure of the split that counts; NaN: there is none. */
double sweep_figure(const struct sweep *s, const struct sweep_variant *v, const char *name);
/* A line for each variant. */
void sweep_table(const struct sweep *s, const struct sweep_variant *const *order, FILE *f);
/* dir/sweep.json and dir/sweep.html, whole or not at all. CANTCREATE, IO, NOMEM. */
int sweep_write(const struct sweep *s, const struct sweep_variant *const *order, struct err *e);

#endif
