/* predict.c: `shoal predict` and `shoal eval`: scores of an input, or their quality, by the tables
 * of a fleet, of an ended run, or of a checkpoint.
 *
 * The place of the tables is found as by the verbs that look at rows (reader.h). Workers ask
 * servers, so a place without any gets some for as long as the verb runs:
 *
 *   an ended run    coordinator and servers are started on its folders (local_ended.c)
 *   a checkpoint    a cluster of this verb's own loads it, in memory (train.skip); it must stay
 *                   while the verb runs: every worker reads its job file
 *
 * Each worker scores a part. The parts are joined in order, so the file has the same bytes with any
 * number of workers. */
#include "deploy/cli/local_inner.h"
#include "deploy/cli/reader.h"
#include "deploy/cli/run.h"
#include "deploy/cli/scratch.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/job/bad_lines.h"
#include "proto/job/manifest.h"
#include "proto/job/reading.h"
#include "proto/job/score_format.h"
#include "proto/metric/unseen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct predict {
    struct local l;
    struct option_line *o;
    struct reader_place at; /* the tables'; endpoint: also that of daemons of this verb's own */
    char parts[LIMIT_PATH]; /* this call's own folder; empty: none, or the scratch folder */
    bool predicts;          /* predict; false: eval */
    enum score_format format;
    char job[LIMIT_PATH]; /* the job file: the line's, or the one that lies with the tables */
    int reading;          /* the checkpoint's lock */
    /* `data.cache=...` when that of the job does not hold here: for a checkpoint, perhaps from
     * another machine, and for a moved run */
    struct string_list cache;
    struct string_list set; /* over keys of the job file: the line's, and its --space */
    const char **more;      /* owned (count): arguments of each worker */
    size_t more_count;
};

/* ---- the place of the tables ----------------------------------------------------------------- */

/* The job file: the line's, else the one that lies with the tables. */
static int job_choose(struct predict *p, struct err *e)
{
    if (p->o->words == 1)
        text_copy(p->job, sizeof p->job, p->o->word[0]);
    else if (p->at.folder[0] == 0)
        return err_set(e, SHOAL_E_USAGE, "name the job file that the fleet's tables were made by");
    else
        (void)snprintf(p->job, sizeof p->job, "%.*s/" MANIFEST_JOB_FILE, LIMIT_PATH - 32,
                       p->at.folder);
    p->l.job_path = p->job;
    return 0;
}

/* The program that has the network of an external job computes its scores, here as in training. */
static int network_check(const struct predict *p, struct err *e)
{
    const char *then =
        "read the input there (shoal_read_open, shoal.Reader), fetch the rows of its keys "
        "(shoal_fetch, Table.fetch), and score them";
    struct job job;
    int rc = job_load(p->job, p->l.set, &job, e);
    if (rc != 0)
        return rc;
    if (!p->predicts)
        then = "have it scored there: `shoal local` or `submit` of the job with start_from, "
               "train.skip: true and the input as data.test; the report has its measures";
    if (job.model.kind == MODEL_EXTERNAL)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s has model.kind: external: its network is a program's, which this command "
                     "does not have: %s",
                     p->job, then);
    job_free(&job);
    return rc;
}

