/* survey_files.c: folders and globs become files, files of one layout become parts. */
#include "worker/data/survey.h"

#include "proto/base/file.h"
#include "proto/job/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct found {
    char *path; /* owned */
    dev_t dev;
    ino_t inode;
    double bytes;
    bool said; /* named by itself, not by its folder */
    struct layout layout;
    bool known; /* the layout is */
};

struct finds {
    struct found *file; /* owned */
    size_t count;
};

static void finds_free(struct finds *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->file[i].path);
    free(f->file);
}

static int left_add(struct survey *s, struct err *e, const char *path, const char *why)
{
    char text[LIMIT_PATH + ERR_TEXT_MAX + 8];
    (void)snprintf(text, sizeof text, "%.*s: %s", LIMIT_PATH, path, why);
    if (config_list_add(&s->left, text) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "no memory for the list of files; free some");
}

/* Adds a file once, whatever its names. */
static int find_add(struct survey *s, struct finds *f, const char *path, bool said, struct err *e)
{
    struct stat st = {.st_size = 0};
    bool stream = strcmp(path, "-") == 0;
    if (!stream && stat(path, &st) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "%s: %s; check the path", path, strerror(errno));
    if (!stream && !S_ISREG(st.st_mode))
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s is a pipe or a device: give it as standard input, `shoal data - <%s`",
                       path, path);
    for (size_t i = 0; i < f->count && !stream; i++)
        if (f->file[i].dev == st.st_dev && f->file[i].inode == st.st_ino)
            return left_add(s, e, path, "the same file again, taken once");
    if (f->count == SURVEY_FILES)
        return err_set(e, SHOAL_E_USAGE, "more than %u files; name some of them", SURVEY_FILES);
    struct found *wide = realloc(f->file, sizeof *wide * (f->count + 1));
    if (wide == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of files; free some");
    f->file = wide;
    f->file[f->count] = (struct found){.path = strdup(path),
                                       .dev = st.st_dev,
                                       .inode = st.st_ino,
                                       .bytes = (double)st.st_size,
                                       .said = said};
    return f->file[f->count++].path != NULL ? 0 : SHOAL_E_NOMEM;
}

static int by_path(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return strcmp(x->path, y->path);
}

/* Adds the files of a folder in byte order. Hidden files, and those of folders within it, are left
 * out. */
static int folder_add(struct survey *s, struct finds *f, const char *folder, struct err *e)
{
    struct file_walk walk;
    size_t from = f->count;
    const char *name;
    int rc = 0;
    if (!file_walk_open(&walk, folder))
        return err_set(e, SHOAL_E_NOINPUT, "%s: %s; check the path", folder, strerror(errno));
    while (rc == 0 && (name = file_walk_next(&walk)) != NULL) {
        char path[2 * LIMIT_PATH];
        struct stat st;
        (void)snprintf(path, sizeof path, "%.*s/%.*s", LIMIT_PATH - 1, folder, LIMIT_PATH - 1,
                       name);
        bool taken = name[0] != '.' && name[0] != '_' && stat(path, &st) == 0 &&
                     S_ISREG(st.st_mode) && st.st_size > 0;
        if (taken)
            rc = find_add(s, f, path, false, e);
    }
    file_walk_close(&walk);
    if (f->count > from)
        qsort(f->file + from, f->count - from, sizeof *f->file, by_path);
    return rc;
}

static int words_expand(struct survey *s, const struct string_list *words, struct finds *f,
                        struct err *e)
{
    struct string_list names = {0};
    int rc = source_names_any(words, "shoal data", &names, e);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        struct stat st;
        bool folder = stat(names.item[i], &st) == 0 && S_ISDIR(st.st_mode);
        if (folder)
            rc = folder_add(s, f, names.item[i], e);
        else
            rc = find_add(s, f, names.item[i], true, e);
        if (rc == 0 && strcmp(names.item[i], "-") == 0 && names.count > 1)
            rc = err_set(e, SHOAL_E_USAGE, "-: standard input is looked at alone, without files");
    }
    config_list_free(&names);
    if (rc == 0 && f->count == 0)
        rc = err_set(e, SHOAL_E_NOINPUT, "%s has no file; name files", words->item[0]);
    return rc;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* A file of a folder that is no log is left out; one that was named is an error. */
static int layouts_find(struct survey *s, struct finds *f, struct err *e)
{
    char *text = malloc(LAYOUT_BYTES);
    int rc = 0;
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to look at files; free some");
    for (size_t i = 0; i < f->count && rc == 0; i++) {
        struct found *file = &f->file[i];
        struct err why = {0};
        size_t bytes = 0;
        if (strcmp(file->path, "-") == 0)
            continue;
        rc = front_peek(file->path, text, LAYOUT_BYTES, &bytes, &why);
        if (rc == 0)
            rc = layout_of(file->path, text, bytes, bytes == LAYOUT_BYTES, &file->layout, &why);
        file->known = rc == 0;
        if (rc == SHOAL_E_DATA && !file->said) {
            size_t n = strlen(file->path);
            bool named = strncmp(why.text, file->path, n) == 0;
            rc =
                left_add(s, e, file->path, why.text + (named ? n + strspn(why.text + n, ": ") : 0));
        } else if (rc != 0) {
            *e = why;
        }
    }
    free(text);
    return rc;
}

