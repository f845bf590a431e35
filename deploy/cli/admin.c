/* admin.c: `shoal status`, `shoal digest`: they look and change nothing. */
#include "deploy/cli/reader.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SILENT_TOLD_MS = 2000 }; /* a server beats at least this often */

static const char *worker_name(const struct json *workers, int64_t number)
{
    for (size_t i = 0; number != 0 && i < json_count(workers); i++)
        if (json_as_int(json_get(json_array_at(workers, i), "worker"), -1) == number)
            return json_as_string(json_get(json_array_at(workers, i), "name"), "?");
    return "(nobody's)";
}

/* "12.3 MB", with the budget if there is one. */
static const char *taken_text(double bytes, double most, char out[64])
{
    if (most > 0)
        (void)snprintf(out, 64, "%.1f MB of %.1f", bytes * 1e-6, most * 1e-6);
    else
        (void)snprintf(out, 64, "%.1f MB", bytes * 1e-6);
    return out;
}

/* The budget counts the memory that the row store may come to take; the process's figure is the
 * memory in use. */
static void tiers_print(const struct json *v)
{
    char memory[64], disk[64];
    printf("            memory of the process %.1f MB, reserved %s; disk %s%s\n",
           json_as_number(json_get(v, "rss_bytes"), 0) * 1e-6,
           taken_text(json_as_number(json_get(v, "memory_bytes"), 0),
                      json_as_number(json_get(v, "memory_max"), 0), memory),
           taken_text(json_as_number(json_get(v, "disk_bytes"), 0),
                      json_as_number(json_get(v, "disk_max"), 0), disk),
           text_if(json_as_bool(json_get(v, "disk_short"), false), ": short, pushes are refused"));
    if (json_as_number(json_get(v, "rows_store"), 0) + json_as_number(json_get(v, "evicted"), 0) ==
        0)
        return;
    printf(
        "            rows in memory %.0f, in the store %.0f; fetched %.0f, evicted %.0f (%.0f "
        "clean); %.0f requests wait for rows or room\n",
        json_as_number(json_get(v, "rows_memory"), 0), json_as_number(json_get(v, "rows_store"), 0),
        json_as_number(json_get(v, "fetched"), 0), json_as_number(json_get(v, "evicted"), 0),
        json_as_number(json_get(v, "evicted_clean"), 0), json_as_number(json_get(v, "parked"), 0));
}

/* A worker's backend, and the reason for that backend. */
static void worker_print(const struct json *v)
{
    const char *device = json_as_string(json_get(v, "device"), ""),
               *why = json_as_string(json_get(v, "why"), "");
    bool idle = json_as_int(json_get(v, "lanes"), 0) == 0;
    printf("  worker %-2.0f %-16s %-26s %12.0f examples  %s%s%s%s\n",
           json_as_number(json_get(v, "worker"), 0), json_as_string(json_get(v, "name"), "?"),
           json_as_string(json_get(v, "backend"), "?"), json_as_number(json_get(v, "examples"), 0),
           device, text_if(device[0] != 0 && why[0] != 0, "; "), why,
           text_if(idle, "; no lane now"));
}

/* Workers that wait for a job, or for a job that they fit; the first few by name. */
static void idle_print(const struct json *list)
{
    enum { NAMED = 8 };
    size_t n = json_count(list);
    for (size_t i = 0; i < n && i < NAMED; i++)
        printf("  worker    %-16s waits for a job\n",
               json_as_string(json_get(json_array_at(list, i), "name"), "?"));
    if (n > NAMED)
        printf("  and %zu more workers wait for a job\n", n - NAMED);
}

/* "1234 examples, 56 a second"; a rate that is not known yet is left out. */
static void job_print(const struct json *s)
{
    const struct json *rate = json_get(s, "rate");
    printf("job %s: %s, epoch %.0f, %.0f examples", json_as_string(json_get(s, "job"), ""),
           json_as_string(json_get(s, "state"), "?"), json_as_number(json_get(s, "epoch"), 0),
           json_as_number(json_get(s, "examples"), 0));
    if (!json_absent(json_get(s, "drawn")))
        printf(" (%.0f drawn)", json_as_number(json_get(s, "drawn"), 0));
    if (!json_absent(rate))
        printf(", %.0f a second", json_as_number(rate, 0));
    putchar('\n');
    if (!json_absent(json_get(s, "error")))
        printf("  it ended: %s\n", json_as_string(json_get(s, "error"), "?"));
}

