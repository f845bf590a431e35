/* export_file.h: a file of an export, written from its begin to its end through a buffer. Its first
 * bytes may be a head that is known only at the end. A write that fails is noted, later ones do
 * nothing, and the next check says why. */
#ifndef DEPLOY_CLI_EXPORT_FILE_H
#define DEPLOY_CLI_EXPORT_FILE_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct export_file;

/* Makes FOLDER/NAME, which must not exist. head: bytes that are left free at its begin, at most
 * 4 KiB. NOMEM, CANTCREATE. */
int export_file_open(const char *folder, const char *name, size_t head, struct export_file **out,
                     struct err *e);
void export_file_add(struct export_file *f, const void *data, size_t bytes);
/* Appends the whole of another file of the folder, and removes that one. */
void export_file_join(struct export_file *f, const char *folder, const char *name);
/* The first failure. CANTCREATE: the disk is full; IO. */
int export_file_check(const struct export_file *f, struct err *e);
/* Writes what is left, and the head at its place (NULL: there is none), syncs and closes the file,
 * and frees it. Returns what export_file_check would. f NULL: nothing. */
int export_file_end(struct export_file *f, const void *head, struct err *e);
/* Closes it as it is. */
void export_file_free(struct export_file *f);

#endif
