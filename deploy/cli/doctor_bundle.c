/* doctor_bundle.c: `shoal doctor --bundle`: what is needed to look into a fault, in one file that
 * may be sent. Key files and tokens are never read. A file of settings is written again from its
 * checked values, without comments, and with commands hidden; in all files a URL loses its user and
 * password. tar(1) makes the archive. */
#include "deploy/cli/doctor.h"
#include "deploy/cli/run.h"
#include "deploy/cli/scratch.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/process.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MOST = 64 }; /* logs, and crash reports */
#define FILE_MOST ((size_t)64 << 20)
#define FILL_NS UINT64_C(30000000000)
#define TAIL_BYTES ((off_t)8 << 20) /* the end of each log */
#define JOURNAL_LINES "20000"

struct bundle {           /* in memory shared with the process that fills the folder */
    char dir[LIMIT_PATH]; /* the files to pack */
    uint32_t files;
    bool lost; /* something could not be written */
    /* where the parts come from */
    struct option_line *line;
    const struct doctor_settings *settings;
    const struct doctor_report *findings;
};

/* ---- files ---- */

static FILE *file_in(const struct bundle *b, const char *name)
{
    char path[LIMIT_PATH + 300];
    (void)snprintf(path, sizeof path, "%s/%s", b->dir, name);
    return file_stream(path, false);
}

static void file_end(struct bundle *b, FILE *f)
{
    if (f != NULL)
        b->lost |= ferror(f) != 0;
    b->lost |= f == NULL || fclose(f) != 0;
}

static void text_put(struct bundle *b, const char *name, const char *text)
{
    FILE *f = file_in(b, name);
    if (f != NULL)
        fputs(text, f);
    file_end(b, f);
}

static void json_put(struct bundle *b, const char *name, const struct json *j)
{
    char *text = json_text(j, 2);
    if (text != NULL)
        text_put(b, name, text);
    free(text);
}

/* Copies the end of a plain file. A file that cannot be read is left out. */
static void tail_put(struct bundle *b, const char *from, const char *name)
{
    char piece[1 << 16];
    struct stat st;
    int fd = doctor_open(from);
    FILE *f = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && b->files < FILES_MOST && (f = file_in(b, name)) != NULL) {
        off_t left = MIN(st.st_size, TAIL_BYTES);
        (void)lseek(fd, -left, SEEK_END);
        for (ssize_t n; left > 0 && (n = read(fd, piece, sizeof piece)) > 0; left -= n)
            (void)fwrite(piece, 1, (size_t)MIN((off_t)n, left), f);
        file_end(b, f);
        b->files++;
    }
    if (fd >= 0)
        close(fd);
}

/* The files of a folder that `wanted` (NULL: all) takes, as BEFORE-NAME. */
static void folder_put(struct bundle *b, const char *folder, bool (*wanted)(const char *name),
                       const char *before)
{
    char from[DOCTOR_PATH], name_in[320];
    struct file_walk w;
    const char *name;
    (void)file_walk_open(&w, folder);
    while ((name = file_walk_next(&w)) != NULL) {
        if (wanted != NULL && !wanted(name))
            continue;
        (void)snprintf(name_in, sizeof name_in, "%.32s%.255s", before, name);
        tail_put(b, doctor_join(from, folder, name), name_in);
    }
    file_walk_close(&w);
}

/* ---- the parts ---- */

static void settings_put(struct bundle *b, struct option_line *o, const struct doctor_settings *s)
{
    struct config *c;
    struct err e;
    if (s->kind == DOCTOR_MACHINE || doctor_settings_load(s, option_list(o, "set"), &c, &e) != 0)
        return;
    char *text = NULL;
    if (config_commands_hide(c, "checkpoint.publish", &e) == 0 &&
        config_commands_hide(c, "set", &e) == 0) /* a worker's: keys of jobs, and so commands */
        text = config_text(c);
    if (text != NULL)
        text_put(b, "settings.yaml", text);
    free(text);
    config_free(c);
}

