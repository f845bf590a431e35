/* rig_dir.h: folders of a test's own, and code that runs in a child. */
#ifndef TESTS_LIB_RIG_DIR_H
#define TESTS_LIB_RIG_DIR_H

#include "proto/base/limits.h"

/* A new empty folder under TMPDIR or /tmp; rig_remove_dir deletes it with all in it. */
const char *rig_dir(char *out /* LIMIT_PATH */);
void rig_remove_dir(const char *dir);
/* Runs f in a child that ends without closing anything: what a kill -9 leaves. Fails the test when
 * the child does. */
void rig_in_child(void (*f)(void *context), void *context);

#endif
