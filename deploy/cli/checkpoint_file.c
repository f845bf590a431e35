/* checkpoint_file.c: reads files of a checkpoint's folder for the verbs. */
#include "deploy/cli/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int checkpoint_file(const char *folder, const char *file, size_t most, char **text, size_t *bytes,
                    struct err *e)
{
    char path[2 * LIMIT_PATH];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "rbe");
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        int why = errno;
        if (f != NULL)
            fclose(f);
        return err_set(e, why == ENOENT || why == ENOTDIR ? SHOAL_E_NOINPUT : SHOAL_E_IO,
                       "cannot read %s: %s", path, strerror(why));
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most) {
        fclose(f);
        return err_set(e, SHOAL_E_TOO_BIG, "%s is no file of at most %zu bytes", path, most);
    }
    *bytes = 0;
    *text = malloc((size_t)st.st_size + 1);
    if (*text != NULL)
        *bytes = fread(*text, 1, (size_t)st.st_size, f);
    bool failed = ferror(f) != 0;
    fclose(f);
    if (*text == NULL || failed) {
        int code = *text == NULL ? SHOAL_E_NOMEM : SHOAL_E_IO;
        free(*text);
        return err_set(e, code, "cannot read %s: %s", path, err_text(code));
    }
    (*text)[*bytes] = 0;
    return 0;
}

int checkpoint_manifest(const char *folder, struct json **out, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = checkpoint_file(folder, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes, e);
    if (rc != 0) {
        if (rc == SHOAL_E_NOINPUT)
            return err_set(e, rc, "%s is no checkpoint: it has no " MANIFEST_FILE, folder);
        return rc;
    }
    rc = manifest_parse(text, bytes, out, e);
    free(text);
    if (rc != 0)
        return err_wrap(e, rc, "%s/" MANIFEST_FILE, folder);
    return 0;
}
