/* worker_files.h: folders, files and jobs for the tests of worker's data half. Every failure ends
 * the test. */
#ifndef TESTS_LIB_WORKER_FILES_H
#define TESTS_LIB_WORKER_FILES_H

#include "proto/job/job.h"

/* Makes a new empty folder under $TMPDIR or /tmp; worker_folder_remove deletes it with its
 * contents. The name is static. */
const char *worker_folder_make(void);
void worker_folder_remove(void);
/* Returns FOLDER/name, in one of 16 static buffers. */
const char *worker_path(const char *name);
/* Writes FOLDER/name and returns its path, as worker_path. */
const char *worker_write(const char *name, const void *data, size_t bytes);
const char *worker_text(const char *name, const char *text);
/* Counts the files of FOLDER/name whose names contain `part`. */
int worker_count_files(const char *name, const char *part);
/* Reads the only file of FOLDER/name whose name has this ending, with its bytes. The caller frees
 * it. */
uint8_t *worker_only_file(const char *name, const char *ending, size_t *bytes);
/* Makes a job as job_parse would: format, header, shuffle, cache in FOLDER/cache, one train file.
 * job_free releases it. */
void worker_job(struct job *j, enum data_format format, const char *train);
void worker_job_column(struct job *j, const char *name, enum column_type type);

#endif
