/* rig_dir.h: folders for a test, and code that runs in a child. */
#ifndef TESTS_LIB_RIG_DIR_H
#define TESTS_LIB_RIG_DIR_H

#include "proto/base/limits.h"

/* Makes a new empty folder under TMPDIR or /tmp; rig_remove_dir deletes it with its contents. */
const char *rig_dir(char *out /* LIMIT_PATH */);
void rig_remove_dir(const char *dir);
/* Runs f in a child that ends without closing anything, as after a kill -9. Fails the test if the
 * child fails. */
void rig_in_child(void (*f)(void *context), void *context);

#endif