/* value NULL: an option without a value. */
static int more_add(struct predict *p, const char *option, const char *value, struct err *e)
{
    const char **more = realloc(p->more, (p->more_count + 2) * sizeof *more);
    if (more == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    p->more = more;
    p->more[p->more_count++] = option;
    if (value != NULL)
        p->more[p->more_count++] = value;
    return 0;
}

static int cache_add(struct predict *p, const char *folder, const char *name, struct err *e)
{
    int rc = local_set_path(&p->cache, "data.cache", folder, name, e);
    if (rc != 0)
        return rc;
    return more_add(p, "--set", p->cache.item[0], e);
}

/* Submits a job that only loads: the line's keys, and those that make it so. */
static int checkpoint_open(struct predict *p, struct err *e)
{
    static const char *const keys[] = {"train.skip=true",      "data.valid=[]",
                                       "data.test=[]",         "fresh=[]",
                                       "durability=memory",    "train.early_stop.patience=0",
                                       "checkpoint.dir=\"\"",  "checkpoint.at_end=false",
                                       "checkpoint.publish=[]"};
    struct local *l = &p->l;
    struct string_list *line = l->set, only = {0};
    char *text = NULL, run[LIMIT_PATH + 8];
    int workers = l->workers, job_status = 0;
    int rc = reading_begin(p->at.folder, &p->reading, e);
    if (rc == 0)
        rc = begin_find(p->at.folder, true, &l->begin, e); /* as for start_from: tables alone */
    l->workers = 1;                                        /* declares the tables */
    l->restart = false; /* a server that dies has lost its rows */
    for (size_t i = 0; i < line->count && rc == 0; i++)
        rc = config_list_add(&only, line->item[i]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && rc == 0; i++)
        rc = config_list_add(&only, keys[i]);
    (void)snprintf(run, sizeof run, "%s/run", p->l.scratch);
    if (rc == 0)
        rc = local_set_path(&only, "data.cache", p->l.scratch, "cache", e);
    l->set = &only;
    if (rc == 0)
        rc = local_prepare(l, run, &text, e);
    if (rc == 0)
        rc = local_start(l, e);
    text_copy(p->at.endpoint, sizeof p->at.endpoint, l->coordinator);
    if (rc == 0)
        rc = cli_ask_open(l->coordinator, NULL, &l->ask, e);
    if (rc == 0)
        rc = local_submit(l, text, e);
    if (rc == 0)
        rc = local_follow(l, &job_status, e);
    if (rc == 0 && job_status != 0)
        rc = local_job_failure(l, job_status, e);
    l->set = line;
    l->workers = workers;
    if (rc == 0)
        rc = cache_add(p, p->l.scratch, "cache", e);
    config_list_free(&only);
    free(text);
    return rc;
}

/* For the run's own job: the cache in the run's folder has moved with the folder. */
static int run_cache(struct predict *p, struct err *e)
{
    char path[LIMIT_PATH];
    struct job job;
    if (p->o->words == 1 || !run_moved(p->at.folder, path))
        return 0;
    int rc = job_load(p->job, NULL, &job, e);
    if (rc != 0)
        return rc;
    rc = run_path(p->at.folder, job.data.cache, path, e);
    job_free(&job);
    if (rc != 0)
        return rc;
    return cache_add(p, path, NULL, e);
}

/* Leaves a coordinator in p->at.endpoint whose servers answer for the tables. */
static int tables_open(struct predict *p, struct err *e)
{
    int rc = reader_find(p->o, &p->at, e);
    if (rc == 0)
        rc = job_choose(p, e);
    if (rc == 0)
        rc = network_check(p, e);
    if (rc == 0 && p->at.kind != READER_CHECKPOINT && p->at.folder[0] != 0)
        rc = run_cache(p, e);
    if (rc != 0)
        return rc;
    if (p->at.kind == READER_CHECKPOINT && option_given(p->o, "space"))
        rc = reader_checkpoint_check(p->at.folder, option_text(p->o, "space"), e);
    if (rc != 0)
        return rc;
    if (p->at.kind == READER_CHECKPOINT)
        return checkpoint_open(p, e);
    if (p->at.kind == READER_RUN)
        return local_run_open(&p->l, p->at.folder, p->at.endpoint, e);
    return 0;
}

/* ---- workers --------------------------------------------------------------------------------- */

static int more_list(struct predict *p, const struct string_list *list, const char *option,
                     struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < list->count && rc == 0; i++)
        rc = more_add(p, option, list->item[i], e);
    return rc;
}

