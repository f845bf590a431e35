/* version.h: the output of --version. */
#ifndef PROTO_BASE_VERSION_H
#define PROTO_BASE_VERSION_H

/* Prints "shoal-server 0.1.0", a line for the protocol and one for each loaded library, as "libzmq
 * 4.3.4"; NULL ends the list. */
void version_print(const char *program, unsigned protocol, const char *const *library);

#endif
