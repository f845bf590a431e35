/* sweep.h: `shoal sweep`: one job in variants, each a run of `shoal local`, and a table of the
 * results.
 *
 *     line -> sweep_grid: variants -> sweep.c: runs, as many at a time as cores allow
 *          -> sweep_page: table, sweep.json, sweep.html
 *
 * A variant's folder is named by the variant's own keys. So the same line, given again, uses the
 * runs that are done, and a line with further values runs only those. Thread: main only. */
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
    const char *brief;        /* part of name: "dim"; the whole when another key ends so too */
    struct string_list value; /* two values or more, as YAML */
};

struct sweep_variant {
    size_t at[SWEEP_KEYS_MAX]; /* index of the key's value, for each key */
    char name[SWEEP_NAME];     /* its folder's name: "dim=8,lr=0.01" */
    struct string_list set;    /* all keys: common ones, its own, the sweep's additions */
    char *text;                /* owned: the job as its run submits it */
    const char **line; /* owned, lent to child: --set and an item, for each of set; --worker */
    struct child child;
    bool started, ended;
    struct err error;    /* error.code 0: done */
    struct json *report; /* owned; NULL while not done */
};

struct sweep {
    const char *job_path;
    const char *worker;    /* --worker, for each run; NULL: none */
    char dir[LIMIT_PATH];  /* absolute */
    char copy[LIMIT_PATH]; /* the job file, copied to dir: later changes do not reach a run */
    char job[LIMIT_NAME + 1];
    struct string_list fixed; /* KEY=VALUE for every variant */
    struct sweep_key key[SWEEP_KEYS_MAX];
    size_t keys;
    struct sweep_variant *variant; /* owned (count) */
    size_t count;
    const char *metric; /* "auc", "logloss", "rmse" or "mae" */
    const char *split;  /* the split by which variants are compared: "valid", "test" or "train" */
    double seconds;
};

/* ---- sweep_grid.c ---- */

/* Takes keys and variants from --set: an item with a comma outside brackets and quotes has several
 * values. USAGE: no item has, or there are too many. */
int sweep_grid(struct sweep *s, const struct string_list *set, struct err *e);
void sweep_free(struct sweep *s);

/* ---- sweep_page.c ---- */

/* The variants in order, the best first and failed ones last; the caller owns the list. NULL: no
 * memory. */
const struct sweep_variant **sweep_order(const struct sweep *s);
/* True when variants are ordered by a figure of labels that are numbers. */
bool sweep_of_numbers(const struct sweep *s);
/* A figure of the split that variants are compared by; NaN: there is none. */
double sweep_figure(const struct sweep *s, const struct sweep_variant *v, const char *name);
/* Prints a line for each variant. */
void sweep_table(const struct sweep *s, const struct sweep_variant *const *order, FILE *f);
/* Writes dir/sweep.json and dir/sweep.html, each completely or not at all. CANTCREATE, IO,
 * NOMEM. */
int sweep_write(const struct sweep *s, const struct sweep_variant *const *order, struct err *e);

#endif
