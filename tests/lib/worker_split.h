/* worker_split.h: a job, the dataset of one of its splits, and a batch of it; rows that are known
 * by their numbers. Every failure ends the test. */
#ifndef TESTS_LIB_WORKER_SPLIT_H
#define TESTS_LIB_WORKER_SPLIT_H

#include "proto/job/job.h"
#include "worker/data/dataset.h"

struct split {
    struct job job; /* csv, without input */
    struct dataset *data;
    struct batch batch;
    struct err error;
};
extern struct split split;

/* Around each test; files of the test lie in a folder of its own (worker_files.h). */
void split_setup(void);
void split_teardown(void);
/* Opens a split (enum wire_split) in place of the one before. */
void split_open(uint32_t of);
/* Writes a csv file whose row i is "i % 2,r<i>"; returns its path. */
const char *split_rows(const char *name, uint32_t first, uint32_t rows);
/* The key of such a row. */
uint64_t split_row_key(uint32_t row);
/* Reads a batch at a position. */
void split_read(uint32_t epoch, uint64_t position, uint32_t rows);
/* The key of the first value of an example, in a batch of one field. */
uint64_t split_key(uint32_t example);
/* Reads an epoch in batches and checks that each row comes once; returns the number of rows in
 * their own place. */
uint32_t split_epoch(uint32_t epoch, uint32_t rows, uint32_t batch);

#endif
