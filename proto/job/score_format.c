/* score_format.c: score formats by the ends of file names. */
#include "proto/job/score_format.h"

#include <string.h>
#include <strings.h>

static const char *const names[] = {"csv", "tsv", "npy"};

const char *score_format_name(enum score_format format)
{
    return names[format];
}

/* True for the ends of other known formats and of compressed files, which are never written; any
 * other end is allowed. */
static bool foreign(const char *end)
{
    static const char *const other[] = {
        "gz",  "zst",  "bz2",    "xz",    "lz4",     "zip",  "7z",  "json", "jsonl",    "ndjson",
        "npz", "orc",  "avro",   "arrow", "parquet", "xlsx", "xls", "ods",  "feather",  "ipc",
        "h5",  "hdf5", "pickle", "pkl",   "pt",      "db",   "bin", "yaml", "tfrecord", "sqlite"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (strcasecmp(end, other[i]) == 0)
            return true;
    return false;
}

int score_format_of(const struct option_line *o, enum score_format *out, struct err *e)
{
    const char *to = option_text(o, "out"), *dot = strrchr(to, '.');
    *out = SCORE_CSV;
    if (option_given(o, "format")) {
        *out = (enum score_format)option_choice(o, "format");
        return 0;
    }
    if (dot == NULL || strchr(dot, '/') != NULL)
        return 0;
    for (int i = 0; i <= SCORE_NPY; i++)
        if (strcasecmp(dot + 1, names[i]) == 0)
            *out = (enum score_format)i;
    if (!foreign(dot + 1))
        return 0;
    return err_set(e, SHOAL_E_USAGE,
                   "--out %s: scores are written as csv, tsv or npy, not packed: let the "
                   "name end so, or say --format",
                   to);
}