/* The coordinator that the line, its run, the file or the environment names; a coordinator's own
 * file names where it listens. NULL: none. */
static const char *coordinator_of(const struct option_line *o, const struct doctor_settings *s)
{
    static char endpoint[256];
    const char *run = option_text(o, "run-dir");
    if (option_given(o, "coordinator"))
        return option_text(o, "coordinator");
    if (run != NULL && run_answers(run, endpoint))
        return endpoint;
    if (s->coordinator[0] != '\0')
        return s->coordinator;
    if (s->kind == DOCTOR_COORDINATOR && s->listen[0] != '\0')
        return s->listen;
    return getenv("SHOAL_COORDINATOR");
}

static void status_put(struct bundle *b, const char *coordinator)
{
    struct json *status = NULL;
    struct err e;
    if (coordinator == NULL)
        return;
    if (doctor_status(coordinator, &status, &e) == 0)
        json_put(b, "status.json", status);
    else
        text_put(b, "status.json", e.text);
    json_free(status);
}

/* The output of a program; a program that is not there leaves an empty file. */
static void program_put(struct bundle *b, const char *name, const char *const argv[])
{
    struct process p;
    struct err e;
    FILE *f = file_in(b, name);
    if (f == NULL) {
        b->lost = true;
        return;
    }
    const struct process_options options = {
        .in = PROCESS_NULL, .out = fileno(f), .err = fileno(f), .death_signal = SIGKILL};
    if (process_start(&p, argv, &options, &e) == 0)
        (void)process_wait(&p);
    else
        fprintf(f, "%s\n", e.text);
    file_end(b, f);
}

static void machine_put(struct bundle *b)
{
    static const char *const journal[] = {
        "journalctl", "--unit=shoal-*",         "--no-pager",
        "--quiet",    "--lines=" JOURNAL_LINES, "--output=short-iso-precise",
        NULL};
    static const char *const kernel[] = {"uname", "-a", NULL};
    program_put(b, "journal.txt", journal);
    program_put(b, "uname.txt", kernel);
    tail_put(b, "/usr/lib/os-release", "os-release"); /* /etc has a link to it */
}

static void run_put(struct bundle *b, const char *run)
{
    char path[DOCTOR_PATH], shard[LIMIT_PATH];
    if (run == NULL)
        return;
    folder_put(b, doctor_join(path, run, "log"), NULL, "log-");
    tail_put(b, doctor_join(path, run, "report.json"), "report.json");
    for (uint32_t i = 0; i < RUN_SHARDS; i += LIMIT_LOCAL_SHARDS) {
        if (!run_shard(run, i, shard))
            continue;
        *strrchr(shard, '/') = '\0'; /* the server's folder has the reports */
        folder_put(b, shard, crash_is_report, "");
    }
    folder_put(b, doctor_join(path, run, "coordinator"), crash_is_report, "");
}

static void crashes_put(void *context, const char *folder)
{
    folder_put(context, folder, crash_is_report, "");
}

/* All files of the bundle, whatever program has written them. */
static void files_clean(struct bundle *b)
{
    char path[DOCTOR_PATH], *text;
    struct file_walk w;
    const char *name;
    size_t bytes;
    (void)file_walk_open(&w, b->dir);
    while ((name = file_walk_next(&w)) != NULL) {
        if (file_read_whole(doctor_join(path, b->dir, name), FILE_MOST, &text, &bytes) != 0) {
            (void)file_unlink(path); /* it is not sent unseen */
            continue;
        }
        text_passwords_hide(text, bytes);
        FILE *f = file_stream(path, false);
        if (f != NULL)
            (void)fwrite(text, 1, bytes, f);
        file_end(b, f);
        free(text);
    }
    file_walk_close(&w);
}

/* ---- the archive ---- */

