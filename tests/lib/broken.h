/* broken.h: breaks invariants on purpose, each in a child process. The invariant's assert must end
 * the child, and the output must name the assert's file and expression. */
#ifndef TESTS_LIB_BROKEN_H
#define TESTS_LIB_BROKEN_H

#include <stddef.h>

struct broken {
    const char *file;       /* path of the assert's file, from the root */
    unsigned number;        /* the invariant's number in the head comment; 0: it has none */
    void (*break_it)(void); /* by changing the room's structs, or with a wrapped function */
    const char *expression; /* beginning of the assert's expression */
};

/* Fails at the first child that does not end so. */
void broken_check(const struct broken *list, size_t count);

#endif
