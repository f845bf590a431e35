/* scratch.h: folders of a command's own, in places that all share. What one leaves that was killed
 * is removed by the next that makes such a folder there.
 *
 * A folder has a file that its maker holds a lock on while it lives. It goes only when that file is
 * there and its lock is free, when folder and file are this user's and nobody else may write there;
 * links are not followed. [test: folders_of_who_was_killed_go_with_the_next] */
#ifndef DEPLOY_CLI_SCRATCH_H
#define DEPLOY_CLI_SCRATCH_H

/* path: PLACE/NAME-XXXXXX, as mkdtemp takes it; the lock is held until the process ends. -1 with
 * errno: there is none. */
int scratch_make(char *path);
/* It stays when the process has ended. */
void scratch_keep(const char *path);

#endif
