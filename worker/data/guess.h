/* guess.h: meanings of the usual names of columns and files. Pure functions; any thread. */
#ifndef WORKER_DATA_GUESS_H
#define WORKER_DATA_GUESS_H

#include <stdbool.h>
#include <stdint.h>

enum guess_role { GUESS_TRAIN, GUESS_VALID, GUESS_TEST, GUESS_ROLES, GUESS_NO_ROLE = GUESS_ROLES };

/* How usual a name is for a label: from 1, the most usual; 0: it is not. */
uint32_t guess_label(const char *name);
/* True for names of labels that are a grade: rating, stars. */
bool guess_grade(const char *name);
/* True for names of a number that a job may predict: watch_time, price. */
bool guess_amount(const char *name);
/* True for names of a time, a quantity, an identity, a user, a weight, a propensity. */
bool guess_time(const char *name);
bool guess_quantity(const char *name);
bool guess_identity(const char *name);
bool guess_user(const char *name);
bool guess_weight(const char *name);
bool guess_propensity(const char *name);
/* True when any of these knows the name, which has `bytes` bytes. */
bool guess_is_name(const char *name, uint32_t bytes);

/* The part of a job that a file's name tells: train.csv, ratings.valid.tsv.gz, test-00001.csv. */
enum guess_role guess_role(const char *path);
/* True when the file's name has this ending, before those of packers: "a.SVM.gz" ends with svm. */
bool guess_ends(const char *path, const char *ending);

#endif
