/* module.c: finds a module and opens it. */
#include "proto/base/module.h"

#include "proto/base/limits.h"
#include "proto/base/text.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The folder of the running program; ".": /proc does not say. */
static void program_folder(char out[LIMIT_PATH])
{
    char path[LIMIT_PATH];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    snprintf(out, LIMIT_PATH, ".");
    if (n > 0) {
        path[n] = '\0';
        text_copy(out, LIMIT_PATH, dirname(path));
    }
}

/* Tries the places in their order; NULL: none has the file. A file that does not load ends the
 * search, because a copy in the next place would only hide the fault. */
void *module_open(const char *file, struct err *e)
{
    char folder[LIMIT_PATH], path[3][2 * LIMIT_PATH];
    const char *extra = getenv("SHOAL_MODULE_DIR");
    int count = 2;
    if (extra != NULL && *extra)
        count = 3;
    program_folder(folder);
    snprintf(path[0], sizeof path[0], "%s/%s", folder, file);
    snprintf(path[1], sizeof path[1], "%s/../lib/shoal/%s", folder, file);
    if (count == 3)
        snprintf(path[2], sizeof path[2], "%s/%s", extra, file);
    for (int i = 0; i < count; i++) {
        if (access(path[i], F_OK) != 0)
            continue;
        void *handle = dlopen(path[i], RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            err_set(e, SHOAL_E_UNAVAILABLE, "module %s does not load: %s", path[i], dlerror());
        return handle;
    }
    err_set(e, SHOAL_E_UNAVAILABLE,
            "module %s is neither in %s nor in %s/../lib/shoal; set SHOAL_MODULE_DIR to its folder",
            file, folder, folder);
    return NULL;
}
