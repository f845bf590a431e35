/* keygen.c: `shoal keygen`. */
#include "deploy/cli/cli.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"

#include <stdio.h>
#include <string.h>

/* The line's --name, else FILE's name without folder and ending, in `room`. */
static const char *name_of(const struct option_line *o, char room[LIMIT_NAME])
{
    const char *path = o->word[0], *slash = strrchr(path, '/');
    const char *base = path;
    if (slash != NULL)
        base = slash + 1;
    if (option_given(o, "name"))
        return option_text(o, "name");
    (void)snprintf(room, LIMIT_NAME, "%.*s", (int)strcspn(base, "."), base);
    return room;
}

/* Prints a line for a list of signers; the name is a comment there. */
static int signer_make(const struct option_line *o, struct err *e)
{
    char pub[KEYFILE_SIGNER], name[LIMIT_NAME];
    if (option_given(o, "coordinator"))
        return err_set(e, SHOAL_E_USAGE, "--coordinator: who signs talks to none");
    int rc = keyfile_signer_make(o->word[0], pub, e);
    if (rc != 0)
        return rc;
    printf("%s # %s\n", pub, name_of(o, name));
    return 0;
}

/* Checks the name before a key is made whose line no list would accept. */
static int name_check(const struct option_line *o, const char *name, struct err *e)
{
    if (keylist_name_ok(name))
        return 0;
    return err_set(e, SHOAL_E_USAGE,
                   "%s'%s': the name in a list has 1 to %u letters, digits, '.', '_' and '-'",
                   option_given(o, "name") ? "--name " : "give --name NAME; FILE's own is ", name,
                   LIMIT_NAME - 1);
}

static int member_make(const struct option_line *o, struct err *e)
{
    char pub[KEYFILE_KEY], room[LIMIT_NAME];
    const char *name = name_of(o, room);
    bool listed = option_given(o, "role");
    int rc = 0;
    if (listed)
        rc = name_check(o, name, e);
    if (rc == 0)
        rc = keyfile_make(o->word[0], option_text(o, "coordinator"), pub, e);
    if (rc == 0 && listed)
        printf("%s %s %s\n", pub, option_text(o, "role"), name);
    return rc;
}

/* Keeps the key and replaces its pins, for a change of the coordinator's key. */
static int rotate(const struct option_line *o, struct err *e)
{
    if (option_given(o, "role") || option_given(o, "name"))
        return err_set(e, SHOAL_E_USAGE,
                       "--rotate: the key stays what it is; only --coordinator goes with it");
    if (!option_given(o, "coordinator"))
        return err_set(e, SHOAL_E_USAGE,
                       "--rotate: say which keys of the coordinator %s is to pin from now on: "
                       "--coordinator OLD.pub,NEW.pub, and NEW.pub alone at the end",
                       o->word[0]);
    return keyfile_pin(o->word[0], option_text(o, "coordinator"), e);
}

int cli_keygen(struct option_line *o, struct err *e)
{
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE, "name the file: shoal keygen FILE");
    if (option_given(o, "rotate"))
        return rotate(o, e);
    bool signs = option_given(o, "role") && strcmp(option_text(o, "role"), "sign") == 0;
    if (signs)
        return signer_make(o, e);
    return member_make(o, e);
}
