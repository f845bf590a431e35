/* begin.c: finds the checkpoint with which a job begins. */
#include "deploy/cli/begin.h"
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A coordinator counts from a random number on (fleet_open.c), so numbers of two are far apart. */
#define NUMBERS_OF_ONE 1000000

/* The number of the job of a run that has ended; 0: it is unknown. */
static int64_t job_of(const char *run)
{
    char path[LIMIT_PATH];
    struct json *report;
    (void)snprintf(path, sizeof path, "%.900s/report.json", run);
    if (cli_json_file(path, &report, NULL) != 0)
        return 0;
    int64_t number = json_get_int(report, "run", 0);
    json_free(report);
    return number;
}

/* True when the coordinator that had that job made the checkpoint: several runs may have one folder
 * for checkpoints. job 0: any. */
static bool made_there(const struct json *manifest, int64_t job)
{
    int64_t number = json_get_int(manifest, "run", job);
    return job == 0 || (number > job - NUMBERS_OF_ONE && number < job + NUMBERS_OF_ONE);
}

/* True when folder/name is a usable checkpoint of the job's coordinator made after `newest`; it
 * then replaces `newest`. */
static bool better(const char *folder, const char *name, bool start, int64_t job,
                   struct json **newest, char path[LIMIT_PATH])
{
    struct err silent;
    struct json *m = NULL;
    (void)snprintf(path, LIMIT_PATH, "%.700s/%.255s", folder, name);
    if (name[0] == '.' || checkpoint_manifest(path, &m, &silent) != 0)
        return false;
    const char *phase = json_get_string(m, "phase", "");
    bool fits = strcmp(phase, "digest") == 0 || json_get_bool(m, "end", false);
    if (!start)
        fits = !manifest_tables(m); /* no job goes on from tables alone */
    bool good = fits && made_there(m, job) && manifest_order(m, *newest) > 0;
    json_free(good ? *newest : m);
    if (good)
        *newest = m;
    return good;
}

static int end_missing(const char *run, const char *folder, struct err *e)
{
    char former[LIMIT_PATH];
    bool moved = run_moved(run, former);
    return err_set(e, SHOAL_E_NOINPUT,
                   "%s has no checkpoint of its end: %s%s%s`shoal checkpoint create --run-dir %s` "
                   "makes one now, checkpoint.at_end: true of the next job by itself",
                   folder, text_if(moved, "move it back to "), text_if(moved, former),
                   text_if(moved, ", where it ran; there "), moved ? former : run);
}

/* Finds the newest usable checkpoint of a run of `shoal local`. */
static int run_find(const char *run, bool start, char out[LIMIT_PATH], struct err *e)
{
    char folder[LIMIT_PATH], path[LIMIT_PATH];
    struct json *newest = NULL;
    struct file_walk w;
    const char *name;
    struct job job;
    (void)snprintf(path, sizeof path, "%.900s/job.yaml", run);
    int rc = job_load(path, NULL, &job, e);
    if (rc != 0)
        return rc;
    rc = run_path(run, job.checkpoint.dir, folder, e);
    job_free(&job);
    if (rc != 0)
        return rc;
    int64_t number = job_of(run);
    if (file_walk_open(&w, folder)) {
        while ((name = file_walk_next(&w)) != NULL)
            if (better(folder, name, start, number, &newest, path))
                text_copy(out, LIMIT_PATH, path);
        file_walk_close(&w);
    }
    json_free(newest);
    if (newest != NULL)
        return 0;
    if (start)
        return end_missing(run, folder, e);
    return err_set(e, SHOAL_E_NOINPUT,
                   "%s has no checkpoint: run such a job with checkpoint.every_batches or "
                   "every_minutes",
                   folder);
}

/* The folder may lie where only the coordinator sees it. */
static void lacks_note(const char *folder)
{
    char lacks[LACKS_BYTES];
    struct json *m = NULL;
    struct err silent;
    if (checkpoint_manifest(folder, &m, &silent) == 0 && manifest_lacks(m, lacks, sizeof lacks))
        fprintf(stderr, "note: %s: %s; these tablets begin empty\n", folder, text_clean(lacks));
    json_free(m);
}

