/* broken.h: invariants broken on purpose: each in a child process, which the invariant's assert has
 * to end, with the file and the words that it is written with. */
#ifndef TESTS_LIB_BROKEN_H
#define TESTS_LIB_BROKEN_H

#include <stddef.h>

struct broken {
    const char *file;       /* of the assert, from the root */
    unsigned number;        /* of the invariant in its head comment; 0: it has none */
    void (*break_it)(void); /* through the room's insides, or with a function of it wrapped */
    const char *expression; /* what the assert's line begins with */
};

/* Fails for the first that does not end as it should. */
void broken_check(const struct broken *list, size_t count);

#endif
