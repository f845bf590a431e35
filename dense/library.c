/* library.c: searches for a shared library: variable, loader, folders, Python's packages. */
#include "dense/library.h"
#include "proto/base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <libgen.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct looking {
    const struct library_search *q;
    void *handle;
    char *path;    /* LIMIT_PATH: the file that was opened */
    char why[256]; /* the last file that exists and does not load */
};

/* The file that a handle was opened from. */
static void path_of(void *handle, const char *otherwise, char path[LIMIT_PATH])
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL || map->l_name[0] == '\0')
        snprintf(path, LIMIT_PATH, "%s", otherwise);
    else
        snprintf(path, LIMIT_PATH, "%s", map->l_name);
}

/* True: the file is open. A file that does not load is kept for the message. */
static bool file_open(struct looking *l, const char *file)
{
    l->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (l->handle != NULL)
        path_of(l->handle, file, l->path);
    else if (strchr(file, '/') != NULL && access(file, F_OK) == 0)
        snprintf(l->why, sizeof l->why, "%s", dlerror());
    return l->handle != NULL;
}

/* Tries each folder that matches, in reverse order of names, so that the newest version wins. */
static bool folders_open(struct looking *l, const char *pattern)
{
    char file[LIMIT_PATH];
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = found.gl_pathc; i-- > 0 && l->handle == NULL;) {
        int bytes = snprintf(file, sizeof file, "%s/%s", found.gl_pathv[i], l->q->file);
        if (bytes > 0 && (size_t)bytes < sizeof file && access(file, F_OK) == 0)
            file_open(l, file);
    }
    globfree(&found);
    return l->handle != NULL;
}

/* Python's packages below a prefix. */
static bool prefix_open(struct looking *l, const char *prefix)
{
    static const char *const packages[] = {"site-packages", "dist-packages"};
    char pattern[LIMIT_PATH];
    for (size_t i = 0; i < 2 && l->handle == NULL; i++)
        for (const char *const *wheel = l->q->wheels; *wheel != NULL && l->handle == NULL;
             wheel++) {
            int bytes = snprintf(pattern, sizeof pattern, "%s/lib/python3*/%s/%s", prefix,
                                 packages[i], *wheel);
            if (bytes > 0 && (size_t)bytes < sizeof pattern)
                folders_open(l, pattern);
        }
    return l->handle != NULL;
}

/* Tries the packages of each python3 on PATH: FOLDER/bin/python3 has them in FOLDER/lib. Links are
 * not resolved: a virtual environment's python3 is a link to the system's, but its packages lie
 * beside the link. */
static bool pythons_open(struct looking *l)
{
    const char *path = getenv("PATH");
    char *all = strdup(text_or(path, "")), *rest = all, program[LIMIT_PATH];
    for (char *folder = all != NULL ? strsep(&rest, ":") : NULL;
         folder != NULL && l->handle == NULL; folder = strsep(&rest, ":")) {
        int bytes = snprintf(program, sizeof program, "%s/python3", folder);
        if (folder[0] == '/' && bytes > 0 && (size_t)bytes < sizeof program &&
            access(program, X_OK) == 0)
            prefix_open(l, dirname(folder));
    }
    free(all);
    return l->handle != NULL;
}

static bool environments_open(struct looking *l)
{
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t i = 0; i < 2 && l->handle == NULL; i++) {
        const char *prefix = getenv(names[i]);
        if (prefix != NULL && prefix[0] == '/')
            prefix_open(l, prefix);
    }
    return l->handle != NULL || pythons_open(l);
}

/* Opens the file or folder that the variable names, and tries no other place. */
static int named_open(struct looking *l, const char *named, struct err *e)
{
    char file[LIMIT_PATH];
    struct stat is;
    bool folder = stat(named, &is) == 0 && S_ISDIR(is.st_mode);
    int bytes = snprintf(file, sizeof file, folder ? "%s/%s" : "%s", named, l->q->file);
    if (bytes <= 0 || (size_t)bytes >= sizeof file)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: its path is longer than %u bytes; name a shorter one", l->q->variable,
                       LIMIT_PATH - 1);
    if (file_open(l, file))
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "%s is %.200s, and %s; name the file or the folder of %s, or unset it",
                   l->q->variable, named, text_unless_empty(l->why, "there is no such library"),
                   l->q->file);
}

int library_open(const struct library_search *q, void **handle, char path[LIMIT_PATH],
                 struct err *e)
{
    struct looking l = {.q = q, .path = path};
    const char *named = getenv(q->variable);
    int rc = 0;
    if (named != NULL && *named)
        rc = named_open(&l, named, e);
    else if (!file_open(&l, q->file)) {
        for (const char *const *pattern = q->folders; *pattern != NULL && l.handle == NULL;
             pattern++)
            folders_open(&l, *pattern);
        if (l.handle == NULL && !environments_open(&l))
            rc = err_set(e, SHOAL_E_UNAVAILABLE,
                         "%s is neither in the loader's path, in the toolkit's folders nor among "
                         "Python's packages%s%s; "
                         "install it, or set %s to its file or folder",
                         q->file, text_if(l.why[0] != '\0', "; one did not load: "), l.why,
                         q->variable);
    }
    *handle = l.handle;
    return rc;
}

bool library_function(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from void * to a function */
    return symbol != NULL;
}