/* A shard's readiness as a word. */
static const char *ready_text(const struct json *v, char out[64])
{
    int64_t silent_ms = json_as_int(json_get(v, "silent_ms"), -1);
    bool heard = json_as_bool(json_get(v, "heard"), true);
    if (json_as_bool(json_get(v, "ready"), false) && heard)
        return "ready";
    if (silent_ms < 0)
        return "not seen yet";
    if (silent_ms < SILENT_TOLD_MS && heard)
        return "not ready";
    (void)snprintf(out, 64, "not heard for %" PRId64 " s", silent_ms / 1000);
    return out;
}

/* The daemons that listen on tcp without keys. */
static void insecure_print(const struct json *list)
{
    if (json_count(list) == 0)
        return;
    fputs("  insecure_plaintext: whoever reaches these over tcp is obeyed:", stdout);
    for (size_t i = 0; i < json_count(list); i++)
        printf("%s %s", text_if(i > 0, ","), json_as_string(json_array_at(list, i), "?"));
    putchar('\n');
}

/* The objects of a growing log. */
static void objects_print(const struct json *o)
{
    if (json_absent(json_get(o, "coming")))
        return;
    double listed = json_as_number(json_get(o, "listed_seconds"), -1);
    printf("  objects: %.0f read, the greatest %s", json_as_number(json_get(o, "read"), 0),
           json_as_string(json_get(o, "last"), "none"));
    if (listed >= 0)
        printf("; %.0f more listed, %.0f s ago", json_as_number(json_get(o, "coming"), 0), listed);
    putchar('\n');
    if (!json_absent(json_get(o, "behind")))
        printf("  streams: %.0f messages behind\n", json_as_number(json_get(o, "behind"), 0));
}

/* "checkpoint 000007: 35 s old, 1.2 GB": the state to which the loss of a disk would lead back. */
static void checkpoints_print(const struct json *s)
{
    const struct json *newest = json_get(s, "checkpoint"), *age = json_get(newest, "age_seconds");
    double failed = json_as_number(json_get(s, "checkpoints_failed"), 0);
    char size[32];
    if (!json_absent(newest)) {
        printf("  checkpoint %s: ", json_as_string(json_get(newest, "name"), "?"));
        if (!json_absent(age))
            printf("%.0f s old, ", json_as_number(age, 0));
        puts(cli_size_text(json_as_number(json_get(newest, "bytes"), 0), size));
    }
    if (failed > 0)
        printf("  checkpoints that failed: %.0f, the last: %s\n", failed,
               json_as_string(json_get(s, "checkpoint_failure"), "?"));
    if (!json_absent(json_get(s, "publish")))
        printf("  checkpoint.publish of %s: %s\n",
               json_as_string(json_get(s, "publish.checkpoint"), "?"),
               json_as_string(json_get(s, "publish.state"), "?"));
}

/* " (found for 12 s)"; empty where it is not known, or has just begun. */
static const char *since_text(const struct json *seconds, char out[48])
{
    double s = json_as_number(seconds, 0);
    out[0] = 0;
    if (s >= 1)
        (void)snprintf(out, 48, " (found for %.0f s)", s);
    return out;
}

bool cli_problem_text(const struct json *status, size_t i, char *out, size_t bytes)
{
    const struct json *list = json_get(status, "problems");
    char since[48];
    if (i >= json_count(list))
        return false;
    (void)snprintf(out, bytes, "%s%s", json_as_string(json_array_at(list, i), "?"),
                   since_text(json_array_at(json_get(status, "problem_seconds"), i), since));
    return true;
}

/* "  moves: drain, 12 of 64 tablets left, 3.1 MB so far, about 4 s" */
static void moves_print(const struct json *m)
{
    const char *job = json_as_string(json_get(m, "goes_back"), "");
    const char *failure = json_as_string(json_get(m, "last_failure"), "");
    if (json_absent(m))
        return;
    printf("  moves: %s, %.0f of %.0f tablets left, %.1f MB so far",
           json_as_string(json_get(m, "kind"), "?"), json_as_number(json_get(m, "left"), 0),
           json_as_number(json_get(m, "tablets"), 0),
           json_as_number(json_get(m, "bytes"), 0) * 1e-6);
    if (!json_absent(json_get(m, "seconds_left")))
        printf(", about %.0f s", json_as_number(json_get(m, "seconds_left"), 0));
    if (job[0] != 0)
        printf("; waits for job %s, which goes back to its best epoch with its tablets", job);
    if (failure[0] != 0)
        printf("; the last failure: %s", failure);
    putchar('\n');
}