/* The arguments of all workers. */
static int more_make(struct predict *p, struct err *e)
{
    int rc = more_add(p, "--coordinator", p->at.endpoint, e);
    if (rc == 0 && option_given(p->o, "keys"))
        rc = more_add(p, "--keys", option_text(p->o, "keys"), e);
    if (rc == 0 && cli_plain(p->at.endpoint))
        rc = more_add(p, "--insecure-plaintext", NULL, e);
    if (rc == 0 && p->l.children > 0) /* large tables take a while to be read back */
        rc = more_add(p, "--wait", "600", e);
    if (rc == 0)
        rc = more_add(p, "--config", p->job, e);
    if (rc == 0)
        rc = more_list(p, p->l.set, "--set", e);
    if (rc == 0)
        rc = more_list(p, option_list(p->o, "in"), "--in", e);
    if (rc == 0 && p->predicts)
        rc = more_list(p, option_list(p->o, "column"), "--column", e);
    return rc;
}

/* The parts lie beside their file, on the same file system, so that renaming is enough. */
static int parts_make(struct predict *p, struct err *e)
{
    const char *to = option_text(p->o, "out");
    char folder[LIMIT_PATH];
    if (strcmp(to, "-") == 0)
        return 0;
    (void)snprintf(folder, sizeof folder, "%s.parts-XXXXXX", to);
    if (scratch_make(folder) != 0) /* also removes the folder of a call that was killed */
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make a folder beside %s: %s", to,
                       strerror(errno));
    text_copy(p->parts, sizeof p->parts, folder);
    return 0;
}

static void part_path(const struct predict *p, int i, char out[LIMIT_PATH])
{
    (void)snprintf(out, LIMIT_PATH, "%.*s/part-%d", LIMIT_PATH - 32,
                   text_unless_empty(p->parts, p->l.scratch), i);
}

static void report_path(const struct predict *p, int i, char out[LIMIT_PATH])
{
    (void)snprintf(out, LIMIT_PATH, "%.*s/report-%d", LIMIT_PATH - 32, p->l.scratch, i);
}

static int workers_run(struct predict *p, struct err *e)
{
    struct local *l = &p->l;
    int first = l->children, rc = 0;
    for (int i = 0; i < l->workers && rc == 0; i++) {
        char name[32], text[LIMIT_PATH];
        (void)snprintf(name, sizeof name, "worker-%d", i);
        struct child *c = local_child(l, "shoal-worker", name);
        local_child_arg(c, "predict", NULL);
        part_path(p, i, text);
        local_child_arg(c, "--out", text);
        report_path(p, i, text);
        local_child_arg(c, "--report", text);
        local_child_arg(c, "--format", score_format_name(p->format));
        (void)snprintf(text, sizeof text, "%d/%d", i, l->workers);
        local_child_arg(c, "--part", text);
        (void)snprintf(text, sizeof text, "%d", local_cores_each(l));
        local_child_arg(c, "--cores", text);
        c->more = p->more;
        c->more_count = p->more_count;
        rc = child_start(c, e);
    }
    if (rc != 0)
        return rc;
    return local_wait(l, first, e);
}

/* ---- one file of all parts ------------------------------------------------------------------- */

/* Adds up the bad lines of all parts and checks their share of all rows, as an evaluation does. */
static int reports_judge(const struct predict *p, struct err *e)
{
    int64_t rows = 0, bad = 0;
    char path[LIMIT_PATH], where[ERR_TEXT_MAX] = "";
    struct json *j, *unseen = NULL;
    struct job job;
    int rc = job_load(p->job, p->l.set, &job, e);
    if (rc != 0)
        return rc;
    double limit = job.data.max_bad;
    job_free(&job);
    for (int i = 0; i < p->l.workers; i++) {
        report_path(p, i, path);
        rc = cli_json_file(path, &j, e);
        if (rc != 0)
            break;
        rows += json_get_int(j, "rows", 0);
        bad += json_get_int(j, "bad_lines", 0);
        bad_lines_least(where, sizeof where, json_get_string(j, "bad_where", ""));
        if (unseen != NULL)
            unseen_json_add(unseen, json_get(j, "unseen"));
        else
            unseen = json_hold(json_get(j, "unseen"));
        json_free(j);
    }
    if (rc == 0)
        cli_unseen_say(unseen, "the rows scored");
    json_free(unseen);
    if (rc != 0)
        return rc;
    if ((double)bad > limit * (double)rows)
        return bad_lines_refuse(e, "", (uint64_t)bad, (uint64_t)rows, limit, where);
    if (bad > 0)
        fprintf(stderr,
                "%" PRId64 " of %" PRId64 " rows are malformed and have no score; the "
                "first: %s\n",
                bad, rows, text_clean(where));
    return 0;
}

