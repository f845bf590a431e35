/* module.h: parts of a program in files of their own, which are opened when they are wanted. */
#ifndef PROTO_BASE_MODULE_H
#define PROTO_BASE_MODULE_H

#include "proto/base/err.h"

/* Opens a shared object: beside the running program, in ../lib/shoal from there, or in
 * SHOAL_MODULE_DIR. Returns dlopen's handle; NULL, with UNAVAILABLE in e: it is in none of them, or
 * does not load. */
void *module_open(const char *file, struct err *e);

#endif
