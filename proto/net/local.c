/* local.c: maps users and groups of this machine to roles. */
#include "proto/net/local.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM_LEAST (16u << 10)
#define ROOM_MOST (1u << 20) /* a group's entry names all its members */
#define GROUPS_MOST 65536    /* NGROUPS_MAX */

static const struct {
    const char *user;
    enum role role;
} daemons[] = {
    {"shoal-worker", ROLE_WORKER}, {"shoal-server", ROLE_COORD}, {"shoal-coordinator", ROLE_COORD}};

/* False: there is no such group, or the database does not answer. */
static bool admins_find(gid_t *out)
{
    struct group entry, *found = NULL;
    int rc = ERANGE;
    for (size_t room = ROOM_LEAST; rc == ERANGE && room <= ROOM_MOST; room *= 2) {
        char *text = malloc(room);
        rc = ENOMEM;
        if (text != NULL)
            rc = getgrnam_r(LOCAL_ADMINS, &entry, text, room, &found);
        if (rc == 0 && found != NULL)
            *out = found->gr_gid;
        free(text);
    }
    return rc == 0 && found != NULL;
}

static bool member(const struct passwd *user, gid_t group)
{
    int count = 64;
    gid_t *groups = NULL;
    bool found = false;
    for (int asked = 0; asked < count && count <= GROUPS_MOST;) {
        gid_t *more = realloc(groups, (size_t)count * sizeof *groups);
        if (more == NULL)
            break;
        groups = more;
        asked = count;
        if (getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0)
            continue; /* count is now the number of groups */
        for (int i = 0; i < count && !found; i++)
            found = groups[i] == group;
        break;
    }
    free(groups);
    return found;
}

enum role local_role(uid_t user, gid_t group)
{
    struct passwd entry, *found = NULL;
    char text[ROOM_LEAST];
    gid_t admins;
    if (user == 0 || user == geteuid())
        return ROLE_LOCAL;
    if (getpwuid_r(user, &entry, text, sizeof text, &found) != 0)
        found = NULL;
    for (size_t i = 0; found != NULL && i < sizeof daemons / sizeof *daemons; i++)
        if (strcmp(found->pw_name, daemons[i].user) == 0)
            return daemons[i].role;
    if (admins_find(&admins) && (group == admins || (found != NULL && member(found, admins))))
        return ROLE_LOCAL;
    return ROLE_METRICS;
}
