/* worker_convert.c: writes and checks event files; prints the result for people or as JSON. */
#include "worker/worker_convert.h"

#include "proto/base/time.h"
#include "worker/data/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct progress {
    uint64_t told_ns;
    bool told;
};

static void progress_see(void *context, uint64_t rows)
{
    struct progress *p = context;
    uint64_t now = time_monotonic_ns();
    if (now - p->told_ns < 500000000u)
        return;
    p->told_ns = now;
    p->told = true;
    fprintf(stderr, "\r%" PRIu64 " rows ", rows);
}

static double in(const struct json *j, const char *name)
{
    return json_as_number(json_get(j, name), 0);
}

static void tell(const char *path, const struct json *j)
{
    double rows = in(j, "rows"), bytes = in(j, "bytes");
    printf("%s: %.0f rows in %.0f blocks, %.0f malformed; %.1f MiB, %.1f bytes a row (unpacked "
           "%.1f)\n",
           path, rows, in(j, "blocks"), in(j, "malformed"), bytes / 1048576, bytes / rows,
           in(j, "decoded_bytes") / rows);
    if (in(j, "last") > 0)
        printf("event times %.0f to %.0f, seconds since 1970\n", in(j, "first"), in(j, "last"));
    const struct json *join = json_get(j, "join");
#define X(name, words)                                                                             \
    if (in(join, #name) > 0)                                                                       \
        printf("  %.0f " #name "%s" words "\n", in(join, #name), words[0] != 0 ? ": " : "");
    JOIN_COUNTS(X)
#undef X
    for (size_t i = 0; i < json_count(json_get(j, "columns")); i++)
        printf("  %s\n", json_as_string(json_array_at(json_get(j, "columns"), i), ""));
}

/* Prints and frees j. */
static int told(const char *path, struct json *j, uint64_t core_ns, bool as_json, struct err *e)
{
    if (j == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to tell what is in %s", path);
    json_set_number(j, "core_seconds", (double)core_ns * 1e-9);
    char *text = NULL;
    if (as_json)
        text = json_text(j, 2);
    if (text != NULL)
        puts(text);
    else
        tell(path, j);
    free(text);
    json_free(j);
    return 0;
}

int worker_convert(const struct job *job, uint32_t split, const char *out, bool as_json,
                   struct err *e)
{
    struct progress p = {time_monotonic_ns(), false};
    uint64_t begin = time_of(CLOCK_PROCESS_CPUTIME_ID);
    struct convert_sums sums;
    void (*see)(void *context, uint64_t rows) = NULL;
    if (isatty(STDERR_FILENO))
        see = progress_see;
    int rc = convert_split(job, split, out, see, &p, &sums, e);
    if (p.told)
        fputs("\r", stderr);

    if (rc != 0)
        return rc;

    return told(out, convert_sums_json(&sums), time_of(CLOCK_PROCESS_CPUTIME_ID) - begin, as_json,
                e);
}

int worker_convert_check(const char *path, bool as_json, struct err *e)
{
    uint64_t begin = time_of(CLOCK_PROCESS_CPUTIME_ID);
    struct json *j = NULL;
    int rc = convert_check(path, &j, e);
    if (rc != 0)
        return rc;

    return told(path, j, time_of(CLOCK_PROCESS_CPUTIME_ID) - begin, as_json, e);
}
