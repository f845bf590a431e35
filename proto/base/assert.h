/* assert.h: SHOAL_ASSERT checks our own logic and stays on in release builds. Never assert on bytes
 * of a peer, a disk or a log line: those are errors. SHOAL_VERIFY_ASSERT is for costly checks, on
 * with -DSHOAL_VERIFY. */
#ifndef PROTO_BASE_ASSERT_H
#define PROTO_BASE_ASSERT_H

_Noreturn void assert_fail(const char *file, int line, const char *expression);

#define SHOAL_ASSERT(x)                                                                            \
    ((__builtin_expect(!!(x), 1)) ? (void)0 : assert_fail(__FILE__, __LINE__, #x))
#ifdef SHOAL_VERIFY
#define SHOAL_VERIFY_ASSERT(x) SHOAL_ASSERT(x)
#else
#define SHOAL_VERIFY_ASSERT(x) ((void)sizeof(!(x)))
#endif

#endif