/* "  store /var/lib/shoal/coordinator: 12345 bytes, 812 writes, 3.1 ms each" */
static void store_print(const struct json *store)
{
    double writes = json_as_number(json_get(store, "writes"), 0);
    if (json_as_string(json_get(store, "place"), "")[0] == 0)
        return;
    printf("  store %s: %.0f bytes, %.0f writes", json_as_string(json_get(store, "place"), "?"),
           json_as_number(json_get(store, "bytes"), 0), writes);
    if (writes > 0)
        printf(", %.1f ms each", json_as_number(json_get(store, "write_ms"), 0));
    putchar('\n');
}

static void notes_print(const struct json *notes)
{
    for (size_t i = 0; i < json_count(notes); i++)
        printf("  note: %s\n", json_as_string(json_array_at(notes, i), "?"));
}

/* The ring of workers that keep the network (train.dense: allreduce). */
static void ring_print(const struct json *ring)
{
    double age = json_as_number(json_get(ring, "published_seconds"), (double)NAN);
    if (json_absent(ring))
        return;
    const char *state = json_as_string(json_get(ring, "state"), "?");
    if (strcmp(state, "none") == 0)
        printf("  no ring");
    else
        printf("  ring number %.0f, of %.0f workers, %s",
               json_as_number(json_get(ring, "rings"), 0),
               json_as_number(json_get(ring, "members"), 0), state);
    if (isfinite(age))
        printf("; the tables have the network of step %.0f, %.0f s old",
               json_as_number(json_get(ring, "published"), 0), age);
    putchar('\n');
}

/* All jobs that run, where there are several, and how many wait. */
static void running_print(const struct json *s)
{
    const struct json *list = json_get(s, "running");
    double queued = json_as_number(json_get(s, "queued"), 0);
    for (size_t i = 0; json_count(list) > 1 && i < json_count(list); i++) {
        const struct json *v = json_array_at(list, i);
        printf("  job %-16.0f %-16s space %-16s %-8s %3.0f of %.0f workers",
               json_as_number(json_get(v, "number"), 0), json_as_string(json_get(v, "job"), "?"),
               json_as_string(json_get(v, "space"), "?"), json_as_string(json_get(v, "state"), "?"),
               json_as_number(json_get(v, "workers"), 0),
               json_as_number(json_get(v, "workers_wanted"), 0));
        if (!json_absent(json_get(v, "rate")))
            printf("  %.0f a second", json_as_number(json_get(v, "rate"), 0));
        printf("%s%s\n", text_if(!json_absent(json_get(v, "waiting")), "; "),
               json_as_string(json_get(v, "waiting"), ""));
    }
    if (queued > 0)
        printf("  %.0f job%s for %s turn: shoal jobs lists them\n", queued,
               queued > 1 ? "s wait" : " waits", queued > 1 ? "their" : "its");
}

/* The spaces that share the memory of the servers. */
static void spaces_print(const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *space = json_array_at(list, i);
        if (json_absent(json_get(space, "memory_share")))
            continue;
        printf("  space %-16s weighs %g", json_as_string(json_get(space, "space"), "?"),
               json_as_number(json_get(space, "weight"), 1));
        cli_share_print(space);
        putchar('\n');
    }
}

