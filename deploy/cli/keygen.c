/* keygen.c: `shoal keygen`. */
#include "deploy/cli/cli.h"
#include "proto/net/keyfile.h"

#include <stdio.h>
#include <string.h>

/* FILE's name without folder and ending. */
static void name_of(const char *path, char out[LIMIT_NAME])
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    (void)snprintf(out, LIMIT_NAME, "%.*s", (int)(strcspn(base, ".") % LIMIT_NAME), base);
}

int cli_keygen(int argc, char **argv)
{
    struct option_line o;
    struct err e = {0};
    char pub[KEYFILE_KEY], name[LIMIT_NAME];
    int rc = cli_options("shoal keygen", argc, argv, &o, &e);
    if (rc == 0 && o.words != 1)
        rc = err_set(&e, SHOAL_E_USAGE, "name the file: shoal keygen FILE");
    if (rc == 0)
        rc = keyfile_make(o.word[0], option_text(&o, "coordinator"), pub, &e);
    if (rc == 0 && option_given(&o, "role")) {
        name_of(o.word[0], name);
        printf("%s %s %s\n", pub, option_text(&o, "role"),
               option_given(&o, "name") ? option_text(&o, "name") : name);
    }
    return cli_end(rc, &o, &e);
}