int begin_find(const char *where, bool start, struct begin *out, struct err *e)
{
    const char *word = start ? "start_from" : "resume";
    if (start && strcmp(where, "fleet") == 0) { /* a folder of that name is written ./fleet */
        *out = (struct begin){.path = "fleet", .start = true};
        return 0;
    }
    char *path = realpath(where, NULL), mine[LIMIT_PATH + 32];
    int rc = 0;
    out->start = start;
    if (path == NULL && where[0] != '/')
        return err_set(e, SHOAL_E_NOINPUT, "%s %s: %s", word, where, strerror(errno));
    if (snprintf(out->path, LIMIT_PATH, "%s", text_or(path, where)) >= (int)LIMIT_PATH)
        rc = err_set(e, SHOAL_E_USAGE, "%s: a path has at most %u bytes", word, LIMIT_PATH - 1);
    free(path);
    if (rc != 0)
        return rc;
    rc = rights_read(out->path, e);
    if (rc != 0)
        return rc;
    if (!run_is(out->path)) {
        if (start)
            lacks_note(out->path);
        return 0;
    }
    (void)snprintf(mine, sizeof mine, "%.*s", (int)LIMIT_PATH, out->path);
    return run_find(mine, start, out->path, e);
}

static const char *const kinds[] = {"resume", "start_from"};

/* Takes one of the file's lines; an empty line counts too. */
static char *line_take(char **text)
{
    char *line = *text;
    if (line == NULL)
        return NULL;
    char *end = strchr(line, '\n');
    *text = NULL;
    if (end == NULL)
        return NULL;
    *end = 0;
    *text = end + 1;
    return line;
}

bool begin_of_run(const char *run, struct begin *out)
{
    char path[2 * LIMIT_PATH], *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/" BEGIN_FILE, run);
    *out = (struct begin){.start = false};
    if (file_read_whole(path, 3 * LIMIT_PATH, &text, &bytes) != 0)
        return false;
    char *rest = text, *kind = line_take(&rest), *word = line_take(&rest),
         *found = line_take(&rest);
    bool good = found != NULL && strlen(word) < LIMIT_PATH && strlen(found) < LIMIT_PATH;
    if (good) {
        out->start = strcmp(kind, kinds[1]) == 0;
        text_copy(out->word, sizeof out->word, word);
        text_copy(out->path, sizeof out->path, found);
    }
    free(text);
    return good;
}

char *begin_text(const struct begin *b)
{
    char *text;
    int n = asprintf(&text, "%s\n%s\n%s\n", kinds[b->start], b->word, b->path);
    if (n < 0)
        return NULL;
    return text;
}

/* Makes the word an absolute path, whether or not the path exists. */
static void word_whole(const char *word, bool start, char out[LIMIT_PATH])
{
    char here[LIMIT_PATH];
    bool as_it_is = word[0] == '/' || (start && strcmp(word, "fleet") == 0);
    while (!as_it_is && strncmp(word, "./", 2) == 0)
        word += 2;
    if (as_it_is || getcwd(here, sizeof here) == NULL)
        text_copy(out, LIMIT_PATH, word);
    else
        (void)snprintf(out, LIMIT_PATH, "%.500s/%.500s", here, word);
}

static int word_take(const char *word, bool start, const char *run, struct begin *out,
                     struct err *e)
{
    char whole[LIMIT_PATH];
    word_whole(word, start, whole);
    if (run != NULL && begin_of_run(run, out) && out->path[0] != 0 && out->start == start &&
        strcmp(out->word, whole) == 0)
        return 0;
    *out = (struct begin){.start = start};
    int rc = begin_find(word, start, out, e);
    text_copy(out->word, sizeof out->word, whole);
    return rc;
}

int begin_take(const struct option_line *o, const char *job_path, const struct string_list *set,
               const char *run, struct begin *out, struct err *e)
{
    struct job job;
    *out = (struct begin){.start = false};
    const char *resume = option_text(o, "resume"), *start = option_text(o, "start-from");
    int rc = job_load(job_path, set, &job, e);
    if (rc != 0)
        return rc;
    if (resume == NULL && start == NULL) {
        resume = text_unless_empty(job.resume, NULL);
        start = text_unless_empty(job.start_from, NULL);
    }
    if (resume != NULL && start != NULL)
        rc = err_set(e, SHOAL_E_USAGE,
                     "resume and start_from: a job goes on from a checkpoint, or begins with its "
                     "tables; take one of them out");
    else if (resume != NULL || start != NULL)
        rc = word_take(text_or(start, resume), start != NULL, run, out, e);
    job_free(&job);
    return rc;
}
