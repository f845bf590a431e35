/* format.h: the formats of the input as a job file knows them, a row each. A file of worker/data,
 * found by the row's name, reads the format; worker/data/README.md says how to add one.
 *
 * The members of a row are: its constant; its name in a job file; the default of
 * `features.number`. A new row comes last: names of files in caches have the row's number. */
#ifndef PROTO_JOB_FORMAT_H
#define PROTO_JOB_FORMAT_H

#ifndef DATA_FORMATS_OWN /* a program may add rows of its own */
#define DATA_FORMATS_OWN(X)
#endif
#define DATA_FORMATS(X)                                                                            \
    X(CRITEO, criteo, NUMBER_LOG1P)                                                                \
    X(LIBSVM, libsvm, NUMBER_NONE)                                                                 \
    X(CSV, csv, NUMBER_NONE)                                                                       \
    X(EVENTS, events, NUMBER_NONE)                                                                 \
    X(TFRECORD, tfrecord, NUMBER_NONE)                                                             \
    X(LIBFFM, libffm, NUMBER_NONE)                                                                 \
    DATA_FORMATS_OWN(X)

#define FORMAT_CONSTANT(KIND, name, number) DATA_##KIND,
enum data_format { DATA_FORMATS(FORMAT_CONSTANT) };
#undef FORMAT_CONSTANT

/* For a job's keys: "criteo|libsvm|..". */
#define FORMAT_CHOICE(KIND, name, number) "|" #name
#define FORMAT_CHOICES (&(DATA_FORMATS(FORMAT_CHOICE))[1])

#endif
