/* err.h: the list of all errors, each with text, wire value and exit status.
 *
 * Functions return 0 or a negative SHOAL_E* value; results leave by out-pointer, last. Where a
 * person will read the failure, the last argument is a `struct err`. It holds one sentence that
 * says what happened, where (file and line, key, peer, field) and what to do. A NULL `struct err *`
 * is allowed. */
#ifndef PROTO_BASE_ERR_H
#define PROTO_BASE_ERR_H

/* X(NAME, value on the wire, exit status, text). Wire values are permanent: add at the end, never
 * renumber. */
#define SHOAL_ERR_MAP(X)                                                                           \
    X(USAGE, 1, 64, "wrong usage")                                                                 \
    X(DATA, 2, 65, "bad data")                                                                     \
    X(NOINPUT, 3, 66, "input missing")                                                             \
    X(UNAVAILABLE, 4, 69, "service unreachable")                                                   \
    X(INTERNAL, 5, 70, "internal error")                                                           \
    X(CANTCREATE, 6, 73, "cannot create output")                                                   \
    X(IO, 7, 74, "I/O error")                                                                      \
    X(DENIED, 8, 77, "not allowed")                                                                \
    X(CONFIG, 9, 78, "bad configuration")                                                          \
    X(NOMEM, 10, 70, "out of memory")                                                              \
    X(AGAIN, 11, 69, "try again later")                                                            \
    X(TIMEOUT, 12, 69, "timed out")                                                                \
    X(BUSY, 13, 69, "too much work queued")                                                        \
    X(NO_SPACE, 14, 69, "disk nearly full")                                                        \
    X(MALFORMED, 15, 70, "malformed message")                                                      \
    X(TOO_BIG, 16, 70, "message over a limit")                                                     \
    X(VERSION, 17, 69, "protocol version not spoken here")                                         \
    X(OLD_RUN, 18, 70, "push or pull of another run")                                              \
    X(FENCED, 19, 70, "lane has a newer generation")                                               \
    X(GAP, 20, 70, "an earlier batch of the lane is missing here")                                 \
    X(NOT_LEADER, 21, 70, "tablet is led by another shard")                                        \
    X(NO_TABLE, 22, 70, "no such table")                                                           \
    X(SCHEMA, 23, 70, "table exists with another schema")                                          \
    X(NOT_FINITE, 24, 65, "gradient not finite, beyond 1e15 or norm_max")                          \
    X(CHECKSUM, 25, 74, "checksum does not match")                                                 \
    X(CORRUPT, 26, 74, "stored data is damaged")                                                   \
    X(EXISTS, 27, 73, "exists already")                                                            \
    X(NOT_FOUND, 28, 66, "not found")                                                              \
    X(STOPPED, 29, 69, "stopped")                                                                  \
    X(END, 30, 0, "end of data")

enum shoal_status {
#define X(name, wire, status, text) SHOAL_E_##name = -(wire),
    SHOAL_ERR_MAP(X)
#undef X
};

#define ERR_TEXT_MAX 512

struct err {
    int code; /* 0 or SHOAL_E_*; a failed call always sets it */
    char text[ERR_TEXT_MAX];
};

/* The text of a code, as "not found"; "ok" of 0; "unknown error" of any other number. */
const char *err_text(int code);
/* The process exit status (sysexits) that belongs to a code; 70 for an unknown one. */
int err_exit_status(int code);
/* Sets *e (when e is not NULL) to code and the formatted sentence; returns code, so that a caller
 * may write `return err_set(e, SHOAL_E_CONFIG, "...")`. */
int err_set(struct err *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts the formatted text and ": " before the sentence in *e; returns e's code (or `code` when e is
 * NULL). */
int err_wrap(struct err *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
