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

/* For a list of signers: the name is a comment. */
static int signer_make(const struct option_line *o, struct err *e)
{
    char pub[KEYFILE_SIGNER], name[LIMIT_NAME];
    if (option_given(o, "coordinator"))
        return err_set(e, SHOAL_E_USAGE, "--coordinator: who signs talks to none");
    int rc = keyfile_signer_make(o->word[0], pub, e);
    if (rc != 0)
        return rc;
    name_of(o->word[0], name);
    printf("%s # %s\n", pub, option_given(o, "name") ? option_text(o, "name") : name);
    return 0;
}

static int member_make(const struct option_line *o, struct err *e)
{
    char pub[KEYFILE_KEY], name[LIMIT_NAME];
    int rc = keyfile_make(o->word[0], option_text(o, "coordinator"), pub, e);
    if (rc != 0 || !option_given(o, "role"))
        return rc;
    name_of(o->word[0], name);
    printf("%s %s %s\n", pub, option_text(o, "role"),
           option_given(o, "name") ? option_text(o, "name") : name);
    return 0;
}

int cli_keygen(int argc, char **argv)
{
    struct option_line o;
    struct err e = {0};
    int rc = cli_options("shoal keygen", argc, argv, &o, &e);
    if (rc == 0 && o.words != 1)
        rc = err_set(&e, SHOAL_E_USAGE, "name the file: shoal keygen FILE");
    bool signs =
        rc == 0 && option_given(&o, "role") && strcmp(option_text(&o, "role"), "sign") == 0;
    if (rc == 0)
        rc = signs ? signer_make(&o, &e) : member_make(&o, &e);
    return cli_end(rc, &o, &e);
}
