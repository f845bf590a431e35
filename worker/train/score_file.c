/* score_file.c: writes predictions to a file. */
#include "worker/train/score_file.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct score_file {
    const char *path;
    const struct job *job;
    enum score_format format;
    char temporary[LIMIT_PATH + 8]; /* empty: standard output, or the file has its name */
    FILE *file;
    bool head; /* the head is not written yet */
};

static uint32_t tasks_of(const struct job *job)
{
    if (job->data.label_count > 1)
        return job->data.label_count;

    return 1;
}

static int failed(struct err *e, const char *what, const char *path)
{
    if (errno == EEXIST)
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; remove it or name another --out",
                       path);
    int code = SHOAL_E_IO;
    if (errno == EACCES || errno == ENOENT)
        code = SHOAL_E_CANTCREATE;
    return err_set(e, code, "cannot %s %s: %s", what, path, strerror(errno));
}

/* A unique name, so that two processes that write one file do not meet. */
static FILE *temporary_open(struct score_file *f)
{
    (void)snprintf(f->temporary, sizeof f->temporary, "%s.XXXXXX", f->path);
    int fd = file_temporary(f->temporary);
    FILE *made;
    if (fd < 0)
        made = NULL;
    else
        made = fdopen(fd, "w");
    if (fd >= 0 && made == NULL) {
        close(fd);
        (void)file_unlink(f->temporary);
    }
    return made;
}

int score_file_open(const char *path, enum score_format format, const struct job *job, bool head,
                    struct score_file **out, struct err *e)
{
    if (format == SCORE_NPY && job->predict.columns.count > 0)
        return err_set(e, SHOAL_E_USAGE,
                       "--column: npy holds scores alone; take them out, or write csv");
    if (strlen(path) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE, "--out: a path has at most %u bytes", LIMIT_PATH - 1);
    bool standard = strcmp(path, "-") == 0;
    if (!standard && access(path, F_OK) == 0) {
        errno = EEXIST;
        return failed(e, "make", path);
    }
    struct score_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    *f = (struct score_file){.path = path, .job = job, .format = format, .head = head};
    if (standard)
        f->file = stdout;
    else
        f->file = temporary_open(f);
    if (f->file == NULL) {
        int rc = failed(e, "write", f->temporary);
        free(f);
        return rc;
    }
    *out = f;
    return 0;
}

/* ---- text ---- */

static void cell_print(FILE *file, const char *text, size_t bytes, char delimiter)
{
    bool plain = memchr(text, delimiter, bytes) == NULL && memchr(text, '"', bytes) == NULL &&
                 memchr(text, '\r', bytes) == NULL;
    if (plain) {
        (void)fwrite(text, 1, bytes, file);
        return;
    }
    (void)fputc('"', file);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            (void)fputc('"', file);
        (void)fputc(text[i], file);
    }
    (void)fputc('"', file);
}

static char delimiter_of(const struct score_file *f)
{
    return f->format == SCORE_TSV ? '\t' : ',';
}

static void names_print(struct score_file *f)
{
    const struct string_list *columns = &f->job->predict.columns;
    char delimiter = delimiter_of(f), name[LIMIT_NAME + 8];
    uint32_t tasks = tasks_of(f->job);
    for (size_t i = 0; i < columns->count; i++) {
        cell_print(f->file, columns->item[i], strlen(columns->item[i]), delimiter);
        (void)fputc(delimiter, f->file);
    }
    for (uint32_t t = 0; t < tasks; t++) {
        int n;
        if (tasks == 1)
            n = snprintf(name, sizeof name, "score");
        else
            n = snprintf(name, sizeof name, "score_%s", f->job->data.label[t]);
        SHOAL_ASSERT(n > 0 && n < (int)sizeof name);
        cell_print(f->file, name, (size_t)n, delimiter);
        (void)fputc(t + 1 < tasks ? delimiter : '\n', f->file);
    }
}

/* score: (tasks) of the row; NULL: a malformed row. The line is never empty, because csv readers
 * skip empty lines and would shift all later rows. */
static void line_print(struct score_file *f, const struct scores *s, uint32_t row,
                       const float *score)
{
    size_t columns = f->job->predict.columns.count;
    char delimiter = delimiter_of(f);
    for (size_t i = 0; i < columns; i++) {
        struct cell cell = passed_at(&s->passed, row * columns + i);
        cell_print(f->file, cell.text, cell.bytes, delimiter);
        (void)fputc(delimiter, f->file);
    }
    if (score == NULL && columns == 0 && s->tasks == 1)
        (void)fputs("\"\"", f->file);
    for (uint32_t t = 0; t < s->tasks; t++) {
        if (score != NULL)
            (void)fprintf(f->file, "%.9g", (double)score[t]);
        (void)fputc(t + 1 < s->tasks ? delimiter : '\n', f->file);
    }
}

/* ---- npy ---- */

static void npy_head_write(struct score_file *f, uint64_t rows)
{
    char head[NPY_HEAD];
    uint32_t tasks = tasks_of(f->job);
    const uint64_t shape[] = {rows, tasks};
    npy_head("<f4", shape, tasks == 1 ? 1 : 2, head);
    (void)fwrite(head, 1, sizeof head, f->file);
}

static void npy_row(struct score_file *f, const struct scores *s, const float *score)
{
    for (uint32_t t = 0; t < s->tasks; t++) {
        float value = NAN;
        if (score != NULL)
            value = score[t];
        (void)fwrite(&value, sizeof value, 1, f->file);
    }
}

/* ---- the file ---- */

static void head_write(struct score_file *f, uint64_t split_rows)
{
    if (!f->head)
        return;
    f->head = false;
    if (f->format == SCORE_NPY)
        npy_head_write(f, split_rows);
    else
        names_print(f);
}

int score_file_add(struct score_file *f, const struct scores *s, uint64_t split_rows, struct err *e)
{
    uint32_t next = 0;
    SHOAL_ASSERT(s->passed.count == s->rows * f->job->predict.columns.count);
    head_write(f, split_rows);
    for (uint32_t row = 0; row < s->rows; row++) {
        bool good = next < s->count && s->row[next] == row;
        const float *score = NULL;
        if (good)
            score = &s->score[(size_t)next * s->tasks];

        next += good;
        if (f->format == SCORE_NPY)
            npy_row(f, s, score);
        else
            line_print(f, s, row, score);
    }
    SHOAL_ASSERT(next == s->count);

    if (!ferror(f->file))
        return 0;

    return failed(e, "write", f->path);
}

int score_file_finish(struct score_file *f, uint64_t split_rows, struct err *e)
{
    head_write(f, split_rows);
    if (fflush(f->file) != 0)
        return failed(e, "write", f->path);
    if (f->temporary[0] == '\0')
        return 0;
    if (file_sync_data(fileno(f->file)) != 0)
        return failed(e, "write", f->path);
    if (file_place(f->temporary, f->path) != 0)
        return failed(e, "make", f->path);
    f->temporary[0] = '\0';
    return 0;
}

void score_file_free(struct score_file *f)
{
    if (f == NULL)
        return;
    if (f->file != stdout)
        (void)fclose(f->file);
    if (f->temporary[0] != '\0')
        (void)file_unlink(f->temporary);
    free(f);
}
