/* sm_case.h: tries every pair of states of a machine in a child: moves in its table succeed, all
 * others abort. */
#ifndef TESTS_LIB_SM_CASE_H
#define TESTS_LIB_SM_CASE_H

#include "proto/base/sm.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* True when `act` aborts in a child. */
static inline bool sm_case_aborts(void (*act)(const void *context), const void *context)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        act(context);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGABRT);
    return WIFSIGNALED(status);
}

struct sm_case {
    const struct sm *machine;
    uint32_t from, to;
};

static inline void sm_case_move(const void *context)
{
    const struct sm_case *c = context;
    uint32_t state = c->from;
    sm_move(c->machine, &state, c->to);
    if (state != c->to)
        _exit(1);
}

/* Checks that each state has a name, that those of `last` (bits) are final, and that no move begins
 * or ends at an invalid state. */
static inline void sm_case_check(const struct sm *m, uint32_t last)
{
    for (uint32_t from = 0; from <= m->count; from++) {
        ck_assert(from == m->count || m->name[from] != NULL);
        ck_assert(from == m->count || (m->moves[from] == 0) == ((last & SM_TO(from)) != 0));
        for (uint32_t to = 0; to <= m->count; to++) {
            struct sm_case c = {m, from, to};
            ck_assert_msg(sm_case_aborts(sm_case_move, &c) == !sm_may(m, from, to),
                          "%s: from %u to %u", m->what, from, to);
        }
    }
}

#endif
