/* version.h: what --version says of a program. */
#ifndef PROTO_BASE_VERSION_H
#define PROTO_BASE_VERSION_H

/* "shoal-server 0.1.0", then a line for the protocol and one for the libraries that were loaded,
 * "libzmq 4.3.4" each; NULL ends them. */
void version_print(const char *program, unsigned protocol, const char *const *library);

#endif