static void status_print(const struct json *status)
{
    char ready[64], since[48], problem[2 * ERR_TEXT_MAX];
    struct json *s = json_printable(status);
    const struct json *servers = json_get(s, "servers"), *lanes = json_get(s, "lanes"),
                      *workers = json_get(s, "workers");
    if (json_as_string(json_get(s, "job"), "")[0] == 0)
        puts("no job has been submitted yet");
    else
        job_print(s);
    running_print(s);
    insecure_print(json_get(s, "insecure"));
    if (!json_absent(json_get(s, "warning")))
        printf("  warning: %s\n", json_as_string(json_get(s, "warning"), "?"));
    notes_print(json_get(s, "input.notes"));
    if (!json_absent(json_get(s, "waiting")))
        printf("  %s%s\n", json_as_string(json_get(s, "waiting"), "?"),
               since_text(json_get(s, "waiting_seconds"), since));
    for (size_t i = 0; cli_problem_text(s, i, problem, sizeof problem); i++)
        printf("  problem: %s\n", problem);
    notes_print(json_get(s, "notes"));
    objects_print(json_get(s, "objects"));
    checkpoints_print(s);
    moves_print(json_get(s, "cluster.moves"));
    store_print(json_get(s, "store"));
    for (size_t i = 0; i < json_count(servers); i++) {
        const struct json *v = json_array_at(servers, i);
        printf("  shard %-3.0f %-16s %-26s %12.0f rows  %s\n",
               json_as_number(json_get(v, "shard"), 0), json_as_string(json_get(v, "name"), "?"),
               json_as_string(json_get(v, "endpoint"), "?"), json_as_number(json_get(v, "rows"), 0),
               ready_text(v, ready));
        cli_copies_print(json_get(s, "cluster.copies"), json_as_int(json_get(v, "shard"), 0));
        tiers_print(v);
    }
    spaces_print(json_get(s, "spaces"));
    ring_print(json_get(s, "ring"));
    for (size_t i = 0; i < json_count(workers); i++)
        worker_print(json_array_at(workers, i));
    idle_print(json_get(s, "idle"));
    for (size_t i = 0; i < json_count(lanes); i++) {
        const struct json *v = json_array_at(lanes, i);
        printf("  lane  %-3.0f %-16s generation %-15.0f %12.0f batches done\n",
               json_as_number(json_get(v, "lane"), 0),
               worker_name(workers, json_as_int(json_get(v, "worker"), 0)),
               json_as_number(json_get(v, "generation"), 0),
               json_as_number(json_get(v, "batch"), 0));
    }
    json_free(s);
}

/* The report of a job that `shoal local` has completed; NULL: the job runs, has failed, or never
 * was. */
static struct json *report_read(const char *run_dir)
{
    char path[LIMIT_PATH];
    struct json *report = NULL;
    if (run_dir == NULL ||
        snprintf(path, sizeof path, "%s/report.json", run_dir) >= (int)sizeof path)
        return NULL;
    (void)cli_json_file(path, &report, NULL);
    return report;
}

static int live_status(const struct option_line *o, struct json **out, struct err *e)
{
    enum { QUESTION_MS = 10000 };
    struct reader *c = NULL;
    uint64_t job = 0;
    if (option_given(o, "job"))
        job = (uint64_t)option_int(o, "job");
    int rc = reader_open_live(o, &c, e);
    if (rc == 0)
        rc = reader_status_within(c, job, QUESTION_MS, out, e);
    reader_close(c);
    return rc;
}

static void units_print(void)
{
    struct json *units = cli_units();
    for (size_t i = 0; i < json_count(units); i++)
        printf("  problem: %s\n", json_as_string(json_array_at(units, i), "?"));
    json_free(units);
}

int cli_status(struct option_line *o, struct err *e)
{
    struct json *j = NULL;
    const char *run_dir = reader_folder(o);
    struct json *report = report_read(run_dir);
    int rc = 0;
    if (report == NULL)
        rc = live_status(o, &j, e);
    if (rc == 0 && option_given(o, "json"))
        cli_json_print(report != NULL ? report : j);
    else if (rc == 0 && report != NULL)
        cli_report_print(report, run_dir, NULL);
    else if (rc == 0)
        status_print(j);
    if (run_dir == NULL && !option_given(o, "json"))
        units_print();
    json_free(report);
    json_free(j);
    return rc;
}

int cli_digest(struct option_line *o, struct err *e)
{
    struct reader *c = NULL;
    uint32_t only = 0;
    bool as_json = option_given(o, "json");
    int rc = reader_open(o, &c, e);
    if (rc == 0 && o->words == 1)
        rc = reader_table(c, o->word[0], &only, e);
    struct json *list = json_new_array();
    for (uint32_t i = 0; rc == 0 && i < reader_tables(c); i++) {
        uint64_t rows, digest;
        if (o->words == 1 && i != only)
            continue;
        rc = reader_digest(c, i, &rows, &digest, e);
        if (rc != 0)
            break;
        if (!as_json)
            printf("%-16s %12" PRIu64 " rows  0x%016" PRIx64 "\n", reader_schema(c, i)->name, rows,
                   digest);
        struct json *t = json_new_object();
        (void)json_set_string(t, "name", reader_schema(c, i)->name);
        (void)json_set_int(t, "rows", (int64_t)rows);
        (void)json_set_hex(t, "digest", digest);
        (void)json_append(list, t);
    }
    if (rc == 0 && as_json)
        cli_json_print(list);
    json_free(list);
    reader_close(c);
    return rc;
}
