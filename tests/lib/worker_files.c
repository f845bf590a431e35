/* worker_files.c: folders, files and jobs for the tests of worker's data half. */
#include "tests/lib/worker_files.h"

#include "proto/base/file.h"
#include "proto/job/config.h"

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

const char *worker_folder_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/shoal-test-XXXXXX", base != NULL ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    return folder;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void worker_folder_remove(void)
{
    ck_assert_int_eq(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *worker_path(const char *name)
{
    static char path[16][1024];
    static unsigned next;
    char *p = path[next++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

const char *worker_write(const char *name, const void *data, size_t bytes)
{
    const char *path = worker_path(name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

const char *worker_text(const char *name, const char *text)
{
    return worker_write(name, text, strlen(text));
}

int worker_count_files(const char *name, const char *part)
{
    DIR *dir = opendir(worker_path(name));
    int count = 0;
    if (dir == NULL)
        return 0;
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        count += d->d_name[0] != '.' && strstr(d->d_name, part) != NULL;
    closedir(dir);
    return count;
}

uint8_t *worker_only_file(const char *name, const char *ending, size_t *bytes)
{
    char pattern[64], *data = NULL;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*%s", name, ending);
    ck_assert_int_eq(glob(worker_path(pattern), 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    ck_assert_int_eq(file_read_whole(found.gl_pathv[0], 1 << 24, &data, bytes), 0);
    globfree(&found);
    return (uint8_t *)data;
}

void worker_job(struct job *j, enum data_format format, const char *train)
{
    memset(j, 0, sizeof *j);
    j->data.format = format;
    strcpy(j->data.label[0], "0");
    j->data.header = true;
    strcpy(j->data.delimiter, ",");
    j->data.shuffle = true;
    snprintf(j->data.cache, sizeof j->data.cache, "%s", worker_path("cache"));
    j->features.fields_auto = true;
    j->features.number = format == DATA_CRITEO ? NUMBER_LOG1P : NUMBER_NONE;
    if (train != NULL)
        ck_assert_int_eq(config_list_add(&j->data.train, train), 0);
}

void worker_job_column(struct job *j, const char *name, enum column_type type)
{
    struct column *more = realloc(j->data.column, sizeof *more * (j->data.column_count + 1));
    ck_assert_ptr_nonnull(more);
    j->data.column = more;
    struct column *c = &more[j->data.column_count++];
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->type = type;
    c->separator = '|';
}