/* The option of tar for the name's ending; NULL: it has another. */
static const char *packer_of(const char *path)
{
    static const char *const of[][2] = {{".tar.zst", "--zstd"}, {".tar.gz", "--gzip"}};
    size_t bytes = strlen(path);
    for (int i = 0; i < 2; i++) {
        size_t end = strlen(of[i][0]);
        if (bytes > end && strcmp(path + bytes - end, of[i][0]) == 0)
            return of[i][1];
    }
    return NULL;
}

static int pack(const struct bundle *b, const char *path, struct err *e)
{
    const char *const argv[] = {
        "tar",       packer_of(path),         "--create",      "--file",      path,   "--owner=0",
        "--group=0", "--exclude=.shoal-lock", "--force-local", "--directory", b->dir, ".",
        NULL};
    const struct process_options options = {.in = PROCESS_NULL};
    struct process p;
    mode_t before = umask(077); /* it tells of this machine */
    int rc = process_start(&p, argv, &options, e);
    umask(before);
    if (rc != 0)
        return rc;
    const struct process_end end = process_wait(&p);
    if (end.code == 0 && end.signal == 0)
        return 0;
    (void)file_unlink(path); /* half of one would be sent */
    return err_set(e, SHOAL_E_CANTCREATE,
                   "%s was not made: tar ended with status %d (above it says why); .tar.zst needs "
                   "the program zstd, .tar.gz does not",
                   path, process_exit_status(&end));
}

/* Fills the folder. A disk, a name server or a journal may hang, so this runs in a process of its
 * own. */
static void fill(void *context)
{
    struct bundle *b = context;
    struct json *j = doctor_json(b->findings);
    json_put(b, "doctor.json", j);
    json_free(j);
    settings_put(b, b->line, b->settings);
    run_put(b, option_text(b->line, "run-dir"));
    doctor_each_folder("", b->settings->folder, crashes_put, b);
    machine_put(b);
    status_put(b, coordinator_of(b->line, b->settings)); /* last: a name server may hang */
}

static int fill_and_pack(struct bundle *b, const char *path, struct err *e)
{
    struct process p;
    struct process_end end;
    int rc = process_branch(&p, fill, b, e);
    if (rc != 0)
        return rc;
    if (!process_wait_until(&p, time_monotonic_ns() + FILL_NS, &end)) {
        process_signal(&p, SIGKILL);
        fprintf(stderr,
                "after %d s not all is there, since a disk, a name server or the journal does not "
                "answer: what has come is packed\n",
                (int)(FILL_NS / UINT64_C(1000000000)));
    }
    files_clean(b);
    if (b->lost)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "%s cannot be written: free some of its disk, or set TMPDIR to a folder "
                       "with 100 MB free",
                       b->dir);
    return pack(b, path, e);
}

int doctor_bundle(struct option_line *o, const char *path, const struct doctor_settings *settings,
                  const struct doctor_report *findings, struct err *e)
{
    const char *place = getenv("TMPDIR");
    if (packer_of(path) == NULL)
        return err_set(e, SHOAL_E_USAGE, "--bundle %s: its name ends in .tar.zst or .tar.gz", path);
    struct bundle *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a bundle");
    *b = (struct bundle){.line = o, .settings = settings, .findings = findings};
    (void)snprintf(b->dir, sizeof b->dir, "%s/shoal-doctor-XXXXXX", text_or(place, "/tmp"));
    int rc;
    if (scratch_make(b->dir) != 0) {
        rc = err_set(e, SHOAL_E_CANTCREATE, "%s: %s; set TMPDIR to a folder that can be written",
                     b->dir, strerror(errno));
    } else {
        rc = fill_and_pack(b, path, e);
        (void)file_remove_tree(b->dir);
    }
    (void)munmap(b, sizeof *b);
    if (rc == 0)
        fprintf(stderr,
                "%s: look through it before you send it; it has no keys and no commands, "
                "but names of hosts, jobs and paths\n",
                path);
    return rc;
}
