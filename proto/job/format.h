/* format.h: the formats of the input as a job file knows them, a row each. How one is read is a
 * file of worker/data, found by the row's name; worker/data/README.md tells how to add one.
 *
 * A row: its constant; its name in a job file; what `features.number` is by default. */
#ifndef PROTO_JOB_FORMAT_H
#define PROTO_JOB_FORMAT_H

#ifndef DATA_FORMATS_OWN /* rows of a program's own, beside these */
#define DATA_FORMATS_OWN(X)
#endif
#define DATA_FORMATS(X)                                                                            \
    X(CRITEO, criteo, NUMBER_LOG1P)                                                                \
    X(LIBSVM, libsvm, NUMBER_NONE)                                                                 \
    X(CSV, csv, NUMBER_NONE)                                                                       \
    X(EVENTS, events, NUMBER_NONE)                                                                 \
    DATA_FORMATS_OWN(X)

#define FORMAT_CONSTANT(KIND, name, number) DATA_##KIND,
enum data_format { DATA_FORMATS(FORMAT_CONSTANT) };
#undef FORMAT_CONSTANT

/* For a job's keys: "criteo|libsvm|..". */
#define FORMAT_CHOICE(KIND, name, number) "|" #name
#define FORMAT_CHOICES (&(DATA_FORMATS(FORMAT_CHOICE))[1])

#endif
