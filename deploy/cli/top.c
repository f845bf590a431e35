/* top.c: `shoal top`: looks at a coordinator each second, and shows what it says. A coordinator
 * that stops answering is asked on: what is shown then says how old it is. */
#include "deploy/cli/top.h"
#include "deploy/cli/reader.h"
#include "proto/base/time.h"

#include <stdio.h>
#include <unistd.h>

enum { LOOK_MS = 1000, QUESTION_MS = 2000 };
#define SECOND_NS UINT64_C(1000000000)

struct top {
    struct reader *reader;     /* owned */
    struct top_screen *screen; /* owned; NULL: --batch */
    struct top_lines lines;
    struct json *status, *jobs; /* owned: the last answers; NULL: none yet */
    enum top_sort sort;
    uint64_t job;       /* its number; 0: the newest that runs */
    uint64_t looked_ns; /* when the last answer came */
    bool failed;        /* the last question has no answer: e tells why */
    struct err e;
};

/* Takes the new answers; without one the last ones stay. */
static void look(struct top *t)
{
    struct json *status = NULL, *jobs = NULL;
    struct err e;
    t->failed = reader_status_within(t->reader, t->job, QUESTION_MS, &status, &t->e) != 0;
    if (t->failed)
        return;
    json_free(t->status);
    t->status = json_printable(status);
    json_free(status);
    t->looked_ns = time_monotonic_ns();
    if (reader_jobs(t->reader, QUESTION_MS, &jobs, &e) != 0)
        return; /* a key may read the status alone */
    json_free(t->jobs);
    t->jobs = json_printable(jobs);
    json_free(jobs);
}

static int lines_make(struct top *t, size_t width, struct err *e)
{
    const struct top_view v = {.status = t->status,
                               .jobs = t->jobs,
                               .failed = t->failed ? t->e.text : NULL,
                               .failed_s = (double)(time_monotonic_ns() - t->looked_ns) * 1e-9,
                               .sort = t->sort,
                               .width = width};
    return top_lines_make(&t->lines, &v, e);
}

/* ---- without a screen ------------------------------------------------------------------------ */

static int batch(struct top *t, int64_t count, struct err *e)
{
    int rc = 0;
    for (int64_t n = 0; rc == 0 && n < count; n++) {
        if (n > 0) {
            (void)usleep(LOOK_MS * 1000);
            look(t);
            putchar('\n');
        }
        rc = lines_make(t, TOP_WIDTH_MAX, e);
        for (size_t i = 0; rc == 0 && i < t->lines.count; i++)
            puts(t->lines.line[i].text);
        (void)fflush(stdout);
        if (ferror(stdout))
            break; /* cli_run tells it */
    }
    return rc;
}

/* ---- on a screen ----------------------------------------------------------------------------- */

/* Shows the last answers until the next look is due; true: the reader quits. */
static bool show(struct top *t, int *rc, struct err *e)
{
    uint64_t due_ns = time_monotonic_ns() + LOOK_MS * UINT64_C(1000000);
    for (;;) {
        uint64_t now = time_monotonic_ns();
        *rc = lines_make(t, top_screen_width(t->screen), e);
        if (*rc != 0)
            return true;
        top_screen_show(t->screen, &t->lines);
        if (now >= due_ns)
            return false;
        int wait_ms = (int)((due_ns - now) / 1000000) + 1;
        if (top_screen_wait(t->screen, &t->lines, wait_ms, &t->sort) == TOP_QUIT)
            return true;
    }
}

static int screen(struct top *t, int64_t count, struct err *e)
{
    int rc = top_screen_open(&t->screen, e);
    for (int64_t n = 0; rc == 0 && n < count; n++) {
        if (show(t, &rc, e))
            break;
        look(t);
    }
    top_screen_close(t->screen);
    return rc;
}

int cli_top(struct option_line *o, struct err *e)
{
    struct top t = {.sort = (enum top_sort)option_choice(o, "sort")};
    bool prints = option_given(o, "batch");
    if (option_given(o, "job"))
        t.job = (uint64_t)option_int(o, "job");
    int64_t count = prints ? 1 : INT64_MAX;
    if (option_given(o, "count"))
        count = option_int(o, "count");
    if (!prints && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return err_set(
            e, SHOAL_E_USAGE,
            "a screen needs a terminal for input and output: `shoal top --batch` prints");
    int rc = reader_open_live(o, &t.reader, e);
    if (rc == 0) {
        look(&t);
        rc = t.failed ? err_set(e, t.e.code, "%s", t.e.text) : 0;
    }
    if (rc == 0)
        rc = prints ? batch(&t, count, e) : screen(&t, count, e);
    json_free(t.status);
    json_free(t.jobs);
    top_lines_free(&t.lines);
    reader_close(t.reader);
    return rc;
}