/* Appends a whole file to `out`. */
static int copy_to(int out, const char *path, const char *to, struct err *e)
{
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int rc = -1;
    if (in >= 0)
        rc = file_copy(in, out, UINT64_MAX);
    int why = errno;
    if (in >= 0)
        close(in);
    if (rc != 0)
        return err_set(e, SHOAL_E_IO, "cannot copy %s to %s: %s", path, to, strerror(why));
    return 0;
}

/* Appends the other parts to the first one, which then gets the file's name. */
static int parts_join(const struct predict *p, struct err *e)
{
    const char *to = option_text(p->o, "out");
    char path[LIMIT_PATH], part[LIMIT_PATH];
    bool standard = strcmp(to, "-") == 0;
    int rc = 0;
    part_path(p, 0, path);
    int out = standard ? STDOUT_FILENO : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (out < 0)
        return err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    for (int i = standard ? 0 : 1; i < p->l.workers && rc == 0; i++) {
        part_path(p, i, part);
        rc = copy_to(out, part, standard ? "standard output" : to, e);
    }
    if (standard)
        return rc;
    if (rc == 0 && file_sync_data(out) != 0)
        rc = err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    close(out);
    if (rc == 0 && file_place(path, to) != 0) {
        if (errno == EEXIST)
            rc =
                err_set(e, SHOAL_E_EXISTS,
                        "%s is there already, made meanwhile; remove it or name another --out", to);
        else
            rc = err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", to, strerror(errno));
    }
    return rc;
}

static int predict(struct predict *p, struct err *e)
{
    int rc = workers_run(p, e);
    if (rc == 0)
        rc = reports_judge(p, e);
    if (rc != 0)
        return rc;
    return parts_join(p, e);
}

static int evaluate(struct predict *p, struct err *e)
{
    struct local *l = &p->l;
    int first = l->children;
    struct child *c = local_child(l, "shoal-worker", "worker-0");
    local_child_arg(c, "eval", NULL);
    local_child_arg(c, "--split", option_text(p->o, "split"));
    (void)snprintf(c->out, sizeof c->out, "%.*s/figures", LIMIT_PATH - 32, l->scratch);
    c->more = p->more;
    c->more_count = p->more_count;
    int rc = child_start(c, e);
    if (rc == 0)
        rc = local_wait(l, first, e);
    if (rc == 0)
        rc = copy_to(STDERR_FILENO, c->log, "standard error", e);
    struct json *figures = NULL;
    if (rc == 0)
        rc = cli_json_file(c->out, &figures, e);
    if (rc == 0)
        cli_unseen_say(json_get(figures, "unseen"), "the rows scored");
    json_free(figures);
    if (rc != 0)
        return rc;
    return copy_to(STDOUT_FILENO, c->out, "standard output", e);
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static int out_check(const char *out, struct err *e)
{
    struct stat st;
    if (stat(out, &st) != 0 && lstat(out, &st) != 0)
        return 0;
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; remove it or name another --out",
                       out);
    return err_set(e, SHOAL_E_USAGE,
                   "--out %s is no regular file: `--out -` writes to standard output", out);
}