/* The layout of the most bytes; a file of train, by its name, goes first. */
static const struct layout *layout_choose(const struct finds *f)
{
    const struct layout *best = NULL;
    double most = -1;
    for (size_t i = 0; i < f->count; i++) {
        double bytes = 0;
        if (!f->file[i].known)
            continue;
        for (size_t k = 0; k < f->count; k++)
            if (f->file[k].known && layout_same(&f->file[i].layout, &f->file[k].layout))
                bytes += f->file[k].bytes * (guess_role(f->file[k].path) == GUESS_TRAIN ? 1e6 : 1);
        if (bytes > most) {
            most = bytes;
            best = &f->file[i].layout;
        }
    }
    return best;
}

static int other_left(struct survey *s, const struct found *file, struct err *e)
{
    char why[ERR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "another layout (%.150s): look at it by itself",
                   file->layout.why);
    return left_add(s, e, file->path, why);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int parts_take(struct survey *s, const struct finds *f, struct err *e)
{
    size_t own = 0, taken = 0, last = 0;
    int rc = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (!f->file[i].known || !layout_same(&f->file[i].layout, &s->layout))
            continue;
        own += guess_role(f->file[i].path) != GUESS_NO_ROLE;
        taken++;
        last = i;
    }
    s->by_name = own > 0 && taken > 1;
    s->by_order = own == 0 && taken > 1;
    for (size_t i = 0; i < f->count && rc == 0; i++) {
        const struct found *file = &f->file[i];
        if (!file->known)
            continue;
        if (!layout_same(&file->layout, &s->layout)) {
            rc = other_left(s, file, e);
            continue;
        }
        enum guess_role role = GUESS_TRAIN;
        if (s->by_name && guess_role(file->path) != GUESS_NO_ROLE)
            role = guess_role(file->path);
        if (s->by_order && i == last)
            role = GUESS_VALID;
        rc = config_list_add(&s->part[role].names, file->path);
    }
    if (rc == 0 && s->part[GUESS_TRAIN].names.count == 0) { /* test.csv alone */
        struct string_list none = {0};
        enum guess_role from = s->part[GUESS_VALID].names.count > 0 ? GUESS_VALID : GUESS_TEST;
        s->part[GUESS_TRAIN].names = s->part[from].names;
        s->part[from].names = none;
        s->by_name = s->part[GUESS_TEST].names.count > 0;
    }
    return rc;
}

static int fronts_open(struct survey *s, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < GUESS_ROLES && rc == 0; i++) {
        const struct string_list *names = &s->part[i].names;
        uint64_t lines = 0;
        if (names->count == 0)
            continue;
        if (s->rows_most > 0) /* and a header, and rows over several lines */
            lines = s->rows_most / names->count + 1024;
        rc = front_open(names, lines, &s->cache, &s->front[i], e);
    }
    return rc;
}

/* Standard input is read once, so its layout is that of its front. */
static int stream_layout(struct survey *s, struct err *e)
{
    char *text = malloc(LAYOUT_BYTES);
    size_t bytes = 0;
    int rc = config_list_add(&s->part[GUESS_TRAIN].names, "-");
    if (rc == 0 && text != NULL)
        rc = fronts_open(s, e);
    else
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to look at standard input; free some");
    if (rc == 0)
        rc = front_text(&s->front[GUESS_TRAIN], 0, text, LAYOUT_BYTES, &bytes, e);
    if (rc == 0)
        rc = layout_of("standard input", text, bytes, bytes == LAYOUT_BYTES, &s->layout, e);
    free(text);
    return rc;
}

int survey_files(struct survey *s, const struct string_list *words, const char *folder,
                 uint64_t rows_most, struct err *e)
{
    struct finds f = {0};
    *s = (struct survey){.rows_most = rows_most};
    int rc = cache_init(&s->cache, folder, e);
    if (rc == 0)
        rc = words_expand(s, words, &f, e);
    if (rc == 0 && strcmp(f.file[0].path, "-") == 0) {
        rc = stream_layout(s, e);
        finds_free(&f);
        return rc;
    }
    if (rc == 0)
        rc = layouts_find(s, &f, e);
    const struct layout *layout = rc == 0 ? layout_choose(&f) : NULL;
    if (rc == 0 && layout == NULL)
        rc = err_set(e, SHOAL_E_DATA, "%s has no log: %s", words->item[0],
                     s->left.count > 0 ? s->left.item[0] : "no file");
    if (rc == 0) {
        s->layout = *layout;
        rc = parts_take(s, &f, e);
    }
    if (rc == 0)
        rc = fronts_open(s, e);
    finds_free(&f);
    return rc;
}
