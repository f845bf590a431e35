/* log_events.h: the events that an operator may look up. Each kind has a message id, a level, the
 * journal field that names its subject, and for people its meaning and advice.
 * deploy/systemd/shoal.catalog (journalctl -x) is made from it (tests/reference.py). An id never
 * changes and is never reused. */
#ifndef PROTO_BASE_LOG_EVENTS_H
#define PROTO_BASE_LOG_EVENTS_H

/* X(NAME, id, level, field, subject, meaning, advice) */
#define LOG_EVENTS(X)                                                                              \
    X(SERVER_READY, "11c2c36ece864836b0b5cc679a6d6d64", INFO, "SHOAL_SERVER", "A server is ready", \
      "All shards of server @SHOAL_SERVER@ answer. Rows that are not back from its disk yet come " \
      "when they are asked for.",                                                                  \
      "There is nothing to do.")                                                                   \
    X(SERVER_STOPS, "8da168fb8b1b44b1b37a5565be9323f2", INFO, "SHOAL_SERVER", "A server stops",    \
      "Server @SHOAL_SERVER@ was asked to stop and writes every tablet that changed. Jobs wait "   \
      "for it.",                                                                                   \
      "There is nothing to do. A second SIGTERM makes it leave at once; the next start reads its " \
      "journal.")                                                                                  \
    X(DISK_FAILED, "7713eb20bf70427999f3625d5ca110c3", ERROR, "SHOAL_AT",                          \
      "A disk or what is on it cannot be trusted",                                                 \
      "Writing, syncing or reading of the data failed, and the daemon left before it could "       \
      "promise anything more. What it acknowledged is on disk.",                                   \
      "Look at the kernel's log and the file system that the message names. Once it is mended "    \
      "the next start recovers. Where the message speaks of damage, put the folder aside: a "      \
      "coordinator starts on an empty one; if it is a server's, all start on empty ones, and "     \
      "shoal submit JOB --resume CHECKPOINT goes on.")                                             \
    X(PUSHES_REFUSED, "7ab10dc4b8c546cc88c7a76a787f08cb", WARN, "SHOAL_AT",                        \
      "Pushes are refused for lack of room",                                                       \
      "The rows at @SHOAL_AT@ have met their budget of memory or disk, or the disk's free space "  \
      "is below disk_free. Pulls go on, workers wait.",                                            \
      "Raise memory or disk in the server's file, free the disk, or let fewer rows be kept "       \
      "(rules of the tables).")                                                                    \
    X(PUSHES_AGAIN, "207280cace3c47aa90567e23afce3fa5", INFO, "SHOAL_AT",                          \
      "Pushes are taken again", "There is room again at @SHOAL_AT@.", "There is nothing to do.")   \
    X(SERVER_NOT_TAKEN, "b203d457c6fc4976808b1c4a8bb0d53b", WARN, "SHOAL_SERVER",                  \
      "A server does not belong here",                                                             \
      "The folder of server @SHOAL_SERVER@ is empty, older, a copy, or of another cluster; "       \
      "taking it would lose or mix rows.",                                                         \
      "The message says what to do; `shoal doctor --cluster` shows who owns what.")                \
    X(SERVER_AGAIN, "af341e585d8f44f3aa5a77378e556a75", WARN, "SHOAL_SERVER",                      \
      "A server has started again",                                                                \
      "Server @SHOAL_SERVER@ was away and is back. The job goes on by itself; with durability "    \
      "memory it goes back to its checkpoint.",                                                    \
      "There is nothing to do; where it happens again and again look at that server's log.")       \
    X(SHARD_TAKEN, "5d1c07ab90e34f7296cf34a1be0827d4", WARN, "SHOAL_SERVER",                       \
      "Another copy leads a shard",                                                                \
      "The leader of a shard is gone, and server @SHOAL_SERVER@, which was in sync, leads it "     \
      "now. No acknowledged push is lost, unless the message says so; the job goes on by itself.", \
      "Start the server that led before: it follows. `shoal status` shows how far it is behind.")  \
    X(JOB_WAITS, "e0e639a0dee840b48fa00cbbc78e8675", WARN, "SHOAL_JOB", "A job waits",             \
      "Job @SHOAL_JOB@ cannot go on: a server or all workers are away, or a disk is short. It "    \
      "waits as long as it takes.",                                                                \
      "Start or mend what the message names; or end the job with `shoal stop`.")                   \
    X(JOB_DONE, "8a97e13056654d4a8a817dc25e68a92b", INFO, "SHOAL_JOB", "A job is done",            \
      "Job @SHOAL_JOB@ has ended; its report is written.", "There is nothing to do.")              \
    X(JOB_FAILED, "265f43c2a15942c1b50941478e939e0f", ERROR, "SHOAL_JOB", "A job has failed",      \
      "Job @SHOAL_JOB@ has ended with an error. Its tables stay as they are.",                     \
      "Mend what the message names and submit it again: with --start-from fleet it goes on with "  \
      "the tables, with --resume from a checkpoint at the very batch, with fresh: all it begins "  \
      "anew.")                                                                                     \
    X(JOB_STOPPED, "cfcc493313204cb89b39aa591fa0000c", INFO, "SHOAL_JOB", "A job is stopped",      \
      "Job @SHOAL_JOB@ was ended by an order (shoal stop). Its tables stay as they are.",          \
      "There is nothing to do. With --start-from fleet the next job goes on with the tables, "     \
      "with --resume from a checkpoint at the very batch.")                                        \
    X(WORKER_DEAD, "7410db05b13f4e6b8843ee7cf7c8d5d9", WARN, "SHOAL_WORKER", "A worker is lost",   \
      "Worker @SHOAL_WORKER@ was not heard for its lease; its lanes go to others and its "         \
      "unfinished tasks are done again. No example is counted twice.",                             \
      "Look at that worker's machine.")                                                            \
    X(WORKER_STALLED, "cec36e7fd2fe42c482dbbd908e824e5c", WARN, "SHOAL_WORKER",                    \
      "A worker beats and does not get on",                                                        \
      "Worker @SHOAL_WORKER@ has lanes or other work and has finished nothing of it for several "  \
      "leases, while the others could go on. Its work goes to them, and it gets none for a "       \
      "while.",                                                                                    \
      "Where the message names a server, look at the network between the two and at `advertise` "  \
      "in the server's file; else at the worker's log, its input and its device.")                 \
    X(DEVICE_LOST, "de100dbba7bc48949261b39ba577b13f", ERROR, "SHOAL_DEVICE",                      \
      "A worker's device failed",                                                                  \
      "The GPU (@SHOAL_DEVICE@) gave an error or no answer. Where the job allows it the worker "   \
      "goes on by its CPU, else it gives its lanes back and ends.",                                \
      "Look at the driver's messages (Xid) in the kernel's log. The unit starts the worker "       \
      "again.")                                                                                    \
    X(WORKER_REFUSED, "6fcaea25298449caab4ab58bf1a345a1", ERROR, "SHOAL_COORDINATOR",              \
      "The coordinator refuses this worker",                                                       \
      "The coordinator at @SHOAL_COORDINATOR@ does not take this worker, which asks again and "    \
      "again.",                                                                                    \
      "The message says why: another kind of device than the job's others under bsp, a command "   \
      "that is not allowed here, a key that is not listed.")                                       \
    X(CHECKPOINT_MADE, "c17e4df47db448b5b6a29ec59e21253b", INFO, "SHOAL_CHECKPOINT",               \
      "A checkpoint is complete",                                                                  \
      "All tables are in @SHOAL_CHECKPOINT@, with where the job stood.",                           \
      "There is nothing to do.")                                                                   \
    X(CHECKPOINT_GIVEN_UP, "1ef877864dde45ba82b259fa32e90bea", WARN, "SHOAL_CHECKPOINT",           \
      "A checkpoint was not made",                                                                 \
      "Checkpoint @SHOAL_CHECKPOINT@ was given up; the job goes on, and tries again at the next "  \
      "turn.",                                                                                     \
      "Free the disk or start the server that the message names.")                                 \
    X(GRADIENT_REFUSED, "7e92aa5188c84b2a8283fb1e291c358e", WARN, "SHOAL_AT",                      \
      "A gradient is refused",                                                                     \
      "A push at @SHOAL_AT@ had a value that is not finite or beyond 1e15. No row has changed by " \
      "it; a line in quarantine.jsonl has key, field and value.",                                  \
      "Look at the rows of the input that the line names, at learning rates, and at numeric "      \
      "columns without a limit.")                                                                  \
    X(SETTINGS_READ, "1be47094e0da48c2b61b85930a5a8b71", INFO, "SHOAL_FILE",                       \
      "Settings have been read again",                                                             \
      "@SHOAL_FILE@ was read again. What may change has, other keys count from the next start.",   \
      "Restart the daemon where the log says so.")                                                 \
    X(SETTINGS_REFUSED, "5552dc26c54145edb53ac00eff3eb694", ERROR, "SHOAL_FILE",                   \
      "Settings are refused",                                                                      \
      "@SHOAL_FILE@ has an error; the daemon goes on with what it had read before.",               \
      "Mend the line that the message names, then `systemctl reload`.")

#endif