static int line_check(struct predict *p, struct err *e)
{
    struct option_line *o = p->o;
    int rc;
    if (!option_given(o, "from") && !option_given(o, "run-dir"))
        return err_set(e, SHOAL_E_USAGE,
                       "--from is missing: a checkpoint's folder, that of a run, or the word "
                       "fleet");
    const struct string_list *in = option_list(o, "in");
    if (!p->predicts) {
        if (in->count == 0 || !option_given(o, "split"))
            return 0;
        return err_set(e, SHOAL_E_USAGE, "--in and --split: what is measured is one or the other");
    }
    const char *out = option_text(o, "out");
    if (strlen(out) > LIMIT_PATH - 48)
        return err_set(e, SHOAL_E_USAGE, "--out: a path has at most %u bytes", LIMIT_PATH - 48);
    if (score_format_of(o, &p->format, e) != 0)
        return SHOAL_E_USAGE;
    if (strcmp(out, "-") != 0 && (rc = out_check(out, e)) != 0)
        return rc;
    for (size_t i = 0; i < in->count && p->l.workers > 1; i++) {
        struct stat st;
        const char *name = in->item[i];
        if (strcmp(name, "-") == 0 || (stat(name, &st) == 0 && !S_ISREG(st.st_mode)))
            return err_set(e, SHOAL_E_USAGE,
                           "--in %s: a stream is read once: take --workers 1, or a file", name);
    }
    return 0;
}

/* --space goes over `space` of the job file. */
static int set_make(struct predict *p, struct err *e)
{
    const struct string_list *line = option_list(p->o, "set");
    char space[LIMIT_NAME + 16];
    int rc = 0;
    for (size_t i = 0; i < line->count && rc == 0; i++)
        rc = config_list_add(&p->set, line->item[i]);
    (void)snprintf(space, sizeof space, "space=%.63s", text_or(option_text(p->o, "space"), ""));
    if (rc == 0 && option_given(p->o, "space"))
        rc = config_list_add(&p->set, space);
    p->l.set = &p->set;
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

static int scores_main(bool predicts, struct option_line *o, struct err *e)
{
    static struct predict p = {.reading = READING_NONE};
    static struct string_list none;
    p.o = o;
    p.predicts = predicts;
    p.l.servers = (int)option_int(o, "servers");
    p.l.shards = 1;
    p.l.workers = 1;
    if (predicts)
        p.l.workers = (int)option_int(o, "workers");
    p.l.io_threads = 1;
    p.l.restart = p.l.quiet = true;
    p.l.server_set = &none;
    int rc = line_check(&p, e);
    if (rc == 0)
        rc = set_make(&p, e);
    if (rc == 0) {
        local_signals_take();
        umask(077);
        rc = local_scratch_make(&p.l, e);
    }
    if (rc == 0 && predicts)
        rc = parts_make(&p, e);
    if (rc == 0)
        rc = local_programs_find(&p.l, e);
    if (rc == 0)
        rc = tables_open(&p, e);
    if (rc == 0 && p.l.children == 0) {
        p.l.other = p.at.endpoint;
        if (p.at.folder[0] != 0)
            p.l.other_run = p.at.folder;
    }
    if (rc == 0)
        rc = more_make(&p, e);
    if (rc == 0) {
        if (predicts)
            rc = predict(&p, e);
        else
            rc = evaluate(&p, e);
    }
    cli_ask_close(p.l.ask);
    local_stop(&p.l);
    if (p.parts[0] != 0)
        (void)file_remove_tree(p.parts);
    local_scratch_remove(&p.l, rc == SHOAL_E_UNAVAILABLE && strstr(e->text, p.l.scratch) != NULL);
    reading_end(&p.reading);
    job_free(&p.l.job);
    config_list_free(&p.cache);
    config_list_free(&p.set);
    free(p.more);
    return rc;
}

int cli_predict(struct option_line *o, struct err *e)
{
    return scores_main(true, o, e);
}

int cli_eval(struct option_line *o, struct err *e)
{
    return scores_main(false, o, e);
}
